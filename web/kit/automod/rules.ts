/** A rule of auto-moderation, as it is written and tried. */

export type RuleType =
  | "keyword"
  | "regex"
  | "mention_spam"
  | "message_spam"
  | "invite_links"
  | "external_links"
  | "mass_emoji"
  | "caps_percentage"
  | "repeated_chars"
  | "ai_moderation"
export type ActionType = "delete_message" | "timeout_user" | "kick_user" | "ban_user" | "alert_moderators" | "log_only"
export interface RuleAction {
  action_type: ActionType
  duration_seconds?: number | null
  reason?: string | null
  notify_user?: boolean
  metadata?: Record<string, unknown>
}
export interface RuleDraft {
  name: string
  rule_type: RuleType
  config: Record<string, unknown>
  actions: RuleAction[]
  applied_roles?: string[]
  exempt_roles?: string[]
  exempt_channels?: string[]
  priority?: number
  check_all?: boolean
  enabled?: boolean
}
/** What a rule would do with a text. */
export interface TestResult {
  is_broken: boolean
  matched_content: string | null
  severity: string | null
  points: number
  is_refused: boolean
  actions: RuleAction[]
  metadata: Record<string, unknown>
  /** Why there is no verdict. */
  unjudged: string | null
  scores: Record<string, number> | null
}
