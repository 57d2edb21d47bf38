import { channelActor } from "../../actors/channel.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/messages/read-state.ts"
import { holdsIn } from "../../domain/core/permissions.ts"
import type { Caller } from "../../cluster/admission.ts"
import type { Handlers } from "../server/handlers.ts"
import { oneAtATime } from "../../std/one-at-a-time.ts"
import { uncounted } from "../shared/uncounted.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { Http, Jobs } from "../shared/http.ts"

type ReadStateNeeds = Http<"readState" | "messagingSettings"> & { readonly jobs: Pick<Jobs, "later"> }

/** Channels of one request that are asked at a time. */
const maxConcurrentAcks = 8
/** Above it, the channel's messages may not be counted yet. */
const countAboveUnread = 2_000

export const readState = (http: ReadStateNeeds): Handlers<typeof routes> => {
  const { ask, storage, jobs } = http
  const countBehind = uncounted(http)
  // Simultaneous requests of one user share their work.
  const unreadOf = oneAtATime(listUnread)

  /** @param message Null: the newest */
  async function ack(caller: Caller, channel: Snowflake, message: Snowflake | null, isBulk: boolean): Promise<number> {
    const user = caller.user_id
    const message_id = message ?? (await storage.readState.newest(channel))
    const { marked, retellMs } = await ask(channelActor, channel, {
      type: "ackMessages",
      user,
      message_id,
      isNewest: message === null,
      isShown: caller.read_receipts,
      isBulk,
    })
    if (retellMs !== undefined) jobs.later(retellMs, () => tellAck(channel, user))
    return marked
  }

  /** The user's choice may have changed since. */
  async function tellAck(channel: Snowflake, user: Snowflake): Promise<void> {
    const choice = await storage.messagingSettings.find(user)
    await ask(channelActor, channel, { type: "tellAck", user, isShown: choice?.read_receipts_enabled ?? true })
  }

  return {
    async ackMessages({ params: { channel_id }, query, body, caller }) {
      const message_id = query.message_id ?? body.message_id ?? null
      if (message_id !== null && !isId(message_id)) throw fail("invalid_message_id")
      return { success: true, messages_marked: await ack(caller, channel_id, message_id, false) }
    },

    async ackChannels({ body, caller }) {
      const entries = Object.entries(body).filter(
        (entry): entry is [Snowflake, Snowflake | null] =>
          isId(entry[0]) && (entry[1] === null || (typeof entry[1] === "string" && isId(entry[1]))),
      )
      // Channels that the user cannot reach load no home.
      const reachable = await storage.readState.reachable(
        caller.user_id,
        entries.map(([channel]) => channel),
      )
      const next = entries.filter(([channel]) => reachable.has(channel)).values()
      const work = async () => {
        for (const [channel, message] of next)
          await ack(caller, channel, message, true).catch((error: unknown) => {
            // Channels that the user may not read, or that do not exist, are left out.
            if (!(error instanceof Failure) || error.code === "unavailable") throw error
          })
      }
      await Promise.all(Array.from({ length: maxConcurrentAcks }, work))
      return success
    },

    async getUnread({ params: { channel_id }, caller: { user_id } }) {
      const { server_id } = await ask(channelActor, channel_id, { type: "requireRead", user: user_id })
      const unread = await storage.readState.unreadIn(user_id, channel_id, server_id)
      countBehind(channel_id)
      return unread
    },

    listUnread: ({ caller }) => unreadOf(caller.user_id),
  }

  async function listUnread(user_id: Snowflake) {
    const [ahead, servers] = await Promise.all([
      storage.readState.channelsAhead(user_id),
      storage.readState.outlines(user_id),
    ])
    const outlines = new Map(servers.map(server => [server.id, server]))
    const readable = ahead.filter(({ id, server_id }) => {
      if (server_id === null) return true
      const server = outlines.get(server_id)
      const member = server && { user_id, roles: server.member_roles }
      const overrides = server?.overrides.get(id) ?? []
      return (
        member !== undefined &&
        holdsIn(server!, overrides, member, "channels.view") &&
        holdsIn(server!, overrides, member, "messages.read")
      )
    })
    const unread = readable.length === 0 ? [] : await storage.readState.unread(user_id, readable)
    const counts = (of: "unread_count" | "mention_count") =>
      Object.fromEntries(unread.flatMap(one => (one[of] > 0 ? [[one.channel_id, one[of]]] : [])))
    for (const { channel_id, unread_count } of unread) if (unread_count > countAboveUnread) countBehind(channel_id)
    return { unread_counts: counts("unread_count"), mention_counts: counts("mention_count") }
  }
}
