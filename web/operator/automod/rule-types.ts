import { t } from "../../kit/text.ts"
import type { Choices } from "../../kit/forms.tsx"
import type { ActionType, RuleType } from "../wire.ts"

/**
 * What a setting of a rule is, for the form that is made of it. What has no simple form is written
 * as JSON.
 */
export type Setting =
  | { readonly kind: "number" | "boolean" | "text" | "json"; readonly usual: unknown }
  /** One on each line. */
  | { readonly kind: "list"; readonly usual: readonly string[] }
  | { readonly kind: "choice"; readonly usual: string; readonly of: readonly string[] }

interface Kind {
  readonly title: string
  readonly about: string
  readonly settings: Readonly<Record<string, Setting>>
}

const n = (usual: number): Setting => ({ kind: "number", usual })
const yes: Setting = { kind: "boolean", usual: true }
const no: Setting = { kind: "boolean", usual: false }
const list: Setting = { kind: "list", usual: [] }

export const kinds: Readonly<Record<RuleType, Kind>> = {
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
      patterns: {
        kind: "json",
        usual: [{ name: "", pattern: "", severity: "medium", case_sensitive: false, multiline: false }],
      },
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
    about: t("What a classifier says of a message, soon after it was sent. It acts only where one is set up below."),
    settings: {
      backend: { kind: "choice", usual: "openai", of: ["openai", "perspective", "custom"] },
      categories: list,
      score_threshold: { kind: "number", usual: null },
      severity: { kind: "choice", usual: "medium", of: ["low", "medium", "high", "critical"] },
    },
  },
}

export const kindChoices: Choices<RuleType> = (Object.keys(kinds) as RuleType[]).map(
  kind => [kind, kinds[kind].title] as const,
)

export const actions: Choices<ActionType> = [
  ["delete_message", t("Refuse the message")],
  ["timeout_user", t("Time the member out")],
  ["kick_user", t("Remove the member")],
  ["ban_user", t("Ban the member")],
  ["alert_moderators", t("Tell the moderators")],
  ["log_only", t("Only record it")],
]

export const titleOf = (type: ActionType): string => actions.find(([one]) => one === type)?.[1] ?? type

/** `max_user_mentions` as `Max user mentions`. */
export const wordsFor = (name: string): string => {
  const words = name.replaceAll("_", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export const usualConfig = (kind: RuleType): Record<string, unknown> =>
  Object.fromEntries(Object.entries(kinds[kind].settings).map(([name, { usual }]) => [name, usual]))
