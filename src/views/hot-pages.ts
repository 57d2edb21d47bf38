import type { Snowflake } from "../contract/core/fields.ts"
import { bytesOf } from "../domain/messages/message-sizes.ts"
import type { MessageState } from "../domain/messages/messages.ts"
import { isNewestPage, type PagePlace } from "../domain/core/page-place.ts"

type Messages = readonly Readonly<MessageState>[]

interface KnownPage {
  readonly version: string
  readonly messages: Messages
  /** See `PageParts`. */
  readonly isCut?: boolean
  readonly readAtMs?: number
}

/** An answer that is kept; see `SeenPage`. */
interface KeptBody {
  readonly json: Buffer
  readonly next: Snowflake | null
}

/**
 * Bytes that a page takes beside its messages, and a message beside what is counted of it, roughly.
 */
const beside = 2_000
/** Answers that are kept of a page: most of its readers are shown the same one. */
const maxBodies = 4

/** A newest page as PostgreSQL has answered it. */
export class HotPage {
  /** What the home calls the state that it is from; when it was read, in Unix milliseconds. */
  readonly version: string
  readonly readAtMs: number
  readonly messages: Messages
  readonly isCut: boolean
  /** What the home has to know of them to say who has read them. */
  readonly about: readonly { readonly id: Snowflake; readonly author_id: Snowflake }[]
  /** The latest is last. */
  readonly #bodies: { readonly ends: readonly string[]; readonly body: KeptBody }[] = []
  readonly #grow: (page: HotPage, bytes: number) => void

  constructor(
    { version, messages, isCut = false, readAtMs = 0 }: KnownPage,
    grow: (page: HotPage, bytes: number) => void,
  ) {
    this.version = version
    this.messages = messages
    this.isCut = isCut
    this.readAtMs = readAtMs
    this.about = messages.map(({ id, author_id }) => ({ id, author_id }))
    this.#grow = grow
  }

  /**
   * An answer: what is the same for all readers of a message, with these endings, which are not.
   */
  bodyWith(ends: readonly string[]): KeptBody | undefined {
    return this.#bodies.find(body => body.ends.every((end, i) => end === ends[i]))?.body
  }

  keepBody(ends: readonly string[], { json, next }: { json: string; next: Snowflake | null }): KeptBody {
    const body = { json: Buffer.from(json), next }
    const gone = this.#bodies.length < maxBodies ? undefined : this.#bodies.shift()
    this.#bodies.push({ ends, body })
    this.#grow(this, body.json.length - (gone?.body.json.length ?? 0))
    return body
  }
}

/**
 * Newest pages as PostgreSQL has answered them, so that none is read again that has not changed. A
 * home is asked for every page anyway: it says who may read it, and whether what is known here is
 * still so.
 */
export class HotPages {
  readonly #maxBytes: number
  readonly #maxPages: number
  /** The one used longest ago is first. */
  readonly #pages = new Map<string, { readonly page: HotPage; bytes: number }>()
  #bytes = 0

  constructor(maxBytes = 64 * 1024 * 1024, maxPages = 10_000) {
    this.#maxBytes = maxBytes
    this.#maxPages = maxPages
  }

  get bytes(): number {
    return this.#bytes
  }

  find(channel: Snowflake, place: PagePlace): HotPage | undefined {
    const key = keyOf(channel, place)
    const known = key && this.#pages.get(key)
    if (!known) return undefined
    this.#pages.delete(key)
    this.#pages.set(key, known)
    return known.page
  }

  keep(channel: Snowflake, place: PagePlace, known: KnownPage): HotPage | undefined {
    const key = keyOf(channel, place)
    if (!key) return undefined
    this.#forget(key)
    const page = new HotPage(known, (grown, bytes) => this.#weigh(key, grown, bytes))
    this.#pages.set(key, { page, bytes: 0 })
    this.#weigh(
      key,
      page,
      known.messages.reduce((sum, message) => sum + beside + bytesOf(message), beside),
    )
    return page
  }

  /** A page takes so much more. It may have been forgotten meanwhile. */
  #weigh(key: string, page: HotPage, bytes: number): void {
    const known = this.#pages.get(key)
    if (known?.page !== page) return
    known.bytes += bytes
    this.#bytes += bytes
    for (const oldest of this.#pages.keys()) {
      if (this.#bytes <= this.#maxBytes && this.#pages.size <= this.#maxPages) break
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    this.#bytes -= this.#pages.get(key)?.bytes ?? 0
    this.#pages.delete(key)
  }
}

/** None of a page at a place: clients name as many of those as they like. */
const keyOf = (channel: Snowflake, place: PagePlace): string | undefined =>
  isNewestPage(place) ? `${channel} ${place.limit}` : undefined
