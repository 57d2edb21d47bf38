import { foldedText, mayHaveStem, vectorText, wordsOf } from "../domain/messages/search-text.ts"
import type { Log } from "../observability/log.ts"
import { messagesIn, type RowItem } from "../runtime/row.ts"
import { backoffMs } from "../std/backoff.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { isDataError } from "../storage/core/database.ts"
import type { IndexedMessage, ReadMessage } from "../storage/messages/search-index.ts"
import type { MessagePlace } from "../storage/messages/search.ts"
import type { SearchIndexStep, SearchIndexStorage } from "../storage/storage.ts"
import { makeDoubtful, sealNewest, sealNext, type BlockBounds } from "./search-blocks.ts"

export interface SearchIndexBounds {
  /** How long messages are gathered. */
  readonly gatherForMs: number
  /** Messages in one write. */
  readonly batch: number
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
  readonly blocks: BlockBounds
}

const keyOf = ({ channel_id, message_id }: MessagePlace): string => `${channel_id}:${message_id}`

/** How many words' stems are remembered. */
const rememberedStems = 50_000
/** How often it is looked for blocks that others have left to be made anew. */
const doubtEveryMs = 10_000
/** Bytes of the outbox that one step reads. */
const stepBytes = 1024 * 1024

/**
 * Keeps the search index behind what is committed: reads the outbox of each shard from where the
 * index stands, then the list of messages that it did not come to before their rows were deleted.
 * Several processes share the shards. It keeps:
 *   IDX1  A message counts as indexed only when the index has its current or a later content, or
 *       a row of the outbox or the list of messages to index says that it has not.
 *   IDX2  Where a shard's index stands is committed with what is indexed, by one process at a
 *       time: one that is killed leaves nothing half done, and nothing undone.
 * However much is sent, what a step holds is bounded, and the database is asked one thing at a time.
 * Nothing is asked of it while nothing is committed.
 */
export class SearchIndex {
  readonly #storage: SearchIndexStorage
  readonly #bounds: SearchIndexBounds
  readonly #languages: readonly string[]
  readonly #adds: boolean
  readonly #clock: Clock
  readonly #log: Log
  readonly #stems = new Map<string, readonly string[]>()
  #running: Promise<void> | undefined
  #stopped = false
  /** Rows of the outbox, or messages in the list, may be there that are not indexed. */
  #hasNews = false
  #caughtUpAt = 0
  #pausing: Timer | undefined
  #sorting: Timer | undefined
  #goOn: (() => void) | undefined
  /** How many rows are not sorted into the indexes, and since when there are any. */
  #unsorted = 0
  #unsortedSince = 0
  #maySort = true
  /** Little is sent. */
  #isQuiet = true
  /** When it is looked for blocks that are to be made anew; with those of its own that is at once. */
  #doubtAt = 0
  /** Messages may be there that were indexed before there were blocks. */
  #maySeal = true

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

  /** Something may have been committed that is not indexed. */
  look(): void {
    this.#hasNews = true
    this.#start()
  }

