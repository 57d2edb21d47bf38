import type { RuleDraft, TestResult } from "../kit/automod/rules.ts"
import type { Message } from "../../src/contract/messages/messages.ts"

/** The operator's routes as the page calls them. */

type Id = string
type Seconds = number
type Page = { limit?: number; offset?: number }
interface Success {
  success: true
}

export interface LoginReply {
  status: "success" | "otp_required" | "otp_setup_required"
  token: string | null
  admin_id: Id | null
  otp_secret: string | null
  otp_qr_uri: string | null
  message: string | null
  challenge_token: string | null
  backup_codes?: string[] | undefined
}

export interface SecurityStatus {
  admin_id: Id
  username: string
  email: string | null
  created_at: Seconds
  last_login: Seconds | null
  otp_required: boolean
  otp_enabled: boolean
  must_setup_otp: boolean
  backup_codes_remaining: number
}

export interface Dashboard {
  tickets: { open: number; in_progress: number; resolved: number; closed: number; total: number }
  active_users: number
  total_users: number
  scheduled_deletions: number
  db_status: "healthy" | "degraded"
  server_version: string
}

export interface LogFile {
  filename: string
  size: number
  modified: Seconds
  is_zipped: boolean
}
export interface LogLine {
  timestamp: string
  level: string
  message: string
  raw: string
}
export interface LogPage {
  filename: string
  total_lines: number
  lines: LogLine[]
  limit: number
  offset: number
}

export type TicketStatus = "open" | "in_progress" | "resolved" | "closed"
export interface Ticket {
  id: Id
  user_id: Id
  username: string
  content: string
  category: string | null
  rating: number | null
  status: TicketStatus
  created_at: Seconds
  resolved_at: Seconds | null
  resolved_by: Id | null
  resolved_by_username: string | null
}
export interface TicketNote {
  id: Id
  ticket_id: Id
  admin_id: Id
  admin_username: string
  content: string
  created_at: Seconds
}

export interface UserRow {
  id: Id
  username: string
  email: string | null
  tier: string
  badges: string[]
  created_at: Seconds
  deletion_status: "active" | "frozen" | "purged"
  deletion_at: Seconds | null
  bot: boolean
  account_locked: boolean
}
export interface UserDetail extends UserRow {
  last_login: Seconds | null
  locked_until: Seconds | null
  lock_kind: "operator" | "failed_logins" | null
  lock_reason: string | null
  force_username_change: boolean
  rename_reason: string | null
  totp_enabled: boolean
  permissions: string[]
  owner_id: Id | null
  session_count: number
  owned_server_count: number
  bot_count: number
}
export interface Deletion {
  user_id: Id
  username: string
  scheduled_at: Seconds
  deletion_at: Seconds
  days_left: number
}

export interface BlockedAddress {
  ip_address: string
  reason: string | null
  blocked_at: Seconds
  blocked_by: Id | null
  expires_at: Seconds | null
}
export interface BannedName {
  id: Id
  pattern: string
  is_regex: boolean
  reason: string | null
  created_at: Seconds
}
export interface BlockedHash {
  hash_value: string
  reason: string
  blocked_at: Seconds
  blocked_by: Id | null
  auto_blocked: boolean
  hash_type: "sha256" | "phash"
  phash_threshold: number
}
export interface BlockedUploader {
  user_id: Id
  username: string | null
  reason: string
  blocked_at: Seconds
  blocked_by: Id | null
  expires_at: Seconds | null
}

export type ScopeMode = "none" | "monitor" | "enforce"
export interface AccessToken {
  id: Id
  name: string | null
  description: string | null
  created_by: string | null
  created_at: Seconds
  first_used_at: Seconds | null
  last_used_at: Seconds | null
  last_used_ip_address: string | null
  last_used_user_agent: string | null
  last_used_path: string | null
  expires_at: Seconds | null
  scope_mode: ScopeMode
  use_count_total: number
  distinct_ip_count: number
  denied_count_total: number
  revoked: boolean
  revoked_at: Seconds | null
  revoked_by: string | null
}
export interface Scope {
  id: Id
  scope_type: "ip" | "cidr"
  value: string
  created_by: string | null
  created_at: Seconds
}
export interface AccessTokenDetail {
  access_token: AccessToken
  scopes: Scope[]
  recent_events: {
    id: Id
    used_at: Seconds
    ip_address: string | null
    method: string | null
    path: string | null
    user_agent: string | null
    allowed: boolean
    scope_match: boolean | null
    reject_reason: string | null
  }[]
  top_ips: { ip_address: string; request_count: number; denied_count: number; last_seen_at: Seconds | null }[]
  top_paths: { method: string | null; path: string | null; request_count: number; last_seen_at: Seconds | null }[]
  total_events: number
  distinct_ip_count: number
  denied_count_total: number
}

