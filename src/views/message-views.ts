import type { ReadMarks } from "../actors/messages/read-state.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { limits } from "../contract/core/limits.ts"
import type { Message } from "../contract/messages/messages.ts"
import { type MessageState, messageObject } from "../domain/messages/messages.ts"
import { shownReactions, tallyKey } from "../domain/messages/reactions.ts"
import { pollResults } from "../domain/messages/polls.ts"
import { endOf, headOf, isPlain, type ReadBy } from "../domain/messages/message-text.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import { voteKey } from "../storage/messages/polls.ts"
import type { HotPage } from "./hot-pages.ts"
import type { ViewSources } from "./sources.ts"
import { addReceipt, isRead, receiptsIn, receiptsOf, type Receipt } from "./receipts.ts"

/** Messages of one channel as a reader sees them, with what only that reader sees. */
export async function seenBy(
  sources: ViewSources,
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
): Promise<Message[]> {
  const view = await viewOf(sources, reader, messages)
  return messages.map((message, i) => view.whole(message, i))
}

/**
 * The same, of a list that ends early where it would be too long: at its first message at the
 * earliest. What does not fit is not written.
 */
export async function listSeenBy(
  sources: ViewSources,
  reader: Snowflake,
  { messages, isCut }: Pick<PageParts, "messages" | "isCut">,
): Promise<SeenPage> {
  const view = await viewOf(sources, reader, messages)
  return pageOf({ messages, isCut, around: undefined }, i => JSON.stringify(view.whole(messages[i]!, i)))
}

/** A page of one channel as a reader sees it. */
export interface SeenPage {
  /** A list of messages: text, or its UTF-8. */
  readonly json: string | Uint8Array
  /** Its last message, where the page ended early because it would have been too long. */
  readonly next: Snowflake | null
}

/** What a page is made of. */
export interface PageParts {
  readonly messages: readonly Readonly<MessageState>[]
  /** There were more, but they would have been too many bytes. */
  readonly isCut: boolean
  readonly marks: ReadMarks
  /** Which newest page it is. */
  readonly hot?: HotPage | undefined
  /** The message that the page is around. */
  readonly around?: Snowflake | undefined
}

/** A page of one channel, as its reader sees it, whom its home has let in. */
export async function pageSeenBy(sources: ViewSources, reader: Snowflake, parts: PageParts): Promise<SeenPage> {
  const { messages, marks, hot } = parts
  const named = new Set(marks.named.map(([place]) => place))
  const isUsual = (message: Readonly<MessageState>, i: number) => isPlain(message) && !named.has(i)
  if (messages.every(isUsual)) {
    const seen = { reader, marks, delivered: await deliveredOf(sources.delivered, messages) }
    const ends = messages.map((message, i) => usualEnd(message, i, seen))
    const known = hot?.bodyWith(ends)
    if (known) return known
    const page = pageOf(parts, i => headOf(messages[i]!) + ends[i]!)
    return hot ? hot.keepBody(ends, page) : page
  }
  const view = await viewOf(
    sources,
    reader,
    messages,
    receiptsIn(sources.storage, reader, [{ asked: messages, marks }]),
  )
  const seen = { reader, marks, delivered: view.delivered }
  return pageOf(parts, i => {
    const message = messages[i]!
    return isUsual(message, i) ? headOf(message) + usualEnd(message, i, seen) : JSON.stringify(view.whole(message, i))
  })
}

/**
 * As much of a page as fits: from its first message on, or from the one that it is around in both
 * directions. What does not fit is not written.
 */
export function pageOf(
  {
    messages,
    isCut,
    around,
  }: Pick<PageParts, "isCut" | "around"> & { readonly messages: readonly { id: Snowflake }[] },
  jsonOf: (i: number) => string,
): SeenPage & { readonly json: string } {
  const centre =
    around === undefined
      ? 0
      : Math.max(
          0,
          messages.findIndex(({ id }) => compareIds(id, around) <= 0),
        )
  const shown: string[] = []
  let units = 0
  let bytes: number | undefined
  /** The message at a place, if there is one and it fits; the first one does. */
  const fitting = (i: number): string | undefined => {
    if (i < 0 || i >= messages.length) return undefined
    const json = jsonOf(i)
    units += json.length + 1
    // A unit takes up to three bytes. They are counted only where that matters.
    if (units * 3 <= limits.messagesPageBytes) return json
    bytes ??= shown.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0)
    bytes += Buffer.byteLength(json) + 1
    return bytes <= limits.messagesPageBytes || shown.length === 0 ? json : undefined
  }
  let [from, to] = [centre, centre]
  for (let [isOpenBehind, isOpenBefore] = [true, true]; isOpenBehind || isOpenBefore;) {
    const behind = isOpenBehind ? fitting(to) : undefined
    if (behind === undefined) isOpenBehind = false
    else {
      shown.push(behind)
      to++
    }
    const before = isOpenBefore ? fitting(from - 1) : undefined
    if (before === undefined) isOpenBefore = false
    else {
      shown.unshift(before)
      from--
    }
  }
  const isWhole = !isCut && shown.length === messages.length
  return { json: `[${shown.join(",")}]`, next: isWhole ? null : messages[to - 1]!.id }
}

