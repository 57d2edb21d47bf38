import { z } from "zod"
import {
  omittable,
  queryInt,
  Seconds,
  Snowflake,
  SnowflakeInput,
  Success,
  text,
  userKeys,
  nameText,
} from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"

/** What a rule looks at, one by one; see docs/api/automod.md. */
export const automodRuleTypes = [
  "keyword",
  "regex",
  "mention_spam",
  "message_spam",
  "invite_links",
  "mass_emoji",
  "caps_percentage",
  "repeated_chars",
  "external_links",
  "ai_moderation",
] as const
export type AutomodRuleType = (typeof automodRuleTypes)[number]

export const automodActionTypes = [
  "delete_message",
  "timeout_user",
  "kick_user",
  "ban_user",
  "alert_moderators",
  "log_only",
] as const
export type AutomodActionType = (typeof automodActionTypes)[number]

export const severities = ["low", "medium", "high", "critical"] as const
const Severity = z.enum(severities)
export type Severity = z.infer<typeof Severity>

/** The points that a violation takes from its author's reputation, which is `fullReputation` without any. */
export const severityPoints: Readonly<Record<Severity, number>> = { low: 5, medium: 10, high: 20, critical: 40 }
export const fullReputation = 100

export const classifierBackends = ["openai", "perspective", "custom"] as const
export type ClassifierBackend = (typeof classifierBackends)[number]

/** An optional key of a config: JSON `null` means "not sent" there, too. */
const or = <T extends z.ZodType>(schema: T, fallback: z.output<T>) =>
  schema.nullish().transform(value => value ?? fallback)

const percentage = z.int().min(1).max(100)
const pattern = text(1, limits.automod.patternCharacters)
const domains = z.array(z.string().trim().toLowerCase().min(1).max(253)).max(limits.automod.domains)

/** The config of each type with its defaults; what is not named here is left out of a rule. */
export const automodConfigs = {
  keyword: z.object({
    keywords: z.array(text(1, limits.automod.keywordCharacters)).min(1).max(limits.automod.keywords),
    case_sensitive: or(z.boolean(), false),
    whole_word: or(z.boolean(), true),
    severity_map: or(userKeys(Severity, { maxKeys: limits.automod.keywords }), {}),
  }),
  regex: z.object({
    patterns: z
      .array(
        z.object({
          name: or(text(0, limits.automod.nameCharacters), ""),
          pattern,
          case_sensitive: or(z.boolean(), false),
          multiline: or(z.boolean(), false),
          severity: or(Severity, "medium"),
        }),
      )
      .min(1)
      .max(limits.automod.patterns),
  }),
  mention_spam: z.object({
    max_user_mentions: or(z.int().min(0).max(4000), 5),
    max_role_mentions: or(z.int().min(0).max(4000), 3),
    max_total_mentions: or(z.int().min(0).max(4000), 10),
    block_everyone: or(z.boolean(), false),
    count_unique_only: or(z.boolean(), false),
  }),
  message_spam: z.object({
    max_messages: or(z.int().min(1).max(limits.automod.postsRemembered), 5),
    window_seconds: or(z.int().min(1).max(limits.automod.windowSeconds), 5),
    duplicate_threshold: or(z.int().min(2).max(limits.automod.postsRemembered), 3),
    duplicate_window_seconds: or(z.int().min(1).max(limits.automod.windowSeconds), 60),
    similarity_threshold: or(z.number().min(0.1).max(1), 0.9),
  }),
  invite_links: z.object({
    block_all: or(z.boolean(), true),
    allowed_codes: or(z.array(z.string().trim().min(1).max(64)).max(limits.automod.codes), []),
    code_length: or(z.int().min(1).max(64), 12),
    pattern: pattern.nullish().transform(value => value ?? null),
  }),
  mass_emoji: z.object({
    max_emoji: or(z.int().min(0).max(4000), 10),
    max_percentage: or(percentage, 50),
    count_custom: or(z.boolean(), true),
    count_unicode: or(z.boolean(), true),
    min_length: or(z.int().min(0).max(4000), 5),
  }),
  caps_percentage: z.object({
    max_percentage: or(percentage, 70),
    min_length: or(z.int().min(0).max(4000), 10),
    ignore_commands: or(z.boolean(), true),
  }),
  repeated_chars: z.object({
    max_repeats: or(z.int().min(1).max(4000), 5),
    min_occurrences: or(z.int().min(1).max(4000), 3),
    ignore_whitespace: or(z.boolean(), true),
    ignore_numbers: or(z.boolean(), false),
  }),
  external_links: z.object({
    mode: or(z.enum(["blacklist", "whitelist"]), "blacklist"),
    whitelist: or(domains, []),
    blacklist: or(domains, []),
    block_all: or(z.boolean(), false),
  }),
  ai_moderation: z.object({
    backend: z.enum(classifierBackends),
    categories: or(z.array(text(1, 100)).max(limits.automod.categories), []),
    /** Null: that of the classifier. */
    score_threshold: z
      .number()
      .min(0)
      .max(1)
      .nullish()
      .transform(value => value ?? null),
    severity: or(Severity, "medium"),
  }),
} as const satisfies Record<AutomodRuleType, z.ZodObject>
export type AutomodConfig<T extends AutomodRuleType> = z.output<(typeof automodConfigs)[T]>

