import type { Choices } from "../forms.tsx"
import { t } from "../text.ts"
import type { ActionType, RuleType } from "./rules.ts"

/**
 * What a setting of a rule is, for the form that is made of it. What has no simple form is written
 * as JSON.
 */
export type Setting =
  | { readonly kind: "number" | "boolean" | "text" | "json"; readonly usual: unknown }
  /** Expressions, each with what it is called and how serious it is. */
  | { readonly kind: "patterns"; readonly usual: readonly Pattern[] }
  /** One on each line. */
  | { readonly kind: "list"; readonly usual: readonly string[] }
  | { readonly kind: "choice"; readonly usual: string; readonly of: readonly string[] }

export interface Pattern {
  readonly name: string
  readonly pattern: string
  readonly severity: string
  readonly case_sensitive: boolean
  readonly multiline: boolean
}
export const newPattern: Pattern = {
  name: "",
  pattern: "",
  severity: "medium",
  case_sensitive: false,
  multiline: false,
}

interface Kind {
  readonly title: string
  readonly about: string
  readonly settings: Readonly<Record<string, Setting>>
}

const n = (usual: number): Setting => ({ kind: "number", usual })
const yes: Setting = { kind: "boolean", usual: true }
const no: Setting = { kind: "boolean", usual: false }
const list: Setting = { kind: "list", usual: [] }

export const kinds = (): Readonly<Record<RuleType, Kind>> => ({
  keyword: {
    title: t("Words"),
    about: t("Messages with one of these words."),
    settings: {
      keywords: list,
      case_sensitive: no,
      whole_word: yes,
      severity_map: { kind: "json", usual: {} },
    },
  },
  regex: {
    title: t("Patterns"),
    about: t("Messages in which one of these expressions (RE2) is found."),
    settings: {
      patterns: { kind: "patterns", usual: [newPattern] },
    },
  },
  mention_spam: {
    title: t("Mentions"),
    about: t("Messages that mention too many."),
    settings: {
      max_user_mentions: n(5),
      max_role_mentions: n(3),
      max_total_mentions: n(10),
      block_everyone: no,
      count_unique_only: no,
    },
  },
  message_spam: {
    title: t("Floods"),
    about: t("Too many messages of one member, or the same again and again."),
    settings: {
      max_messages: n(5),
      window_seconds: n(5),
      duplicate_threshold: n(3),
      duplicate_window_seconds: n(60),
      similarity_threshold: n(0.9),
    },
  },
  invite_links: {
    title: t("Invites"),
    about: t("Links that invite to other servers."),
    settings: { block_all: yes, allowed_codes: list, code_length: n(12), pattern: { kind: "text", usual: null } },
  },
  external_links: {
    title: t("Links"),
    about: t("Links to other sites."),
    settings: {
      mode: { kind: "choice", usual: "blacklist", of: ["blacklist", "whitelist"] },
      blacklist: list,
      whitelist: list,
      block_all: no,
    },
  },
  mass_emoji: {
    title: t("Emoji"),
    about: t("Messages that are mostly emoji."),
    settings: {
      max_emoji: n(10),
      max_percentage: n(50),
      count_custom: yes,
      count_unicode: yes,
      min_length: n(5),
    },
  },
  caps_percentage: {
    title: t("Capitals"),
    about: t("Messages that are mostly capitals."),
    settings: { max_percentage: n(70), min_length: n(10), ignore_commands: yes },
  },
  repeated_chars: {
    title: t("Repeated letters"),
    about: t("The same letter again and again."),
    settings: { max_repeats: n(5), min_occurrences: n(3), ignore_whitespace: yes, ignore_numbers: no },
  },
  ai_moderation: {
    title: t("Classifier"),
    about: t(
      "What a classifier says of a message, soon after it was sent. It acts only where operators have set one up.",
    ),
    settings: {
      backend: { kind: "choice", usual: "openai", of: ["openai", "perspective", "custom"] },
      categories: list,
      score_threshold: { kind: "number", usual: null },
      severity: { kind: "choice", usual: "medium", of: severities },
    },
  },
})

export const kindChoices = (): Choices<RuleType> =>
  (Object.entries(kinds()) as [RuleType, Kind][]).map(([kind, { title }]) => [kind, title] as const)

export const actions = (): Choices<ActionType> => [
  ["delete_message", t("Refuse the message")],
  ["timeout_user", t("Time the member out")],
  ["kick_user", t("Remove the member")],
  ["ban_user", t("Ban the member")],
  ["alert_moderators", t("Tell the moderators")],
  ["log_only", t("Only record it")],
]

export const titleOf = (type: ActionType): string => actions().find(([one]) => one === type)?.[1] ?? type

/** Settings of rules, and what can be chosen in them, in words. */
const words = (): Readonly<Record<string, string>> => ({
  keywords: t("Words and phrases"),
  case_sensitive: t("Capitals count"),
  whole_word: t("Only whole words"),
  severity_map: t("How serious each word is"),
  patterns: t("Expressions"),
  max_user_mentions: t("Most members mentioned"),
  max_role_mentions: t("Most roles mentioned"),
  max_total_mentions: t("Most mentions in all"),
  block_everyone: t("No @everyone and @here"),
  count_unique_only: t("Count who is mentioned twice once"),
  max_messages: t("Most messages"),
  window_seconds: t("Within seconds"),
  duplicate_threshold: t("So many alike"),
  duplicate_window_seconds: t("Alike within seconds"),
  similarity_threshold: t("How alike (0.1 to 1)"),
  block_all: t("All of them"),
  allowed_codes: t("Codes that are allowed"),
  code_length: t("Length of a code"),
  pattern: t("Expression for other links"),
  mode: t("Which links"),
  blacklist: t("Sites that are not allowed"),
  whitelist: t("Sites that are allowed"),
  max_emoji: t("Most emoji"),
  max_percentage: t("Most percent of the message"),
  count_custom: t("Count emoji of servers"),
  count_unicode: t("Count the others"),
  min_length: t("From so many characters on"),
  ignore_commands: t("Leave out commands"),
  max_repeats: t("Most repeats"),
  min_occurrences: t("In so many places"),
  ignore_whitespace: t("Leave out spaces"),
  ignore_numbers: t("Leave out digits"),
  backend: t("Classifier"),
  categories: t("Categories (none: all)"),
  score_threshold: t("Score from which on"),
  severity: t("How serious it is"),
  low: t("Low"),
  medium: t("Medium"),
  high: t("High"),
  critical: t("Critical"),
  "mode blacklist": t("Those of a list are not allowed"),
  "mode whitelist": t("Only those of a list are allowed"),
})

/** What has no words of its own: `auth_header` as `Auth header`. */
export function wordsFor(name: string): string {
  const known = words()[name]
  if (known !== undefined) return known
  const plain = name.replaceAll("_", " ")
  return plain.charAt(0).toUpperCase() + plain.slice(1)
}

/** A choice of a setting. */
export const choiceWords = (setting: string, choice: string): string =>
  words()[`${setting} ${choice}`] ?? words()[choice] ?? choice

export const severities = ["low", "medium", "high", "critical"]

export const usualConfig = (kind: RuleType): Record<string, unknown> =>
  Object.fromEntries(Object.entries(kinds()[kind].settings).map(([name, { usual }]) => [name, usual]))
