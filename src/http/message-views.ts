import type { ReadMarks } from "../actors/read-state.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Message } from "../contract/messages.ts"
import type { MessageState } from "../domain/states.ts"
import { messageObject } from "../domain/messages.ts"
import { pollResults } from "../domain/polls.ts"
import { shownReactions, tallyKey } from "../domain/reactions.ts"
import { voteKey } from "../storage/polls.ts"
import { Encoded, type Http } from "./handlers.ts"
import { addReceipt, receiptsIn, receiptsOf, type Receipt } from "./receipts.ts"

/** Messages of one channel as a reader sees them: with what is his alone. */
export async function seenBy(
  http: Pick<Http, "ask" | "linkTo" | "clock" | "storage" | "delivered">,
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
): Promise<Message[]> {
  const view = await viewOf(http, reader, messages)
  return messages.map((message, i) => view.whole(message, i))
}

/** The same of messages that stay in memory: what everybody sees of one is put into words once, as long as it does not change. */
export async function hotPage(
  http: Pick<Http, "ask" | "linkTo" | "clock" | "storage" | "delivered">,
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
  { marks, readers }: ReadMarks,
): Promise<Encoded<Message[]>> {
  const isUsual = (i: number) => isPlain(messages[i]!) && marks[i]!.by.length === 0
  const view = messages.every((_, i) => isUsual(i))
    ? undefined
    : await viewOf(http, reader, messages, receiptsIn(http.storage, [{ asked: messages, marks, readers }]))
  const delivered = view?.delivered ?? (await deliveredOf(http.delivered, messages))
  const pieces: Buffer[] = []
  for (const [i, message] of messages.entries())
    if (isUsual(i)) pieces.push(headOf(message, http), usualEnd(marks[i]!, delivered[i]!))
    else pieces.push(Buffer.from(`,${JSON.stringify(view!.whole(message, i))}`))
  let length = 1
  for (const piece of pieces) length += piece.length
  const bytes = Buffer.allocUnsafe(Math.max(2, length))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  // Each begins with a comma.
  bytes[0] = 0x5b
  bytes[Math.max(1, at)] = 0x5d
  return new Encoded(bytes)
}

/** What is one reader's alone, looked up for all of them at once. */
async function viewOf(
  http: Pick<Http, "ask" | "linkTo" | "clock" | "storage" | "delivered">,
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
  known: Promise<ReadonlyMap<Snowflake, Receipt>> = receiptsOf(http, reader, messages),
) {
  const now = http.clock()
  const [votes, own, receipts, delivered] = await Promise.all([
    votesOf(http.storage, reader, messages),
    ownReactionsIn(http.storage, reader, messages),
    known,
    deliveredOf(http.delivered, messages),
  ])
  return {
    delivered,
    whole(message: Readonly<MessageState>, i: number): Message {
      const shown = messageObject(message, { reader, linkTo: http.linkTo, now })
      addReceipt(shown, receipts.get(message.id))
      addDelivered(shown, receipts.get(message.id)?.isHidden ? 0 : delivered[i]!)
      shown.reactions = shownReactions(message.reactions, key => own.has(`${message.id}:${key}`))
      const { poll } = message
      if (poll) shown.poll_results = pollResults(poll, message.id, votes.get(voteKey(poll.id, reader)) ?? [], now)
      return shown
    },
  }
}

/** What a message is to those who were sent it. */
type ReadBy = Pick<Message, "status" | "delivery_count" | "read_count" | "read" | "read_by">

/** Nothing in it depends on who reads it when, but what `ReadBy` has. */
const isPlain = ({ attachments, reactions, poll }: Readonly<MessageState>): boolean =>
  !attachments?.length && !reactions?.length && !poll

/** By message as it stands: a changed one is another object, and what is said of one goes with it. */
const heads = new WeakMap<Readonly<MessageState>, Buffer>()

/** A comma, and a plain message as JSON, but for its end. */
function headOf(message: Readonly<MessageState>, { linkTo, clock }: Pick<Http, "linkTo" | "clock">): Buffer {
  let head = heads.get(message)
  if (!head) {
    const all = messageObject(message, { reader: null, linkTo, now: clock() })
    const { status: _, delivery_count: _d, read_count: _c, read: _r, read_by: _b, ...shown } = all
    head = Buffer.from(`,${JSON.stringify(shown).slice(0, -1)},`)
    heads.set(message, head)
  }
  return head
}

/** By how often a message was delivered and read, and whether the reader has: on a page most are the same. */
const ends = new Map<number, Buffer>()
const mostEnds = 1_000
const mostReaders = 2 ** 20

/** The rest of what `headOf` begins, where no reader is named. */
function usualEnd({ count, read, isHidden: hidden }: ReadMarks["marks"][number], delivered: number): Buffer {
  const isHidden = hidden ?? false
  const key = ((isHidden ? 0 : delivered) * mostReaders + count) * 2 + (read ? 1 : 0)
  let end = ends.get(key)
  if (!end) {
    const shown: ReadBy = { status: "sent", delivery_count: 0, read_count: 0, read, read_by: [] }
    addReceipt(shown, { read_count: count, read, read_by: [], isHidden })
    addDelivered(shown, isHidden ? 0 : delivered)
    const { status, delivery_count, read_count } = shown
    end = Buffer.from(JSON.stringify({ status, delivery_count, read_count, read, read_by: [] }).slice(1))
    if (ends.size >= mostEnds) ends.clear()
    ends.set(key, end)
  }
  return end
}

/** To how many people each message was delivered. */
async function deliveredOf(
  delivered: Http["delivered"],
  messages: readonly Readonly<MessageState>[],
): Promise<readonly number[]> {
  const [first] = messages
  return first ? delivered.counts(first.channel_id, first.server_id, messages) : []
}

/** After its readers: whoever has read a message has received it, whichever of the two was looked up a moment later. */
function addDelivered(message: ReadBy, count: number): void {
  message.delivery_count = Math.max(count, message.read_count)
  if (message.read_count === 0) message.status = message.delivery_count > 0 ? "delivered" : "sent"
}

/** What the reader has voted for; most pages have nothing to vote on. */
async function votesOf(
  storage: Http["storage"],
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
): Promise<ReadonlyMap<string, readonly Snowflake[]>> {
  const polls = messages.flatMap(({ poll }) => (poll ? [{ poll: poll.id, user: reader }] : []))
  return polls.length === 0 ? new Map() : storage.polls.votes(polls)
}

/** The reactions of a message as a reader sees them. */
export async function reactionsSeenBy(
  storage: Http["storage"],
  reader: Snowflake,
  message: Readonly<MessageState>,
): Promise<Message["reactions"]> {
  const own = await ownReactionsIn(storage, reader, [message])
  return shownReactions(message.reactions, key => own.has(`${message.id}:${key}`))
}

/** What the reader has reacted with, as `message:emoji`. */
async function ownReactionsIn(
  storage: Http["storage"],
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
): Promise<ReadonlySet<string>> {
  const used = messages.flatMap(({ id, reactions }) =>
    (reactions ?? []).map(tally => ({ message_id: id, emoji: tallyKey(tally) })),
  )
  if (used.length === 0) return new Set()
  const own = await storage.reactions.ownIn(messages[0]!.channel_id, reader, used)
  return new Set(own.map(({ message_id, emoji }) => `${message_id}:${emoji}`))
}