interface Reviewed {
  status: string
  reported_at: Seconds
  reviewed_at: Seconds | null
  reviewed_by: Id | null
  reviewed_by_username: string | null
  admin_notes: string | null
}
export interface HashReport extends Reviewed {
  id: Id
  hash_value: string
  phash_value: string | null
  reporter_id: Id
  reporter_username: string | null
  reason: string
  details: string | null
  uploader_id: Id | null
  message_id: Id | null
  attachment_url: string | null
  block_uploader: boolean
  counts: boolean
}
export interface MessageReport extends Reviewed {
  id: Id
  message_id: Id
  channel_id: Id
  server_id: Id | null
  reporter_id: Id
  reporter_username: string | null
  reported_user_id: Id
  reported_username: string | null
  reason: string
  category: string
  details: string | null
  message_content: string | null
  action_taken: string | null
}
export interface UserReport extends Reviewed {
  id: Id
  reported_user_id: Id
  reported_username: string | null
  reporter_id: Id
  reporter_username: string | null
  reason: string
  category: string
  details: string | null
  evidence_message_ids: Id[]
  action_taken: string | null
}
export interface ReportCounts {
  pending: number
  reviewed: number
  actioned: number
  dismissed: number
  total: number
}
export type ContextMessage = Pick<
  Message,
  "id" | "author_id" | "author_username" | "content" | "created_at" | "edited_at" | "attachments" | "webhook_id"
>
export interface ReportContext {
  report: MessageReport
  state: "unchanged" | "edited" | "deleted"
  message: ContextMessage | null
  before: ContextMessage[]
  after: ContextMessage[]
  channel_name: string | null
  server_name: string | null
}

export interface EndpointStat {
  endpoint: string
  method: string
  count: number
  avg_ms: number
  min_ms: number | null
  max_ms: number | null
  p50_ms: number | null
  p95_ms: number
  p99_ms: number | null
  error_rate: number
  error_count: number
  avg_queries: number
  avg_query_time_ms: number
}
export interface TelemetryPoint {
  timestamp: Seconds
  avg_ms: number
  count: number
  error_count: number
}

export interface Rule extends Required<RuleDraft> {
  id: Id
  server_id: Id
  created_at: Seconds
  updated_at: Seconds
  created_by: Id
  updated_by: Id
  /** Messages that it has not judged since it was last changed. */
  unjudged: { count: number; last_at: Seconds; reason: string } | null
}
export interface AutomodConfig {
  enabled: boolean
  ai: Record<string, Record<string, unknown> | undefined>
}
export interface ServerState {
  state: "running" | "maintenance" | "shutting_down" | "restarting"
  message: string | null
  estimated_downtime_seconds: number | null
  restart_at: Seconds | null
}

/** Counts are of the time since the sample before. */
export interface Sample {
  at: Seconds
  processes: number
  sessions: number
  requests: number
  messages: number
  deliveries: number
  errors: number
  lag_p50_ms: number | null
  lag_p99_ms: number | null
  postgres_ms: number | null
  redis_ms: number | null
  disk_percent: number | null
  oldest_job_seconds: number | null
}
export interface Process {
  id: string
  host: string
  role: "web" | "job"
  uptime_seconds: number
  memory_mb: number
  cpu_percent: number
  loop_p99_ms: number
  sessions: number
  seen_at: Seconds
}
export interface Now {
  at: Seconds
  every_seconds: number
  samples: Sample[]
  processes: Process[]
  postgres: {
    ok: boolean
    latency_ms: number | null
    connections: number | null
    max_connections: number | null
    size_bytes: number | null
  }
  redis: { ok: boolean; latency_ms: number | null; memory_bytes: number | null; max_memory_bytes: number | null }
  disk: { free_bytes: number | null; total_bytes: number | null; percent: number | null }
  jobs: { waiting: number | null; active: number | null; failed: number | null; oldest_seconds: number | null }
}

