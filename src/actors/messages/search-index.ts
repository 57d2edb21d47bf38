import type { Clock, Timer } from "../../std/clock.ts"
import { foldedText, mayHaveStem, vectorText, wordsOf, type SearchSource } from "../../domain/messages/search-text.ts"
import type { Log } from "../../observability/log.ts"
import { isDataError } from "../../storage/core/database.ts"
import type { IndexedMessage, MessagePlace } from "../../storage/messages/search.ts"
import type { SearchIndexStorage } from "../../storage/storage.ts"
import type { RowSubscriber } from "../../runtime/plugs.ts"
import type { RowItem } from "../../runtime/row.ts"
import { backoffMs } from "../../std/backoff.ts"

export interface SearchIndexBounds {
  /** How long messages are gathered. */
  readonly gatherForMs: number
  /** Messages in one write. */
  readonly batch: number
  /** Messages that wait in memory. Further ones wait in the database. */
  readonly waiting: number
  /** The share of a connection's time that indexing takes while much is sent. */
  readonly share: number
  /**
   * If the index has been behind for this long it takes all the time that it needs, so it is never
   * much further behind.
   */
  readonly maxBehindMs: number
  /**
   * How long after the first new row all new rows are sorted into the indexes, unless much is sent.
   */
  readonly sortEveryMs: number
}

interface Waiting {
  readonly key: MessagePlace
  readonly done: (() => void)[]
}

const keyOf = ({ channel_id, message_id }: MessagePlace): string => `${channel_id}:${message_id}`

/** How many words' stems are remembered. */
const rememberedStems = 50_000
/** How often the database's list of messages that are not indexed is checked; any worker may fill it. */
const backlogEveryMs = 60_000

/**
 * Keeps the search index behind what is published. It keeps:
 *   IDX1  A message counts as indexed only when the index, or the list of messages to index, has
 *       its current or a later content.
 * However much is sent, what waits in memory is bounded, and the database is asked one thing at a time.
 */
export class SearchIndex {
  readonly #storage: SearchIndexStorage
  readonly #bounds: SearchIndexBounds
  readonly #languages: readonly string[]
  readonly #adds: boolean
  readonly #clock: Clock
  readonly #log: Log
  readonly #waiting = new Map<string, Waiting>()
  readonly #stems = new Map<string, readonly string[]>()
  #running = false
  #stopped = false
  /** Messages that were sent since the last batch. */
  #added = 0
  #caughtUpAt = 0
  #looking: Timer | undefined
  #pausing: Timer | undefined
  #sorting: Timer | undefined
  #goOn: (() => void) | undefined
  /** The database's list may have entries. */
  #hasBacklog = true
  /** How many rows are not sorted into the indexes, and since when there are any. */
  #unsorted = 0
  #unsortedSince = 0
  #maySort = true
  /** Little is sent. */
  #isQuiet = true

