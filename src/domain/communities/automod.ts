import type {
  AutomodAction,
  AutomodActionType,
  AutomodConfig,
  AutomodRule,
  AutomodRuleType,
  ClassifierBackend,
  Severity,
} from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { externalLinks, inviteLinks } from "./automod-links.ts"
import { messageSpam, type RecentPost } from "./automod-spam.ts"
import { capsPercentage, keyword, massEmoji, mentionSpam, regex, repeatedChars } from "./automod-text.ts"

/**
 * What a classifier thinks of a text: by category, from 0 to 1. Null: it was asked and said nothing
 * usable.
 */
export type Scores = Readonly<Record<string, number>> | null

/** A message that a user sends, or the new form of one that they edit. */
export interface Judged {
  /** All that it says. */
  readonly content: string
  /**
   * Its text alone, which is compared with others, and which nothing beside it makes better;
   * undefined: that is all of it.
   */
  readonly text?: string | undefined
  readonly channel_id: Snowflake
  /** The author's roles; from their membership. */
  readonly roles: readonly Snowflake[]
  /** The message that this is to become the text of; undefined: it is a new one. */
  readonly edited?: Snowflake | undefined
  /** The author's latest in the channel, the oldest first. */
  readonly recent: readonly RecentPost[]
  /** Classifiers that can be asked. */
  readonly classifiers: readonly ClassifierBackend[]
  readonly scores: Readonly<Partial<Record<ClassifierBackend, Scores>>>
  /** Unix milliseconds. */
  readonly now: number
}

/** Why a message breaks a rule. */
export interface Match {
  readonly matched: string
  readonly severity: Severity
  readonly metadata?: Readonly<Record<string, unknown>>
}
export type Matcher = (judged: Judged) => Match | undefined

export interface Broken extends Match {
  readonly rule: AutomodRule
}

export interface Verdict {
  /** In the order in which they were found. */
  readonly broken: readonly Broken[]
  /** Not empty: nothing is decided before these were asked. */
  readonly unasked: readonly ClassifierBackend[]
}

const matchers: { readonly [T in AutomodRuleType]: (config: AutomodConfig<T>) => Matcher } = {
  keyword,
  regex,
  mention_spam: mentionSpam,
  message_spam: messageSpam,
  invite_links: inviteLinks,
  mass_emoji: massEmoji,
  caps_percentage: capsPercentage,
  repeated_chars: repeatedChars,
  external_links: externalLinks,
  ai_moderation: aiModeration,
}

/** Rules are replaced, never changed: what was made of one is good for as long as it is there. */
const made = new WeakMap<object, Matcher>()
function matcherOf(rule: AutomodRule): Matcher {
  let matcher = made.get(rule)
  if (!matcher) {
    // The config was checked when the rule was written.
    const make = matchers[rule.rule_type] as (config: unknown) => Matcher
    matcher = make(rule.config)
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
  const { text, content } = judged
  const alone = text === undefined || text === content ? undefined : { ...judged, content: text }
  for (const rule of rules) {
    if (!isAbout(rule, judged)) continue
    if (isUnasked(rule, judged)) {
      const others = rules.filter(other => isAbout(other, judged) && isUnasked(other, judged))
      return { broken: [], unasked: [...new Set(others.map(backendOf))] }
    }
    const matcher = matcherOf(rule)
    const match = matcher(judged) ?? (alone && matcher(alone))
    if (!match) continue
    broken.push({ rule, ...match, ...(match.metadata && { metadata: bounded(match.metadata) }) })
    if (!rule.check_all) break
  }
  return { broken, unasked: [] }
}

const backendOf = (rule: AutomodRule) => (rule.config as AutomodConfig<"ai_moderation">).backend
const isUnasked = (rule: AutomodRule, { scores, classifiers }: Judged) =>
  rule.rule_type === "ai_moderation" && scores[backendOf(rule)] === undefined && classifiers.includes(backendOf(rule))

function aiModeration({ backend, categories, score_threshold, severity }: AutomodConfig<"ai_moderation">): Matcher {
  const wanted = new Set(categories.map(category => category.toLowerCase()))
  return ({ content, scores }) => {
    let highest: { category: string; score: number } | undefined
    for (const [category, score] of Object.entries(scores[backend] ?? {})) {
      if (wanted.size > 0 && !wanted.has(category.toLowerCase())) continue
      if (score >= score_threshold && score > (highest?.score ?? -1)) highest = { category, score }
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
