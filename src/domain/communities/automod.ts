import type {
  AutomodAction,
  AutomodActionType,
  AutomodConfig,
  AutomodRule,
  AutomodRuleType,
  ClassifierBackend,
  UnjudgedReason,
} from "../../contract/communities/automod.ts"
import { limits } from "../../contract/core/limits.ts"
import { isUnjudged, type Judged, type Match, type Matcher } from "./automod-match.ts"
import { messageSpam } from "./automod-spam.ts"
import { notForTurn, textMatcher } from "./automod-texts.ts"

export interface Broken extends Match {
  readonly rule: AutomodRule
}

export interface Verdict {
  /** In the order in which they were found. */
  readonly broken: readonly Broken[]
  /** Rules that a classifier has to be asked for, once the message is stored. */
  readonly later: readonly AutomodRule[]
  /** Not empty: nothing is decided before the text was judged by these, outside of the turn. */
  readonly unread: readonly AutomodRule[]
  /** Rules that count as not broken, because nobody knows. */
  readonly unjudged: readonly { readonly rule: AutomodRule; readonly reason: UnjudgedReason }[]
}

/** Rules are replaced, never changed: what was made of one is good for as long as it is there. */
const made = new WeakMap<object, Matcher>()
function matcherOf(rule: AutomodRule): Matcher {
  let matcher = made.get(rule)
  if (!matcher) {
    // The config was checked when the rule was written.
    matcher =
      rule.rule_type === "message_spam"
        ? messageSpam(rule.config as AutomodConfig<"message_spam">)
        : rule.rule_type === "ai_moderation"
          ? aiModeration(rule.config as AutomodConfig<"ai_moderation">)
          : textMatcher(rule)!
    made.set(rule, matcher)
  }
  return matcher
}

/** The order in which rules are looked at: the highest priority first, then the oldest. */
export const inOrder = (rules: Iterable<AutomodRule>): AutomodRule[] =>
  [...rules].toSorted((a, b) => b.priority - a.priority || (BigInt(a.id) < BigInt(b.id) ? -1 : 1))

export const isAbout = (rule: AutomodRule, { channel_id, roles }: Pick<Judged, "channel_id" | "roles">): boolean =>
  rule.enabled &&
  !rule.exempt_channels.includes(channel_id) &&
  !roles.some(role => rule.exempt_roles.includes(role)) &&
  (rule.applied_roles.length === 0 || roles.some(role => rule.applied_roles.includes(role)))

/**
 * Which rules a message breaks. `rules` stand in their order; the first that is broken is the last,
 * unless it says `check_all`.
 */
export function judge(rules: readonly AutomodRule[], judged: Judged): Verdict {
  const broken: Broken[] = []
  const unjudged: { rule: AutomodRule; reason: UnjudgedReason }[] = []
  const { text, content, verdicts } = judged
  const whole =
    text === undefined || text === content
      ? judged
      : { ...judged, alone: { ...judged, content: text, text: undefined } }
  const later: AutomodRule[] = []
  let unread: readonly AutomodRule[] | undefined
  for (const rule of rules) {
    if (!isAbout(rule, judged)) continue
    if (rule.rule_type === "ai_moderation" && !judged.scores) {
      if (judged.classifiers.includes(backendOf(rule))) later.push(rule)
      continue
    }
    let verdict = verdicts?.get(rule.config)
    if (verdict === undefined) {
      unread ??= notForTurn(
        rules.filter(other => isAbout(other, judged) && !verdicts?.has(other.config)),
        content.length,
      )
      if (!unread.includes(rule)) verdict = matcherOf(rule)(whole) ?? null
      else if (judged.isLast) verdict = { unjudged: "rules_changed" }
      else return { broken: [], later: [], unread, unjudged: [] }
    }
    if (verdict === null) continue
    if (isUnjudged(verdict)) {
      unjudged.push({ rule, reason: verdict.unjudged })
      continue
    }
    broken.push({ rule, ...verdict, ...(verdict.metadata && { metadata: bounded(verdict.metadata) }) })
    if (!rule.check_all) break
  }
  return { broken, later, unread: [], unjudged }
}