  constructor(options: {
    storage: SearchIndexStorage
    bounds: SearchIndexBounds
    languages: readonly string[]
    /**
     * False: search is switched off. Nothing is added to the index; only what is no longer true is
     * removed.
     */
    adds?: boolean
    clock: Clock
    log: Log
  }) {
    this.#storage = options.storage
    this.#bounds = options.bounds
    this.#languages = options.languages
    this.#adds = options.adds ?? true
    this.#clock = options.clock
    this.#log = options.log
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Messages that are published are read again, as they are now. */
  readonly subscriber: RowSubscriber = items => {
    const messages = messagesIn(items)
    return messages.length === 0 ? undefined : this.add(messages)
  }

  /** Reads these messages anew; resolves when they can be found as they are now. */
  add(keys: readonly MessagePlace[]): Promise<void> {
    if (keys.length === 0) return Promise.resolve()
    return new Promise(resolve => {
      let left = keys.length
      const done = () => {
        if (--left === 0) resolve()
      }
      this.#added += keys.length
      for (const key of keys) {
        const name = keyOf(key)
        const known = this.#waiting.get(name)
        if (known) known.done.push(done)
        else this.#waiting.set(name, { key, done: [done] })
      }
      this.#start()
    })
  }

  /** Checks the list regularly for entries that others left. */
  start(): void {
    this.#looking = this.#clock.every(backlogEveryMs, () => {
      this.#hasBacklog = true
      this.#start()
    })
    this.#start()
  }

  stop(): void {
    this.#stopped = true
    this.#looking?.stop()
    this.#pausing?.stop()
    this.#sorting?.stop()
    this.#goOn?.()
  }

  /** Ends early when the worker ends: nothing waits for it. */
  #pause(milliseconds: number): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return new Promise(resolve => {
      this.#goOn = resolve
      this.#pausing = this.#clock.after(milliseconds, resolve)
    })
  }

  #start(): void {
    if (this.#running || this.#stopped) return
    this.#running = true
    this.#run()
      .catch((error: unknown) => this.#log.error({ err: error }, "search index stopped"))
      .finally(() => {
        this.#running = false
        if (this.#waiting.size > 0) this.#start()
      })
  }

  async #run(): Promise<void> {
    const { gatherForMs, batch, waiting, share, maxBehindMs } = this.#bounds
    this.#caughtUpAt = this.#clock.monotonic()
    this.#isQuiet = this.#added < batch / 10
    for (let failures = 0; !this.#stopped && (this.#waiting.size > 0 || this.#hasBacklog || this.#isSortingDue);) {
      if (this.#waiting.size < batch) await this.#pause(gatherForMs)
      const began = this.#clock.monotonic()
      try {
        if (this.#waiting.size > waiting) await this.#putBack()
        else if (this.#isSortingDue) await this.sortIn()
        else if (this.#waiting.size > 0) await this.#indexWaiting()
        else await this.#readBacklog()
        failures = 0
      } catch (error) {
        if (this.#stopped) return
        this.#log.warn({ err: error, waiting: this.#waiting.size }, "search index behind")
        await this.#pause(backoffMs(failures++, 100, 5_000))
      }
      const now = this.#clock.monotonic()
      if (this.#waiting.size < batch && !this.#hasBacklog) this.#caughtUpAt = now
      // Sending comes first: the database gets its time back, less of it the longer the index is behind, and when nothing is sent.
      this.#isQuiet = this.#added < batch / 10
      this.#added = 0
      const part = Math.max(share, this.#isQuiet ? 0.5 : 0, (now - this.#caughtUpAt) / maxBehindMs)
      if (part < 1) await this.#pause(Math.min((now - began) * (1 / part - 1), 5_000))
    }
    this.#sortLater()
  }

  get #isSortingDue(): boolean {
    // Sorting writes much, and senders would wait for it.
    if (this.#unsorted === 0 || !this.#maySort || !this.#isQuiet) return false
    return this.#clock.monotonic() - this.#unsortedSince >= this.#bounds.sortEveryMs
  }

  /** Resolves when nothing is left to do. */
  #sortLater(): void {
    this.#sorting?.stop()
    if (this.#stopped || this.#unsorted === 0 || !this.#maySort) return
    const rest = this.#unsortedSince + this.#bounds.sortEveryMs - this.#clock.monotonic()
    this.#sorting = this.#clock.after(Math.max(rest, 1), () => this.#start())
  }

  /** What was written is sorted into the indexes. */
  async sortIn(): Promise<void> {
    const rows = this.#unsorted
    this.#unsorted = 0
    try {
      await this.#storage.sortIn()
    } catch (error) {
      this.#unsorted += rows
      if (!isDataError(error)) throw error
      // A user who does not own the indexes cannot do it. PostgreSQL does it by itself, but seldom.
      this.#maySort = false
      this.#log.warn(
        { err: error },
        "new rows of the search index cannot be sorted in; searches go through them one by one",
      )
    }
  }

  #take(most: number): Waiting[] {
    const taken: Waiting[] = []
    // A message that is named again from here on is read again.
    for (const [name, waiting] of this.#waiting) {
      if (taken.length >= most) break
      taken.push(waiting)
      this.#waiting.delete(name)
    }
    return taken
  }

  #giveBack(taken: readonly Waiting[]): void {
    for (const waiting of taken) {
      const known = this.#waiting.get(keyOf(waiting.key))
      if (known) known.done.push(...waiting.done)
      else this.#waiting.set(keyOf(waiting.key), waiting)
    }
  }

  async #with(most: number, act: (keys: MessagePlace[]) => Promise<void>): Promise<void> {
    const taken = this.#take(most)
    try {
      await act(taken.map(({ key }) => key))
    } catch (error) {
      this.#giveBack(taken)
      throw error
    }
    for (const { done } of taken) for (const tell of done) tell()
  }

  #indexWaiting(): Promise<void> {
    return this.#with(this.#bounds.batch, keys => this.index(keys))
  }

  /** Bounds how many messages wait in memory: the others wait in the database. */
  #putBack(): Promise<void> {
    return this.#with(this.#bounds.waiting, async keys => {
      await this.#storage.putBack(keys)
      this.#hasBacklog = true
    })
  }

  async #readBacklog(): Promise<void> {
    const left = await this.#storage.backlog(this.#bounds.batch)
    this.#hasBacklog = left.length > 0
    if (left.length === 0) return
    // Duplicates would stand in each other's way in one statement.
    await this.index([
      ...new Map(
        left.map(({ channel_id, message_id }) => [keyOf({ channel_id, message_id }), { channel_id, message_id }]),
      ).values(),
    ])
    await this.#storage.endBacklog(left.map(({ id }) => id))
  }

  /** Updates the index for these messages as they are now. Deleted messages are removed from it. */
  async index(keys: readonly MessagePlace[]): Promise<void> {
    if (!this.#adds) return this.#storage.remove(keys)
    const sources = await this.#storage.sources(keys)
    const there = new Set(sources.map(({ channel_id, id }) => keyOf({ channel_id, message_id: id })))
    const gone = keys.filter(key => !there.has(keyOf(key)))
    if (gone.length > 0) await this.#storage.remove(gone)
    if (sources.length > 0) await this.#put(await this.#rowsOf(sources))
  }

  async #put(rows: readonly IndexedMessage[]): Promise<void> {
    try {
      await this.#storage.put(rows)
      if (this.#unsorted === 0) this.#unsortedSince = this.#clock.monotonic()
      this.#unsorted += rows.length
    } catch (error) {
      if (!isDataError(error)) throw error
      // A message that the database cannot store must not keep the others out of the index.
      if (rows.length === 1) {
        const [{ channel_id, message_id }] = rows as [IndexedMessage]
        return this.#log.error({ err: error, channel: channel_id, message: message_id }, "message not indexed")
      }
      const half = rows.length >> 1
      await this.#put(rows.slice(0, half))
      await this.#put(rows.slice(half))
    }
  }

  async #rowsOf(sources: readonly SearchSource[]): Promise<IndexedMessage[]> {
    const words = sources.map(source => wordsOf(source))
    await this.#learnStems(words.flatMap(found => [...found.keys()]))
    const stemsOf = (word: string) => this.#stems.get(word) ?? []
    return sources.map((source, i) => ({
      channel_id: source.channel_id,
      message_id: source.id,
      home_id: source.server_id ?? source.channel_id,
      content: source.content,
      edited_at: source.edited_at ?? 0,
      folded: foldedText(source.content ?? ""),
      words: vectorText(source, words[i]!, stemsOf),
    }))
  }

  async #learnStems(words: readonly string[]): Promise<void> {
    const unknown = [...new Set(words)].filter(word => !this.#stems.has(word) && mayHaveStem(word))
    if (unknown.length === 0 || this.#languages.length === 0) return
    if (this.#stems.size > 0 && this.#stems.size + unknown.length > rememberedStems) {
      this.#stems.clear()
      return this.#learnStems(words)
    }
    const stems = await this.#storage.stems(unknown, this.#languages)
    for (const word of unknown) this.#stems.set(word, stems.get(word) ?? [])
  }
}

