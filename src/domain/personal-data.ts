/**
 * What is held about a person, table by table: what an export gives, what it leaves out and why, and what a purge does. Every
 * table stands here or among `otherTables`; tests/export.test.ts compares both with the database, tests/account-deletion.test.ts
 * looks at what a purge has left. Told to people in docs/operate/privacy.md.
 */
export interface PersonalTable {
  /** Where the name here is another than the table's. */
  readonly table?: string
  /** Rows in which any of these columns is the user; `names`: rows under his id or a name of his, see failed-logins.ts. */
  readonly his: readonly string[] | "names"
  /** Unique, with types: rows are read in its order. */
  readonly key: Readonly<Record<string, "bigint" | "integer" | "text" | "inet">>
  /** Columns that an export gives. */
  readonly given: readonly string[]
  /** Columns that it does not give. */
  readonly leftOut?: Readonly<Record<string, string>>
  /** Keys that it does not give of columns that hold JSON. */
  readonly leftOutOf?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Columns that name him in rows of others. What they hold is the others', so an export does not give it. */
  readonly othersRows?: Readonly<Record<string, string>>
  /**
   * `erased`: rows in which he is any of `his` or `othersRows` go. `ended`: they go, too, by commands of the homes that decide
   * about them, so that others are told, or with the files that they name. `kept`: they stay and say no more of him than the id of a stub. `stub`: the account
   * itself, of which nothing is left but that.
   */
  readonly atPurge: "erased" | "ended" | "kept" | "stub"
}

const nameOfFile = "What the file is kept under; its picture is at the address of its id"
const provesNothing = "Secret that proves who somebody is: worth something to a thief only"

const account = [
  "id",
  "username",
  "email",
  "created_at",
  "email_verified",
  "email_confirmed",
  "age_verified",
  "badges",
  "tier",
  "tier_expires_at",
  "tier_notes",
  "bot",
  "owner_id",
  "permissions",
  "locked_until",
  "lock_reason",
  "must_rename",
  "rename_reason",
  "deletion_status",
  "deletion_at",
  "totp_enabled",
]
const accountSecrets = {
  password_hash: provesNothing,
  totp_secret: provesNothing,
  totp_step: "Time of the latest code, in steps of 30 seconds: part of the secret's keeping",
  backup_codes: provesNothing,
}