const metadata = z.record(z.string(), z.unknown())

export const AutomodAction = z
  .object({
    action_type: z.enum(automodActionTypes),
    duration_seconds: z
      .int()
      .min(1)
      .max(limits.timeoutSeconds)
      .nullable()
      .describe(`Of \`timeout_user\`; null: ${limits.automod.usualTimeoutSeconds}`),
    reason: text(0, limits.banReason)
      .nullable()
      .describe("For the audit log. The author sees it too if `notify_user` is set"),
    notify_user: z.boolean().describe("Whether the refusal shows the reason to the author"),
    metadata: metadata.describe("Of `ban_user`: `delete_message_days`, 0 to 7"),
  })
  .meta({ id: "AutomodActionResponse" })
export type AutomodAction = z.infer<typeof AutomodAction>

/** An action as a client writes it. A fault in it is told by name, with 400. */
export const AutomodActionInput = z.object({
  action_type: AutomodAction.shape.action_type,
  duration_seconds: or(AutomodAction.shape.duration_seconds, null),
  reason: or(AutomodAction.shape.reason, null),
  notify_user: or(z.boolean(), true),
  metadata: or(metadata, {})
    .refine(value => {
      const { delete_message_days: days = 0 } = value
      return typeof days === "number" && Number.isInteger(days) && days >= 0 && days <= 7
    }, "delete_message_days must be an integer from 0 to 7")
    .refine(value => JSON.stringify(value).length <= limits.automod.metadataCharacters, "is too long"),
})

export const AutomodRule = z.object({
  id: Snowflake,
  server_id: Snowflake,
  name: z.string(),
  rule_type: z.enum(automodRuleTypes),
  config: z
    .record(z.string(), z.unknown())
    .describe("Depends on `rule_type`. All defaults are filled in. See docs/api/automod.md"),
  actions: z.array(AutomodAction),
  applied_roles: z.array(Snowflake).describe("If not empty, the rule applies only to members with one of these roles"),
  exempt_roles: z.array(Snowflake),
  exempt_channels: z.array(Snowflake),
  priority: z.int(),
  check_all: z.boolean().describe("Whether the next rules are checked too when a message breaks this one"),
  enabled: z.boolean(),
  created_at: Seconds,
  updated_at: Seconds,
  created_by: Snowflake.describe("A user, or an operator of the service, whose ids have at most nine digits"),
  updated_by: Snowflake.describe(
    "Who last changed the rule. Its actions are done on their behalf. An operator of the service counts only where they change `config` or `actions`",
  ),
})
export type AutomodRule = z.infer<typeof AutomodRule>

/** Why a rule has no verdict about a text. It counts as not broken. */
export const unjudgedReasons = ["too_expensive", "late", "overloaded", "rules_changed"] as const
export type UnjudgedReason = (typeof unjudgedReasons)[number]

/** A rule as its readers see it. */
export const AutomodRuleView = AutomodRule.extend({
  unjudged: z
    .object({
      count: z.int().describe("At most one per minute is counted, and only recorded ones"),
      last_at: Seconds,
      reason: z.enum(unjudgedReasons).describe("Of the last one. See docs/api/automod.md"),
    })
    .nullable()
    .describe("Messages that the rule has not judged since it was last changed; they counted as not breaking it"),
}).meta({ id: "AutomodRuleResponse" })
export type AutomodRuleView = z.infer<typeof AutomodRuleView>

const ids = (max: number) =>
  z
    .array(SnowflakeInput)
    .max(max)
    .transform(list => [...new Set(list)])

