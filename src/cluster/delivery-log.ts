import { firstOf, type LogHeader, type LogItem } from "../domain/core/log-entry.ts"
import { defineScript, type Redis } from "./redis.ts"
import type { RedisKeys } from "./keys.ts"
import { LogReads } from "./log-reads.ts"
import { replicationOf, replicationsOf } from "./replication.ts"

/** The header with which a log begins. */
export const beginning = JSON.stringify(["b"] satisfies LogHeader)

/** What one shard appends to one log in one flush. `before` is the number sent to this log before; null declares a gap. */
export interface LogPart {
  readonly shard: number
  readonly epoch: number
  readonly number: number
  readonly before: number | null
  /** Header, data, header, data, … */
  readonly fields: readonly string[]
}

/** Tells a log that it lacks everything of a shard up to a row. */
export const gapPart = ({ shard, epoch, number }: Pick<LogPart, "shard" | "epoch" | "number">): LogPart => ({
  shard,
  epoch,
  number,
  before: null,
  fields: [JSON.stringify(["g", shard, number] satisfies LogHeader), ""],
})

/**
 * `ok`: it stands in the log. `dup`: it stood there before. `link`: the log stands at `position`. `stale`: somebody with a
 * higher epoch has appended. `nolog`: there is no such log, and there never will be again.
 */
export type AppendAnswer =
  | { readonly is: "ok" | "dup" | "stale" | "nolog" }
  | { readonly is: "link"; readonly position: number }

/** What one call of a script has appended to this worker's own log: nothing else stands between `from` and `to`. */
export interface OwnRun {
  /** The Redis that the log is in. */
  readonly at: string
  /** The last position of the log before it, and with it. */
  readonly from: number
  readonly to: number
  /** Header, data, header, data, …; none if the log is only said to reach that far. */
  readonly fields: readonly string[]
}

/** A worker as the appender to its own log. */
export interface OwnLog {
  readonly worker: string
  take(run: OwnRun): void
}

/** In which Redis logs are (`DeliveryLogs.at`): one for all of them, or by worker. "": not to be relied on now. */
export type LogPlaces = string | Readonly<Record<string, string>>

/** Where one worker's log is; undefined: nothing is known of that log. */
export const placeIn = (places: LogPlaces | undefined, worker: string): string | undefined =>
  typeof places === "string" ? places : places?.[worker]

/** Delivery logs, and the numbers beside them. */
export class DeliveryLogs {
  readonly #redis: Redis
  readonly #keys: RedisKeys
  readonly #reads: LogReads
  readonly #own: OwnLog | undefined
  readonly #reserved = new Map<string, number>()

  /**
   * @param replay the connection that logs are read back over
   * @param own is told what is appended to its log from here. The workers of other logs are woken by it.
   */
  constructor(redis: Redis, replay: Redis, keys: RedisKeys, own?: OwnLog) {
    this.#redis = redis
    this.#keys = keys
    this.#reads = new LogReads(replay, keys)
    this.#own = own
    for (const script of ["append", "appendEphemeral", "mark"]) defineScript(redis, script, script === "mark" ? 2 : 3)
    defineScript(redis, "firstEntry", 1)
  }

  /** Which Redis a worker's log is in: in another one it may be behind, and counts only once its worker has made it anew. */
  at(worker: string): string {
    return replicationOf(this.#redis, worker)
  }

  /** Where these workers' logs are. */
  places(workers: Iterable<string>): LogPlaces {
    const places: Record<string, string> = {}
    let first: string | undefined
    let isOne = true
    for (const worker of workers) {
      const at = this.at(worker)
      places[worker] = at
      first ??= at
      if (at !== first) isOne = false
    }
    return isOne ? (first ?? "") : places
  }

  /** Another text each time that a part of what was appended may be lost. */
  get replications(): string {
    return replicationsOf(this.#redis)
  }

  /** Makes a worker's log; only the worker itself does, once in each Redis. @returns the position to read from */
  async create(worker: string, firstPosition: number): Promise<string> {
    const id = `${firstPosition}-0`
    const { log, position } = this.#places(worker)
    await this.#redis.multi().hset(position, "s", firstPosition).xadd(log, id, beginning, "").exec()
    return id
  }

  async append(worker: string, parts: readonly LogPart[]): Promise<AppendAnswer[]> {
    const args: (string | number)[] = []
    for (const { shard, epoch, number, before, fields } of parts)
      args.push(shard, epoch, number, before ?? "", fields.length, ...fields)
    const appended = (words: readonly string[]) => parts.flatMap(({ fields }, i) => (words[i] === "ok" ? fields : []))
    const words = await this.#script<string[]>("append", worker, args, words =>
      words.length > parts.length ? { places: words.slice(-2), fields: appended(words) } : undefined,
    )
    return parts.map((_, i) => {
      const word = words[i] ?? "nolog"
      return word.startsWith("link ")
        ? { is: "link", position: Number(word.slice(5)) }
        : { is: word as "ok" | "dup" | "stale" | "nolog" }
    })
  }

  async appendEphemeral(worker: string, fields: readonly string[]): Promise<boolean> {
    const answer = await this.#script<string[] | null>("appendEphemeral", worker, fields, places =>
      places ? { places, fields } : undefined,
    )
    return answer !== null
  }