export interface TrailEntry {
  id: Id
  at: Seconds
  operator_id: Id | null
  operator: string | null
  action: string
  target: string | null
  input: Record<string, unknown>
  address: string
  outcome: number | null
  error: string | null
  result: Record<string, unknown>
}

interface ReviewCall<Action extends string> {
  params: { report_id: Id }
  body: { action: Action; notes?: string }
  reply: { success: true; action: string }
}
interface ReportList<Report> {
  query: Page & { status_filter?: string }
  reply: Report[]
}
interface ByUser<Reply> {
  params: { user_id: Id }
  reply: Reply
}

export interface Wire {
  "POST /login": { body: { username: string; password: string }; reply: LoginReply }
  "POST /verify-otp": {
    body: { admin_id: Id; code: string; is_setup: boolean; challenge_token: string }
    reply: LoginReply
  }
  "POST /logout": { reply: Success }
  "GET /auth/security-status": { reply: SecurityStatus }
  "POST /auth/change-password": { body: { current_password: string; new_password: string }; reply: Success }
  "POST /auth/2fa/begin-setup": { body: { current_password: string }; reply: LoginReply }
  "POST /auth/2fa/disable": { body: { current_password: string; code: string }; reply: Success }
  "POST /auth/2fa/regenerate-backup-codes": {
    body: { current_password: string }
    reply: { success: true; backup_codes: string[] }
  }

  "GET /dashboard": { reply: Dashboard }
  "GET /now": { query: { since?: Seconds }; reply: Now }
  "GET /trail": {
    query: { operator?: string; action?: string; target?: string; before?: Id; limit?: number }
    reply: TrailEntry[]
  }
  "GET /logs": { reply: LogFile[] }
  "GET /logs/:filename": {
    params: { filename: string }
    query: Page & { search?: string; level?: string }
    reply: LogPage
  }

  "GET /tickets": { query: Page & { status_filter?: string }; reply: Ticket[] }
  "GET /tickets/:ticket_id": { params: { ticket_id: Id }; reply: Ticket }
  "PATCH /tickets/:ticket_id/status": { params: { ticket_id: Id }; body: { status: TicketStatus }; reply: Success }
  "GET /tickets/:ticket_id/notes": { params: { ticket_id: Id }; reply: TicketNote[] }
  "POST /tickets/:ticket_id/notes": { params: { ticket_id: Id }; body: { content: string }; reply: TicketNote }

  "GET /users/search": { query: Page & { q: string }; reply: { users: UserRow[] } }
  "GET /users/scheduled-deletions": { reply: { deletions: Deletion[] } }
  "GET /users/:user_id": ByUser<UserDetail>
  "PUT /users/:user_id/tier": ByUser<Success> & { body: { tier: string } }
  "POST /users/:user_id/badges/:badge": {
    params: { user_id: Id; badge: string }
    reply: { success: true; badges: string[] }
  }
  "DELETE /users/:user_id/badges/:badge": {
    params: { user_id: Id; badge: string }
    reply: { success: true; badges: string[] }
  }
  "GET /users/:user_id/notes": ByUser<{ user_id: Id; notes: string }>
  "POST /users/:user_id/notes": ByUser<Success> & { body: { notes: string } }
  "POST /users/:user_id/force-username-change": ByUser<Success> & { body: { ban_current: boolean; reason?: string } }
  "POST /users/:user_id/cancel-deletion": ByUser<Success>
  "POST /users/:user_id/delay-deletion": ByUser<Success> & { query: { deletion_at: Seconds } }
  "POST /users/:user_id/force-purge": ByUser<Success>
  "POST /security/force-logout": { body: { user_id: Id }; reply: Success }
  "POST /security/lock-user": {
    body: { user_id: Id; duration_seconds: number | null; reason?: string }
    reply: Success
  }
  "POST /security/unlock-user": { body: { user_id: Id }; reply: Success }
  "POST /security/logout-all": { reply: Success }
  "GET /api/v1/admin/tiers": { reply: { tiers: Record<string, unknown>; default: string } }
  "GET /api/v1/admin/badges": { reply: { badges: { name: string; display_name: string }[] } }

