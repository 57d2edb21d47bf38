/**
 * One virtual user: the scenario's modules as it has them, and as much of k6's own modules as scenarios
 * here use. Nothing of Node is there, so that what runs here runs in k6.
 */
import vm from "node:vm"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { toMs, type MetricType, type Metrics } from "./metrics.ts"

type Run = (...args: unknown[]) => unknown
export type Exports = Readonly<Record<string, unknown>>

/** The only global scope of all scenarios: the language, and what k6 adds to it. */
const globals = vm.createContext({ console })

export interface Scripted {
  readonly script: vm.Script
  readonly env: Readonly<Record<string, string>>
  /** k6's `open`: a file as text. */
  readonly open: (path: string) => string
}

/** Where one is in the test, for `k6/execution`. */
export interface Iteration {
  readonly scenario: string
  readonly iterationInTest: number
}

export class VirtualUser {
  readonly exports: Exports
  readonly #id: number
  readonly #metrics: Metrics
  readonly #sockets = new Set<NodeWebSocket>()
  readonly #timers = new Map<NodeJS.Timeout, "once" | "again">()
  readonly #aborted = new AbortController()
  #iteration: Iteration = { scenario: "", iterationInTest: 0 }
  #iterations = -1
  #whenIdle: (() => void) | undefined
  #failure: Error | undefined

  constructor(id: number, metrics: Metrics, { script, env, open }: Scripted) {
    this.#id = id
    this.#metrics = metrics
    const module = { exports: {} as Exports }
    const load = script.runInContext(globals) as (...args: unknown[]) => void
    const modules = this.#modules()
    const require = (name: string) => {
      const found = modules[name]
      if (!found) throw new Error(`${name} is no module that this runner has; k6 itself may`)
      return found
    }
    load(require, module, module.exports, Object.freeze({ ...env }), open)
    this.exports = module.exports
  }

  /** One iteration: done when its function is, and no socket is open and no timer set. */
  async run(exec: string, iteration: Iteration, data: unknown): Promise<void> {
    const work = this.exports[exec]
    if (typeof work !== "function") throw new Error(`the scenario exports no function ${exec}`)
    this.#iteration = iteration
    this.#iterations++
    await (work as Run)(data)
    if (this.#sockets.size + this.#timers.size > 0)
      await new Promise<void>(resolve => {
        this.#whenIdle = resolve
      })
    const failure = this.#failure
    this.#failure = undefined
    if (failure) throw failure
  }

  /** Ends an iteration that has no time left. */
  interrupt(): void {
    this.#aborted.abort()
    for (const timer of this.#timers.keys()) clearTimeout(timer)
    this.#timers.clear()
    for (const socket of this.#sockets) socket.terminate()
    this.#sockets.clear()
    this.#look()
  }

  #look(): void {
    if (this.#sockets.size + this.#timers.size > 0) return
    this.#whenIdle?.()
    this.#whenIdle = undefined
  }

  /** Calls what the scenario gave us; an error of it belongs to its iteration. */
  #call(run: Run, ...args: unknown[]): void {
    try {
      run(...args)
    } catch (cause) {
      this.#failure ??= cause as Error
    }
  }

  #modules(): Record<string, object> {
    const execution = this.#execution()
    return {
      k6: {
        check: (value: unknown, checks: Record<string, (value: unknown) => boolean>) => this.#check(value, checks),
        fail: (why: string) => {
          throw new Error(why)
        },
      },
      "k6/http": this.#http(),
      "k6/websockets": { WebSocket: this.#webSocket() },
      "k6/metrics": { Counter: this.#metric("counter"), Rate: this.#metric("rate"), Trend: this.#metric("trend") },
      "k6/execution": { ...execution, default: execution },
      "k6/timers": this.#timerFunctions(),
    }
  }

  #execution(): object {
    // oxlint-disable-next-line typescript/no-this-alias -- getters of other objects
    const user = this
    return {
      scenario: {
        get name() {
          return user.#iteration.scenario
        },
        get iterationInTest() {
          return user.#iteration.iterationInTest
        },
      },
      vu: {
        idInTest: user.#id,
        get iterationInInstance() {
          return user.#iterations
        },
      },
    }
  }

  #check(value: unknown, checks: Record<string, (value: unknown) => boolean>): boolean {
    const results = Object.values(checks).map(isRight => isRight(value))
    for (const isRight of results) this.#metrics.add("checks", "rate", Number(isRight))
    return results.every(Boolean)
  }

  #metric(type: MetricType): object {
    const metrics = this.#metrics
    return class {
      readonly #name: string
      constructor(name: string) {
        this.#name = name
      }
      add(value: number | boolean, tags?: Record<string, unknown>): void {
        metrics.add(this.#name, type, Number(value), tags)
      }
    }
  }

  #timerFunctions(): object {
    const set = (run: Run, delayMs: number, kind: "once" | "again") => {
      const timer: NodeJS.Timeout = (kind === "once" ? setTimeout : setInterval)(() => {
        if (kind === "once") this.#timers.delete(timer)
        this.#call(run)
        this.#look()
      }, delayMs)
      this.#timers.set(timer, kind)
      return timer
    }
    const clear = (timer: NodeJS.Timeout) => {
      clearTimeout(timer)
      this.#timers.delete(timer)
      this.#look()
    }
    return {
      setTimeout: (run: Run, delayMs: number) => set(run, delayMs, "once"),
      setInterval: (run: Run, delayMs: number) => set(run, delayMs, "again"),
      clearTimeout: clear,
      clearInterval: clear,
    }
  }

