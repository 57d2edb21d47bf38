import type { Snowflake } from "../contract/fields.ts"
import { bytesOf, charactersOf } from "../domain/message-sizes.ts"
import type { MessageState } from "../domain/states.ts"
import type { PagePlace } from "../domain/tails.ts"

type Messages = readonly Readonly<MessageState>[]

export interface KnownPage {
  /** What the channel's home calls the state that it is from. */
  readonly version: string
  readonly messages: Messages
}

/** Bytes that a page takes beside its messages, and a message beside what is counted of it, roughly. */
const beside = 2_000
/** Those of one message as it is put into words once. */
const wordsOf = (message: Readonly<MessageState>) => 3 * charactersOf(message)

/**
 * Newest pages as homes have told them, so that none is told again that has not changed. A home is asked for every page anyway: it
 * says who may read it, and whether what is known here is still so.
 */
export class HotPages {
  readonly #maxBytes: number
  readonly #maxPages: number
  /** The one used longest ago is first. */
  readonly #pages = new Map<string, KnownPage & { readonly bytes: number }>()
  #bytes = 0

  constructor(maxBytes = 64 * 1024 * 1024, maxPages = 10_000) {
    this.#maxBytes = maxBytes
    this.#maxPages = maxPages
  }

  get bytes(): number {
    return this.#bytes
  }

  find(channel: Snowflake, place: PagePlace): KnownPage | undefined {
    const key = keyOf(channel, place)
    const known = key && this.#pages.get(key)
    if (!known) return undefined
    this.#pages.delete(key)
    this.#pages.set(key, known)
    return known
  }

  keep(channel: Snowflake, place: PagePlace, { version, messages }: KnownPage): void {
    const key = keyOf(channel, place)
    if (!key) return
    this.#forget(key)
    const bytes = messages.reduce((sum, message) => sum + beside + bytesOf(message) + wordsOf(message), beside)
    this.#pages.set(key, { version, messages, bytes })
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
const keyOf = (channel: Snowflake, { limit, before, after, around }: PagePlace): string | undefined =>
  before === undefined && after === undefined && around === undefined ? `${channel} ${limit}` : undefined
