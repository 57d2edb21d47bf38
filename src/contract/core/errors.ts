/**
 * Every refusal the server can give. `status` is the HTTP status and the `code` of the body;
 * `message` is what a person reads; `retry` says whether the same request can succeed later without
 * a change by the caller.
 */
export const errors = {
  // The request itself
  bad_request: { status: 400, message: "Bad request", retry: false },
  repeated_header: { status: 400, message: "Repeated Content-Length header", retry: false },
  unsafe_text: { status: 400, message: "Text holds U+0000 or a lone surrogate", retry: false },
  request_timeout: { status: 408, message: "Request body took too long", retry: true },
  payload_too_large: { status: 413, message: "Payload too large", retry: false },
  validation_failed: { status: 422, message: "Validation failed", retry: false },
  not_found: { status: 404, message: "Not Found", retry: false },
  method_not_allowed: { status: 405, message: "Method Not Allowed", retry: false },
  rate_limited: { status: 429, message: "You are being rate limited", retry: true },
  too_many_failed_tokens: { status: 429, message: "Too many failed authentication attempts", retry: true },
  internal: { status: 500, message: "Internal server error", retry: true },
  unavailable: { status: 503, message: "Service temporarily unavailable", retry: true },
  database_not_available: { status: 500, message: "Database not available", retry: true },
  maintenance: { status: 503, message: "Server is under maintenance", retry: true },
  address_blocked: { status: 403, message: "Access denied: your IP address is blocked.", retry: false },

  // Who is asking
  authentication_required: { status: 401, message: "Authentication required", retry: false },
  missing_token: { status: 401, message: "Missing authentication token", retry: false },
  invalid_token: { status: 401, message: "Invalid token", retry: false },
  revoked_token: { status: 401, message: "Invalid/Revoked", retry: false },
  expired_token: { status: 401, message: "Expired", retry: false },
  unknown_token_type: { status: 401, message: "Unknown type", retry: false },
  multiple_authorization: { status: 401, message: "Multiple Authorization headers", retry: false },
  invalid_credentials: { status: 401, message: "Invalid credentials", retry: false },
  account_locked: { status: 403, message: "Account locked", retry: true },
  account_suspended: { status: 403, message: "Account suspended", retry: false },
  account_deleted: { status: 403, message: "Account scheduled for deletion", retry: false },
  username_change_required: { status: 403, message: "Username change required", retry: false },
  people_only: { status: 403, message: "Bots cannot do this", retry: false },
  administrator_only: { status: 403, message: "Admin access required", retry: false },
  access_token_required: { status: 401, message: "API access token required", retry: false },
  invalid_access_token: { status: 401, message: "Invalid API access token", retry: false },

  // Operators
  area_not_found: { status: 404, message: "Not found", retry: false },
  operator_session_ended: { status: 401, message: "Invalid or expired token", retry: false },
  operator_locked: { status: 429, message: "Too many login attempts", retry: true },
  invalid_operator_id: { status: 400, message: "Invalid admin ID", retry: false },
  invalid_operator_challenge: { status: 401, message: "Invalid or expired OTP challenge", retry: false },
  operator_not_found: { status: 401, message: "Admin user not found", retry: false },
  operator_otp_not_configured: { status: 401, message: "OTP not configured", retry: false },
  invalid_operator_code: { status: 401, message: "Invalid OTP code", retry: false },
  wrong_operator_password: { status: 400, message: "Incorrect current password", retry: false },
  operator_otp_not_enabled: { status: 400, message: "OTP is not enabled", retry: false },
  wrong_operator_code: { status: 400, message: "Invalid OTP or backup code", retry: false },
  operator_otp_required: { status: 400, message: "Enable OTP before generating backup codes", retry: false },
  log_file_not_found: { status: 404, message: "Log file not found", retry: false },
  unsupported_format: { status: 400, message: "Unsupported format", retry: false },
  telemetry_disabled: { status: 500, message: "Telemetry is disabled", retry: false },

  // Signing in
  email_not_verified: { status: 403, message: "Email not verified", retry: false },
  registered_unverified: { status: 401, message: "Email not verified", retry: false },
  invalid_challenge: { status: 401, message: "Invalid challenge", retry: false },
  used_challenge: { status: 401, message: "Expired/Used", retry: false },
  expired_challenge: { status: 401, message: "Expired", retry: false },
  invalid_second_factor: { status: 401, message: "Invalid 2FA code", retry: false },
  invalid_session_id: { status: 400, message: "Invalid session ID", retry: false },
  session_not_found: { status: 404, message: "Session not found", retry: false },

  // Second factors
  password_required: { status: 400, message: "Password required", retry: false },
  invalid_password: { status: 401, message: "Invalid password", retry: false },
  second_factor_enabled: { status: 409, message: "2FA is already enabled", retry: false },
  six_digits_required: { status: 400, message: "Valid 6-digit code required", retry: false },
  second_factor_not_started: { status: 400, message: "2FA setup not started", retry: false },
  invalid_code: { status: 401, message: "Invalid code", retry: false },
  second_factor_code_required: { status: 400, message: "2FA code required", retry: false },
  second_factor_not_enabled: { status: 400, message: "2FA is not enabled", retry: false },

  // Register
  user_exists: { status: 409, message: "Username or email already exists", retry: false },
  invalid_username: { status: 400, message: "Username may hold only letters, digits and underscores", retry: false },
  blocked_username: { status: 400, message: "This username is not allowed", retry: false },
  email_domain_not_allowed: { status: 400, message: "E-mail addresses of this domain are not allowed", retry: false },
  username_too_similar: { status: 400, message: "The new username is too similar to the present one", retry: false },
  reserved_username: { status: 400, message: "This username is reserved", retry: false },
  invalid_email: { status: 400, message: "Invalid email", retry: false },
  weak_password: { status: 400, message: "Weak password", retry: false },
  age_required: { status: 400, message: "Age is required", retry: false },
  birth_date_required: { status: 400, message: "Date of birth is required", retry: false },
  invalid_birth_date: { status: 400, message: "Date of birth must be a day in the form YYYY-MM-DD", retry: false },
  too_young: { status: 400, message: "You do not meet the minimum age", retry: false },

  // The account
  missing_current_password: { status: 400, message: "Missing current_password", retry: false },
  incorrect_current_password: { status: 403, message: "Incorrect current password", retry: false },
  too_many_email_changes: { status: 429, message: "Too many changes of the e-mail address", retry: true },
  username_required: { status: 400, message: "Username required", retry: false },
  setting_key_too_long: { status: 400, message: "Key too long", retry: false },
  setting_key_reserved: { status: 400, message: "Key reserved", retry: false },
  setting_value_too_long: { status: 400, message: "Value too long", retry: false },
  setting_limit: { status: 400, message: "Limit exceeded", retry: false },
  setting_invalid: { status: 400, message: "Invalid setting", retry: false },
  invalid_badge: { status: 400, message: "Invalid badge", retry: false },
  invalid_push_subscription: { status: 400, message: "Invalid push subscription", retry: false },
  push_subscription_limit: { status: 400, message: "Push subscription limit", retry: false },
  notification_settings_limit: { status: 400, message: "Notification settings limit", retry: false },
  bot_not_found: { status: 404, message: "Bot not found", retry: false },
  bot_limit: { status: 400, message: "Bot limit", retry: false },
  unknown_tier: { status: 400, message: "Invalid tier", retry: false },

  // The end of an account, and what is held of it
  wrong_password: { status: 400, message: "Incorrect password", retry: false },
  wrong_code: { status: 400, message: "Incorrect code", retry: false },
  fresh_sign_in_required: { status: 403, message: "Sign in again first", retry: false },
  owns_servers: { status: 400, message: "Hand the servers that you own over, or delete them, first", retry: false },
  export_pending: { status: 409, message: "An export is being made", retry: true },
  export_too_soon: { status: 429, message: "The latest export is too young", retry: true },
  export_not_ready: { status: 409, message: "The export is not ready", retry: true },
  export_not_found: { status: 404, message: "Export not found", retry: false },
  export_part_not_found: { status: 404, message: "Export part not found", retry: false },

  // Signing in through others
  password_login_disabled: { status: 403, message: "Sign in through a provider of this server", retry: false },
  passkeys_disabled: { status: 403, message: "Passkeys are not available on this server", retry: false },
  passkey_refused: { status: 401, message: "This passkey cannot sign in", retry: false },
  passkey_unverified: { status: 400, message: "The passkey could not be verified", retry: false },
  passkey_exists: { status: 409, message: "This passkey is registered already", retry: false },
  passkey_limit: { status: 400, message: "Passkey limit", retry: false },
  passkey_not_found: { status: 404, message: "Passkey not found", retry: false },
  invalid_passkey_id: { status: 400, message: "Invalid passkey ID", retry: false },
  oauth_provider_unsupported: { status: 400, message: "Unsupported OAuth provider", retry: false },
  oauth_not_configured: { status: 503, message: "OAuth not configured", retry: false },
  oauth_redirect_refused: { status: 400, message: "redirect_uri is not allowed", retry: false },
  too_many_oauth_requests: { status: 429, message: "Too many pending OAuth requests", retry: true },
  oauth_state_refused: {
    status: 400,
    message: "Security verification failed: the state is unknown, used, expired or of another sign-in",
    retry: false,
  },
  pkce_verifier_required: { status: 400, message: "PKCE code_verifier required", retry: false },
  pkce_failed: { status: 400, message: "PKCE verification failed", retry: false },
  oauth_failed: { status: 401, message: "Authentication failed", retry: false },
  oauth_unidentified: { status: 401, message: "Could not identify user", retry: false },
  oauth_unavailable: { status: 503, message: "The OAuth provider does not answer", retry: true },
  oauth_email_unverified: { status: 400, message: "The provider has not verified your e-mail address", retry: false },
  oauth_email_unconfirmed: {
    status: 400,
    message: "Your e-mail address belongs to an account that never confirmed it: reset its password by mail first",
    retry: false,
  },

  // Ids in paths
  invalid_id: { status: 400, message: "Invalid ID", retry: false },
  invalid_user_id: { status: 400, message: "Invalid user ID", retry: false },
  invalid_server_id: { status: 400, message: "Invalid server ID", retry: false },
  invalid_channel_id: { status: 400, message: "Invalid channel ID", retry: false },
  invalid_subscription_id: { status: 400, message: "Invalid subscription ID", retry: false },
  invalid_notification_id: { status: 400, message: "Invalid notification ID", retry: false },
  invalid_emoji_id: { status: 400, message: "Invalid emoji ID", retry: false },
  invalid_message_id: { status: 400, message: "Invalid message ID", retry: false },
  invalid_poll_id: { status: 400, message: "Invalid poll ID", retry: false },
  invalid_webhook_id: { status: 400, message: "Invalid webhook ID", retry: false },

  // Things that are not there
  user_not_found: { status: 404, message: "User not found", retry: false },
  server_not_found: { status: 404, message: "Server not found", retry: false },
  channel_not_found: { status: 404, message: "Channel not found", retry: false },
  direct_exists: { status: 409, message: "There is such a conversation already", retry: false },
  invalid_cursor: { status: 400, message: "Invalid cursor", retry: false },
  message_not_found: { status: 404, message: "Message not found", retry: false },
  member_not_found: { status: 404, message: "Member not found", retry: false },
  role_not_found: { status: 404, message: "Role not found", retry: false },
  member_or_role_not_found: { status: 404, message: "Member or role not found", retry: false },
  override_not_found: { status: 404, message: "Override not found", retry: false },
  ban_not_found: { status: 404, message: "Ban not found", retry: false },
  server_or_user_not_found: { status: 404, message: "Server or user not found", retry: false },
  emoji_not_found: { status: 404, message: "Emoji not found", retry: false },
  sticker_not_found: { status: 404, message: "Sticker not found", retry: false },
  invite_not_found: { status: 404, message: "Invite not found or expired", retry: false },
  friend_request_not_found: { status: 404, message: "Friend request not found", retry: false },
  notification_not_found: { status: 404, message: "Notification not found", retry: false },
  push_subscription_not_found: { status: 404, message: "Push subscription not found", retry: false },
  setting_not_found: { status: 404, message: "Setting not found", retry: false },
  webhook_not_found: { status: 404, message: "Webhook not found", retry: false },
  relationship_not_found: { status: 404, message: "Relationship not found", retry: false },

  // Not allowed
  access_denied: { status: 403, message: "Access denied", retry: false },
  permission_denied: { status: 403, message: "Permission denied", retry: false },
  timed_out: { status: 403, message: "You are timed out in this server", retry: true },
  not_owner: { status: 403, message: "Not owner", retry: false },
  owner_cannot_leave: { status: 403, message: "Owners cannot leave", retry: false },
  rank_too_low: { status: 403, message: "Your highest role does not rank above this", retry: false },
  default_role: { status: 403, message: "@everyone keeps its name and place", retry: false },
  bot_role: { status: 403, message: "This role is a bot's own", retry: false },
  administrator_timeout: { status: 403, message: "Administrators cannot be timed out", retry: false },
  banned: { status: 403, message: "You are banned from this server", retry: false },
  bot_banned: { status: 403, message: "The bot is banned from this server", retry: false },
  not_author: { status: 403, message: "Can only edit own messages", retry: false },
  cannot_delete_message: { status: 403, message: "Cannot delete this message", retry: false },

  // Servers, channels, invites
  server_limit: { status: 400, message: "Server limit", retry: false },
  bot_share_limit: { status: 400, message: "The bot is in as many servers of this owner as it may be", retry: false },
  too_many_servers: { status: 400, message: "You are in as many servers as you can be", retry: false },
  invalid_default_channel: {
    status: 400,
    message: "default_channel_id is not a channel of this server that holds messages",
    retry: false,
  },
  invalid_new_owner: { status: 400, message: "Only another member who is a person can become the owner", retry: false },
  channel_limit: { status: 400, message: "Channel limit", retry: false },
  role_limit: { status: 400, message: "Role limit", retry: false },
  override_limit: { status: 400, message: "Override limit", retry: false },
  invite_limit: { status: 400, message: "Invite limit", retry: false },
  member_limit: { status: 400, message: "Member limit", retry: false },
  invalid_timeout: {
    status: 400,
    message: "timeout_until must be in the future, at most 28 days from now",
    retry: false,
  },
  invalid_category: {
    status: 400,
    message: "category_id is not a category of this server, or the channel is a category itself",
    retry: false,
  },
  already_member: { status: 409, message: "Already a member of this server", retry: false },

  // Webhooks
  webhook_limit: { status: 400, message: "Webhook limit", retry: false },
  invalid_webhook_token: { status: 401, message: "Invalid webhook token", retry: false },
  webhook_suspended: {
    status: 403,
    message: "The holder of this webhook may no longer manage webhooks here",
    retry: false,
  },
  private_address: { status: 400, message: "Addresses of private networks are not allowed", retry: false },
  too_many_embeds: { status: 400, message: "At most 10 embeds", retry: false },

  // Friends and blocks
  self_request: { status: 400, message: "You cannot befriend yourself", retry: false },
  self_block: { status: 400, message: "You cannot block yourself", retry: false },
  relationship_blocked: { status: 403, message: "Blocked", retry: false },
  relationship_exists: { status: 409, message: "Already friends, or already requested", retry: false },
  already_blocked: { status: 409, message: "User is already blocked", retry: false },
  relationship_limit: { status: 400, message: "Relationship limit", retry: false },

  invalid_status: {
    status: 400,
    message: "Invalid status: it must be one of online, idle, dnd, invisible, offline",
    retry: false,
  },

  // Conversations outside servers
  recipient_required: { status: 400, message: "recipient_id required", retry: false },
  invalid_recipient_id: { status: 400, message: "Invalid recipient ID", retry: false },
  self_message: { status: 400, message: "You cannot message yourself: your notes are for that", retry: false },
  cannot_message: { status: 403, message: "Cannot message this user", retry: false },

  // Messages
  empty_message: { status: 400, message: "Empty message", retry: false },
  invalid_content: { status: 400, message: "Invalid message content", retry: false },
  not_a_voice_channel: { status: 400, message: "Not a voice channel", retry: false },
  not_a_text_channel: { status: 400, message: "Messages live in text channels", retry: false },
  slowmode: { status: 429, message: "Slow mode is on", retry: true },
  too_many_attachments: { status: 400, message: "At most 10 attachments", retry: false },
  invalid_attachment: {
    status: 400,
    message: "An attachment has to be a file that you uploaded and that is still there",
    retry: false,
  },
  invalid_emoji: { status: 400, message: "Invalid emoji", retry: false },
  reaction_limit: { status: 400, message: "Reaction limit", retry: false },
  pin_limit: { status: 400, message: "Pin limit", retry: false },
  search_busy: { status: 429, message: "Search is busy", retry: true },

  message_blocked: { status: 400, message: "Message blocked by auto-moderation", retry: false },

  // Polls
  poll_not_found: { status: 404, message: "Poll not found", retry: false },
  poll_exists: { status: 409, message: "The message has a poll already", retry: false },
  not_poll_creator: { status: 403, message: "Only the creator of the poll can do this", retry: false },
  poll_ended: { status: 400, message: "The poll has ended", retry: false },
  empty_vote: { status: 400, message: "Choose an option", retry: false },
  unknown_option: { status: 400, message: "Not an option of this poll", retry: false },
  single_choice: { status: 400, message: "Only one option can be chosen", retry: false },

  // Auto-moderation
  invalid_automod_type: { status: 400, message: "Invalid rule type", retry: false },
  invalid_automod_config: { status: 400, message: "Invalid rule config", retry: false },
  invalid_automod_action: { status: 400, message: "Invalid rule action", retry: false },
  automod_target_not_found: { status: 400, message: "Not a role or a channel of this server", retry: false },
  automod_limit: { status: 400, message: "Auto-moderation rule limit", retry: false },
  automod_rule_not_found: { status: 404, message: "Rule not found in this server", retry: false },
  operator_rule_not_found: { status: 404, message: "Rule not found", retry: false },
  no_classifier: { status: 400, message: "No such classifier is set up", retry: false },
  invalid_automod_settings: { status: 400, message: "Invalid auto-moderation settings", retry: false },

  // Files of messages
  file_over_limit: { status: 400, message: "File size exceeds limit", retry: false },
  empty_file: { status: 400, message: "The file is empty", retry: false },
  file_type_not_allowed: { status: 400, message: "File type not allowed", retry: false },
  file_type_mismatch: { status: 400, message: "The file is not of the type that it is said to be", retry: false },
  file_blocked: { status: 400, message: "This file is blocked", retry: false },
  uploads_blocked: { status: 403, message: "You are blocked from uploading files", retry: true },
  upload_limit: { status: 429, message: "You have uploaded as many files today as you may", retry: true },
  too_many_upload_sessions: { status: 429, message: "Too many open upload sessions", retry: true },
  upload_session_expired: { status: 404, message: "Session expired", retry: false },
  unknown_upload_session: { status: 400, message: "Session not found", retry: false },
  invalid_chunk_index: { status: 400, message: "Invalid chunk index", retry: false },
  wrong_chunk_size: { status: 400, message: "Wrong chunk size", retry: false },
  checksum_mismatch: { status: 400, message: "Checksum mismatch", retry: false },
  chunks_missing: { status: 400, message: "Chunks are missing", retry: false },
  report_limit: { status: 429, message: "Too many of your reports wait for review", retry: true },
  report_not_found: { status: 404, message: "Report not found", retry: false },
  ticket_not_found: { status: 404, message: "Ticket not found", retry: false },
  ticket_note_limit: { status: 400, message: "The ticket has as many notes as it may have", retry: false },
  cannot_report_yourself: { status: 400, message: "Cannot report yourself", retry: false },
  feedback_limit: { status: 429, message: "You have sent as much feedback as you may for now", retry: true },
  feedback_disabled: { status: 503, message: "Feedback is switched off", retry: false },
  invalid_filename: { status: 400, message: "Invalid filename", retry: false },
  file_not_found: { status: 404, message: "File not found", retry: false },
  file_access_denied: { status: 403, message: "Access denied to this file", retry: false },
  range_not_satisfiable: { status: 416, message: "The file does not reach that far", retry: false },

  // Files, emoji, stickers
  file_too_large: { status: 400, message: "File too large", retry: false },
  invalid_file: { status: 400, message: "Invalid file type, or the file is damaged", retry: false },
  picture_too_large: { status: 400, message: "The picture has too many pixels or frames", retry: false },
  invalid_emoji_name: { status: 400, message: "Emoji names have 2 to 32 of a to z, 0 to 9 and _", retry: false },
  emoji_exists: { status: 409, message: "Emoji with this name already exists", retry: false },
  emoji_limit: { status: 400, message: "Emoji limit", retry: false },
  sticker_limit: { status: 400, message: "Sticker limit", retry: false },

  // What operators do about users, addresses and access tokens
  not_scheduled_for_deletion: { status: 400, message: "Account is not scheduled for deletion", retry: false },
  deletion_in_the_past: { status: 400, message: "deletion_at must be in the future", retry: false },
  invalid_ip_address: { status: 400, message: "Invalid IP address", retry: false },
  address_not_blockable: { status: 400, message: "Cannot block this address", retry: false },
  address_block_limit: { status: 400, message: "Too many blocked addresses", retry: false },
  invalid_pattern: { status: 400, message: "Invalid pattern", retry: false },
  pattern_exists: { status: 409, message: "Pattern already exists", retry: false },
  banned_username_limit: { status: 400, message: "Too many banned usernames", retry: false },
  bot_rename: { status: 400, message: "Bots cannot choose a name", retry: false },
  invalid_access_token_value: { status: 400, message: "Invalid value", retry: false },
  access_token_exists: { status: 409, message: "API access token already exists", retry: false },
  access_token_limit: { status: 400, message: "Too many API access tokens", retry: false },
  access_token_not_found: { status: 404, message: "Access token not found", retry: false },
  access_token_scope_limit: { status: 400, message: "Too many scopes", retry: false },
  access_token_scope_not_found: { status: 404, message: "Access token scope not found", retry: false },

  // Pictures of text
  qr_data_required: { status: 400, message: "Data is required", retry: false },
  qr_data_too_long: { status: 400, message: "Data does not fit into a QR code", retry: false },

  // Versions
  invalid_version_format: { status: 400, message: "Invalid version format", retry: false },
  version_outdated: { status: 426, message: "Client update required", retry: false },
} as const satisfies Record<string, { status: number; message: string; retry: boolean }>

