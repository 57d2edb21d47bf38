import postgres from "postgres"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import type { Server } from "../../src/contract/communities/servers.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { compareIds } from "../../src/domain/core/snowflake.ts"
import type { BanState, MemberState, RoleState } from "../../src/domain/communities/servers.ts"
import type { ChannelState } from "../../src/domain/core/channels.ts"
import type { CallState, VoiceState } from "../../src/domain/voice/voice.ts"
import type { InviteState } from "../../src/domain/communities/invites.ts"
import type { deleteBan, putBan } from "../../src/storage/communities/bans.ts"
import type {
  deleteChannel,
  forgetChannel,
  insertChannel,
  placeChannel,
  updateChannel,
} from "../../src/storage/communities/channels.ts"
import type { DeliveryRow } from "../../src/storage/messages/deliveries.ts"
import type { eraseAccount } from "../../src/storage/account-deletion.ts"
import type { ExportRow, putExport } from "../../src/storage/accounts/exports.ts"
import type { updateMember } from "../../src/storage/communities/guild-members.ts"
import type {
  deleteInvite,
  endInvite,
  forgetEndedInvites,
  insertInvite,
  setInviteUses,
} from "../../src/storage/communities/invites.ts"
import type { OutboxRow } from "../../src/storage/core/lanes.ts"
import {
  nonceKey,
  type deleteMessage,
  type insertMessage,
  type MessageRow,
  type updateContent,
} from "../../src/storage/messages/messages.ts"
import type {
  ExternalAccountRow,
  insertExternalAccount,
  unlinkExternalAccounts,
} from "../../src/storage/accounts/oauth.ts"
import type {
  deleteOneTimeToken,
  OneTimeTokenRow,
  putOneTimeToken,
} from "../../src/storage/accounts/one-time-tokens.ts"
import type { deleteOverride, OverrideRow, putOverride } from "../../src/storage/communities/overrides.ts"
import type { IncarnationRow, ShardRow } from "../../src/storage/core/placement.ts"
import type { PresenceRow, putPresence } from "../../src/storage/social/presences.ts"
import type { deleteRelationship, putRelationship, RelationshipRow } from "../../src/storage/social/relationships.ts"
import type {
  deleteMember,
  deleteRole,
  deleteServer,
  insertMember,
  insertRole,
  insertServer,
  setMemberCount,
  setMemberRoles,
  updateRole,
  updateServer,
} from "../../src/storage/communities/servers.ts"
import type { deleteSession, insertSession, SessionRow, touchSession } from "../../src/storage/accounts/sessions.ts"
import type { MessagingRow, putMessagingSettings } from "../../src/storage/accounts/messaging-settings.ts"
import type {
  insertNotification,
  markAllNotificationsRead,
  markNotificationsRead,
  NotificationRow,
} from "../../src/storage/accounts/notifications.ts"
import type { deleteSetting, putSetting, SettingRow } from "../../src/storage/accounts/settings.ts"
import type { markTell, TellMark } from "../../src/storage/core/tells.ts"
import type { forgetLastLogin, insertUser, updateUser, UserRow } from "../../src/storage/accounts/users.ts"
import type {
  addVoiceUsage,
  deleteVoiceCall,
  deleteVoiceState,
  putVoiceCall,
  putVoiceState,
} from "../../src/storage/voice/voice.ts"
import type { Write } from "../../src/storage/core/write.ts"

type Constraint<Row> = string | ((row: Row) => string)

interface Schema<Row> {
  readonly primary: { readonly constraint: Constraint<Row>; readonly key: (row: Row) => string }
  /** Unique indexes in the order in which PostgreSQL looks at them; a row without a key is not in the index. */
  readonly unique?: Readonly<
    Record<string, { readonly constraint: Constraint<Row>; readonly key: (row: Row) => string | undefined }>
  >
  /** Rows that are asked for together. */
  readonly groups?: Readonly<Record<string, (row: Row) => string>>
  /** Foreign keys, looked at when the statement is over. */
  readonly references?: Readonly<Record<string, (row: Row) => boolean>>
  /** What goes with a row. */
  readonly cascade?: (row: Row) => void
}

/** How to take back what an open transaction has done. */
class Journal {
  #undo: (() => void)[] | undefined

  note(undo: () => void): void {
    this.#undo?.push(undo)
  }

  atomically(action: () => void): void {
    const undo: (() => void)[] = (this.#undo = [])
    try {
      action()
    } catch (error) {
      this.#undo = undefined
      for (const step of undo.reverse()) step()
      throw error
    } finally {
      this.#undo = undefined
    }
  }
}

/** Rows by their primary key. A row is never changed, only replaced: what was handed out may be kept. */
export class Table<Row extends object> {
  readonly #schema: Schema<Row>
  readonly #journal: Journal
  readonly #rows = new Map<string, Row>()
  readonly #unique = new Map<string, Map<string, Row>>()
  readonly #groups = new Map<string, Map<string, Map<string, Row>>>()