const ruleName = nameText(1, limits.automod.nameCharacters)
// Looked into by `checkedRule`, which answers 400: what it has to be depends on the type.
const config = z.record(z.string(), z.unknown()).describe("Depends on `rule_type`. See docs/api/automod.md")
const actions = z.array(z.unknown()).describe("1 to 10 items of AutomodActionResponse. Only `action_type` is required")
const settings = {
  applied_roles: omittable(ids(limits.rolesPerServer)),
  exempt_roles: omittable(ids(limits.rolesPerServer)),
  exempt_channels: omittable(ids(limits.channelsPerServer)),
  priority: omittable(z.int().min(-1_000_000).max(1_000_000)),
  check_all: omittable(z.boolean()),
  enabled: omittable(z.boolean()),
}
export const AutomodRuleInput = z
  .object({ name: ruleName, rule_type: z.string().max(64), config, actions, ...settings })
  .meta({ id: "AutomodRuleCreateRequest" })
export type AutomodRuleInput = z.output<typeof AutomodRuleInput>
export const AutomodRulePatch = z
  .object({ name: omittable(ruleName), config: omittable(config), actions: omittable(actions), ...settings })
  .meta({ id: "AutomodRuleUpdateRequest" })
export type AutomodRulePatch = z.output<typeof AutomodRulePatch>

export const AutomodViolation = z.object({
  id: Snowflake,
  server_id: Snowflake,
  user_id: Snowflake,
  channel_id: Snowflake,
  rule_id: Snowflake,
  rule_type: z.enum(automodRuleTypes),
  matched_content: z.string().describe(`At most ${limits.automod.matchedCharacters} characters`),
  severity: Severity,
  actions_taken: z.array(z.enum(automodActionTypes)),
  created_at: Seconds,
  metadata,
})
export type AutomodViolation = z.infer<typeof AutomodViolation>

/** A violation as its readers see it. */
export const AutomodViolationView = AutomodViolation.extend({
  reputation: z
    .int()
    .min(0)
    .max(fullReputation)
    .describe("Of the user in this server by now: 100, less 5, 10, 20 or 40 for each violation that is kept"),
}).meta({ id: "AutomodViolationResponse" })
export type AutomodViolationView = z.infer<typeof AutomodViolationView>

const byServer = z.object({ server_id: Snowflake })
const byRule = z.object({ server_id: Snowflake, rule_id: Snowflake })
const shared = ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"] as const
/** Of a rule that cannot be kept as it is given. */
export const refused = [
  "invalid_automod_config",
  "invalid_automod_action",
  "automod_target_not_found",
  "automod_limit",
] as const

export const listAutomodRules = defineRoute({
  method: "GET",
  path: "/servers/:server_id/automod/rules",
  summary: "List a server's auto-moderation rules, in the order in which they are checked",
  tag: "Servers",
  auth: "user",
  permission: ["server.automod"],
  params: byServer,
  reply: z.array(AutomodRuleView),
  fails: [...shared],
})

export const createAutomodRule = defineRoute({
  method: "POST",
  path: "/servers/:server_id/automod/rules",
  summary: "Create a rule. A rule that kicks or bans also requires that permission",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["server.automod"],
  params: byServer,
  body: AutomodRuleInput,
  example: {
    name: "No slurs",
    rule_type: "keyword",
    config: { keywords: ["badword"] },
    actions: [{ action_type: "delete_message", reason: "Mind your words" }],
  },
  reply: AutomodRuleView,
  fails: [...shared, "invalid_automod_type", ...refused],
})

export const editAutomodRule = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/automod/rules/:rule_id",
  summary: "Change a rule. Its type cannot change",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["server.automod"],
  params: byRule,
  body: AutomodRulePatch,
  example: { name: "No slurs", enabled: false },
  reply: AutomodRuleView,
  fails: [...shared, "invalid_id", "automod_rule_not_found", ...refused],
})

export const deleteAutomodRule = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/automod/rules/:rule_id",
  summary: "Delete a rule. Its recorded violations stay",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["server.automod"],
  params: byRule,
  reply: Success,
  fails: [...shared, "invalid_id", "automod_rule_not_found"],
})

export const listAutomodViolations = defineRoute({
  method: "GET",
  path: "/servers/:server_id/automod/violations",
  summary: `List violations of auto-moderation rules, newest first. They are kept for ${limits.automod.violationDays} days, about the newest ${limits.automod.violationsKept} per server`,
  tag: "Servers",
  auth: "user",
  permission: ["server.automod"],
  params: byServer,
  query: z.object({
    user_id: omittable(Snowflake).describe("Only violations of this user"),
    limit: queryInt(1, limits.pageSize).optional(),
    before: omittable(Snowflake).describe("Only violations before this one"),
  }),
  reply: z.array(AutomodViolationView),
  fails: [...shared],
})

export const routes = {
  listAutomodRules,
  createAutomodRule,
  editAutomodRule,
  deleteAutomodRule,
  listAutomodViolations,
}
