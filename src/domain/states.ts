import type { ChannelType } from "../contract/channels.ts"
import type { AutomodRule } from "../contract/automod.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { MessagingChoice } from "../contract/messaging-settings.ts"
import type { Permission } from "../contract/permissions.ts"
import type { Account } from "./accounts.ts"
import type { Refusal } from "./automod.ts"
import type { RecentPost } from "./automod-spam.ts"
import type { ExportState } from "./exports.ts"
import type { NotificationChoice } from "./notification-levels.ts"
import type { KeptSetting } from "./settings.ts"
import type { OneTimeToken } from "./one-time-tokens.ts"
import type { Override } from "./permissions.ts"
import type { Pair } from "./relationships.ts"
import type { Shown } from "./presences.ts"

/** What a server's home keeps in memory: settings, roles, channels; members and the like only as far as commands needed them. */
export interface ServerState {
  id: Snowflake
  name: string
  description: string | null
  icon_url: string | null
  owner_id: Snowflake
  member_count: number
  default_channel_id: Snowflake | null
  verification_level: number
  default_message_notifications: number
  public: boolean
  category: string | null
  roles: Map<Snowflake, RoleState>
  channels: Map<Snowflake, ChannelState>
  /** What channels allow or deny roles and members; absent: nothing. */
  overrides: Map<Snowflake, readonly Override[]>
  /** Facts that commands asked for; null: known not to be there. */
  members: Map<Snowflake, MemberState | null>
  /** Time-outs of people who left while they were on. */
  leftTimeouts: Map<Snowflake, TimeoutState | null>
  bans: Map<Snowflake, BanState | null>
  invites: Map<string, InviteState | null>
  /** How many there are, under one key, once a command has asked. */
  inviteCount: Map<string, number | null>
  messages: Map<Snowflake, MessageState | null>
  nonces: Map<string, MessageState | null>
  /** When an author last posted in a channel, in Unix milliseconds; asked for where slow mode is on. */
  lastPosts: Map<string, number | null>
  /** All of them under one key, once a command has asked. */
  webhooks: Map<string, readonly WebhookState[] | null>
  /** All of them under one key, once a command has asked. */
  emojis: Map<string, readonly EmojiState[] | null>
  /** The server's own under one key, once a command has asked. */
  icons: Map<string, FileState | null>
  /** All of them under one key, once a command has asked. */
  stickerPacks: Map<string, readonly StickerPackState[] | null>
  /** The rules of its auto-moderation, in the order in which they are looked at. Each is replaced, never changed. */
  automod: readonly AutomodRule[]
  /** An author's latest in a channel, the oldest first; asked for where a rule counts them. */
  recentPosts: Map<string, readonly RecentPost[] | null>
  /** What was refused, by nonce: repeated, it is refused again and counted once. The latest last; nothing else remembers it. */
  refusedNonces: Map<string, Refusal>
  /** When moderators were last told of a user by a rule, in Unix milliseconds. The latest last; nothing else remembers it. */
  alerts: Map<string, number>
  /** `channel user` of those who type, with when they last said so, in Unix milliseconds; the latest last. Nothing else remembers it. */
  typing: Map<string, number>
  /** Who is in a voice channel, whole. */
  voice: Map<Snowflake, VoiceState>
  deleted: boolean
}

/** What its owner or whoever manages it decides about a server. */
export type ServerSettings = Pick<
  ServerState,
  "name" | "description" | "owner_id" | "default_channel_id" | "default_message_notifications" | "public" | "category"
>

export interface RoleState {
  id: Snowflake
  name: string
  color: string
  position: number
  hoist: boolean
  mentionable: boolean
  permissions: ReadonlySet<Permission>
}

export interface ChannelState {
  id: Snowflake
  server_id: Snowflake
  name: string
  channel_type: ChannelType
  topic: string | null
  position: number
  category_id: Snowflake | null
  nsfw: boolean
  slowmode_seconds: number
  read_receipts_enabled: boolean
  /** Of voice channels; 0: any number. */
  user_limit: number
  bitrate: number
  created_at: number
}

/** Somebody in a voice channel. */
export interface VoiceState {
  user_id: Snowflake
  channel_id: Snowflake
  /** New with every join. */
  voice_session_id: string
  /** Holds the gateway session that holds the call. */
  worker: string
  gateway_session_id: string
  self_mute: boolean
  self_deaf: boolean
  self_video: boolean
  self_stream: boolean
  suppress: boolean
  /** Unix milliseconds at which this voice session began. */
  joined_at: number
}

/** A user's newest call, as his home knows it; times are Unix milliseconds. */
export interface CallState {
  server_id: Snowflake
  channel_id: Snowflake
  voice_session_id: string
  began_at: number
  /** When the allowance of the day ends it; null: never. */
  ends_at: number | null
}