  constructor(journal: Journal, schema: Schema<Row>) {
    this.#journal = journal
    this.#schema = schema
    for (const name in schema.unique) this.#unique.set(name, new Map())
    for (const name in schema.groups) this.#groups.set(name, new Map())
  }

  get size(): number {
    return this.#rows.size
  }

  has(key: string): boolean {
    return this.#rows.has(key)
  }

  get(key: string): Readonly<Row> | undefined {
    return this.#rows.get(key)
  }

  values(): IterableIterator<Readonly<Row>> {
    return this.#rows.values()
  }

  by(unique: string, key: string): Readonly<Row> | undefined {
    return this.#unique.get(unique)!.get(key)
  }

  of(group: string, value: string): Readonly<Row>[] {
    return [...(this.#groups.get(group)!.get(value)?.values() ?? [])]
  }

  /** One statement: each row's indexes, then every row's foreign keys. */
  insert(rows: readonly Row[]): void {
    const { primary, unique, references } = this.#schema
    for (const row of rows) {
      const key = primary.key(row)
      if (this.#rows.has(key)) throw refused("23505", primary.constraint, row)
      for (const name in unique) {
        const { constraint, key: keyOf } = unique[name]!
        const value = keyOf(row)
        if (value !== undefined && this.#unique.get(name)!.has(value)) throw refused("23505", constraint, row)
      }
      this.#put(key, row)
    }
    if (!references) return
    for (const row of rows)
      for (const name in references) if (!references[name]!(row)) throw refused("23503", name, row)
  }

  update(key: string, changes: Partial<Row>): void {
    const row = this.#rows.get(key)
    if (row) this.#put(key, { ...row, ...changes })
  }

  delete(key: string): boolean {
    const row = this.#rows.get(key)
    if (!row) return false
    this.#put(key, undefined)
    this.#schema.cascade?.(row)
    return true
  }

  #put(key: string, row: Row | undefined): void {
    const former = this.#rows.get(key)
    this.#set(key, former, row)
    this.#journal.note(() => this.#set(key, row, former))
  }

  #set(key: string, former: Row | undefined, row: Row | undefined): void {
    if (row) this.#rows.set(key, row)
    else this.#rows.delete(key)
    const { unique, groups } = this.#schema
    for (const name in unique) {
      const index = this.#unique.get(name)!
      const keyOf = unique[name]!.key
      const before = former && keyOf(former)
      const after = row && keyOf(row)
      if (before !== undefined && before !== after) index.delete(before)
      if (after !== undefined) index.set(after, row!)
    }
    for (const name in groups) {
      const index = this.#groups.get(name)!
      const before = former && groups[name]!(former)
      const after = row && groups[name]!(row)
      if (before !== undefined && before !== after) index.get(before)!.delete(key)
      if (after === undefined) continue
      const group = index.get(after)
      if (group) group.set(key, row!)
      else index.set(after, new Map([[key, row!]]))
    }
  }
}

/** As PostgreSQL says it. */
function refused<Row>(code: "23503" | "23505", constraint: Constraint<Row>, row: Row): postgres.PostgresError {
  const constraint_name = typeof constraint === "string" ? constraint : constraint(row)
  const message =
    code === "23505"
      ? `duplicate key value violates unique constraint "${constraint_name}"`
      : `insert or update violates foreign key constraint "${constraint_name}"`
  // Its declaration is that of an Error; it takes the fields of the server's message.
  return new postgres.PostgresError({ severity: "ERROR", code, message, constraint_name } as never)
}

type StoredRole = Omit<RoleState, "permissions"> & { server_id: Snowflake; permissions: Permission[] }
type StoredMember = MemberState & { server_id: Snowflake }
type StoredMessage = MessageRow & { edited_at: number | null; deleted: boolean } & typeof bare
/** Simulated people send nothing but text. */
const bare = {
  webhook_id: null,
  webhook_name: null,
  webhook_avatar_url: null,
  embeds: null,
  attachments: null,
  reactions: null,
  poll: null,
  pinned_at: null,
}

export const pair = (a: string | number, b: string | number) => `${a}:${b}`
export const tellKey = ({ shard, source, number, item }: Omit<TellMark, "home">) =>
  `${shard}:${source}:${number}:${item}`

const externalKey = ({ provider, issuer, subject }: ExternalAccountRow) => JSON.stringify([provider, issuer, subject])

/** The tables of the migrations, with the names that PostgreSQL gives their constraints. */
export interface StoredPresence extends PresenceRow {
  readonly activities: NonNullable<PresenceRow["activities"]>
  readonly last_seen: number | null
}

export class Tables {
  readonly #journal = new Journal()

  readonly incarnations = this.#table<
    IncarnationRow & { died_at: number | null; lives: number; log_at: string | null }
  >({
    primary: { constraint: "incarnations_pkey", key: row => row.id },
    cascade: ({ id }) => {
      for (const { lane } of this.lanes.of("incarnation", id)) this.lanes.delete(pair(id, lane))
    },
  })
  readonly lanes = this.#table<{ incarnation: string; lane: number; generation: number }>({
    primary: { constraint: "lanes_pkey", key: row => pair(row.incarnation, row.lane) },
    groups: { incarnation: row => row.incarnation },
  })
  readonly shards = this.#table<ShardRow>({
    primary: { constraint: "shards_pkey", key: row => String(row.shard) },
  })
  readonly outbox = this.#table<OutboxRow>({
    primary: { constraint: "outbox_pkey", key: row => pair(row.shard, row.number) },
    groups: { shard: row => String(row.shard) },
  })
  readonly tellsSeen = this.#table<TellMark & { seen_at: number }>({
    primary: { constraint: "tells_seen_pkey", key: tellKey },
  })
  readonly users = this.#table<UserRow & { last_login: number | null }>({
    primary: { constraint: "users_pkey", key: row => row.id },
    unique: {
      username: { constraint: "users_username", key: row => row.username.toLowerCase() },
      email: { constraint: "users_email", key: row => row.email?.toLowerCase() },
    },
  })
  readonly sessions = this.#table<SessionRow>({
    primary: { constraint: "sessions_pkey", key: row => row.id },
    groups: { user: row => row.user_id },
    references: { sessions_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly oneTimeTokens = this.#table<OneTimeTokenRow>({
    primary: { constraint: "one_time_tokens_pkey", key: row => row.id },
    groups: { user: row => row.user_id },
    references: { one_time_tokens_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly externalAccounts = this.#table<ExternalAccountRow>({
    primary: { constraint: "external_accounts_pkey", key: row => externalKey(row) },
    groups: { user: row => row.user_id },
    references: { external_accounts_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly messagingSettings = this.#table<MessagingRow>({
    primary: { constraint: "messaging_settings_pkey", key: row => row.user_id },
    references: { messaging_settings_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly settings = this.#table<SettingRow>({
    primary: { constraint: "settings_pkey", key: row => pair(row.user_id, row.key) },
    groups: { user: row => row.user_id },
    references: { settings_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly notifications = this.#table<NotificationRow>({
    primary: { constraint: "notifications_pkey", key: row => row.id },
    groups: { user: row => row.user_id },
    references: { notifications_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly exports = this.#table<ExportRow>({
    primary: { constraint: "exports_pkey", key: row => row.id },
    references: { exports_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly presences = this.#table<StoredPresence>({
    primary: { constraint: "presences_pkey", key: row => row.user_id },
    references: { presences_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly deliveries = this.#table<DeliveryRow>({
    primary: { constraint: "deliveries_pkey", key: row => pair(row.home_id, row.user_id) },
  })
  readonly relationships = this.#table<RelationshipRow>({
    primary: { constraint: "relationships_pkey", key: row => pair(row.user_id, row.other_id) },
    groups: { user: row => row.user_id, other: row => row.other_id },
    references: {
      relationships_user_id_fkey: row => this.users.has(row.user_id),
      relationships_other_id_fkey: row => this.users.has(row.other_id),
    },
  })
  readonly servers = this.#table<Server>({
    primary: { constraint: "servers_pkey", key: row => row.id },
    references: { servers_owner_id_fkey: row => this.users.has(row.owner_id) },
    cascade: ({ id }) => {
      for (const role of this.roles.of("server", id)) this.roles.delete(role.id)
      for (const channel of this.channels.of("server", id)) this.channels.delete(channel.id)
      for (const { code } of this.invites.of("server", id)) this.invites.delete(code)
    },
  })
  readonly roles = this.#table<StoredRole>({
    primary: { constraint: "roles_pkey", key: row => row.id },
    groups: { server: row => row.server_id },
    references: { roles_server_id_fkey: row => this.servers.has(row.server_id) },
  })
  readonly members = this.#table<StoredMember>({
    primary: { constraint: "members_pkey", key: row => pair(row.server_id, row.user_id) },
    groups: { server: row => row.server_id, user: row => row.user_id },
    references: { members_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly voiceStates = this.#table<VoiceState & { server_id: Snowflake }>({
    primary: { constraint: "voice_states_pkey", key: row => pair(row.server_id, row.user_id) },
    groups: { server: row => row.server_id, channel: row => row.channel_id, worker: row => row.worker },
    references: { voice_states_channel_id_fkey: row => this.channels.has(row.channel_id) },
  })
  readonly voiceCalls = this.#table<CallState & { user_id: Snowflake }>({
    primary: { constraint: "voice_calls_pkey", key: row => row.user_id },
    references: { voice_calls_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly voiceUsage = this.#table<{ user_id: Snowflake; day: number; seconds: number }>({
    primary: { constraint: "voice_usage_pkey", key: row => pair(row.user_id, row.day) },
    groups: { user: row => row.user_id },
    references: { voice_usage_user_id_fkey: row => this.users.has(row.user_id) },
  })
  readonly bans = this.#table<BanState & { server_id: Snowflake }>({
    primary: { constraint: "bans_pkey", key: row => pair(row.server_id, row.user_id) },
  })
  readonly channels = this.#table<ChannelState>({
    primary: { constraint: "channels_pkey", key: row => row.id },
    groups: { server: row => row.server_id },
    references: { channels_server_id_fkey: row => this.servers.has(row.server_id) },
    cascade: ({ id }) => {
      for (const { target_id } of this.channelOverrides.of("channel", id))
        this.channelOverrides.delete(pair(id, target_id))
      for (const { server_id, user_id } of this.voiceStates.of("channel", id))
        this.voiceStates.delete(pair(server_id, user_id))
    },
  })
  readonly channelOverrides = this.#table<OverrideRow>({
    primary: { constraint: "channel_overrides_pkey", key: row => pair(row.channel_id, row.target_id) },
    groups: { channel: row => row.channel_id, server: row => row.server_id, target: row => row.target_id },
    references: {
      channel_overrides_channel_id_fkey: row => this.channels.has(row.channel_id),
      channel_overrides_server_id_fkey: row => this.servers.has(row.server_id),
    },
  })
  readonly invites = this.#table<InviteState>({
    primary: { constraint: "invites_pkey", key: row => row.code },
    groups: { server: row => row.server_id },
    references: { invites_server_id_fkey: row => this.servers.has(row.server_id) },
  })
  readonly messages = this.#table<StoredMessage>({
    primary: {
      constraint: row => `messages_${partitionOf(row.channel_id)}_pkey`,
      key: row => pair(row.channel_id, row.id),
    },
    unique: {
      nonce: {
        constraint: row => `messages_${partitionOf(row.channel_id)}_nonce`,
        key: row => (row.nonce === null ? undefined : nonceKey(row.channel_id, row.author_id, row.nonce)),
      },
    },
    groups: { channel: row => row.channel_id, author: row => pair(row.channel_id, row.author_id) },
  })
  redisOrigin: string | undefined
  readonly now: () => number

  constructor(now: () => number) {
    this.now = now
  }

  /** All of it, or nothing when it throws. */
  atomically(action: () => void): void {
    this.#journal.atomically(action)
  }

  #table<Row extends object>(schema: Schema<Row>): Table<Row> {
    return new Table(this.#journal, schema)
  }
}