  "GET /security/blocked-ips": { reply: BlockedAddress[] }
  "POST /security/block-ip": {
    body: { ip_address: string; reason?: string; duration_hours?: number }
    reply: Success
  }
  "DELETE /security/unblock-ip/:ip_address*": { params: { ip_address: string }; reply: Success }
  "GET /security/banned-usernames": { reply: BannedName[] }
  "POST /security/banned-usernames": { body: { pattern: string; reason?: string; is_regex: boolean }; reply: Success }
  "DELETE /security/banned-usernames/:pattern_id": { params: { pattern_id: Id }; reply: Success }

  "GET /security/access-tokens": { query: { include_revoked: boolean }; reply: AccessToken[] }
  "POST /security/access-tokens": {
    body: { name?: string; description?: string; expires_at?: Seconds; scope_mode: ScopeMode }
    reply: { token: string; access_token: AccessToken }
  }
  "GET /security/access-tokens/:token_id": { params: { token_id: Id }; reply: AccessTokenDetail }
  "PATCH /security/access-tokens/:token_id": {
    params: { token_id: Id }
    body: { name?: string; description?: string; expires_at?: Seconds; clear_expiry?: boolean; scope_mode?: ScopeMode }
    reply: AccessToken
  }
  "POST /security/access-tokens/:token_id/rotate": {
    params: { token_id: Id }
    body: {}
    reply: { token: string; access_token: AccessToken }
  }
  "POST /security/access-tokens/:token_id/scopes": {
    params: { token_id: Id }
    body: { scope_type: "ip" | "cidr"; value: string }
    reply: Scope
  }
  "DELETE /security/access-tokens/:token_id/scopes/:scope_id": {
    params: { token_id: Id; scope_id: Id }
    reply: Success
  }
  "POST /security/access-tokens/:token_id/revoke": { params: { token_id: Id }; reply: Success }

  "GET /hash-reports": ReportList<HashReport>
  "GET /hash-reports/counts": { reply: { pending: number; blocked: number; cleared: number; total: number } }
  "POST /hash-reports/:report_id/review": ReviewCall<"block" | "clear" | "dismiss">
  "GET /message-reports": ReportList<MessageReport>
  "GET /message-reports/counts": { reply: ReportCounts }
  "GET /message-reports/:report_id/context": { params: { report_id: Id }; reply: ReportContext }
  "POST /message-reports/:report_id/review": ReviewCall<"action" | "dismiss" | "review">
  "GET /user-reports": ReportList<UserReport>
  "GET /user-reports/counts": { reply: ReportCounts }
  "POST /user-reports/:report_id/review": ReviewCall<"action" | "dismiss" | "review">

  "GET /blocked-hashes": { query: Page; reply: BlockedHash[] }
  "POST /blocked-hashes": { body: { hash_value: string; reason: string }; reply: Success }
  "DELETE /blocked-hashes/:hash_value": { params: { hash_value: string }; reply: Success }
  "GET /blocked-users": { query: Page; reply: BlockedUploader[] }
  "POST /blocked-users": { body: { user_id: Id; reason: string; duration_hours?: number }; reply: Success }
  "DELETE /blocked-users/:user_id": ByUser<Success>

  "GET /automod/rules": { query: { server_id: Id }; reply: Rule[] }
  "POST /automod/rules": { body: RuleDraft & { server_id: Id }; reply: Rule }
  "PATCH /automod/rules/:rule_id": { params: { rule_id: Id }; body: Partial<RuleDraft>; reply: Rule }
  "DELETE /automod/rules/:rule_id": { params: { rule_id: Id }; reply: Success }
  "POST /automod/test": {
    body: Pick<RuleDraft, "rule_type" | "config" | "actions"> & { text: string }
    reply: TestResult
  }
  "GET /automod/config": { reply: AutomodConfig }
  "PUT /automod/config": {
    body: { enabled?: boolean; ai?: Record<string, Record<string, unknown> | null> }
    reply: AutomodConfig
  }

  "GET /telemetry/stats": {
    query: { hours: number; endpoint?: string; source?: string }
    reply: { stats: EndpointStat[]; source: string }
  }
  "GET /telemetry/history": {
    query: { endpoint: string; method: string; hours: number; bucket_minutes: number }
    reply: { history: TelemetryPoint[] }
  }
  "POST /telemetry/reset": { reply: { success: boolean; deleted_count: number } }

  "GET /server-state": { reply: ServerState }
  "PUT /server-state": {
    body: { state: ServerState["state"]; message?: string; estimated_downtime_seconds?: number; restart_at?: Seconds }
    reply: ServerState
  }
}