  /** Resolves when the step that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#pausing?.stop()
    this.#sorting?.stop()
    this.#goOn?.()
    await this.#running
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
    this.#running = this.#run()
      .catch((error: unknown) => this.#log.error({ err: error }, "search index stopped"))
      .then(() => {
        this.#running = undefined
        if (this.#hasNews) this.#start()
      })
  }

  async #run(): Promise<void> {
    const { gatherForMs, share, maxBehindMs } = this.#bounds
    this.#caughtUpAt = this.#clock.monotonic()
    let isBehind = false
    for (let failures = 0; !this.#stopped && (this.#hasNews || this.#isSortingDue);) {
      if (!isBehind) await this.#pause(gatherForMs)
      if (this.#stopped) return
      const began = this.#clock.monotonic()
      try {
        if (this.#isSortingDue) await this.sortIn()
        else {
          // What is committed from here on is told once more.
          this.#hasNews = false
          const { isQuiet, isAll } = await this.#step()
          this.#isQuiet = isQuiet
          isBehind = !isAll || (await this.#seal())
          this.#hasNews ||= isBehind
        }
        failures = 0
      } catch (error) {
        this.#hasNews = true
        if (this.#stopped) return
        this.#log.warn({ err: error }, "search index behind")
        await this.#pause(backoffMs(failures++, 100, 5_000))
      }
      const now = this.#clock.monotonic()
      if (!isBehind && failures === 0) this.#caughtUpAt = now
      // Sending comes first: the database gets its time back, less of it the longer the index is behind, and when nothing is sent.
      const part = Math.max(share, this.#isQuiet ? 0.5 : 0, (now - this.#caughtUpAt) / maxBehindMs)
      if (part < 1) await this.#pause(Math.min((now - began) * (1 / part - 1), 5_000))
    }
    this.#sortLater()
  }

  /** IDX2. @returns whether all messages are indexed, and whether few were sent since the last step */
  #step(): Promise<{ isQuiet: boolean; isAll: boolean }> {
    const { batch } = this.#bounds
    return this.#storage.step(async step => {
      const { rows, isAll } = await step.claim(stepBytes)
      const sent = distinct(
        rows.flatMap(({ body }) => messagesIn((JSON.parse(body) as { items: readonly RowItem[] }).items)),
      )
      for (let i = 0; i < sent.length; i += batch) await this.index(step, sent.slice(i, i + batch))
      if (rows.length > 0) await step.advance(rows)
      if (sent.length >= batch) return { isQuiet: false, isAll: false }
      const listed = await step.takeListed(batch)
      await this.index(step, distinct(listed))
      const isDone = !(await this.#makeDoubtful(step))
      return { isQuiet: isAll && sent.length < batch / 10, isAll: isAll && listed.length < batch && isDone }
    })
  }

  /** @returns whether there may be more */
  async #makeDoubtful(step: SearchIndexStep): Promise<boolean> {
    const now = this.#clock.monotonic()
    if (now < this.#doubtAt) return false
    const isMore = await makeDoubtful(step, this.#bounds.blocks)
    if (!isMore) this.#doubtAt = now + doubtEveryMs
    return isMore
  }

  /** @returns whether there is more to do now */
  async #seal(): Promise<boolean> {
    if (!this.#maySeal) return false
    try {
      const more = await sealNext(this.#storage, this.#bounds.blocks)
      this.#maySeal = more !== "never"
      return more === "now"
    } catch (error) {
      if (!isDataError(error)) throw error
      this.#maySeal = false
      this.#log.warn({ err: error }, "the index message_search_folded, which nothing reads any more, cannot be dropped")
      return false
    }
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
      await this.#storage.step(step => step.sortIn())
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

  /** Updates the index for these messages as they are now. Deleted messages are removed from it. */
  async index(step: SearchIndexStep, keys: readonly MessagePlace[]): Promise<void> {
    if (keys.length === 0) return
    if (!this.#adds) return this.#remove(step, keys)
    const sources = await step.sources(keys)
    if (sources.length < keys.length) {
      const there = new Set(sources.map(({ channel_id, id }) => keyOf({ channel_id, message_id: id })))
      await this.#remove(
        step,
        keys.filter(key => !there.has(keyOf(key))),
      )
    }
    if (sources.length === 0) return
    await this.#put(step, await this.#rowsOf(step, sources))
    if (sources.some(({ is_sealed }) => is_sealed)) this.#doubtAt = 0
    const looked = sources.filter(
      ({ is_sealed }) => !is_sealed && Math.random() * this.#bounds.blocks.messagesPerLook < 1,
    )
    const channels = [...new Set(looked.map(({ channel_id }) => channel_id))]
    await sealNewest(step, channels, this.#bounds.blocks)
  }

  async #remove(step: SearchIndexStep, keys: readonly MessagePlace[]): Promise<void> {
    await step.remove(keys)
    this.#doubtAt = 0
  }

  /** Makes some of the blocks anew that are to be. @returns whether there may be others */
  makeDoubtful(step: SearchIndexStep): Promise<boolean> {
    return makeDoubtful(step, this.#bounds.blocks)
  }

  async #put(step: SearchIndexStep, rows: readonly IndexedMessage[]): Promise<void> {
    try {
      await step.put(rows)
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
      await this.#put(step, rows.slice(0, half))
      await this.#put(step, rows.slice(half))
    }
  }

  async #rowsOf(step: SearchIndexStep, sources: readonly ReadMessage[]): Promise<IndexedMessage[]> {
    const words = sources.map(source => wordsOf(source))
    await this.#learnStems(step, words)
    const stemsOf = (word: string) => this.#stems.get(word) ?? []
    return sources.map((source, i) => ({
      channel_id: source.channel_id,
      message_id: source.id,
      home_id: source.server_id ?? source.channel_id,
      edited_at: source.edited_at ?? 0,
      folded: foldedText(source.content ?? ""),
      words: vectorText(source, words[i]!, stemsOf),
      is_sealed: source.is_sealed,
    }))
  }

  async #learnStems(step: SearchIndexStep, words: readonly ReadonlyMap<string, unknown>[]): Promise<void> {
    if (this.#languages.length === 0) return
    const found = new Set<string>()
    for (const ofMessage of words)
      for (const word of ofMessage.keys()) if (!this.#stems.has(word) && mayHaveStem(word)) found.add(word)
    const unknown = [...found]
    if (unknown.length === 0) return
    if (this.#stems.size > 0 && this.#stems.size + unknown.length > rememberedStems) {
      this.#stems.clear()
      return this.#learnStems(step, words)
    }
    const stems = await step.stems(unknown, this.#languages)
    for (const word of unknown) this.#stems.set(word, stems.get(word) ?? [])
  }
}

const distinct = (keys: readonly MessagePlace[]): MessagePlace[] => [
  ...new Map(keys.map(key => [keyOf(key), { channel_id: key.channel_id, message_id: key.message_id }])).values(),
]

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
  let done = await storage.step(step => step.beginRebuild())
  for (;;) {
    const count = await storage.step(async step => {
      const { from, keys } = await step.rebuildSlice(slice)
      await index.index(step, keys)
      await step.endSlice(from, keys.length < slice ? null : keys.at(-1)!, keys.length)
      await index.makeDoubtful(step)
      return keys.length
    })
    done += count
    if (count >= slice) {
      said(done)
      continue
    }
    while (await storage.step(step => index.makeDoubtful(step)));
    await index.sortIn()
    return done
  }
}
