import { signal, type Signal } from "@preact/signals"
import type { MessageResponse, Snowflake } from "../../client/contract.ts"
import { isLater } from "../../client/state.ts"
import { me, watch } from "./session.ts"

/** So many messages are shown at once when somebody has gone far back. */
const maxShown = 300
const pageSize = 50

/**
 * The messages of a channel that are on the page. Near the end they are the store's, which events
 * keep current. Who goes far back, or jumps to a message, looks at a window of their own, which is
 * moved by pages and never larger than `maxShown`; changes of messages reach it as well.
 */
export class Timeline {
  readonly channel: Snowflake
  /** A window apart from the newest messages; undefined: the newest are shown. */
  readonly #apart: Signal<readonly MessageResponse[] | undefined> = signal(undefined)
  #hasOlder = true
  #isMoving = false
  readonly #ends: (() => void)[]

  constructor(channel: Snowflake) {
    this.channel = channel
    const { gateway } = me()
    const change = (to: (messages: readonly MessageResponse[]) => readonly MessageResponse[]) => {
      if (this.#apart.value) this.#apart.value = to(this.#apart.value)
    }
    this.#ends = [
      gateway.on("MESSAGE_UPDATE", message =>
        change(all => all.map(one => (one.id === message.id ? { ...message, reactions: one.reactions } : one))),
      ),
      gateway.on("MESSAGE_DELETE", ({ id }) => change(all => all.filter(one => one.id !== id))),
      gateway.on("MESSAGE_DELETE_BULK", ({ ids }) => change(all => all.filter(one => !ids.includes(one.id)))),
    ]
  }

  close(): void {
    for (const end of this.#ends) end()
  }

  /** Oldest first; undefined: they are being read. */
  messages(): readonly MessageResponse[] | undefined {
    const apart = this.#apart.value
    return apart ?? watch(`channel ${this.channel}`).messages(this.channel)
  }

  /** Whether the newest messages are shown. */
  get isAtEnd(): boolean {
    return this.#apart.value === undefined
  }

  get hasOlder(): boolean {
    // What an earlier connection has left ends where it ends.
    if (me().store.isRestored) return false
    return this.#apart.value ? this.#hasOlder : me().store.hasOlder(this.channel)
  }

  /** One page more at the top. */
  older(): Promise<void> {
    return this.#move(async () => {
      const { store, client } = me()
      if (!this.#apart.value) {
        const shown = store.messages(this.channel) ?? []
        if (shown.length < maxShown) return void (await store.readOlder(this.channel))
        this.#hasOlder = store.hasOlder(this.channel)
        this.#apart.value = shown.slice(0, maxShown)
      }
      const first = this.#apart.value[0]
      if (!this.#hasOlder || !first) return
      const page = await client.listMessages({ channel_id: this.channel, before: first.id, limit: pageSize })
      this.#hasOlder = page.length === pageSize
      this.#apart.value = [...page.toReversed(), ...(this.#apart.value ?? [])].slice(0, maxShown)
    })
  }

  /** One page more at the bottom; with the newest ones the window is done with. */
  newer(): Promise<void> {
    return this.#move(async () => {
      const { store, client } = me()
      const last = this.#apart.value?.at(-1)
      if (!last) return
      const page = await client.listMessages({ channel_id: this.channel, after: last.id, limit: pageSize })
      const newest = store.messages(this.channel)
      const reached = [...page].reduce((latest, { id }) => (isLater(id, latest) ? id : latest), last.id)
      if (page.length < pageSize || (newest?.[0] && !isLater(newest[0].id, reached))) {
        this.toEnd()
        return
      }
      const sorted = page.toSorted((one, other) => (isLater(one.id, other.id) ? 1 : -1))
      this.#hasOlder = true
      this.#apart.value = [...(this.#apart.value ?? []), ...sorted].slice(-maxShown)
    })
  }

  toEnd(): void {
    this.#apart.value = undefined
  }

  /** Shows a message with what stands around it. @returns whether it is there */
  async jump(message: Snowflake): Promise<boolean> {
    if (this.messages()?.some(({ id }) => id === message)) return true
    const page = await me().client.listMessages({ channel_id: this.channel, around: message, limit: pageSize })
    const sorted = page.toSorted((one, other) => (isLater(one.id, other.id) ? 1 : -1))
    if (!sorted.some(({ id }) => id === message)) return false
    this.#hasOlder = true
    this.#apart.value = sorted
    return true
  }

  async #move(work: () => Promise<void>): Promise<void> {
    if (this.#isMoving) return
    this.#isMoving = true
    try {
      await work()
    } finally {
      this.#isMoving = false
    }
  }
}
