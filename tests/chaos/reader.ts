import { GatewayClient } from "../../client/gateway.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { compareIds } from "../../src/domain/core/snowflake.ts"
import { nameIn, type Recorder } from "./history.ts"
import type { Rest } from "./rest.ts"

export interface ReaderOptions {
  name: string
  client: string
  /** The session of REST whose token it uses. */
  login: string
  token: string
  url: string
  encoding: "json" | "msgpack"
  /** Member of every channel from the beginning to the end. */
  steady: boolean
  channels: readonly string[]
  recorder: Recorder
  rest: Rest
  random: () => number
}

/** One who listens, comes back after every loss, and writes down what it hears. */
export class Reader {
  readonly name: string
  readonly #options: ReaderOptions
  readonly #gateway: GatewayClient
  /** In the history sessions have short names: the reader's, and a number. */
  #sessions = 0
  #session = ""
  readonly #last = new Map<string, string>()
  readonly #tasks = new Set<Promise<void>>()
  #closed = false

  constructor(options: ReaderOptions) {
    this.#options = options
    this.name = options.name
    const { url, token, encoding, random } = options
    this.#gateway = new GatewayClient({
      url,
      token,
      encoding,
      random,
      intents: allIntents & ~bitOf("GUILD_PRESENCES"),
      backoff: { firstMs: 100, maxMs: 1_000 },
      connectTimeoutMs: 3_000,
      onFrame: ({ op, t, s, d }) => {
        if (op === 9 && d !== true) this.#invalid()
        if (op === 0) this.#dispatch(t ?? "", s ?? -1, d as Record<string, unknown>)
      },
    })
    this.#gateway.on("close", ({ code, reason }) => this.#write({ type: "close", code, reason }))
    this.#gateway.on("error", () => {}) // its close says the same
  }

  /** Begins; callers who want to wait ask `isLive`. */
  start(): void {
    this.#gateway.connect().catch(() => {}) // closed for good, which its close entry says
  }

  get isSteady(): boolean {
    return this.#options.steady
  }
  /** The server refused it for good. */
  get isOver(): boolean {
    return this.#gateway.state === "closed"
  }
  get isLive(): boolean {
    return this.#gateway.state === "live"
  }
  /** The newest message it heard of in a channel. */
  newest(channel: string): string | undefined {
    return this.#last.get(channel)
  }
  pause(): void {
    this.#gateway.pause()
  }
  unpause(): void {
    this.#gateway.unpause()
  }
  drop(): void {
    this.#gateway.drop()
  }

  /** The run is over. */
  async end(): Promise<void> {
    this.#closed = true
    if (this.isLive) this.#write({ type: "end" })
    this.#gateway.close()
    await Promise.all(this.#tasks)
  }

  #dispatch(name: string, s: number, data: Record<string, unknown>): void {
    if (name === "READY") {
      this.#session = `${this.name}/${++this.#sessions}`
      this.#write({ type: "ready", steady: this.#options.steady })
      if (this.#options.steady) this.#catchUp()
    } else if (name === "RESUMED") this.#write({ type: "resumed", s })
    else if (name.startsWith("MESSAGE_")) {
      const {
        id,
        channel_id: channel,
        content = null,
      } = data as { id: string; channel_id: string; content?: string | null }
      this.#write({ type: "event", name, s, channel, message: id, content: nameIn(content) })
      if (name === "MESSAGE_CREATE") this.#learn(channel, id)
    } else if (name === "NOTIFICATION_CREATE") {
      const { link } = data as { link: string | null }
      this.#write({ type: "told", name, about: link?.split("/").at(-1) ?? "" })
    } else if (name === "INVITE_DELETE") this.#write({ type: "told", name, about: (data as { code: string }).code })
  }

  #invalid(): void {
    this.#write({ type: "invalid" })
  }

  #learn(channel: string, id: string): void {
    const last = this.#last.get(channel)
    if (last === undefined || compareIds(id, last) > 0) this.#last.set(channel, id)
  }

  #write(
    entry:
      | { type: "ready"; steady: boolean }
      | { type: "resumed"; s: number }
      | { type: "invalid" | "end" }
      | { type: "close"; code: number; reason: string }
      | { type: "event"; name: string; s: number; channel: string; message: string; content: string | null }
      | { type: "told"; name: "NOTIFICATION_CREATE" | "INVITE_DELETE"; about: string },
  ): void {
    const { name, client, login, recorder } = this.#options
    recorder.add({ ...entry, reader: name, client, login, session: this.#session })
  }

  /** A new session reads what it did not hear, as every client must. */
  #catchUp(): void {
    for (const channel of this.#options.channels) {
      const from = this.#last.get(channel) ?? "0"
      const task = this.#readOn(channel, from).finally(() => this.#tasks.delete(task))
      this.#tasks.add(task)
    }
  }

  async #readOn(channel: string, from: string): Promise<void> {
    const { rest, url, client, login, token, name } = this.#options
    let after = from
    while (!this.#closed) {
      const { outcome, body } = await rest.call({
        client,
        session: login,
        token,
        action: { do: "page", channel, after, reader: name },
        method: "GET",
        url: `${url}/api/v1/channels/${channel}/messages?limit=100&after=${after}`,
        fresh: true,
      })
      if (outcome !== "ok") {
        await new Promise(resolve => setTimeout(resolve, 200))
        continue
      }
      const page = body as { id: string }[]
      if (page.length < 100) return
      after = page.at(-1)!.id
    }
  }
}
