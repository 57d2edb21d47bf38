import {
  AutomodActionInput,
  automodConfigs,
  automodRuleTypes,
  type AutomodAction,
  type AutomodConfig,
  type AutomodRule,
  type AutomodRuleType,
} from "../../contract/communities/automod.ts"
import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import { limits } from "../../contract/core/limits.ts"
import { listedHost } from "./automod-links.ts"
import { folded } from "./automod-text.ts"
import { hasPattern, type Measured } from "./automod-texts.ts"

/**
 * What a rule may contain, beyond its schema. The check takes a while, so a route makes it before
 * the turn; that of patterns is made by a thread.
 */

export const isRuleType = (name: string): name is AutomodRuleType =>
  (automodRuleTypes as readonly string[]).includes(name)

/** The config with its defaults; an error names the faulty field. Nobody has looked into its patterns yet. */
export function checkedConfig(type: AutomodRuleType, given: unknown): AutomodRule["config"] {
  const config = checked("invalid_automod_config", automodConfigs[type], given, "config")
  lookInto(type, config)
  return config as AutomodRule["config"]
}

export function checkedActions(given: readonly unknown[]): AutomodAction[] {
  const { actions: most } = limits.automod
  if (given.length < 1 || given.length > most)
    throw fail("invalid_automod_action", { message: `actions: must be 1 to ${most}` })
  return given.map((action, at) => {
    return checked("invalid_automod_action", AutomodActionInput, action, `actions.${at}`) as AutomodAction
  })
}

/** Whether the rules of a server, which were measured, are not more than it may have together. */
export function isWithinBounds(rules: readonly AutomodRule[]): boolean {
  const { rulesPerServer, bytesPerServer, patternSizePerServer } = limits.automod
  const sum = (of: (rule: AutomodRule) => number) => rules.reduce((total, rule) => total + of(rule), 0)
  return (
    rules.length <= rulesPerServer &&
    sum(({ config, actions }) => bytesOf(config) + bytesOf(actions)) <= bytesPerServer &&
    sum(patternSizeOf) <= patternSizePerServer
  )
}

/** By the config of the rule: rules are replaced, never changed. */
const measured = new WeakMap<object, Measured>()

/** Rules with patterns that nobody has measured. */
export const unmeasured = (rules: readonly AutomodRule[]): readonly AutomodRule[] =>
  rules.filter(rule => hasPattern(rule) && !measured.has(rule.config))

/** Keeps what a thread has found out about the patterns of rules. */
export function noteMeasured(rules: readonly Pick<AutomodRule, "config">[], found: readonly Measured[]): void {
  for (const [at, { config }] of rules.entries()) measured.set(config, found[at]!)
}

/** Refuses a pattern that was found to be none, or too large. */
export function requireSoundPatterns({ config }: Pick<AutomodRule, "config">): void {
  const found = measured.get(config)
  if (typeof found === "object") throw faulty(found.fault)
}

function patternSizeOf({ config }: AutomodRule): number {
  const size = measured.get(config) ?? 0
  return typeof size === "number" ? size : 0
}

const encoder = new TextEncoder()
const bytesOf = (value: unknown) => encoder.encode(JSON.stringify(value)).length

function checked(
  code: ErrorCode,
  schema: (typeof automodConfigs)[AutomodRuleType] | typeof AutomodActionInput,
  value: unknown,
  place: string,
): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const { path, message } = result.error.issues[0]!
  throw fail(code, { message: `Invalid ${[place, ...path.map(String)].join(".")}: ${message}` })
}

const faulty = (fault: string) => fail("invalid_automod_config", { message: `Invalid config.${fault}` })

/** What a schema cannot say, but for the patterns. */
function lookInto(type: AutomodRuleType, config: unknown): void {
  if (type === "keyword") {
    const { keywords } = config as AutomodConfig<"keyword">
    for (const [at, word] of keywords.entries())
      if (folded(word).trim() === "") throw faulty(`keywords.${at}: nothing of it would be seen`)
  }
  if (type === "external_links")
    for (const list of ["whitelist", "blacklist"] as const)
      for (const [at, entry] of (config as AutomodConfig<"external_links">)[list].entries())
        if (listedHost(entry) === undefined) throw faulty(`${list}.${at}: is no domain`)
}