/** In the order in which an export gives them. */
export const personalTables: Readonly<Record<string, PersonalTable>> = {
  users: { his: ["id"], key: { id: "bigint" }, given: account, leftOut: accountSecrets, atPurge: "stub" },
  bots: {
    table: "users",
    his: ["owner_id"],
    key: { id: "bigint" },
    given: account,
    leftOut: accountSecrets,
    atPurge: "stub",
  },
  sessions: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: ["id", "user_id", "ip_address", "user_agent", "created_at", "expires_at", "last_activity"],
    leftOut: { token_hash: provesNothing },
    atPurge: "erased",
  },
  failed_logins: {
    his: "names",
    key: { name: "text" },
    given: ["name", "failures", "locked_until", "last_at"],
    atPurge: "erased",
  },
  one_time_tokens: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: ["id", "user_id", "kind", "email", "failures", "expires_at"],
    leftOut: { token_hash: provesNothing },
    atPurge: "erased",
  },
  mails: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: ["id", "user_id", "kind", "number", "asked_at", "tried_at", "sent_at"],
    atPurge: "erased",
  },
  external_accounts: {
    his: ["user_id"],
    key: { provider: "text", issuer: "text", subject: "text" },
    given: ["provider", "issuer", "subject", "user_id", "linked_at"],
    atPurge: "erased",
  },
  settings: {
    his: ["user_id"],
    key: { user_id: "bigint", key: "text" },
    given: ["user_id", "key", "value", "created_at", "updated_at"],
    atPurge: "erased",
  },
  messaging_settings: {
    his: ["user_id"],
    key: { user_id: "bigint" },
    given: [
      "user_id",
      "read_receipts_enabled",
      "typing_indicators_enabled",
      "compact_messages_enabled",
      "allow_dms_from",
      "auto_create_dms",
    ],
    atPurge: "erased",
  },
  presences: {
    his: ["user_id"],
    key: { user_id: "bigint" },
    given: ["user_id", "status", "custom_status", "custom_emoji", "activities", "last_seen"],
    atPurge: "erased",
  },
  deliveries: {
    his: ["user_id"],
    key: { user_id: "bigint" },
    given: ["user_id", "guild_ms", "direct_ms"],
    atPurge: "erased",
  },
  relationships: {
    his: ["user_id"],
    key: { user_id: "bigint", other_id: "bigint" },
    given: ["user_id", "other_id", "status", "message", "created_at"],
    othersRows: { other_id: "What others made of him, such as a block, is theirs to know" },
    atPurge: "ended",
  },
  notifications: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: [
      "id",
      "user_id",
      "type",
      "title",
      "content",
      "content_preview",
      "link",
      "sender_id",
      "read",
      "created_at",
      "channel_id",
      "message_id",
    ],
    othersRows: { sender_id: "What others were told because of him is in their lists" },
    atPurge: "erased",
  },
  servers: {
    his: ["owner_id"],
    key: { id: "bigint" },
    given: [
      "id",
      "name",
      "description",
      "icon_url",
      "owner_id",
      "member_count",
      "default_channel_id",
      "verification_level",
      "default_message_notifications",
      "public",
      "category",
      "created_at",
    ],
    atPurge: "ended",
  },
  members: {
    his: ["user_id"],
    key: { server_id: "bigint", user_id: "bigint" },
    given: [
      "server_id",
      "user_id",
      "joined_at",
      "nickname",
      "roles",
      "timeout_until",
      "timeout_reason",
      "temporary",
      "since_id",
    ],
    atPurge: "ended",
  },
  left_timeouts: {
    his: ["user_id"],
    key: { server_id: "bigint", user_id: "bigint" },
    given: ["server_id", "user_id", "timeout_until", "timeout_reason"],
    atPurge: "erased",
  },
  message_deletions: {
    his: ["user_id"],
    key: { server_id: "bigint", user_id: "bigint", before_id: "bigint" },
    given: ["server_id", "user_id", "after_id", "before_id"],
    atPurge: "erased",
  },
  notification_settings: {
    his: ["user_id"],
    key: { user_id: "bigint", server_id: "bigint", channel_id: "bigint" },
    given: ["user_id", "server_id", "channel_id", "level", "muted", "muted_until"],
    atPurge: "erased",
  },
  audit_log: {
    his: ["user_id"],
    key: { server_id: "bigint", id: "bigint" },
    given: [
      "server_id",
      "id",
      "user_id",
      "action",
      "target_type",
      "target_id",
      "target_name",
      "changes",
      "reason",
      "created_at",
    ],
    othersRows: { target_id: "What others did to him is part of what they did" },
    atPurge: "kept",
  },
  webhooks: {
    his: ["creator_id"],
    key: { id: "bigint" },
    given: ["id", "server_id", "channel_id", "creator_id", "name", "avatar_url", "created_at"],
    leftOut: { token_hash: provesNothing },
    atPurge: "kept",
  },
  emojis: {
    his: ["created_by"],
    key: { id: "bigint" },
    given: ["id", "server_id", "name", "animated", "content_type", "hash", "size", "created_by", "created_at"],
    leftOut: { file: nameOfFile },
    atPurge: "kept",
  },
  stickers: {
    his: ["created_by"],
    key: { id: "bigint" },
    given: [
      "id",
      "pack_id",
      "server_id",
      "name",
      "format",
      "tags",
      "related_emoji",
      "content_type",
      "hash",
      "size",
      "width",
      "height",
      "uses",
      "created_by",
      "created_at",
    ],
    leftOut: { file: nameOfFile },
    atPurge: "kept",
  },
  automod_rules: {
    his: ["created_by", "updated_by"],
    key: { id: "bigint" },
    given: [
      "id",
      "server_id",
      "name",
      "rule_type",
      "config",
      "actions",
      "applied_roles",
      "exempt_roles",
      "exempt_channels",
      "priority",
      "check_all",
      "enabled",
      "created_at",
      "updated_at",
      "created_by",
      "updated_by",
    ],
    atPurge: "kept",
  },
  automod_violations: {
    his: ["user_id"],
    key: { server_id: "bigint", id: "bigint" },
    given: [
      "server_id",
      "id",
      "user_id",
      "channel_id",
      "rule_id",
      "rule_type",
      "matched_content",
      "severity",
      "actions_taken",
      "metadata",
      "created_at",
    ],
    atPurge: "erased",
  },
  bans: {
    his: ["user_id"],
    key: { server_id: "bigint", user_id: "bigint" },
    given: ["server_id", "user_id", "reason", "banned_by", "banned_at"],
    atPurge: "ended",
  },
  bans_given: {
    table: "bans",
    his: ["banned_by"],
    key: { server_id: "bigint", user_id: "bigint" },
    given: ["server_id", "user_id", "reason", "banned_by", "banned_at"],
    atPurge: "kept",
  },
  channel_overrides: {
    his: ["target_id"],
    key: { channel_id: "bigint", target_id: "bigint" },
    given: ["channel_id", "target_id", "server_id", "type", "allow", "deny"],
    atPurge: "ended",
  },
  invites: {
    his: ["inviter_id"],
    key: { code: "text" },
    given: [
      "code",
      "server_id",
      "channel_id",
      "inviter_id",
      "max_age",
      "max_uses",
      "temporary",
      "uses",
      "created_at",
      "expires_at",
    ],
    atPurge: "kept",
  },
  voice_states: {
    his: ["user_id"],
    key: { server_id: "bigint", user_id: "bigint" },
    given: [
      "server_id",
      "user_id",
      "channel_id",
      "voice_session_id",
      "gateway_session_id",
      "self_mute",
      "self_deaf",
      "self_video",
      "self_stream",
      "suppress",
      "joined_at",
    ],
    leftOut: { worker: "Which process of the server holds the call: nothing about the person" },
    atPurge: "ended",
  },
  voice_calls: {
    his: ["user_id"],
    key: { user_id: "bigint" },
    given: ["user_id", "server_id", "channel_id", "voice_session_id", "began_at", "ends_at"],
    atPurge: "erased",
  },
  voice_usage: {
    his: ["user_id"],
    key: { user_id: "bigint", day: "integer" },
    given: ["user_id", "day", "seconds"],
    atPurge: "erased",
  },
  exports: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: ["id", "user_id", "requested_at", "attempt", "worked_at", "ready_at", "expires_at"],
    atPurge: "erased",
  },
  operator_requests: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: [
      "id",
      "kind",
      "user_id",
      "message",
      "until_id",
      "asked_at",
      "attempts",
      "done_at",
      "ended",
      "refusal",
      "failed",
    ],
    leftOut: {
      taken_by: "Which process of the server did it: nothing about the person",
      taken_until: "Until when that process had time: nothing about the person",
    },
    atPurge: "erased",
  },
  operator_commands: {
    his: ["user_id"],
    key: { id: "bigint" },
    given: ["id", "user_id", "command", "input", "asked_at", "attempts", "done_at", "refusal"],
    leftOutOf: { input: { token_hash: provesNothing } },
    leftOut: {
      answer: "What the operator was told; the new token of a bot is none of anybody else's",
      begun: "How far a process of the server had got: nothing about the person",
      taken_by: "Which process of the server did it: nothing about the person",
      taken_until: "Until when that process had time: nothing about the person",
    },
    atPurge: "erased",
  },
  uploads: {
    his: ["user_id"],
    key: { file: "text" },
    given: ["file", "user_id", "filename", "content_type", "size", "hash", "created_at", "keep_until"],
    atPurge: "ended",
  },
  upload_counts: {
    his: ["user_id"],
    key: { user_id: "bigint", day: "integer" },
    given: ["user_id", "day", "files"],
    atPurge: "erased",
  },
  address_blocks: {
    his: ["blocked_by"],
    key: { address: "inet" },
    given: ["address", "reason", "blocked_at", "blocked_by", "expires_at"],
    atPurge: "kept",
  },
  reactors: {
    his: ["user_id"],
    key: { channel_id: "bigint", message_id: "bigint", emoji: "text", user_id: "bigint" },
    given: ["channel_id", "message_id", "emoji", "user_id", "reacted_at"],
    atPurge: "erased",
  },
  read_states: {
    his: ["user_id"],
    key: { channel_id: "bigint", user_id: "bigint" },
    given: ["channel_id", "user_id", "since_id", "message_id", "visible_id", "gaps"],
    atPurge: "erased",
  },
  direct_channels: {
    his: ["user_id", "other_id"],
    key: { id: "bigint" },
    given: ["id", "channel_type", "user_id", "other_id", "created_at"],
    // But for those that nobody can read any more: they go with what was said in them.
    atPurge: "kept",
  },
  poll_votes: {
    his: ["user_id"],
    key: { poll_id: "bigint", user_id: "bigint" },
    given: ["poll_id", "user_id", "option_ids"],
    // The poll goes on counting them, as those of nobody.
    atPurge: "erased",
  },
  messages: {
    his: ["author_id"],
    key: { channel_id: "bigint", id: "bigint" },
    given: [
      "channel_id",
      "id",
      "server_id",
      "author_id",
      "content",
      "edited_at",
      "reply_to_id",
      "nonce",
      "deleted",
      "webhook_id",
      "webhook_name",
      "webhook_avatar_url",
      "embeds",
      "attachments",
      "poll",
      "pinned_at",
    ],
    leftOut: { reactions: "What others made of it is theirs; what he reacted with himself is in reactors" },
    atPurge: "kept",
  },
}