/** What is one reader's alone, looked up for all of them at once. */
async function viewOf(
  sources: ViewSources,
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
  known: Promise<ReadonlyMap<Snowflake, Receipt>> = receiptsOf(sources, reader, messages),
) {
  const now = sources.clock()
  const [votes, own, receipts, delivered] = await Promise.all([
    votesOf(sources.storage, reader, messages),
    ownReactionsIn(sources.storage, reader, messages),
    known,
    deliveredOf(sources.delivered, messages),
  ])
  return {
    delivered,
    whole(message: Readonly<MessageState>, i: number): Message {
      const shown = messageObject(message, { reader, linkTo: sources.linkTo, now })
      addReceipt(shown, receipts.get(message.id))
      addDelivered(shown, receipts.get(message.id)?.isHidden ? 0 : delivered[i]!)
      shown.reactions = shownReactions(message.reactions, key => own.has(`${message.id}:${key}`))
      const { poll } = message
      if (poll) shown.poll_results = pollResults(poll, message.id, votes.get(voteKey(poll.id, reader)) ?? [], now)
      return shown
    },
  }
}

/**
 * By how often a message was delivered and read, and whether the reader has: on a page most are the
 * same.
 */
const ends = new Map<number, string>()
const maxEnds = 1_000
const maxReaders = 2 ** 20

/** What closes a `headOf`, where no reader is named. */
function usualEnd(
  message: Readonly<MessageState>,
  i: number,
  seen: { readonly reader: Snowflake; readonly marks: ReadMarks; readonly delivered: readonly number[] },
): string {
  const { isHidden = false, counts } = seen.marks
  const [count, delivered] = [counts[i]!, isHidden ? 0 : seen.delivered[i]!]
  const read = isRead(message, seen.reader, seen.marks)
  const key = (delivered * maxReaders + count) * 2 + (read ? 1 : 0)
  let end = ends.get(key)
  if (!end) {
    const shown: ReadBy = { status: "sent", delivery_count: 0, read_count: 0, read, read_by: [] }
    addReceipt(shown, { read_count: count, read, read_by: [], isHidden })
    addDelivered(shown, delivered)
    end = endOf(shown)
    if (ends.size >= maxEnds) ends.clear()
    ends.set(key, end)
  }
  return end
}

/** To how many people each message was delivered. */
async function deliveredOf(
  delivered: ViewSources["delivered"],
  messages: readonly Readonly<MessageState>[],
): Promise<readonly number[]> {
  const [first] = messages
  return first ? delivered.counts(first.channel_id, first.server_id, messages) : []
}

/**
 * Counted with the readers: a user who has read a message has received it, even if one of the two
 * was looked up a moment later.
 */
function addDelivered(message: ReadBy, count: number): void {
  message.delivery_count = Math.max(count, message.read_count)
  if (message.read_count === 0) message.status = message.delivery_count > 0 ? "delivered" : "sent"
}

/** What the reader has voted for; most pages have nothing to vote on. */
async function votesOf(
  storage: ViewSources["storage"],
  reader: Snowflake,
  messages: readonly Readonly<MessageState>[],
): Promise<ReadonlyMap<string, readonly Snowflake[]>> {
  const polls = messages.flatMap(({ poll }) => (poll ? [{ poll: poll.id, user: reader }] : []))
  return polls.length === 0 ? new Map() : storage.polls.votes(polls)
}

/** The reactions of a message as a reader sees them. */
export async function reactionsSeenBy(
  storage: ViewSources["storage"],
  reader: Snowflake,
  message: Readonly<MessageState>,
): Promise<Message["reactions"]> {
  const own = await ownReactionsIn(storage, reader, [message])
  return shownReactions(message.reactions, key => own.has(`${message.id}:${key}`))
}

/** What the reader has reacted with, as `message:emoji`. */
async function ownReactionsIn(
  storage: ViewSources["storage"],
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
