/**
 * What a run writes down, one JSON line each, and all that the checkers know. `at` is in
 * nanoseconds of a monotonic clock since the run began. An operation is invoked once and ends once:
 * `ok` was answered with 2xx, `fail` refused with 4xx (it has no effect), `maybe` timed out, lost
 * its connection or got a 5xx (its effect may or may not be there).
 */
import { createWriteStream } from "node:fs"
import { once } from "node:events"

export type Action =
  | { do: "send"; channel: string; server: string; body: string; nonce: string }
  | { do: "edit"; channel: string; message: string; body: string }
  | { do: "delete"; channel: string; message: string }
  /** On a connection of its own, so mostly on another worker. */
  | { do: "get"; channel: string; message: string }
  /** History from a message on; a reader's new session begins with it. */
  | { do: "page"; channel: string; after: string; reader?: string }
  | { do: "join"; server: string }
  | { do: "leave"; server: string }
  | { do: "login" }
  | { do: "logout" }
  /** A read that any session may make. */
  | { do: "look" }
  /** /livez and /readyz, asked past every proxy. */
  | { do: "livez" }
  | { do: "readyz" }

/** A message as REST answered it. */
export interface Stored {
  id: string
  author: string
  content: string | null
  /**
   * When its row was committed, in microseconds of PostgreSQL's clock; only in the final read, and
   * only of rows never changed.
   */
  committed?: number
}

export interface Invoke {
  at: number
  type: "invoke"
  op: number
  client: string
  /** A name for the session whose token is used; never the token. */
  session: string
  action: Action
}

export interface Done {
  at: number
  type: "ok" | "fail" | "maybe"
  op: number
  /** 0: no answer. */
  status: number
  retryAfter?: number
  messages?: Stored[]
}

export type ReaderEntry = { at: number; reader: string; client: string; session: string; login: string } & (
  | { type: "ready"; steady: boolean }
  | { type: "resumed"; s: number }
  | { type: "invalid" }
  | { type: "close"; code: number; reason: string }
  | { type: "event"; name: string; s: number; channel: string; message: string; content: string | null }
  /** The run is over, and this session was live to the end. */
  | { type: "end" }
)

/**
 * `worker`, `all` and `rolling` are about processes; `public` about the clients' way in;
 * `dependency` about the rest.
 */
export type FaultKind = "worker" | "all" | "rolling" | "dependency" | "public" | "clock" | "reader"

/** What goes on beside the others, because it should harm nobody at all. */
export const isBeside = ({ kind }: { kind: FaultKind }): boolean => kind === "clock" || kind === "reader"

export interface FaultEntry {
  at: number
  type: "fault"
  id: number
  name: string
  kind: FaultKind
  phase: "begin" | "end"
  target?: string
}

export type Entry =
  | Invoke
  | Done
  | ReaderEntry
  | FaultEntry
  /** Counters of all hosts together; they never fall. */
  | { at: number; type: "counters"; values: Record<string, number> }
  /**
   * Of the run's own process since it began, in nanoseconds: what it ran, and what it waited for a
   * core.
   */
  | { at: number; type: "machine"; ran: number; waited: number }
  /** The whole channel, oldest first. */
  | { at: number; type: "final"; channel: string; messages: Stored[] }

export type History = readonly Entry[]

export interface Finding {
  promise: string
  /** One sentence, with the ids that are needed to look it up. */
  what: string
  at?: number
}

export type Check = (history: History) => Finding[]

/** Without its time, which `add` gives. */
export type Untimed<E = Entry> = E extends unknown ? Omit<E, "at"> : never

export class Recorder {
  readonly entries: Entry[] = []
  readonly #start = process.hrtime.bigint()
  readonly #file: ReturnType<typeof createWriteStream> | undefined
  #ops = 0

  constructor(path?: string) {
    if (path !== undefined) this.#file = createWriteStream(path)
  }

  get now(): number {
    return Number(process.hrtime.bigint() - this.#start)
  }

  nextOp(): number {
    return ++this.#ops
  }

  add(entry: Untimed): void {
    const timed: Entry = { at: this.now, ...entry }
    this.entries.push(timed)
    this.#file?.write(`${JSON.stringify(timed)}\n`)
  }

  async close(): Promise<void> {
    if (!this.#file) return
    this.#file.end()
    await once(this.#file, "close")
  }
}

/**
 * An operation from its invocation to its end. One that never ended is a `maybe` that ends with the
 * history.
 */
export interface Operation<A extends Action = Action> extends Omit<Invoke, "type" | "at"> {
  action: A
  from: number
  to: number
  outcome: "ok" | "fail" | "maybe"
  status: number
  retryAfter?: number | undefined
  messages: readonly Stored[]
}

export function operationsOf(history: History): Operation[] {
  const open = new Map<number, Operation>()
  const all: Operation[] = []
  for (const entry of history) {
    if (entry.type === "invoke") {
      const { at, op, client, session, action } = entry
      const operation: Operation = {
        op,
        client,
        session,
        action,
        from: at,
        to: Number.POSITIVE_INFINITY,
        outcome: "maybe",
        status: 0,
        messages: [],
      }
      open.set(op, operation)
      all.push(operation)
    } else if (entry.type === "ok" || entry.type === "fail" || entry.type === "maybe") {
      const operation = open.get(entry.op)
      if (!operation) throw new Error(`operation ${entry.op} ends without having begun`)
      operation.to = entry.at
      operation.outcome = entry.type
      operation.status = entry.status
      operation.retryAfter = entry.retryAfter
      operation.messages = entry.messages ?? []
      open.delete(entry.op)
    }
  }
  return all
}

export type ActionName = Action["do"]

export const isA =
  <N extends ActionName>(name: N) =>
  (operation: Operation): operation is Operation<Extract<Action, { do: N }>> =>
    operation.action.do === name

export interface FaultSpan {
  id: number
  name: string
  kind: FaultKind
  target: string
  from: number
  to: number
}

export function faultsOf(history: History): FaultSpan[] {
  const spans = new Map<number, FaultSpan>()
  for (const entry of history) {
    if (entry.type !== "fault") continue
    const span = spans.get(entry.id)
    if (span) span.to = entry.at
    else {
      const { id, name, kind, target = "", at } = entry
      spans.set(id, { id, name, kind, target, from: at, to: Number.POSITIVE_INFINITY })
    }
  }
  return [...spans.values()]
}

/** What the final read found, by channel, oldest first. */
export const finalsOf = (history: History): Map<string, Stored[]> =>
  new Map(history.flatMap(entry => (entry.type === "final" ? [[entry.channel, entry.messages] as const] : [])))

export const seconds = (nanoseconds: number): number => nanoseconds / 1e9