export type ErrorCode = keyof typeof errors

/**
 * Facts that make a refusal precise. `message` replaces the table's text; `retry_after` is in
 * seconds; the rest goes into the body's `error`.
 */
export interface FailureDetails {
  message?: string
  permission?: string
  retry_after?: number
  extra?: Record<string, unknown>
  issues?: ValidationIssue[]
  /** Of the response. */
  headers?: Record<string, string>
}
export interface ValidationIssue {
  loc: (string | number)[]
  msg: string
  type: string
}

/**
 * An expected refusal. It crosses the bus as `{ code, details }`. HTTP and the gateway each turn it
 * into a response in one place.
 */
export class Failure extends Error {
  readonly code: ErrorCode
  readonly details: FailureDetails
  constructor(code: ErrorCode, details: FailureDetails = {}, options?: ErrorOptions) {
    super(
      details.message ??
        (details.permission ? `Missing required permission: ${details.permission}` : errors[code].message),
      options,
    )
    this.code = code
    this.details = details
  }
}

export const fail = (code: ErrorCode, details?: FailureDetails, options?: ErrorOptions) =>
  new Failure(code, details, options)

/** A refusal of another worker, which may be newer: one with a code that is not known here is told as a plain 400. */
export const failureOf = (code: ErrorCode, details?: FailureDetails): Failure =>
  fail(Object.hasOwn(errors, code) ? code : "bad_request", details)

/**
 * The refusal that says "not now": nothing was decided, or the outcome is unknown; the same request
 * may be sent again.
 */
export const unavailable = (why: string, retryAfterSeconds = 1, options?: ErrorOptions) =>
  fail("unavailable", { retry_after: retryAfterSeconds, extra: { reason: why } }, options)
