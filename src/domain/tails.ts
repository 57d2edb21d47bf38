import type { Snowflake } from "../contract/fields.ts"
import { bytesOf, charactersOf } from "./message-sizes.ts"
import { compareIds } from "./snowflake.ts"
import type { MessageState } from "./messages.ts"

/** The newest messages of a channel that is being read, as its home has them in memory. */
export interface Tail {
  /** The oldest first. */
  readonly messages: Readonly<MessageState>[]
  /** Whether the channel has no older ones. */
  isWhole: boolean
  /** When it began to be read, in Unix milliseconds. */
  readonly since: number
  /** What its messages take, roughly. */
  bytes: number
  /** That was too much: nothing is in it until it is read anew. */
  isTooLong: boolean
  /** What no other tail is called; with `changes` what a state of this one is called. */
  name: Snowflake
  changes: number
}

/** So many are read; at twice as many the oldest are let go. */
export const tailLength = 100
/** With fewer it is read anew, if there are older ones. */
const tailShortest = 50
/** Characters of a page from it, roughly: a longer one would fill the way between two workers. */
const longestPage = 131_072
/** Bytes of a tail that is worth its place; ordinary messages take a tenth of it. */
const mostBytes = 1024 * 1024

/** What a client asks of a history; see `PageQuery`. */
export interface PagePlace {
  readonly limit: number
  readonly before?: Snowflake | undefined
  readonly after?: Snowflake | undefined
  readonly around?: Snowflake | undefined
}

/** @param newest the newest first, as many as `tailLength` where there are as many */
export function newTail(newest: readonly Readonly<MessageState>[], since: number): Tail {
  const tail: Tail = {
    messages: newest.toReversed(),
    isWhole: newest.length < tailLength,
    since,
    bytes: newest.reduce((sum, message) => sum + bytesOf(message), 0),
    isTooLong: false,
    name: "",
    changes: 0,
  }
  shorten(tail)
  return tail
}

/** Lets go what is too much. */
function shorten(tail: Tail): void {
  const { messages } = tail
  const surplus = messages.length - tailLength
  if (surplus >= tailLength || (surplus > 0 && tail.bytes > mostBytes)) {
    for (const message of messages.splice(0, surplus)) tail.bytes -= bytesOf(message)
    tail.isWhole = false
  }
  if (tail.bytes <= mostBytes) return
  messages.length = 0
  Object.assign(tail, { isWhole: false, bytes: 0, isTooLong: true })
}

/** The same as long as no page from it is another. */
export const versionOf = ({ name, changes }: Readonly<Tail>): string => `${name} ${changes}`

/** What was decided while it was read: only what the author is called the database knows better. */
export function mergeIntoTail(tail: Tail, message: Readonly<MessageState>): void {
  const known = tail.messages[placeOf(tail.messages, message.id)]
  if (known?.id !== message.id) return putInTail(tail, message)
  const { author_username, author_badges, author_bot = false } = known
  putInTail(tail, { ...message, author_username, author_badges, author_bot })
}

/** The place of the first message that is not below an id. */
function placeOf(messages: readonly Readonly<MessageState>[], id: Snowflake): number {
  let [low, high] = [0, messages.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compareIds(messages[middle]!.id, id) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** A message was sent or has changed. One that is older than all of them is none of them, unless there are no others. */
export function putInTail(tail: Tail, message: Readonly<MessageState>): void {
  if (tail.isTooLong) return
  const { messages } = tail
  tail.changes++
  const place = placeOf(messages, message.id)
  const known = messages[place]
  const isKnown = known?.id === message.id
  if (!isKnown && place === 0 && messages.length > 0 && !tail.isWhole) return
  messages.splice(place, isKnown ? 1 : 0, message)
  tail.bytes += bytesOf(message) - (isKnown ? bytesOf(known) : 0)
  shorten(tail)
}

/** @returns whether enough are left */
export function dropFromTail(tail: Tail, id: Snowflake): boolean {
  if (tail.isTooLong) return true
  const { messages, isWhole } = tail
  tail.changes++
  const place = placeOf(messages, id)
  if (messages[place]?.id === id) for (const gone of messages.splice(place, 1)) tail.bytes -= bytesOf(gone)
  return isWhole || messages.length >= tailShortest
}

/** What a user is called has changed. */
export function renameInTail(tail: Tail, user: Snowflake, name: string, badges: readonly string[]): void {
  const { messages } = tail
  tail.changes++
  for (const [place, message] of messages.entries())
    if (message.author_id === user) messages[place] = { ...message, author_username: name, author_badges: badges }
}

/** The page as the database would answer it; undefined where the tail does not reach, or it is too long to be sent on. */
export function pageOfTail(tail: Readonly<Tail>, place: PagePlace): Readonly<MessageState>[] | undefined {
  const page = reachable(tail, place)
  let characters = 0
  for (const message of page ?? []) {
    characters += charactersOf(message)
    if (characters > longestPage) return undefined
  }
  return page
}

function reachable({ messages, isWhole }: Readonly<Tail>, { limit, before, after, around }: PagePlace) {
  const down = (end: number, most: number) => {
    if (end < most && !isWhole) return undefined
    return messages.slice(Math.max(0, end - most), end).reverse()
  }
  if (around !== undefined) {
    const end = placeAfter(messages, around)
    const newer = Math.floor((limit - 1) / 2)
    const older = down(end, limit - newer)
    return older && [...messages.slice(end, end + newer).reverse(), ...older]
  }
  if (before === undefined && after !== undefined) {
    const start = placeAfter(messages, after)
    // Below the first of them there may be others after the position.
    return start === 0 && !isWhole ? undefined : messages.slice(start, start + limit)
  }
  return down(before === undefined ? messages.length : placeOf(messages, before), limit)
}

function placeAfter(messages: readonly Readonly<MessageState>[], id: Snowflake): number {
  const place = placeOf(messages, id)
  return messages[place]?.id === id ? place + 1 : place
}
