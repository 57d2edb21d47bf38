import { signal, type Signal } from "@preact/signals"
import type { Events, MessageResponse, Snowflake } from "../../client/contract.ts"
import { isLater, withReaction } from "../../client/state.ts"
import { sayFailed } from "../kit/toasts.tsx"
import { me, ownId, watch } from "./session.ts"

/** So many messages are shown at once when somebody has gone far back. */
const maxShown = 300
const pageSize = 50
/**
 * Who reads the newest messages has so many on the page, or as many as fill a high window; a page
 * more than that, and the oldest go.
 */
const newestShown = () => Math.max(60, Math.ceil(innerHeight / 24) + 20)

type Messages = readonly MessageResponse[]
type Change = (messages: Messages) => Messages
type Place = { readonly before: Snowflake } | { readonly after: Snowflake } | { readonly around: Snowflake }
const oldestFirst = (messages: Messages): Messages =>
  messages.toSorted((one, other) => (isLater(one.id, other.id) ? 1 : -1))

/**
 * The messages of a channel that are on the page. Near the end they are the newest of the store's,
 * which events keep current. Who goes far back, or jumps to a message, looks at a window of their
 * own, which is moved by pages and never larger than `maxShown`; changes of messages reach it as well.
 */
export class Timeline {
  readonly channel: Snowflake
  /** A window apart from the newest messages; undefined: the newest are shown. */
  readonly #apart: Signal<readonly MessageResponse[] | undefined> = signal(undefined)
  /** The oldest that is shown while the newest are; all that are not older than it are shown. */
  readonly #from: Signal<Snowflake> = signal("0")
  /** Of these, what was shown last. */
  #shown: Messages = []
  /** Whether its reader is with the newest messages, as the page says. */
  isFollowed: () => boolean = () => true
  #hasOlder = true
  #moving: Promise<void> | undefined
  /** Counts windows: what was read for an earlier one is of no use. */
  #windows = 0
  /** What has happened since each read under way began. */
  readonly #overheard = new Set<Change[]>()
  readonly #ends: (() => void)[]

