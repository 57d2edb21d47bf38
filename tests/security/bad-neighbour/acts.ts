/** What a neighbour can do: requests, gateway sessions, bytes on a socket, many of each and again and again. */
import { setMaxListeners } from "node:events"
import { Agent, request } from "node:http"
import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { NodeWebSocket } from "../../../bench/load/node-websocket.ts"
import type { Account, Scene } from "../../kit/neighbour-scene.ts"

/** After a refusal for asking too much nobody gains by asking at once. */
const afterRefusalMs = 100

const taken = { administrators: 0, members: 0 }

export interface Answer {
  readonly status: number
  readonly text: string
}

export class Acts {
  readonly scene: Scene
  /** Aborted when the time is over. */
  readonly signal: AbortSignal
  /** What is before it is not measured. */
  readonly begin: () => Promise<void>
  /** How often each status or close code came. */
  readonly answers = new Map<string, number>()
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 })
  readonly #open = new Set<{ destroy(): void }>()

  constructor(scene: Scene, signal: AbortSignal, begin: () => Promise<void>) {
    this.scene = scene
    this.signal = signal
    this.begin = begin
    setMaxListeners(0, signal)
  }

  /** Accounts that did not do anything lately, so that their limits are untouched. */
  take(kind: "administrators" | "members", count: number): Account[] {
    const all = this.scene[kind]
    return Array.from({ length: count }, () => all[taken[kind]++ % all.length]!)
  }

  count(what: number | string): void {
    this.answers.set(String(what), (this.answers.get(String(what)) ?? 0) + 1)
  }

  /** @returns the answer; status 0: none */
  ask(by: Partial<Account>, method: string, path: string, body?: object | string): Promise<Answer> {
    const text = typeof body === "object" ? JSON.stringify(body) : body
    return new Promise(resolve => {
      const done = (status: number, received: string) => {
        this.count(status)
        resolve({ status, text: received })
      }
      const headers = {
        ...(by.token !== undefined && { authorization: `Bearer ${by.token}` }),
        ...(by.address !== undefined && { "x-forwarded-for": by.address }),
        ...(text !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      }
      const asked = request(`${this.scene.url}${path}`, { method, headers, agent: this.#agent, timeout: 10_000 })
      asked.on("response", response => {
        let received = ""
        response.setEncoding("latin1").on("data", (piece: string) => {
          if (received.length < 4_096) received += piece
        })
        response.on("error", () => done(0, ""))
        response.on("end", () => done(response.statusCode ?? 0, received))
      })
      asked.on("timeout", () => asked.destroy())
      asked.on("error", () => done(0, ""))
      asked.end(text)
    })
  }

  /** Goes on doing it, so many at a time, until the time is over. */
  async again(maxConcurrent: number, act: (n: number) => Promise<Answer | void>): Promise<void> {
    let n = 0
    const repeat = async () => {
      while (!this.signal.aborted) {
        const answer = await act(n++)
        if (answer && (answer.status === 429 || answer.status === 503 || answer.status === 0))
          await this.wait(afterRefusalMs)
      }
    }
    await Promise.all(Array.from({ length: maxConcurrent }, repeat))
  }

  /** Ends with the time, too. */
  async wait(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.signal }).catch(() => {})
  }

  /** A connection on which nothing is said and nothing read but what the caller does; closed in the end. */
  socket(): Socket {
    const socket = connect(Number(new URL(this.scene.url).port), "127.0.0.1")
    socket.on("error", () => {})
    this.#open.add(socket)
    socket.on("close", () => this.#open.delete(socket))
    return socket
  }

  /** A gateway connection that reads and forgets. `first` is sent at once, the answer's text is what came first of `until`. */
  gateway(by: Partial<Account>, first: object | undefined, until: readonly string[]): Promise<Session> {
    const socket = new NodeWebSocket(`${this.scene.url.replace("http", "ws")}/gateway`, undefined, {
      headers: by.address === undefined ? {} : { "X-Forwarded-For": by.address },
    })
    const session = new Session(socket)
    const entry = { destroy: () => socket.terminate() }
    this.#open.add(entry)
    return new Promise(resolve => {
      const late = setTimeout(() => socket.terminate(), 10_000)
      /* oxlint-disable unicorn/prefer-add-event-listener */
      socket.onopen = () => {
        if (first) socket.send(JSON.stringify(first))
        else resolve(session)
      }
      socket.onmessage = ({ data }) => {
        if (session.first !== undefined) return
        // The name of an event, and the session that READY names, stand in the first or the last bytes.
        const text = String(data)
        if (!until.some(name => text.includes(name))) return
        session.first = text
        clearTimeout(late)
        this.count(until.find(name => text.includes(name))!)
        resolve(session)
      }
      socket.onclose = ({ code }) => {
        clearTimeout(late)
        this.#open.delete(entry)
        session.closedWith = code
        this.count(`closed ${code}`)
        resolve(session)
      }
      /* oxlint-enable unicorn/prefer-add-event-listener */
    })
  }

  identify = (by: Account): Promise<Session> => this.gateway(by, { op: 2, d: { token: by.token } }, ['"READY"'])

  /** Everything that is open ends. */
  end(): void {
    for (const one of this.#open) one.destroy()
    this.#agent.destroy()
  }
}

export class Session {
  readonly #socket: NodeWebSocket
  first: string | undefined
  closedWith: number | undefined

  constructor(socket: NodeWebSocket) {
    this.#socket = socket
  }

  say(frame: object | string): void {
    if (this.closedWith === undefined) this.#socket.send(typeof frame === "string" ? frame : JSON.stringify(frame))
  }
  close(): void {
    this.#socket.terminate()
  }
}
