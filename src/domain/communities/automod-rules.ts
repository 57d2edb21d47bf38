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
import { compiledPattern, folded } from "./automod-text.ts"

/**
 * What a rule may contain, beyond its schema. The check takes a while, so a route makes it before
 * the turn.
 */

export const isRuleType = (name: string): name is AutomodRuleType =>
  (automodRuleTypes as readonly string[]).includes(name)

/** The config with its defaults; an error names the faulty field. */
export function checkedConfig(type: AutomodRuleType, given: unknown): AutomodRule["config"] {
  const config = checked("invalid_automod_config", automodConfigs[type], given, "config")
  sizeOf(type, config)
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

/** Whether the rules of a server are not more than it may have together. */
export function isWithinBounds(rules: readonly AutomodRule[]): boolean {
  const { rulesPerServer, bytesPerServer, patternSizePerServer } = limits.automod
  const sum = (of: (rule: AutomodRule) => number) => rules.reduce((total, rule) => total + of(rule), 0)
  return (
    rules.length <= rulesPerServer &&
    sum(({ config, actions }) => bytesOf(config) + bytesOf(actions)) <= bytesPerServer &&
    sum(patternSizeOf) <= patternSizePerServer
  )
}

/** The instructions of a rule's patterns; rules are replaced, never changed. */
const sizes = new WeakMap<object, number>()
function patternSizeOf({ rule_type, config }: AutomodRule): number {
  const size = sizes.get(config) ?? sizeOf(rule_type, config)
  sizes.set(config, size)
  return size
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

const faulty = (place: string, why: string) =>
  fail("invalid_automod_config", { message: `Invalid config.${place}: ${why}` })

/** What a schema cannot say. @returns the instructions of its patterns */
function sizeOf(type: AutomodRuleType, config: unknown): number {
  switch (type) {
    case "keyword": {
      const { keywords } = config as AutomodConfig<"keyword">
      for (const [at, word] of keywords.entries())
        if (folded(word).trim() === "") throw faulty(`keywords.${at}`, "nothing of it would be seen")
      return 0
    }
    case "regex":
      return (config as AutomodConfig<"regex">).patterns.reduce(
        (sum, { pattern, ...flags }, at) => sum + patternSize(`patterns.${at}.pattern`, pattern, flags),
        0,
      )
    case "invite_links": {
      const { pattern } = config as AutomodConfig<"invite_links">
      return pattern === null ? 0 : patternSize("pattern", pattern, { case_sensitive: false, multiline: false })
    }
    case "external_links":
      for (const list of ["whitelist", "blacklist"] as const)
        for (const [at, entry] of (config as AutomodConfig<"external_links">)[list].entries())
          if (listedHost(entry) === undefined) throw faulty(`${list}.${at}`, "is no domain")
      return 0
    default:
      return 0
  }
}

function patternSize(place: string, pattern: string, flags: { case_sensitive: boolean; multiline: boolean }): number {
  const compiled = compiledPattern(pattern, flags)
  if (!compiled) throw faulty(place, "is no regular expression as RE2 knows them")
  const size = compiled.programSize()
  if (size > limits.automod.patternSize) throw faulty(place, "is too large when its repetitions are written out")
  return size
}