type RowsOf<Constructor extends (row: never) => Write> = readonly Parameters<Constructor>[0][]

/** Some columns of a row, as a row of its own. */
export function picked<Row extends object, Column extends keyof Row>(
  row: Row,
  ...columns: readonly Column[]
): Pick<Row, Column> {
  const copy = {} as Pick<Row, Column>
  for (const column of columns) copy[column] = row[column]
  return copy
}

/** What each kind of write does: one statement for all its rows of a batch, with the defaults of the other columns. */
const applyWrite = {
  insertUser({ users }, rows: RowsOf<typeof insertUser>) {
    users.insert(rows.map(row => ({ ...row, last_login: null })))
  },
  updateUser({ users }, rows: RowsOf<typeof updateUser>) {
    for (const row of rows) users.update(row.id, row)
  },
  insertSession({ sessions, users }, rows: RowsOf<typeof insertSession>) {
    const columns = ["id", "user_id", "token_hash", "ip_address", "user_agent", "created_at", "expires_at"] as const
    sessions.insert(rows.map(row => picked(row, ...columns, "last_activity")))
    for (const { id, user_id, created_at } of rows) {
      const user = id === user_id ? undefined : users.get(user_id)
      if (user) users.update(user_id, { last_login: Math.max(user.last_login ?? 0, created_at) })
    }
  },
  deleteSession({ sessions }, rows: RowsOf<typeof deleteSession>) {
    for (const { id } of rows) sessions.delete(id)
  },
  touchSession({ sessions }, rows: RowsOf<typeof touchSession>) {
    const usedBefore = new Map(rows.map(({ id }) => [id, sessions.get(id)?.last_activity ?? 0]))
    for (const { id, expires_at, last_activity } of rows)
      sessions.update(id, { expires_at, last_activity: Math.max(usedBefore.get(id)!, last_activity) })
  },
  putOneTimeToken({ oneTimeTokens }, rows: RowsOf<typeof putOneTimeToken>) {
    for (const row of rows)
      if (oneTimeTokens.has(row.id)) oneTimeTokens.update(row.id, picked(row, "failures", "token_hash", "expires_at"))
      else oneTimeTokens.insert([{ ...row, groups: row.groups ?? null }])
  },
  insertExternalAccount({ externalAccounts }, rows: RowsOf<typeof insertExternalAccount>) {
    externalAccounts.insert(rows)
  },
  unlinkExternalAccounts({ externalAccounts }, rows: RowsOf<typeof unlinkExternalAccounts>) {
    for (const { user_id, since } of rows)
      for (const one of externalAccounts.of("user", user_id))
        if (one.linked_at >= since) externalAccounts.delete(externalKey(one))
  },
  /** The simulated servers send no mails. */
  insertMail() {},
  putMessagingSettings({ messagingSettings }, rows: RowsOf<typeof putMessagingSettings>) {
    for (const row of rows)
      if (messagingSettings.has(row.user_id)) messagingSettings.update(row.user_id, row)
      else messagingSettings.insert([row])
  },
  putSetting({ settings }, rows: RowsOf<typeof putSetting>) {
    for (const row of rows) {
      const key = pair(row.user_id, row.key)
      if (settings.has(key)) settings.update(key, picked(row, "value", "created_at", "updated_at"))
      else settings.insert([row])
    }
  },
  deleteSetting({ settings }, rows: RowsOf<typeof deleteSetting>) {
    for (const { user_id, key } of rows) settings.delete(pair(user_id, key))
  },
  insertNotification({ notifications }, rows: RowsOf<typeof insertNotification>) {
    notifications.insert(rows)
    for (const user of new Set(rows.map(row => row.user_id))) {
      const ids = notifications.of("user", user).map(({ id }) => id)
      for (const id of ids.sort(compareIds).slice(0, -limits.notificationsKept)) notifications.delete(id)
    }
  },
  markNotificationsRead({ notifications }, rows: RowsOf<typeof markNotificationsRead>) {
    for (const { ids } of rows) for (const id of ids) notifications.update(id, { read: true })
  },
  markAllNotificationsRead({ notifications }, rows: RowsOf<typeof markAllNotificationsRead>) {
    for (const { user_id } of rows)
      for (const { id } of notifications.of("user", user_id)) notifications.update(id, { read: true })
  },
  putExport({ exports }, rows: RowsOf<typeof putExport>) {
    for (const row of rows)
      if (exports.has(row.id)) exports.update(row.id, picked(row, "attempt", "ready_at", "expires_at"))
      else exports.insert([row])
  },
  eraseAccount(tables: Tables, rows: RowsOf<typeof eraseAccount>) {
    const { sessions, oneTimeTokens, settings, notifications, exports, presences, voiceCalls, voiceUsage } = tables
    for (const { user_id } of rows) {
      for (const { id } of sessions.of("user", user_id)) sessions.delete(id)
      for (const { id } of oneTimeTokens.of("user", user_id)) oneTimeTokens.delete(id)
      for (const one of tables.externalAccounts.of("user", user_id)) tables.externalAccounts.delete(externalKey(one))
      for (const { key } of settings.of("user", user_id)) settings.delete(pair(user_id, key))
      for (const { day } of voiceUsage.of("user", user_id)) voiceUsage.delete(pair(user_id, day))
      for (const { id, ...row } of notifications.values())
        if (row.user_id === user_id || row.sender_id === user_id) notifications.delete(id)
      for (const row of exports.values()) if (row.user_id === user_id) exports.delete(row.id)
      for (const table of [tables.messagingSettings, presences, voiceCalls]) table.delete(user_id)
    }
  },
  /** The simulated servers count no failures. */
  eraseFailedLogins() {},
  deleteOneTimeToken({ oneTimeTokens }, rows: RowsOf<typeof deleteOneTimeToken>) {
    for (const { id } of rows) oneTimeTokens.delete(id)
  },
  insertServer({ servers }, rows: RowsOf<typeof insertServer>) {
    servers.insert(
      rows.map(row => ({
        ...picked(row, "id", "name", "description", "owner_id", "member_count", "created_at"),
        icon_url: null,
        default_channel_id: null,
        verification_level: 0,
        default_message_notifications: 0,
        public: false,
        category: null,
      })),
    )
  },
  /** Nobody there reads it. */
  insertAuditEntry() {},
  insertDirect() {},
  /** Nothing is moderated there. */
  putAutomodRule() {},
  deleteAutomodRule() {},
  insertAutomodViolation() {},
  trimAutomodViolations() {},
  /** The simulated people have no webhooks. */
  insertWebhook() {},
  updateWebhook() {},
  deleteWebhook() {},
  insertFullMessage() {},
  putReaction() {},
  deleteReactors() {},
  setPinned() {},
  insertPoll() {},
  insertMention() {},
  setPoll() {},
  endPoll() {},
  deletePoll() {},
  putPollVote() {},
  insertUploadUse() {},
  putHashReport() {},
  addHashReport() {},
  putMessageReport() {},
  putUserReport() {},
  insertFeedback() {},
  // Operators are no part of the simulated world.
  banUsername() {},
  // Nor are authenticators.
  insertPasskey() {},
  updatePasskey() {},
  deletePasskey() {},
  putPushSubscription() {},
  deletePushSubscription() {},
  putUserNotes() {},
  forgetLastLogin({ users }, rows: RowsOf<typeof forgetLastLogin>) {
    for (const { user_id } of rows) users.update(user_id, { last_login: null })
  },
  updateServer({ servers }, rows: RowsOf<typeof updateServer>) {
    for (const { id, ...settings } of rows) servers.update(id, settings)
  },
  deleteServer({ servers }, rows: RowsOf<typeof deleteServer>) {
    for (const { id } of rows) servers.delete(id)
  },
  setMemberCount({ servers }, rows: RowsOf<typeof setMemberCount>) {
    for (const { id, member_count } of rows) servers.update(id, { member_count })
  },
  insertRole({ roles }, rows: RowsOf<typeof insertRole>) {
    roles.insert(
      rows.map(row => ({
        ...picked(row, "id", "server_id", "name", "color", "position", "hoist", "mentionable"),
        bot_id: row.bot_id ?? null,
        permissions: [...row.permissions],
      })),
    )
  },
  updateRole({ roles }, rows: RowsOf<typeof updateRole>) {
    for (const row of rows)
      roles.update(row.id, {
        ...picked(row, "name", "color", "position", "hoist", "mentionable"),
        permissions: [...row.permissions],
      })
  },
  deleteRole({ roles, channelOverrides }, rows: RowsOf<typeof deleteRole>) {
    for (const { id } of rows) {
      for (const { channel_id } of channelOverrides.of("target", id)) channelOverrides.delete(pair(channel_id, id))
      roles.delete(id)
    }
  },
  setMemberRoles({ members }, rows: RowsOf<typeof setMemberRoles>) {
    for (const { server_id, user_id, roles } of rows) members.update(pair(server_id, user_id), { roles: [...roles] })
  },
  updateMember({ members }, rows: RowsOf<typeof updateMember>) {
    const columns = ["nickname", "timeout_until", "timeout_reason", "temporary"] as const
    for (const row of rows) members.update(pair(row.server_id, row.user_id), picked(row, ...columns))
  },
  // Nobody is timed out there.
  // Files are no part of the simulated world, nor what is made of them.
  useFile() {},
  discardFile() {},
  insertEmoji() {},
  renameEmoji() {},
  deleteEmoji() {},
  insertStickerPack() {},
  deleteStickerPack() {},
  insertSticker() {},
  deleteSticker() {},
  countStickerUse() {},
  renewPicture() {},
  insertThumbnailRequest() {},
  endThumbnailRequest() {},
  updateAttachments() {},
  putAvatar() {},
  deleteAvatar() {},
  putIcon() {},
  deleteIcon() {},
  putMessageDeletion() {},
  putLeftTimeout() {},
  deleteLeftTimeout() {},
  putOverride({ channelOverrides }, rows: RowsOf<typeof putOverride>) {
    const last = new Map(rows.map(row => [pair(row.channel_id, row.target_id), row]))
    for (const [key, row] of last) {
      const facts = picked(row, "type", "allow", "deny")
      if (channelOverrides.has(key)) channelOverrides.update(key, facts)
      else channelOverrides.insert([{ ...picked(row, "channel_id", "target_id", "server_id"), ...facts }])
    }
  },
  deleteOverride({ channelOverrides }, rows: RowsOf<typeof deleteOverride>) {
    for (const { channel_id, target_id } of rows) channelOverrides.delete(pair(channel_id, target_id))
  },
  putPresence({ presences }, rows: RowsOf<typeof putPresence>) {
    const last = new Map(rows.map(row => [row.user_id, row]))
    for (const [user_id, row] of last) {
      const known = presences.get(user_id)
      const given = rows.findLast(other => other.user_id === user_id && other.activities)?.activities
      const activities = given ?? known?.activities ?? []
      const chosen = { ...picked(row, "status", "custom_status", "custom_emoji"), activities }
      if (known) presences.update(user_id, chosen)
      else presences.insert([{ user_id, ...chosen, last_seen: null }])
    }
  },
  putRelationship({ relationships }, rows: RowsOf<typeof putRelationship>) {
    const last = new Map(rows.map(row => [pair(row.user_id, row.other_id), row]))
    for (const [key, row] of last) {
      if (relationships.has(key)) relationships.update(key, picked(row, "status", "message", "created_at"))
      else relationships.insert([picked(row, "user_id", "other_id", "status", "message", "created_at")])
    }
  },
  deleteRelationship({ relationships }, rows: RowsOf<typeof deleteRelationship>) {
    for (const { user_id, other_id } of rows) relationships.delete(pair(user_id, other_id))
  },
  putBan({ bans }, rows: RowsOf<typeof putBan>) {
    const last = new Map(rows.map(row => [pair(row.server_id, row.user_id), row]))
    for (const [key, row] of last) {
      if (bans.has(key)) bans.update(key, picked(row, "reason", "banned_by"))
      else bans.insert([picked(row, "server_id", "user_id", "reason", "banned_by", "banned_at")])
    }
  },
  deleteBan({ bans }, rows: RowsOf<typeof deleteBan>) {
    for (const { server_id, user_id } of rows) bans.delete(pair(server_id, user_id))
  },
  insertMember({ members }, rows: RowsOf<typeof insertMember>) {
    members.insert(
      rows.map(row => ({
        ...picked(row, "server_id", "user_id", "joined_at", "temporary"),
        since_id: row.since_id ?? null,
        nickname: null,
        roles: [],
        timeout_until: null,
        timeout_reason: null,
      })),
    )
  },
  deleteMember({ members, voiceStates, deliveries }, rows: RowsOf<typeof deleteMember>) {
    for (const { server_id, user_id } of rows) {
      deliveries.delete(pair(server_id, user_id))
      voiceStates.delete(pair(server_id, user_id))
      members.delete(pair(server_id, user_id))
    }
  },
  insertChannel({ channels }, rows: RowsOf<typeof insertChannel>) {
    const columns = ["id", "server_id", "name", "channel_type", "topic", "position", "category_id", "nsfw"] as const
    const more = ["slowmode_seconds", "read_receipts_enabled", "user_limit", "bitrate", "created_at"] as const
    channels.insert(rows.map(row => picked(row, ...columns, ...more)))
  },
  updateChannel({ channels }, rows: RowsOf<typeof updateChannel>) {
    const columns = ["name", "topic", "position", "category_id", "nsfw", "slowmode_seconds"] as const
    for (const row of rows)
      channels.update(row.id, picked(row, ...columns, "read_receipts_enabled", "user_limit", "bitrate"))
  },
  placeChannel({ channels }, rows: RowsOf<typeof placeChannel>) {
    for (const { id, ...place } of rows) channels.update(id, place)
  },
  deleteChannel({ channels }, rows: RowsOf<typeof deleteChannel>) {
    for (const { id } of rows) channels.delete(id)
  },
  /** The simulated people have no webhooks and choose no notifications. */
  forgetChannel({ invites }, rows: RowsOf<typeof forgetChannel>) {
    for (const { id, server_id } of rows)
      for (const { code, channel_id } of invites.of("server", server_id))
        if (channel_id === id) invites.update(code, { channel_id: null })
  },
  putNotificationChoice() {},
  dropNotificationChoice() {},
  deleteNotificationSettings() {},
  /** They never say how far they have read. */
  putReadState() {},
  tallyMessages() {},
  putVoiceState({ voiceStates }, rows: RowsOf<typeof putVoiceState>) {
    const last = new Map(rows.map(row => [pair(row.server_id, row.user_id), row]))
    const facts = ["channel_id", "voice_session_id", "worker", "gateway_session_id", "joined_at"] as const
    const flags = ["self_mute", "self_deaf", "self_video", "self_stream", "suppress"] as const
    // Anew, so that its channel is looked for.
    for (const key of last.keys()) voiceStates.delete(key)
    voiceStates.insert(Array.from(last.values(), row => picked(row, "server_id", "user_id", ...facts, ...flags)))
  },
  deleteVoiceState({ voiceStates }, rows: RowsOf<typeof deleteVoiceState>) {
    for (const { server_id, user_id } of rows) voiceStates.delete(pair(server_id, user_id))
  },
  putVoiceCall({ voiceCalls }, rows: RowsOf<typeof putVoiceCall>) {
    for (const { user_id, ...row } of new Map(rows.map(row => [row.user_id, row])).values()) {
      const facts = picked(row, "server_id", "channel_id", "voice_session_id", "began_at", "ends_at")
      if (voiceCalls.has(user_id)) voiceCalls.update(user_id, facts)
      else voiceCalls.insert([{ user_id, ...facts }])
    }
  },
  deleteVoiceCall({ voiceCalls }, rows: RowsOf<typeof deleteVoiceCall>) {
    for (const { user_id } of rows) voiceCalls.delete(user_id)
  },
  addVoiceUsage({ voiceUsage }, rows: RowsOf<typeof addVoiceUsage>) {
    for (const { user_id, day, seconds } of rows) {
      const key = pair(user_id, day)
      const before = voiceUsage.get(key)
      if (before) voiceUsage.update(key, { seconds: before.seconds + seconds })
      else voiceUsage.insert([{ user_id, day, seconds }])
    }
  },
  insertInvite({ invites }, rows: RowsOf<typeof insertInvite>) {
    const columns = ["code", "server_id", "channel_id", "inviter_id", "max_age", "max_uses", "temporary"] as const
    invites.insert(rows.map(row => picked(row, ...columns, "uses", "created_at", "expires_at", "ended_at")))
  },
  endInvite({ invites }, rows: RowsOf<typeof endInvite>) {
    for (const { code, uses, ended_at } of rows) invites.update(code, { uses, ended_at })
  },
  forgetEndedInvites({ invites }, rows: RowsOf<typeof forgetEndedInvites>) {
    for (const server of new Set(rows.map(({ server_id }) => server_id))) {
      const ended = [...invites.values()].filter(({ server_id, ended_at }) => server_id === server && ended_at !== null)
      const latestFirst = ended.toSorted((a, b) => b.ended_at! - a.ended_at! || (a.code < b.code ? -1 : 1))
      for (const { code } of latestFirst.slice(limits.endedInvitesKept)) invites.delete(code)
    }
  },
  setInviteUses({ invites }, rows: RowsOf<typeof setInviteUses>) {
    for (const { code, uses } of rows) invites.update(code, { uses })
  },
  deleteInvite({ invites }, rows: RowsOf<typeof deleteInvite>) {
    for (const { code } of rows) invites.delete(code)
  },
  insertMessage({ messages }, rows: RowsOf<typeof insertMessage>) {
    const columns = ["channel_id", "id", "server_id", "author_id", "content", "reply_to_id", "nonce"] as const
    messages.insert(rows.map(row => ({ ...picked(row, ...columns), edited_at: null, deleted: false, ...bare })))
  },
  updateContent({ messages }, rows: RowsOf<typeof updateContent>) {
    for (const { channel_id, id, content, edited_at } of rows)
      messages.update(pair(channel_id, id), { content, edited_at })
  },
  deleteMessage({ messages, notifications }, rows: RowsOf<typeof deleteMessage>) {
    for (const { channel_id, id } of rows)
      for (const one of notifications.values())
        if (one.channel_id === channel_id && one.message_id === id) notifications.delete(one.id)
    for (const { channel_id, id, isLeft } of rows)
      if (!isLeft) messages.delete(pair(channel_id, id))
      else
        messages.update(pair(channel_id, id), {
          deleted: true,
          content: null,
          reply_to_id: null,
          edited_at: null,
          embeds: null,
          webhook_avatar_url: null,
        })
  },
  markTell({ tellsSeen, now }, rows: RowsOf<typeof markTell>) {
    tellsSeen.insert(rows.map(row => ({ ...picked(row, "shard", "source", "number", "item", "home"), seen_at: now() })))
  },
} satisfies Record<string, (tables: Tables, rows: never) => void>