/** Tables that hold nothing about a person, and columns of theirs that look as if they did. */
export const otherTables: Readonly<
  Record<string, { readonly why: string; readonly columns?: Readonly<Record<string, string>> }>
> = {
  access_tokens: { why: "Keys to the whole API, of programs" },
  channels: { why: "They are a server's" },
  delivery_bounds: { why: "Processes of the server" },
  export_parts: { why: "The export itself; it goes with its row of exports" },
  incarnations: { why: "Processes of the server" },
  lanes: { why: "Processes of the server" },
  message_mentions: { why: "Whom messages call that say so themselves; gone once they are notified, within minutes" },
  message_search: { why: "What messages are found by, made of them at any time; it goes with them" },
  message_search_backlog: { why: "Which messages are to be read for searches; gone within minutes" },
  message_search_rebuild: { why: "How far the making of message_search has come" },
  message_tallies: {
    why: "How many messages stretches of a channel hold, counted from these, which are given",
    columns: { author_id: "Whose are counted: the messages say so themselves, and no index leads to his alone" },
  },
  migrations: { why: "What the database looks like" },
  oauth_states: {
    why: "Sign-ins under way at a provider, of nobody known yet; gone after ten minutes",
    columns: { address: "Counts how many one address has begun" },
  },
  outbox: { why: "Events on their way; gone seconds after they have arrived, but for the newest of each shard" },
  pins: { why: "Which messages are pinned; these say so themselves" },
  polls: { why: "Where polls are; what they say stands with their messages" },
  redis_origin: { why: "Which Redis the cluster began with" },
  roles: { why: "They are a server's" },
  sticker_packs: { why: "They are a server's" },
  server_icons: { why: "They are a server's" },
  service: { why: "What is so for the service as a whole" },
  shards: { why: "Which process owns what" },
  upload_uses: { why: "Which messages show which files; they go with either" },
  unused_files: { why: "Names of files that nothing leads to; gone within hours" },
  tells_seen: { why: "Numbers of words between processes; gone after a day" },
}

/** What a name of an account that was purged begins with. Nobody else may have such a name. */
export const erasedName = (id: string, suffix = ""): string => `deleted_user_${id}${suffix}`
export const isErasedName = (name: string): boolean => /^deleted_user_\d/i.test(name)

/** What an export does not hold, as it says itself. */
export const leftOutOfExports: readonly { readonly name: string; readonly column: string; readonly reason: string }[] =
  Object.entries(personalTables).flatMap(([name, { leftOut = {}, leftOutOf = {}, othersRows = {} }]) => [
    ...Object.entries(leftOutOf).flatMap(([column, keys]) =>
      Object.entries(keys).map(([key, reason]) => ({ name, column: `${column}.${key}`, reason })),
    ),
    ...Object.entries(leftOut).map(([column, reason]) => ({ name, column, reason })),
    ...Object.entries(othersRows).map(([column, reason]) => ({ name, column, reason })),
  ])
