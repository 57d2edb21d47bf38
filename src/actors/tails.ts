import type { Snowflake } from "../contract/fields.ts"
import { msOf } from "../domain/snowflake.ts"
import type { ServerState } from "../domain/servers.ts"
import type { MessageState } from "../domain/messages.ts"
import {
  dropFromTail,
  mergeIntoTail,
  newTail,
  pageOfTail,
  putInTail,
  renameInTail,
  tailLength,
  versionOf,
  type PagePlace,
  type Tail,
} from "../domain/tails.ts"
import { messageKey } from "../storage/messages.ts"
import type { ChannelDeletion } from "./channel-settings.ts"
import { noteRename, readMessages } from "./renames.ts"
import type { Readonlied } from "../domain/core/readonlied.ts"
import type { Moment } from "./runtime/actor.ts"
import { messageFacts } from "./messages/message-facts.ts"
import { defineFact, defineMemory } from "./runtime/facts.ts"

/**
 * The newest messages of channels that are being read, in their home's memory. They keep:
 *   TAIL1  A page from a tail is what the database would answer once all that the home has decided is committed. Only names of
 *       authors who are no members may be as old as `lasts`.
 */

/** A channel is being read as long as somebody read it so long ago, in milliseconds. */
const readFor = 60_000
/** Milliseconds after which a tail is read anew: names change elsewhere. */
const lasts = 10_000
/** One that was too long to be kept, so much later. */
const rests = 60_000

type Server = Readonlied<ServerState>

/** By channel whose tail is being read: what was decided about its messages meanwhile, by id. */
export const tailsUnderWay = defineMemory<ServerState, Map<Snowflake, Map<Snowflake, MessageState | null>>>(
  () => new Map(),
)

/** When the history of a channel was last read, in Unix milliseconds; the latest last. */
export const historyReads = defineMemory<ServerState, Map<Snowflake, number>>(() => new Map())

export const tailFacts = defineFact<ServerState, Tail>({
  keep: 20,
  keepBytes: 2 * 1024 * 1024,
  sizeOf: ({ bytes }) => bytes,
  async load(storage, _server, channels, home, now) {
    for (const channel of channels) {
      // What the home has decided by now may not be committed, and what it decides meanwhile is not in the answer.
      const decided = new Map<Snowflake, MessageState | null>()
      for (const [key, message] of messageFacts.of(home))
        if (key.startsWith(`${channel}:`)) decided.set(key.slice(channel.length + 1), message)
      tailsUnderWay.of(home).set(channel, decided)
      try {
        const read = () => storage.messages.page(channel, { limit: tailLength })
        await readMessages(home, read, (newest, renames) => {
          const tail = newTail(newest, now)
          for (const [id, message] of decided)
            if (message) mergeIntoTail(tail, message)
            else dropFromTail(tail, id)
          for (const [user, { author_username, author_badges }] of renames)
            renameInTail(tail, user, author_username, author_badges)
          renameAsIn(tail, home)
          // Meanwhile its readers may have gone, or the channel.
          if (historyReads.of(home).has(channel)) tailFacts.of(home).set(channel, tail)
        })
      } finally {
        tailsUnderWay.of(home).delete(channel)
      }
    }
    return new Map()
  },
})

/** What is remembered may be older than the tail, into which it comes when it changes. */
function renameAsIn({ messages }: Readonly<Tail>, home: ServerState): void {
  for (const { channel_id, id, author_username, author_badges, author_bot = false } of messages) {
    const key = messageKey(channel_id, id)
    const known = messageFacts.of(home).get(key)
    if (known && known.author_username !== author_username)
      messageFacts.of(home).set(key, { ...known, author_username, author_badges, author_bot })
  }
}

/** What a reader's page needs: a channel that was read just now is worth its place in memory. */
export const tailNeeds = (home: Server, channel: Snowflake) =>
  historyReads.of(home).has(channel) ? [tailFacts.need(channel)] : []

export interface HotPage {
  readonly version: string
  readonly messages: readonly Readonlied<MessageState>[]
}

/** The page, if it is in memory. A tail that nobody has taken one from yet is called `name` from then on. */
export function hotPage(
  home: Server,
  channel: Snowflake,
  place: PagePlace,
  { now, newId }: Moment,
): (HotPage & { readonly name: Snowflake }) | undefined {
  const tail = tailFacts.of(home).get(channel) as Readonly<Tail> | null | undefined
  if (!tail || !isFresh(tail, now)) return undefined
  const messages = pageOfTail(tail, place)
  if (!messages) return undefined
  const name = tail.name || newId()
  return { messages, name, version: versionOf({ ...tail, name }) }
}

/** Somebody reads a channel. What nobody reads any more makes room. */
export function noteRead(draft: ServerState, channel: Snowflake, now: number, name: Snowflake | undefined): void {
  historyReads.of(draft).delete(channel)
  historyReads.of(draft).set(channel, now)
  dropUnread(draft, now)
  const tail = tailFacts.of(draft).get(channel)
  if (!tail || !isFresh(tail, now)) tailFacts.of(draft).delete(channel)
  else if (name !== undefined) tail.name = name
}

function dropUnread(draft: ServerState, now: number): void {
  for (const [channel, at] of historyReads.of(draft)) {
    if (now - at < readFor) break
    forgetHistory(draft, channel)
  }
}

/** The history of a channel ends with it. */
export const historyDeletion: ChannelDeletion = {
  effects: (_, channel) => ({ apply: draft => forgetHistory(draft, channel) }),
}

/** Nobody reads the channel, or it is gone. */
function forgetHistory(draft: ServerState, channel: Snowflake): void {
  historyReads.of(draft).delete(channel)
  tailFacts.of(draft).delete(channel)
}

const isFresh = ({ since, isTooLong }: Pick<Tail, "since" | "isTooLong">, now: number) =>
  now - since < (isTooLong ? rests : lasts)

/** A message was sent or has changed; null: it is gone. */
export function noteInTail(draft: ServerState, channel: Snowflake, id: Snowflake, message: MessageState | null): void {
  tailsUnderWay.of(draft).get(channel)?.set(id, message)
  // That of a new message tells the time; an older one drops nothing.
  dropUnread(draft, msOf(id))
  const tail = tailFacts.of(draft).get(channel)
  if (!tail) return
  if (message) putInTail(tail, message)
  else if (!dropFromTail(tail, id)) {
    tailFacts.of(draft).delete(channel)
    return
  }
  tailFacts.of(draft).set(channel, tail) // it weighs something else
}

/** A member is called something else from now on. */
export function renameInTails(draft: ServerState, user: Snowflake, name: string, badges: readonly string[]): void {
  noteRename(draft, user, name, badges)
  for (const [key, message] of messageFacts.of(draft))
    if (message?.author_id === user)
      messageFacts.of(draft).set(key, { ...message, author_username: name, author_badges: badges })
  for (const tail of tailFacts.of(draft).values()) if (tail) renameInTail(tail, user, name, badges)
}