  constructor(channel: Snowflake) {
    this.channel = channel
    const { gateway } = me()
    const change = (to: Change) => {
      for (const changes of this.#overheard) changes.push(to)
      if (this.#apart.value) this.#apart.value = to(this.#apart.value)
    }
    const react = (data: Events["MESSAGE_REACTION_ADD"], isAdded: boolean) => {
      const own = ownId()
      change(all => all.map(one => (one.id === data.message_id ? withReaction(one, data, { isAdded, own }) : one)))
    }
    this.#ends = [
      gateway.on("MESSAGE_UPDATE", message =>
        change(all => all.map(one => (one.id === message.id ? { ...message, reactions: one.reactions } : one))),
      ),
      gateway.on("MESSAGE_DELETE", ({ id }) => change(all => all.filter(one => one.id !== id))),
      gateway.on("MESSAGE_DELETE_BULK", ({ ids }) => change(all => all.filter(one => !ids.includes(one.id)))),
      gateway.on("MESSAGE_REACTION_ADD", data => react(data, true)),
      gateway.on("MESSAGE_REACTION_REMOVE", data => react(data, false)),
      // What happened before it nobody has told.
      gateway.on("ready", () => {
        this.#keep()
        this.#renew().catch(sayFailed)
      }),
    ]
  }

  close(): void {
    for (const end of this.#ends) end()
  }

  /** Oldest first; undefined: they are being read. */
  messages(): readonly MessageResponse[] | undefined {
    const apart = this.#apart.value
    if (apart) return apart
    const known = watch(`channel ${this.channel}`).messages(this.channel)
    // The store begins anew with READY: what was shown stays in sight until it has read its newest page.
    if (!known) return this.#shown.length > 0 ? this.#shown : undefined
    this.#shown = known.slice(this.#begins(known))
    return this.#shown
  }

  /** Where in the store's messages those begin that are shown. */
  #begins(known: Messages): number {
    const from = this.#from.value
    const at = from === "0" ? 0 : known.findIndex(({ id }) => !isLater(from, id))
    return at < 0 ? Math.max(0, known.length - newestShown()) : at
  }

  /** Shows the newest messages, from a while before this one on if it is given. */
  beginAt(message?: Snowflake): void {
    const known = me().store.messages(this.channel) ?? []
    const at = message === undefined ? -1 : known.findIndex(({ id }) => id === message)
    const first = Math.max(0, Math.min(known.length - newestShown(), at < 0 ? Infinity : at - pageSize / 2))
    this.#from.value = first === 0 ? "0" : known[first]!.id
  }

  /** For who reads the newest messages: what has become too much above them goes. */
  trim(): void {
    if (this.#apart.value) return
    const known = me().store.messages(this.channel) ?? []
    if (known.length - this.#begins(known) > newestShown() + pageSize) this.beginAt()
  }

  /** Whether the newest messages are shown. */
  get isAtEnd(): boolean {
    return this.#apart.value === undefined
  }

  get hasOlder(): boolean {
    // What an earlier connection has left ends where it ends.
    const { store } = me()
    if (this.#apart.value) return this.#hasOlder && !store.isRestored
    const isCut = this.#begins(store.messages(this.channel) ?? []) > 0
    return isCut || (!store.isRestored && store.hasOlder(this.channel))
  }

  /** One page more at the top. */
  older(): Promise<void> {
    return this.#move(async () => {
      const { store } = me()
      if (!this.#apart.value) {
        const known = store.messages(this.channel) ?? []
        const begins = this.#begins(known)
        if (begins > 0) {
          this.#from.value = known[Math.max(0, begins - pageSize)]!.id
          return
        }
        if (known.length < maxShown) {
          await store.readOlder(this.channel)
          this.#from.value = store.messages(this.channel)?.[0]?.id ?? "0"
          return
        }
        this.#hasOlder = store.hasOlder(this.channel)
        this.#apart.value = known.slice(0, maxShown)
      }
      const first = this.#apart.value[0]
      if (!this.#hasOlder || !first) return
      const window = this.#windows
      const page = await this.#page({ before: first.id })
      if (window !== this.#windows) return
      this.#hasOlder = page.length === pageSize
      this.#apart.value = [...oldestFirst(page), ...(this.#apart.value ?? [])].slice(0, maxShown)
    })
  }

  /** One page more at the bottom; with the newest ones the window is done with. */
  newer(): Promise<void> {
    return this.#move(async () => {
      const last = this.#apart.value?.at(-1)
      if (!last) return
      const window = this.#windows
      const page = await this.#page({ after: last.id })
      if (window !== this.#windows) return
      const newest = me().store.messages(this.channel)
      const reached = [...page].reduce((latest, { id }) => (isLater(id, latest) ? id : latest), last.id)
      if (page.length < pageSize || (newest?.[0] && !isLater(newest[0].id, reached))) {
        await this.#storeReaches(this.#apart.value?.at(-newestShown()) ?? this.#apart.value?.[0] ?? last)
        if (window !== this.#windows) return
        // What is read stays shown, as far as the store has it.
        this.#windows++
        this.#from.value = this.#apart.value?.[0]?.id ?? "0"
        this.#apart.value = undefined
        return
      }
      this.#hasOlder = true
      this.#apart.value = [...(this.#apart.value ?? []), ...oldestFirst(page)].slice(-maxShown)
    })
  }

  /** What is in sight at the end of a window is in the store before that takes its place. */
  async #storeReaches({ id }: MessageResponse): Promise<void> {
    const { store } = me()
    const oldest = () => store.messages(this.channel)?.[0]
    for (let from = oldest(); from && isLater(from.id, id) && store.hasOlder(this.channel); from = oldest()) {
      await store.readOlder(this.channel)
      if (oldest()?.id === from.id) return
    }
  }

  toEnd(): void {
    this.#windows++
    this.#apart.value = undefined
    this.beginAt()
  }

  /**
   * The first message that has not been read, further back than the store goes.
   * @param isShown whether it is shown as well
   */
  async toUnread(isShown: boolean): Promise<Snowflake | undefined> {
    const { last_read_id } = await me().client.getUnread({ channel_id: this.channel })
    const page = oldestFirst(await this.#page({ after: last_read_id ?? "0" }))
    const own = ownId()
    const first = page.find(({ author_id }) => author_id !== own)?.id
    if (isShown && first !== undefined) await this.jump(first)
    return first
  }

  /** Shows a message with what stands around it. @returns whether it is there */
  async jump(message: Snowflake): Promise<boolean> {
    if (this.#apart.value?.some(({ id }) => id === message)) return true
    if (
      !this.#apart.value &&
      me()
        .store.messages(this.channel)
        ?.some(({ id }) => id === message)
    ) {
      this.beginAt(message)
      return true
    }
    const page = oldestFirst(await this.#page({ around: message }))
    if (!page.some(({ id }) => id === message)) return false
    this.#windows++
    this.#hasOlder = true
    this.#apart.value = page
    return true
  }

  /** The store begins anew with its newest page: who reads further back keeps what is before them. */
  #keep(): void {
    if (this.#apart.value || this.isFollowed() || this.#shown.length === 0) return
    this.#windows++
    this.#hasOlder = true
    this.#apart.value = this.#shown.slice(0, maxShown)
  }

  /** Reads the window again, in as many pages as it has. */
  async #renew(): Promise<void> {
    // One move at a time; how it went its caller is told.
    while (this.#moving) await this.#moving.catch(() => {})
    const [first, last] = [this.#apart.value?.[0], this.#apart.value?.at(-1)]
    if (!first || !last) return
    await this.#move(async () => {
      const window = this.#windows
      const found = await this.#read(async () => {
        const all: MessageResponse[] = []
        for (let after = `${BigInt(first.id) - 1n}`; isLater(last.id, after); after = all.at(-1)!.id) {
          const page = await this.#list({ after })
          if (page.length === 0) break
          all.push(...oldestFirst(page))
        }
        return all.filter(({ id }) => !isLater(id, last.id)).slice(0, maxShown)
      })
      if (window === this.#windows) this.#apart.value = found.length > 0 ? found : undefined
    })
  }

  #list(where: Place): Promise<Messages> {
    return me().client.listMessages({ channel_id: this.channel, limit: pageSize, ...where })
  }

  #page(where: Place): Promise<Messages> {
    return this.#read(() => this.#list(where))
  }

  /** The answer may be older than what happened meanwhile. */
  async #read(read: () => Promise<Messages>): Promise<Messages> {
    const changes: Change[] = []
    this.#overheard.add(changes)
    try {
      const found = await read()
      return changes.reduce((all, to) => to(all), found)
    } finally {
      this.#overheard.delete(changes)
    }
  }

  async #move(work: () => Promise<void>): Promise<void> {
    if (this.#moving) return
    this.#moving = work()
    try {
      await this.#moving
    } finally {
      this.#moving = undefined
    }
  }
}
