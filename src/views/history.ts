import { channelActor } from "../actors/channel.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { isNewestPage, type PagePlace } from "../domain/core/page-place.ts"
import type { MessageState } from "../domain/messages/messages.ts"
import { setNewest } from "../std/bounded-map.ts"
import { HotPages, type HotPage } from "./hot-pages.ts"
import { pageSeenBy, type SeenPage } from "./message-views.ts"
import type { ViewSources } from "./sources.ts"

/**
 * Milliseconds for which a page is kept though nothing has changed: names of authors who are no
 * members change elsewhere.
 */
const maxAgeMs = 10_000

const maxLetIn = 10_000

interface Reading {
  readonly version: string
  readonly page: Promise<HotPage>
}

/**
 * Pages of history as their readers see them, as JSON. The newest page of a channel is kept for as
 * long as the channel's home says that it is current (HIST1); all others are read from PostgreSQL.
 * A home is asked for every page: it says who may read and who has read what.
 */
export class History {
  readonly #sources: ViewSources
  readonly #pages: HotPages
  /**
   * Newest pages that are being read, by channel and length: those who ask for the same version
   * share one.
   */
  readonly #readings = new Map<string, Reading>()

  /** Who was let in where, by the last page that was not the newest. */
  readonly #letIn = new Map<string, true>()

  constructor(sources: ViewSources, pages = new HotPages()) {
    this.#sources = sources
    this.#pages = pages
  }

  async page(reader: Snowflake, channel: Snowflake, place: PagePlace): Promise<SeenPage> {
    return isNewestPage(place) ? this.#newest(reader, channel, place) : this.#other(reader, channel, place)
  }

  async #newest(reader: Snowflake, channel: Snowflake, place: PagePlace): Promise<SeenPage> {
    const { ask, clock } = this.#sources
    const found = this.#pages.find(channel, place)
    const known = found && clock() - found.readAtMs < maxAgeMs ? found : undefined
    const { version, marks } = await ask(channelActor, channel, {
      type: "requireRead",
      user: reader,
      version: { known: known?.version },
      ...(known && { messages: known.about }),
    })
    if (known && marks) {
      const { messages, isCut } = known
      return pageSeenBy(this.#sources, reader, { messages, isCut, marks, hot: known })
    }
    return this.#seen(reader, channel, await this.#read(channel, place, version!))
  }

  #read(channel: Snowflake, place: PagePlace, version: string): Promise<HotPage> {
    const key = `${channel} ${place.limit}`
    const underWay = this.#readings.get(key)
    if (underWay?.version === version) return underWay.page
    const readAtMs = this.#sources.clock()
    const page = this.#sources.storage.messages
      .page(channel, place)
      .then(({ messages, isCut }) => this.#pages.keep(channel, place, { version, messages, isCut, readAtMs })!)
      .finally(() => {
        if (this.#readings.get(key)?.page === page) this.#readings.delete(key)
      })
    this.#readings.set(key, { version, page })
    return page
  }

  /**
   * Nothing is read for somebody who was not let in before: how long that takes would tell them what
   * is there. The others go on reading, so their home is asked once, when the page is there.
   */
  async #other(reader: Snowflake, channel: Snowflake, place: PagePlace): Promise<SeenPage> {
    const { ask, storage, oldReads } = this.#sources
    const key = `${reader} ${channel}`
    if (!this.#letIn.has(key)) await ask(channelActor, channel, { type: "requireRead", user: reader })
    // Messages that are all old a replica may be asked for.
    const copy = this.#isOld(place) ? await oldReads?.for(reader) : undefined
    const { messages, isCut } = await (copy?.page ?? storage.messages.page)(channel, place)
    const page = { messages, isCut, about: aboutOf(messages), around: place.around }
    try {
      const seen = await this.#seen(reader, channel, page)
      setNewest(this.#letIn, key, true, maxLetIn)
      return seen
    } catch (error) {
      this.#letIn.delete(key)
      throw error
    }
  }

  #isOld({ before, around }: PagePlace): boolean {
    return around === undefined && before !== undefined && this.#sources.oldReads?.isOld(before) === true
  }

  /**
   * With who has read it; that is asked of the home, which looks once more whether the reader may
   * read.
   */
  async #seen(
    reader: Snowflake,
    channel: Snowflake,
    page: HotPage | (Pick<HotPage, "messages" | "isCut" | "about"> & Pick<PagePlace, "around">),
  ): Promise<SeenPage> {
    const { marks } = await this.#sources.ask(channelActor, channel, {
      type: "requireRead",
      user: reader,
      messages: page.about,
    })
    const { messages, isCut } = page
    const place = "version" in page ? { hot: page } : { around: page.around }
    return pageSeenBy(this.#sources, reader, { messages, isCut, marks: marks!, ...place })
  }
}

const aboutOf = (messages: readonly Readonly<MessageState>[]) =>
  messages.map(({ id, author_id }) => ({ id, author_id }))