/**
 * The messages that a row of the outbox changes. A conversation outside servers has no events of
 * its own: its home tells the homes of its participants. The rows with which those relay to their
 * users are left out.
 */
export function messagesIn(items: readonly RowItem[]): MessagePlace[] {
  const found = new Map<string, MessagePlace>()
  for (const item of items) {
    const about = item[0] === "e" && item[2].kind !== "user" ? item[6] : item[0] === "t" ? item[5] : undefined
    if (!about) continue
    const [channel_id, ...messages] = about
    for (const message_id of messages) found.set(keyOf({ channel_id, message_id }), { channel_id, message_id })
  }
  return [...found.values()]
}

/** How many messages a rebuild reads at a time. */
const slice = 500

/**
 * Reads all messages anew, in the order of channels, and takes away what belongs to none. It goes on where one that was cut off
 * had come; meanwhile the index is searched and follows what is sent.
 * @param said how many messages are done
 */
export async function rebuildSearchIndex(
  storage: SearchIndexStorage,
  index: SearchIndex,
  said: (done: number) => void,
): Promise<number> {
  for (let done = await storage.beginRebuild(); ; said(done)) {
    const { from, keys } = await storage.rebuildSlice(slice)
    if (keys.length > 0) await index.index(keys)
    await storage.endSlice(from, keys.length < slice ? null : keys.at(-1)!, keys.length)
    done += keys.length
    if (keys.length >= slice) continue
    await index.sortIn()
    return done
  }
}
