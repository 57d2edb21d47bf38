/**
 * What a run writes down, one JSON line each, and all that the checkers know. `at` is in
 * nanoseconds of a monotonic clock since the run began. An operation is invoked once and ends once:
 * `ok` was answered with 2xx, `fail` refused with 4xx (it has no effect), `maybe` timed out, lost
 * its connection or got a 5xx (its effect may or may not be there).
 */
import { createWriteStream } from "node:fs"
import { once } from "node:events"

export type Action =
  /** `mentions`: the user whom it calls. */
  | { do: "send"; channel: string; server: string; body: string; nonce: string; mentions?: string }
  | { do: "edit"; channel: string; message: string; body: string }
  | { do: "delete"; channel: string; message: string }
  /** On a connection of its own, so mostly on another worker. */
  | { do: "get"; channel: string; message: string }
  /** History from a message on; a reader's new session begins with it. */
  | { do: "page"; channel: string; after: string; reader?: string }
  | { do: "join"; server: string }
  | { do: "leave"; server: string }
  /** `from`: the client who loses access, or gets it back. */
  | { do: "remove"; server: string; from: string; how: "kick" | "ban" }
  | { do: "hide" | "show"; channel: string; from: string; how: string }
  /** What prepares one of these, and changes nothing of what they see by itself. */
  | { do: "manage"; channel: string; from: string }
  /** One that expires after a second. */
  | { do: "invite"; server: string }
  /** Asks for a mail. */
  | { do: "mail"; address: string }
  | { do: "login" }
  | { do: "logout" }
  /** A read that any session may make. */
  | { do: "look" }
  /** /livez and /readyz, asked past every proxy. */
  | { do: "livez" }
  | { do: "readyz" }

/** What fills a message up to its largest size, after its name. */
const filler = "漢"
export const filled = (name: string, characters: number): string =>
  `${name} ${filler.repeat(characters - name.length - 1)}`
/** What the history has of a content: the filler would only make it long. */
export const nameIn = (content: string | null): string | null => content?.split(` ${filler}`, 1)[0] ?? null

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
  retryAfterSeconds?: number
  messages?: Stored[]
  /** Of the invite that was made. */
  code?: string
}

export type ReaderEntry = { at: number; reader: string; client: string; session: string; login: string } & (
  | { type: "ready"; steady: boolean }
  | { type: "resumed"; s: number }
  | { type: "invalid" }
  | { type: "close"; code: number; reason: string }
  | { type: "event"; name: string; s: number; channel: string; message: string; content: string | null }
  /** The effect of a job. `about`: the message of a notification, the code of an invite. */
  | { type: "told"; name: "NOTIFICATION_CREATE" | "INVITE_DELETE"; about: string }
  /** The run is over, and this session was live to the end. */
  | { type: "end" }
)

/**
 * `worker`, `all` and `rolling` are about web workers, `job` about those that run jobs; `public`
 * about the clients' way in; `load` about what clients send; `dependency` about the rest.
 */
export type FaultKind = "worker" | "all" | "rolling" | "dependency" | "public" | "job" | "load" | "clock" | "reader"

/** What goes on beside the others, because it should harm nobody at all. */
export const isBeside = ({ kind }: { kind: FaultKind }): boolean =>
  kind === "job" || kind === "load" || kind === "clock" || kind === "reader"

export interface FaultEntry {
  at: number
  type: "fault"
  id: number
  name: string
  kind: FaultKind
  phase: "begin" | "end"
  target?: string
}

/** What PostgreSQL and the mail server know of jobs, in the end. */
export interface JobsEntry {
  at: number
  type: "jobs"
  /** Every job had the time that a lost one needs; otherwise some may still be owed. */
  waited: boolean
  /** Who is who. */
  users: { client: string; user: string }[]
  /** Rows of notifications, by user and message. */
  notified: { user: string; message: string; times: number }[]
  /** Messages whose mentions are not done. */
  owedMentions: string[]
  invites: { code: string; ended: boolean }[]
  /** By address: mails that are noted as sent, that are not, and that arrived. */
  mails: { address: string; sent: number; owed: number; arrived: number }[]
}

/** How somebody looks to others. */
export interface PresenceView {
  by: "told" | "asked"
  client: string
  truth: string
  /** "": nothing was told, or nobody answered. */
  found: string
}

export type Entry =
  | Invoke
  | Done
  | ReaderEntry
  | FaultEntry
  | JobsEntry
  /** After the faults. */
  | { at: number; type: "presences"; views: PresenceView[] }
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
  retryAfterSeconds?: number | undefined
  messages: readonly Stored[]
  code?: string | undefined
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
      operation.retryAfterSeconds = entry.retryAfterSeconds
      operation.messages = entry.messages ?? []
      operation.code = entry.code
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
