import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/messages/pins.ts"
import { messageUpdate } from "../../contract/messages/messages.ts"
import { messageObject, withAuthor, type MessageState } from "../../domain/messages/messages.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { PinsState } from "../../domain/messages/pins.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import { setPinned } from "../../storage/messages/pins.ts"
import { accessOf } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { member } from "../shared/member-facts.ts"
import { message, messageFacts } from "./message-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, TurnContext } from "../../runtime/actor.ts"
import type { MessageDeletionPart } from "./message-deletion.ts"
import { toViewers } from "./viewers.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * The pinned messages of a channel, among its commands. They keep:
 *   PIN1  A channel never exceeds its limit of pins under concurrent requests.
 *   PIN2  A later pin has a later time.
 */
export interface PinCommands {
  pinMessage(input: Input): { changed: boolean }
  unpinMessage(input: Input): { changed: boolean }
}

type Message = Readonlied<MessageState>
type Context = TurnContext<ServerState, ChannelState>
type Input = AuditContext & {
  message_id: Snowflake
  /**
   * The message's author with their current name: the home is not told about users who are not
   * members. Undefined: a webhook sent it, or there is no such message.
   */
  author: Actor | undefined
}

/** By channel. */
export const pinFacts = defineFact<ServerState, PinsState>({
  keep: 100,
  async load(storage, _server, channels) {
    const found = new Map<string, PinsState>()
    for (const channel of channels) found.set(channel, await storage.messages.pins(channel))
    return found
  },
})

export const pinCommands: ActorKind<ServerState, ChannelState, PinCommands>["commands"] = {
  pinMessage: {
    needs: needsPins,
    turn(context, input) {
      const { state: channel, home: server, now } = context
      const found = pinnable(context, input)
      if (found.pinned_at) return { reply: { changed: false } }
      const { count, latest } = pinFacts.of(server).get(channel.id) ?? { count: 0, latest: 0 }
      if (count >= limits.pinsPerChannel) throw fail("pin_limit") // PIN1
      return changed(context, input, found, Math.max(now, latest + 1)) // PIN2
    },
  },

  unpinMessage: {
    needs: needsPins,
    turn(context, input) {
      const found = pinnable(context, input)
      return found.pinned_at ? changed(context, input, found, null) : { reply: { changed: false } }
    },
  },
}

function needsPins({ user, message_id }: Input, { id, home }: { id: Snowflake; home: Readonlied<ServerState> }) {
  return [member(user), ...pair(home), message(id, message_id), pinFacts.need(id)]
}

/** Outside servers everybody may pin who takes part. */
function pinnable({ state: channel, home: server, now }: Context, { user, message_id }: Input): Message {
  const access = accessOf(server, channel.id, user, now)
  if (server.participants === null) access.require("messages.manage")
  const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
  if (!found) throw fail("message_not_found")
  requireOpen(server)
  return found
}

function changed(
  context: Context,
  { user, reason, message_id, author }: Input,
  found: Message,
  pinned_at: number | null,
) {
  const { state: channel, home: server, now, linkTo } = context
  const after = { ...withAuthor(found, author), pinned_at } as MessageState
  const isPinned = pinned_at !== null
  if (server.participants === null)
    audit(
      { ...context, user, reason },
      isPinned ? "MESSAGE_PIN" : "MESSAGE_UNPIN",
      { type: "message", id: message_id },
      { channel_id: { old: isPinned ? null : channel.id, new: isPinned ? channel.id : null } },
    )
  return {
    apply: (draft: ServerState) => {
      keep(draft, after)
      countPins(draft, channel.id, isPinned ? 1 : -1, pinned_at ?? 0)
    },
    write: [setPinned({ channel_id: channel.id, id: message_id, pinned_at })],
    publish: toViewers(server, channel.id, messageUpdate, messageObject(after, { linkTo, now, reader: null })),
    reply: { changed: true },
  }
}

/**
 * What is remembered of a channel's pins follows, where a command has asked for it. `at`: when the
 * latest was pinned.
 */
function countPins(draft: ServerState, channel: Snowflake, by: number, at = 0): void {
  const known = pinFacts.of(draft).get(channel)
  if (known) pinFacts.of(draft).set(channel, { count: known.count + by, latest: Math.max(known.latest, at) })
}

/**
 * A deleted message is no longer pinned. The count is read after the messages: one that is read
 * while a pin is being removed would stay too high.
 */
export const pinsDeletion: MessageDeletionPart = {
  needs: (channel, found) => (found.some(isPinned) ? [pinFacts.need(channel)] : []),
  effects: (channel, found) => ({
    apply: draft => countPins(draft, channel, -found.filter(isPinned).length),
  }),
}

const isPinned = ({ pinned_at }: Message): boolean => pinned_at !== null && pinned_at !== undefined