export interface MemberState {
  user_id: Snowflake
  joined_at: number
  nickname: string | null
  /** Assigned roles, without `@everyone`. */
  roles: readonly Snowflake[]
  /** Unix seconds. */
  timeout_until: number | null
  timeout_reason: string | null
  /** Goes when his last session has ended, unless he was given a role. */
  temporary: boolean
}

/** Until when somebody is timed out, in Unix seconds, and why. */
export type TimeoutState = Pick<MemberState, "timeout_reason"> & { timeout_until: number }

export interface WebhookState {
  id: Snowflake
  server_id: Snowflake
  channel_id: Snowflake
  creator_id: Snowflake
  name: string
  avatar_url: string | null
  /** SHA-256 of the token's secret, in hex. */
  token_hash: string
  created_at: number
}

/** A file's facts: what it is kept under, what it is by its content, its SHA-256 in hex, and its bytes. */
export interface FileState {
  file: string
  content_type: string
  hash: string
  size: number
}

export interface EmojiState extends FileState {
  id: Snowflake
  server_id: Snowflake
  name: string
  animated: boolean
  created_by: Snowflake
  /** Unix milliseconds. */
  created_at: number
}

export interface StickerState extends FileState {
  id: Snowflake
  pack_id: Snowflake
  server_id: Snowflake
  name: string
  format: "png" | "apng" | "json"
  tags: readonly string[]
  related_emoji: string | null
  width: number | null
  height: number | null
  created_by: Snowflake
  created_at: number
}

export interface StickerPackState {
  id: Snowflake
  server_id: Snowflake
  name: string
  description: string | null
  stickers: readonly StickerState[]
}

export interface BanState {
  user_id: Snowflake
  reason: string
  banned_by: Snowflake
  banned_at: number
}

export interface InviteState {
  code: string
  server_id: Snowflake
  channel_id: Snowflake | null
  inviter_id: Snowflake | null
  max_age: number
  max_uses: number
  temporary: boolean
  uses: number
  created_at: number
  expires_at: number | null
}

export interface MessageState {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake | null
  author_id: Snowflake
  author_username: string
  /** Homes that woke in the version before do not know it. */
  author_bot?: boolean
  author_badges: readonly string[]
  content: string | null
  edited_at: number | null
  reply_to_id: Snowflake | null
  nonce: string | null
  pinned: boolean
  deleted?: boolean
  /** Of what a webhook sent, with the name and the picture of that moment; its author is the webhook. */
  webhook_id?: Snowflake | null
  webhook_name?: string | null
  webhook_avatar_url?: string | null
  embeds?: readonly unknown[] | null
}

/** What a user's home keeps in memory. */
export interface UserState extends Account {
  id: Snowflake
  sessions: Map<Snowflake, SessionState>
  /** What he chose to show, whether he is there or not. */
  presence: Shown
  call: CallState | null
  /** Seconds in voice by day, of calls that are over. */
  voiceSeconds: Map<number, number>
  /** By the other's id, which is the higher one: what commands asked for; null: strangers. */
  pairs: Map<Snowflake, Pair | null>
  /** All of them under one key, once a command has asked; see actors/one-time-tokens.ts. */
  oneTimeTokens: Map<string, readonly OneTimeToken[] | null>
  /** The latest under one key, once a command has asked; see actors/exports.ts. */
  exports: Map<string, ExportState | null>
  /** What he decided about his messages, under one key, once a command has asked; null: nothing. See actors/settings.ts. */
  messaging: Map<string, MessagingChoice | null>
  /** When each of his settings was written, all of them under one key, once a command has asked. */
  settings: Map<string, ReadonlyMap<string, KeptSetting> | null>
  /** Places in servers that he is about to take, by token, in the order of asking; see actors/places.ts. */
  places: Map<string, Place>
  /** Those that commands asked for. */
  notifications: Map<Snowflake, { readonly read: boolean } | null>
  /** What he wants to be told of, all of it under one key, once a command has asked; see actors/notification-levels.ts. */
  notificationChoices: Map<string, ReadonlyMap<string, NotificationChoice> | null>
}

export interface Place {
  /** In a server that will be his. */
  readonly owns: boolean
  /** In a server that he is not in yet. */
  readonly joins: boolean
  /** None at all: he is about to delete his account. */
  readonly ends?: true
  /** Unix milliseconds. */
  readonly until: number
}

export interface SessionState {
  id: Snowflake
  /** SHA-256 of the token's secret, in hex. */
  token_hash: string
  created_at: number
  expires_at: number
  last_activity: number
}

/** Who acts, as the door knows him. */
export interface Actor {
  id: Snowflake
  username: string
  /** Doors of the version before do not say. */
  bot?: boolean
  badges: readonly string[]
}
