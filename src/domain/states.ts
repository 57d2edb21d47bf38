import type { ChannelType } from "../contract/channels.ts"
import type { AutomodRule } from "../contract/automod.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Permission } from "../contract/permissions.ts"
import type { Account } from "./accounts.ts"
import type { Override } from "./permissions.ts"
import type { Shown } from "./presences.ts"
import type { Facts } from "./core/facts.ts"

/**
 * What every turn in the home of channels needs: settings, roles, channels.
 * A DM or notes channel is a home of its own: one that holds nothing but itself, and whose members are its participants.
 */
export interface ServerState {
  id: Snowflake
  /** Whose conversation it is; null: a server. */
  participants: readonly Snowflake[] | null
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
  /** The rules of its auto-moderation, in the order in which they are looked at. Each is replaced, never changed. */
  automod: readonly AutomodRule[]
  /** Who is in a voice channel, whole. */
  voice: Map<Snowflake, VoiceState>
  deleted: boolean
  /** What subjects remember: members, messages and the like, only as far as commands needed them. */
  readonly facts: Facts
}

/** What its owner or whoever manages it decides about a server. */
export type ServerSettings = Pick<
  ServerState,
  "name" | "description" | "owner_id" | "default_channel_id" | "default_message_notifications" | "public" | "category"
>

/** Conversations outside servers. */
export type DirectType = "dm" | "notes"

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
  channel_type: ChannelType | DirectType
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
  /** The id that was minted as he joined; null: it was not noted. */
  since_id?: Snowflake | null
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
  /** When it expired or was used up, in Unix seconds. */
  ended_at: number | null
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
  /** Unix milliseconds; null: not pinned. */
  pinned_at?: number | null
  deleted?: boolean
  /** Of what a webhook sent, with the name and the picture of that moment; its author is the webhook. */
  webhook_id?: Snowflake | null
  webhook_name?: string | null
  webhook_avatar_url?: string | null
  embeds?: readonly unknown[] | null
  attachments?: readonly AttachmentState[] | null
  /** How often each emoji was used, in the order of first use. */
  reactions?: readonly ReactionTally[] | null
  poll?: PollState | null
}

/** As much of a message as whoever repeats its nonce is told by its home: the rest is looked up. */
export type SentState = Omit<MessageState, "embeds" | "attachments" | "reactions" | "poll">

/** A file that somebody sent: its name below `/media/attachments`, and what was found out about it. */
export interface UploadFacts {
  file: string
  filename: string
  content_type: string
  size: number
  /** SHA-256 in hex. */
  hash: string
}

export interface UploadState extends UploadFacts {
  user_id: Snowflake
  /** Unix seconds. */
  created_at: number
  /** Until when it is kept though no message shows it; null: one may. */
  keep_until: number | null
}

/** A file of a message. */
export interface AttachmentState extends UploadFacts {
  id: Snowflake
}

/** How many messages of a channel are pinned, and when the latest was, in Unix milliseconds. */
export interface PinsState {
  count: number
  latest: number
}

export interface ReactionTally {
  /** As whoever used it first wrote it. */
  emoji: string
  count: number
  /** Of a custom emoji. */
  custom_emoji_id: Snowflake | null
  url: string | null
}

/** A poll as it stands with its message; times are Unix seconds. */
export interface PollState {
  id: Snowflake
  question: string
  created_by: Snowflake
  created_at: number
  ends_at: number | null
  ended_at: number | null
  allow_multiple_choice: boolean
  results_visibility: "always" | "after_vote" | "after_end"
  options: readonly { readonly id: Snowflake; readonly text: string; readonly vote_count: number }[]
  /** Of different voters. */
  total_votes: number
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
  /** What subjects remember, only as far as commands needed it. */
  readonly facts: Facts
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