  #http(): object {
    const asyncRequest = async (
      method: string,
      url: string,
      body: string | null,
      params: { headers?: Record<string, string>; tags?: Record<string, unknown>; timeout?: string } = {},
    ) => {
      const startedAt = performance.now()
      const signal = AbortSignal.any([this.#aborted.signal, AbortSignal.timeout(toMs(params.timeout ?? "60s"))])
      const answer = await fetch(url, { method, body, headers: params.headers ?? {}, signal, redirect: "manual" })
        .then(async reply => ({
          status: reply.status,
          // k6 spells them as Go does.
          headers: Object.fromEntries([...reply.headers].map(([name, value]) => [inGoSpelling(name), value])),
          body: await reply.text(),
          error: "",
        }))
        .catch((cause: Error) => ({
          status: 0,
          headers: {},
          body: null,
          error: `${cause.message} ${cause.cause instanceof Error ? cause.cause.message : ""}`.trim(),
        }))
      const duration = performance.now() - startedAt
      const isFailure = answer.status < 200 || answer.status >= 400
      this.#metrics.add("http_reqs", "counter", 1, params.tags)
      this.#metrics.add("http_req_duration", "trend", duration, params.tags)
      this.#metrics.add("http_req_failed", "rate", Number(isFailure), params.tags)
      return { ...answer, timings: { duration } }
    }
    return { asyncRequest, default: { asyncRequest } }
  }

  #webSocket(): object {
    const sockets = this.#sockets
    const call = (run: Run, event: object) => this.#call(run, event)
    const look = () => this.#look()
    type Name = "open" | "message" | "error" | "close"
    return class {
      readonly #socket: NodeWebSocket
      readonly #listeners: Record<Name, Run[]> = { open: [], message: [], error: [], close: [] }

      constructor(url: string) {
        const socket = new NodeWebSocket(url)
        this.#socket = socket
        sockets.add(socket)
        const tell = (type: Name, event: object) => {
          for (const listener of this.#listeners[type]) call(listener, { type, timestamp: Date.now(), ...event })
        }
        // Of `NodeWebSocket` these are properties.
        /* oxlint-disable unicorn/prefer-add-event-listener */
        socket.onopen = () => tell("open", {})
        socket.onmessage = ({ data }) => tell("message", { data })
        socket.onerror = ({ error }) => tell("error", { error: error.message })
        socket.onclose = ({ code, reason }) => {
          sockets.delete(socket)
          tell("close", { code, reason })
          look()
        }
        /* oxlint-enable unicorn/prefer-add-event-listener */
      }

      addEventListener(type: Name, listener: Run): void {
        this.#listeners[type].push(listener)
      }

      send(text: string): void {
        this.#socket.send(text)
      }

      close(code?: number, reason?: string): void {
        this.#socket.close(code ?? 1_000, reason)
      }
    }
  }
}

const inGoSpelling = (header: string) => header.replace(/(^|-)[a-z]/g, letter => letter.toUpperCase())