/** The classifier of a rule of the type `ai_moderation`. */
export const backendOf = ({ config }: AutomodRule): ClassifierBackend =>
  (config as AutomodConfig<"ai_moderation">).backend

function aiModeration({ backend, categories, score_threshold, severity }: AutomodConfig<"ai_moderation">): Matcher {
  const wanted = new Set(categories.map(category => category.toLowerCase()))
  return ({ content, scores }) => {
    const found = scores?.[backend]
    if (!found) return undefined
    const threshold = score_threshold ?? found.threshold
    let highest: { category: string; score: number } | undefined
    for (const [category, score] of Object.entries(found.categories)) {
      if (wanted.size > 0 && !wanted.has(category.toLowerCase())) continue
      if (score >= threshold && score > (highest?.score ?? -1)) highest = { category, score }
    }
    return highest && { matched: content, severity, metadata: { backend, ...highest } }
  }
}

/** What is done because of what was broken: of what contradicts itself the hardest. */
export interface Consequences {
  readonly isRefused: boolean
  /** Null: none. */
  readonly timeoutSeconds: number | null
  /** The rule and the action that remove the author; they are removed once. */
  readonly timeout: Decided | undefined
  readonly kick: Decided | undefined
  readonly ban: Decided | undefined
  /** Rules that moderators are told of. */
  readonly alerts: readonly Broken[]
  /** What the author is told. */
  readonly reason: string | undefined
}
/** What the author of a message that is refused is told. */
export interface Refusal {
  readonly violations: readonly AutomodRuleType[]
  readonly reason?: string | undefined
}
export interface Decided {
  readonly rule: AutomodRule
  readonly action: AutomodAction
}

/** Actions against the author, in the name of the user who wrote the rule. */
export const sanctions: ReadonlySet<AutomodActionType> = new Set(["timeout_user", "kick_user", "ban_user"])

/** `spares`: whether a rule takes no action against the author. */
export function consequencesOf(
  broken: readonly Broken[],
  spares: (rule: AutomodRule) => boolean = () => false,
): Consequences {
  const decided = (type: AutomodActionType): Decided[] =>
    broken.flatMap(({ rule }) =>
      sanctions.has(type) && spares(rule)
        ? []
        : rule.actions.flatMap(action => (action.action_type === type ? [{ rule, action }] : [])),
    )
  const ban = decided("ban_user")[0]
  const kick = ban ? undefined : decided("kick_user")[0]
  const secondsOf = ({ action }: Decided) => action.duration_seconds ?? limits.automod.usualTimeoutSeconds
  const timeout = ban || kick ? undefined : decided("timeout_user").toSorted((a, b) => secondsOf(b) - secondsOf(a))[0]
  const told = broken
    .flatMap(({ rule }) => rule.actions)
    .find(({ notify_user, reason }) => notify_user && reason !== null && reason !== "")
  return {
    isRefused: decided("delete_message").length > 0,
    timeoutSeconds: timeout ? secondsOf(timeout) : null,
    timeout,
    kick,
    ban,
    alerts: broken.filter(({ rule }) => rule.actions.some(({ action_type }) => action_type === "alert_moderators")),
    reason: told?.reason ?? undefined,
  }
}

/** The beginning of what was found, as it is kept. */
export const excerpt = (text: string): string => shortened(text, limits.automod.matchedCharacters)

/** A code or a host can be as long as the message. */
const bounded = (metadata: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key, typeof value === "string" ? excerpt(value) : value]),
  )

/** So much of a text that it has at most `most` characters; what is cut ends with an ellipsis. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text
  const beginning = Array.from(text.slice(0, 2 * most + 2))
  return beginning.length > most ? `${beginning.slice(0, most - 1).join("")}…` : text
}