/** The kinds of writes that the simulated store knows. */
export const knownWrites: ReadonlySet<string> = new Set(Object.keys(applyWrite))

export function applyGroup(tables: Tables, { kind, rows }: { kind: { name: string }; rows: readonly unknown[] }): void {
  if (!knownWrites.has(kind.name)) throw new Error(`the simulated store does not know the write ${kind.name}`)
  const apply = applyWrite[kind.name as keyof typeof applyWrite] as (tables: Tables, rows: readonly unknown[]) => void
  apply(tables, rows)
}

const rotated = (value: number, by: number) => (value << by) | (value >>> (32 - by))

/**
 * The partition of the messages of a channel. PostgreSQL's `hashint8extended` with the seed of hash partitions, then
 * `hash_combine64` with zero, then the remainder by 16: its last four bits are enough.
 * Source: src/common/hashfn.c and src/backend/partitioning/partbounds.c of PostgreSQL.
 */
export function partitionOf(channel: Snowflake): number {
  const value = BigInt.asIntN(64, BigInt(channel))
  const low = Number(BigInt.asIntN(32, value))
  const high = Number(BigInt.asIntN(32, value >> 32n))
  const initial = (0x9e3779b9 + 4 + 3923095) | 0
  let a = (initial + 0x7a5b2236) | 0
  let b = (initial + 0x7996dcfd) | 0
  let c = initial
  a = ((a - c) ^ rotated(c, 4)) | 0
  c = (c + b) | 0
  b = ((b - a) ^ rotated(a, 6)) | 0
  a = (a + c) | 0
  c = ((c - b) ^ rotated(b, 8)) | 0
  b = (b + a) | 0
  a = ((a - c) ^ rotated(c, 16)) | 0
  c = (c + b) | 0
  b = ((b - a) ^ rotated(a, 19)) | 0
  a = (a + c) | 0
  c = ((c - b) ^ rotated(b, 4)) | 0
  b = (b + a) | 0
  a = (a + (low ^ (value >= 0n ? high : ~high))) | 0
  c = ((c ^ b) - rotated(b, 14)) | 0
  a = ((a ^ c) - rotated(c, 11)) | 0
  b = ((b ^ a) - rotated(a, 25)) | 0
  c = ((c ^ b) - rotated(b, 16)) | 0
  a = ((a ^ c) - rotated(c, 4)) | 0
  b = ((b ^ a) - rotated(a, 14)) | 0
  c = ((c ^ b) - rotated(b, 24)) | 0
  return (c + 3) & 15
}
