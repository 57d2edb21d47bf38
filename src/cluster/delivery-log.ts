import { itemsOf, type LogHeader, type LogItem } from "../domain/core/log-entry.ts"
import { defineScript, type Redis } from "./redis.ts"
import type { RedisKeys } from "./keys.ts"
import { replicationOf } from "./replication.ts"

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

/** Writing to delivery logs, and the numbers beside them. */
export class DeliveryLogs {
  readonly #redis: Redis
  readonly #keys: RedisKeys
  readonly #reserved = new Map<string, number>()

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
    for (const script of ["append", "appendEphemeral", "mark"]) defineScript(redis, script, 2)
  }

  /** Which Redis a worker's log is in: in another one it may be behind, and counts only once its worker has made it anew. */
  at(worker: string): string {
    return replicationOf(this.#redis, worker)
  }

  /** Makes a worker's log; only the worker itself does, once in each Redis. @returns the position to read from */
  async create(worker: string, firstPosition: number): Promise<string> {
    const id = `${firstPosition}-0`
    const { log, position } = this.#places(worker)
    await this.#redis.multi().hset(position, "s", firstPosition).xadd(log, id, '["b"]', "").exec()
    return id
  }

  async append(worker: string, parts: readonly LogPart[]): Promise<AppendAnswer[]> {
    const args: (string | number)[] = []
    for (const { shard, epoch, number, before, fields } of parts)
      args.push(shard, epoch, number, before ?? "", fields.length, ...fields)
    const words = await this.#script<string[]>("append", worker, args)
    return parts.map((_, i) => {
      const word = words[i] ?? "nolog"
      return word.startsWith("link ")
        ? { is: "link", position: Number(word.slice(5)) }
        : { is: word as "ok" | "dup" | "stale" | "nolog" }
    })
  }

  async appendEphemeral(worker: string, fields: readonly string[]): Promise<boolean> {
    return (await this.#script<string>("appendEphemeral", worker, fields)) === "ok"
  }

  /** Reserves positions in a log for another log's events. @returns the first of them, or undefined without such a log */
  async mark(
    worker: string,
    options: { floor: number; from: string; since: number; length: number },
  ): Promise<number | undefined> {
    const header = JSON.stringify(["m", options.from, options.since, options.length])
    const first = await this.#script<string | null>("mark", worker, [options.floor, options.length, header])
    if (first === null) return undefined
    this.#reserved.set(worker, Math.max(this.reserved(worker), Number(first) + options.length - 1))
    return Number(first)
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

  /** The first position that a log still holds. */
  async firstPosition(worker: string): Promise<number | undefined> {
    const [first] = await this.#redis.xrange(this.#places(worker).log, "-", "+", "COUNT", 1)
    return first && itemsOf(first[0], first[1])[0]?.s
  }

  /** Some of a log's pieces after a position, in order; none when its end is reached. */
  async read(worker: string, position: number, entries: number): Promise<LogItem[]> {
    const found = await this.#redis.xrange(this.#places(worker).log, `(${position}`, "+", "COUNT", entries)
    return found.flatMap(([id, fields]) => itemsOf(id, fields)).filter(item => item.s > position)
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

  async exists(worker: string): Promise<boolean> {
    const { log, position } = this.#places(worker)
    return (await this.#redis.exists(log, position)) === 2
  }

  #places(worker: string): { log: string; position: string; inbox: string } {
    const at = this.at(worker)
    const { log, logPosition, inbox } = this.#keys
    return { log: log(worker, at), position: logPosition(worker, at), inbox: inbox(worker, at) }
  }

  #script<Reply>(name: string, worker: string, args: readonly (string | number)[]): Promise<Reply> {
    const run = (this.#redis as unknown as Record<string, (...args: (string | number)[]) => Promise<Reply>>)[name]!
    const { log, position } = this.#places(worker)
    return run.call(this.#redis, log, position, ...args)
  }
}
