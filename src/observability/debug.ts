import type { Cluster, Worker } from "node:cluster"
import { within } from "../std/deadline.ts"
import type { Channel } from "./aggregate.ts"
import { maxProfileSeconds, type Capture, type Captures } from "./captures.ts"
import type { Holdings } from "./holdings.ts"

/** What the primary asks of a process beside its metrics, and what comes back. */
interface DebugQuestion {
  type: "debug"
  id: number
  what: { readonly kind: "holdings" } | Capture
}
interface DebugAnswer {
  type: "debugged"
  id: number
  worker: string
  answer?: unknown
  error?: string
}

export interface WorkerHoldings {
  readonly worker: string
  readonly [part: string]: unknown
}

export interface Debug {
  /** What every process of this host holds; those that do not answer in time are left out. */
  holdings(): Promise<{ workers: WorkerHoldings[]; missing: number }>
  /** @returns the path of what was taken. Rejects with what a person should know */
  capture(worker: string, capture: Capture): Promise<string>
}

const timeoutMs = 2_000
/** A large heap takes its time, in which its process does nothing else. */
const captureTimeoutMs = 120_000

/** In the primary: asks its workers. */
export function debugCluster(cluster: Cluster): Debug {
  const waiting = new Map<number, (answer: DebugAnswer) => void>()
  let asked = 0

  cluster.on("message", (_worker, message: unknown) => {
    if (isAnswer(message)) waiting.get(message.id)?.(message)
  })

  async function ask(worker: Worker, what: DebugQuestion["what"], waitMs: number): Promise<DebugAnswer | undefined> {
    const id = ++asked
    const answered = new Promise<DebugAnswer>(resolve => {
      waiting.set(id, resolve)
      worker.send({ type: "debug", id, what } satisfies DebugQuestion, () => {}) // one that cannot be told does not answer
    })
    try {
      return await within(waitMs, answered, () => undefined)
    } finally {
      waiting.delete(id)
    }
  }

  const living = () => Object.values(cluster.workers ?? {}).filter(worker => worker !== undefined)
  const askAll = () =>
    Promise.all(living().map(async worker => ({ worker, answer: await ask(worker, { kind: "holdings" }, timeoutMs) })))

  return {
    async holdings() {
      const all = await askAll()
      const workers = all.flatMap(({ answer }) =>
        answer ? [{ worker: answer.worker, ...(answer.answer as object) }] : [],
      )
      return {
        workers: workers.toSorted((a, b) => a.worker.localeCompare(b.worker)),
        missing: all.length - workers.length,
      }
    },

    async capture(name, capture) {
      const found = (await askAll()).find(({ answer }) => answer?.worker === name)
      if (!found) throw new Error(`no process ${name} answers`)
      const answer = await ask(found.worker, capture, captureTimeoutMs)
      if (!answer) throw new Error(`${name} has not answered within ${captureTimeoutMs / 1000} s`)
      if (answer.error !== undefined) throw new Error(answer.error)
      return answer.answer as string
    },
  }
}

export interface AskedProcess {
  readonly worker: string
  readonly holdings: Holdings
  /** None unless the operator allows them. */
  readonly captures: Captures | undefined
}

/** In a worker that is a process of its own: answers the primary. */
export function answerDebug({ worker, holdings, captures }: AskedProcess, channel: Channel = process): void {
  async function answerTo(what: DebugQuestion["what"]): Promise<unknown> {
    if (what.kind === "holdings") return holdings.look()
    if (!captures) throw new Error("DEBUG_CAPTURES is off")
    return captures.take(what)
  }
  channel.on("message", (message: unknown) => {
    if (!isQuestion(message)) return
    const { id, what } = message
    const say = (said: Pick<DebugAnswer, "answer" | "error">) => {
      if (channel.connected) channel.send?.({ type: "debugged", id, worker, ...said } satisfies DebugAnswer, () => {})
    }
    answerTo(what).then(
      answer => say({ answer }),
      (error: unknown) => say({ error: error instanceof Error ? error.message : String(error) }),
    )
  })
}

/** What a request for a capture asks for; a text: what is wrong with it. */
export function captureOf(kind: string, query: URLSearchParams): { worker: string; capture: Capture } | string {
  const worker = query.get("worker")
  if (worker === null || !/^(web|job)-\d{1,4}$/.test(worker)) return "worker is the place of a process, such as web-0"
  if (kind === "heap") return { worker, capture: { kind } }
  const seconds = Number(query.get("seconds") ?? 10)
  if (!(seconds > 0 && seconds <= maxProfileSeconds)) return `seconds is from 1 to ${maxProfileSeconds}`
  return { worker, capture: { kind: "profile", seconds } }
}

const typeOf = (message: unknown): unknown =>
  typeof message === "object" && message !== null && "type" in message ? message.type : undefined
const isQuestion = (message: unknown): message is DebugQuestion => typeOf(message) === "debug"
const isAnswer = (message: unknown): message is DebugAnswer => typeOf(message) === "debugged"