  /** Reserves positions in a log for another log's events. @returns the first of them, or undefined without such a log */
  async mark(
    worker: string,
    options: { floor: number; from: string; since: number; length: number },
  ): Promise<number | undefined> {
    const header = JSON.stringify(["m", options.from, options.since, options.length])
    const { at, log, position } = this.#places(worker)
    const redis = this.#redis as Redis & { mark(...args: (string | number)[]): Promise<string | null> }
    const answer = await redis.mark(log, position, options.floor, options.length, header)
    if (answer === null) return undefined
    const first = Number(answer)
    const last = first + options.length - 1
    this.#reserved.set(worker, Math.max(this.reserved(worker), last))
    if (worker === this.#own?.worker) this.#own.take({ at, from: first - 1, to: last, fields: [] })
    return first
  }

  /** The last position of a log that was ever reserved from here: none up to it may be given out again. */
  reserved(worker: string): number {
    return this.#reserved.get(worker) ?? 0
  }

  /** For each shard, the last number that stands in a log; undefined when there is no such log. */
  async positions(worker: string): Promise<Map<number, number> | undefined> {
    const fields = await this.#redis.hgetall(this.#places(worker).position)
    if (fields["s"] === undefined) return undefined
    const positions = new Map<number, number>()
    for (const [field, value] of Object.entries(fields))
      if (field.startsWith("n")) positions.set(Number(field.slice(1)), Number(value))
    return positions
  }

  async lastPosition(worker: string): Promise<number | undefined> {
    const s = await this.#redis.hget(this.#places(worker).position, "s")
    return s === null ? undefined : Number(s)
  }

  /**
   * The first position of which a log still holds what belongs there. Where it begins it has a mark: what belongs to that
   * position stood in the log before, if it was made anew.
   */
  async firstPosition(worker: string): Promise<number | undefined> {
    const redis = this.#redis as Redis & {
      firstEntry(log: string): Promise<[id: string, fields: number, header: string] | null>
    }
    const first = await redis.firstEntry(this.#places(worker).log)
    if (!first) return undefined
    const [id, fields, header] = first
    return firstOf(id, fields) + (header === beginning ? 1 : 0)
  }

  /**
   * The pieces of some of a log's entries after a position, in order, of about a megabyte together;
   * none when its end is reached.
   */
  read(worker: string, position: number, entries: number): Promise<LogItem[]> {
    return this.#reads.read(worker, this.at(worker), position, entries)
  }

  /** Forgets what lies before a position. */
  async trim(worker: string, before: number): Promise<void> {
    await this.#redis.xtrim(this.#places(worker).log, "MINID", "~", `${before}-0`)
  }

  async drop(worker: string): Promise<void> {
    const { log, position, inbox } = this.#places(worker)
    await this.#redis.unlink(log, position, inbox)
    this.#reserved.delete(worker)
  }

  /** @param redis the connection that is asked */
  async exists(worker: string, redis: Redis = this.#redis): Promise<boolean> {
    const { log, position } = this.#places(worker, replicationOf(redis, worker))
    return (await redis.exists(log, position)) === 2
  }

  #places(worker: string, at = this.at(worker)): { at: string; log: string; position: string; inbox: string } {
    const { log, logPosition, inbox } = this.#keys
    return { at, log: log(worker, at), position: logPosition(worker, at), inbox: inbox(worker, at) }
  }

  /** Wakes the worker whose log it is, or, if it is this one, hands it what `appended` reads from the answer. */
  async #script<Reply>(
    name: string,
    worker: string,
    args: readonly (string | number)[],
    appended: (reply: Reply) => { places: readonly string[]; fields: readonly string[] } | undefined,
  ): Promise<Reply> {
    const script = (this.#redis as unknown as Record<string, (...args: (string | number)[]) => Promise<Reply>>)[name]!
    const { at, log, position, inbox } = this.#places(worker)
    const own = worker === this.#own?.worker ? this.#own : undefined
    const reply = await script.call(this.#redis, log, position, inbox, own ? "" : "ring", ...args)
    const run = own && appended(reply)
    if (run) own.take({ at, from: Number(run.places[0]), to: Number(run.places[1]), fields: run.fields })
    return reply
  }
}
