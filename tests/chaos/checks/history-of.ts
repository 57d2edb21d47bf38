/**
 * Small histories for the checkers' tests, in words. Every line happens a millisecond after the one
 * before.
 */
import type { Action, Entry, FaultKind, Stored, Untimed } from "../history.ts"

const millisecond = 1e6

export class Story {
  readonly entries: Entry[] = []
  #now = 0
  #ops = 0
  #faults = 0
  #s = 0
  readonly #finals = new Map<string, Stored[]>()

  wait(milliseconds: number): this {
    this.#now += milliseconds * millisecond
    return this
  }

  add(entry: Untimed): this {
    this.#now += millisecond
    this.entries.push({ at: this.#now, ...entry })
    return this
  }

  /** Begins an operation; `end` with its number ends it. */
  invoke(action: Action, { client = "ada", session }: { client?: string; session?: string } = {}): number {
    const op = ++this.#ops
    this.add({ type: "invoke", op, client, session: session ?? `${client}#0`, action })
    return op
  }

  end(
    op: number,
    type: "ok" | "fail" | "maybe",
    status: number,
    messages: Stored[] = [],
    retryAfterSeconds?: number,
  ): this {
    return this.add({ type, op, status, messages, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) })
  }

  /** An operation that takes a millisecond. */
  done(
    action: Action,
    {
      client,
      session,
      type = "ok",
      status = 200,
      messages = [],
      retryAfterSeconds,
    }: {
      client?: string
      session?: string
      type?: "ok" | "fail" | "maybe"
      status?: number
      messages?: Stored[]
      retryAfterSeconds?: number
    } = {},
  ): this {
    const op = this.invoke(action, { ...(client && { client }), ...(session && { session }) })
    return this.end(op, type, status, messages, retryAfterSeconds)
  }

  /**
   * A send with its answer; the message is stored unless told otherwise, and committed in this
   * order.
   */
  send(
    id: string,
    {
      body = `m${id}`,
      channel = "c",
      client = "ada",
      session,
      stored = true,
      type = "ok",
      status = 200,
    }: {
      body?: string
      channel?: string
      client?: string
      session?: string
      stored?: boolean
      type?: "ok" | "fail" | "maybe"
      status?: number
    } = {},
  ): this {
    const messages = type === "ok" ? [{ id, author: client, content: body }] : []
    this.done(sending(body, channel), { client, ...(session && { session }), type, status, messages })
    if (stored) this.store({ id, author: client, content: body, committed: Math.round(this.#now / 1_000) }, channel)
    return this
  }

  store(message: Stored, channel = "c"): this {
    const messages = this.#finals.get(channel) ?? []
    this.#finals.set(channel, messages)
    messages.push(message)
    return this
  }

  ready(session = "eve/1", { steady = true, client = "eve", login = "eve#0" } = {}): this {
    return this.add({ type: "ready", reader: "eve's", client, login, session, steady })
  }

  hear(
    id: string,
    {
      session = "eve/1",
      channel = "c",
      s,
      name = "MESSAGE_CREATE",
      content = `m${id}`,
      client = "eve",
      login = "eve#0",
    }: {
      session?: string
      channel?: string
      s?: number
      name?: string
      content?: string | null
      client?: string
      login?: string
    } = {},
  ): this {
    this.#s++
    return this.add({
      type: "event",
      reader: "eve's",
      client,
      login,
      session,
      name,
      s: s ?? this.#s,
      channel,
      message: id,
      content,
    })
  }

  /** The effect of a job, as a session is told of it. */
  tell(name: "NOTIFICATION_CREATE" | "INVITE_DELETE", about: string, session = "eve/1"): this {
    return this.add({ type: "told", reader: "eve's", client: "eve", login: "eve#0", session, name, about })
  }

  say(type: "invalid" | "end", session = "eve/1"): this {
    return this.add({ type, reader: "eve's", client: "eve", login: "eve#0", session })
  }

  resumed(session = "eve/1"): this {
    return this.add({ type: "resumed", s: this.#s, reader: "eve's", client: "eve", login: "eve#0", session })
  }

  fault(name: string, kind: FaultKind, during: (story: this) => void): this {
    const id = ++this.#faults
    this.add({ type: "fault", id, name, kind, phase: "begin", target: "web 0" })
    during(this)
    return this.add({ type: "fault", id, name, kind, phase: "end" })
  }

  counters(values: Record<string, number>): this {
    return this.add({ type: "counters", values })
  }

  /** The final read ends every history. */
  get history(): Entry[] {
    for (const [channel, messages] of this.#finals) this.add({ type: "final", channel, messages: [...messages] })
    return this.entries
  }
}

export const sending = (body: string, channel = "c"): Action => ({
  do: "send",
  channel,
  server: "s",
  body,
  nonce: body,
})
export const getting = (message: string, channel = "c"): Action => ({ do: "get", channel, message })
