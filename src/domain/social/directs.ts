import type { DirectChannel, NotesChannel } from "../../contract/social/directs.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { MessagingSettings } from "../../contract/accounts/messaging-settings.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { RelationshipStatus } from "../../contract/social/relationships.ts"
import type { PublicUser } from "../../contract/accounts/users.ts"
import { channelObject, type ChannelState } from "../core/channels.ts"
import {
  everyoneRole,
  type MemberState,
  type RoleState,
  newServerState,
  type ServerState,
} from "../communities/servers.ts"
import { compareIds, secondsOf } from "../core/snowflake.ts"

/**
 * What participants may do in a conversation outside servers. Pinning is theirs as well; deleting
 * is each author's own.
 */
const granted: ReadonlySet<Permission> = new Set([
  "channels.view",
  "messages.read",
  "messages.send",
  "messages.embed_links",
  "messages.attach_files",
  "messages.add_reactions",
  "messages.use_external_emojis",
])

/**
 * Whether a user may open a conversation: neither has blocked the other, and the recipient takes
 * messages from them. @param theirs what the user is to the recipient @param mine what the
 * recipient is to the user
 */
export const mayOpenDirect = (
  { theirs, mine }: Readonly<Record<"theirs" | "mine", RelationshipStatus | undefined>>,
  allowFrom: MessagingSettings["allow_dms_from"],
): boolean =>
  theirs !== "blocked" &&
  mine !== "blocked" &&
  (allowFrom === "everyone" || (allowFrom === "friends" && theirs === "friend"))

export interface DirectRow {
  id: Snowflake
  channel_type: "dm" | "notes"
  /** Of a DM the lower id; of notes whose they are. */
  user_id: Snowflake
  /** Of a DM the higher id. */
  other_id: Snowflake | null
  created_at: number
}

/** A conversation of two, opened by either of them; with nobody else: notes. */
export function directRow(id: Snowflake, one: Snowflake, other: Snowflake | null): DirectRow {
  const created_at = secondsOf(id)
  if (other === null) return { id, channel_type: "notes", user_id: one, other_id: null, created_at }
  const [user_id, other_id] = compareIds(one, other) < 0 ? [one, other] : [other, one]
  return { id, channel_type: "dm", user_id, other_id, created_at }
}

export const participantsOf = ({ user_id, other_id }: DirectRow): Snowflake[] =>
  other_id === null ? [user_id] : [user_id, other_id]

/** The only role of its home: what `@everyone` is to a server. */
export const directRole = (id: Snowflake): RoleState => everyoneRole(id, granted)

/** `server_id` "0": none. */
export const directChannel = ({ id, channel_type, created_at }: DirectRow): ChannelState => ({
  id,
  server_id: "0",
  name: channel_type === "notes" ? "Personal Notes" : "",
  channel_type,
  topic: null,
  position: 0,
  category_id: null,
  nsfw: false,
  slowmode_seconds: 0,
  read_receipts_enabled: true,
  user_limit: 0,
  bitrate: 0,
  created_at,
})

/** A DM as one of the two sees it: named after the other. */
export const directObject = (
  row: DirectRow,
  recipient: PublicUser,
  last_message_id: Snowflake | null,
): DirectChannel => ({
  ...channelObject(directChannel(row)),
  name: recipient.username,
  recipient_id: recipient.id,
  recipient,
  last_message_id,
})

export const notesObject = (row: DirectRow, last_message_id: Snowflake | null): NotesChannel => ({
  ...channelObject(directChannel(row)),
  last_message_id,
  last_message_at: last_message_id === null ? null : secondsOf(last_message_id),
})

/** A participant as the checks of a server's home see a member. */
export const participant = (user_id: Snowflake): MemberState => ({
  user_id,
  joined_at: 0,
  nickname: null,
  roles: [],
  timeout_until: null,
  timeout_reason: null,
  temporary: false,
})

/** A conversation outside servers as a home: its channel, and who is in it. */
export function newDirectState(row: DirectRow): ServerState {
  return newServerState({
    participants: participantsOf(row),
    server: {
      id: row.id,
      name: "",
      description: null,
      icon_url: null,
      owner_id: "0",
      member_count: 0,
      default_channel_id: null,
      verification_level: 0,
      default_message_notifications: 0,
      public: false,
      category: null,
      created_at: row.created_at,
    },
    roles: new Map([[row.id, directRole(row.id)]]),
    channels: new Map([[row.id, directChannel(row)]]),
  })
}
