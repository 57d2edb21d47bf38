import { lineageKey } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"

/** How far PostgreSQL was seen to be, by whichever worker. */
export interface LineageNote {
  /** Names the keys of everything that Redis knows beside PostgreSQL; empty until something was lost. */
  readonly lineage: string
  /** Of the data folder. */
  readonly system: string | undefined
  readonly tables: string | undefined
  /** One past a transaction that had ended, and whose end was on PostgreSQL's disk. */
  readonly transaction: number
  /** A row of the outbox that was committed. */
  readonly row: { readonly shard: number; readonly number: number } | undefined
}

/** What the workers remember together of PostgreSQL, so that they notice when it remembers less. */
export class LineageNotes {
  readonly #redis: Redis
  readonly #prefix: string
  readonly #key: string

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis
    this.#prefix = prefix
    this.#key = lineageKey(prefix)
    defineScript(redis, "note-lineage", 1)
  }

  /** The same, over another connection. */
  on(redis: Redis): LineageNotes {
    return new LineageNotes(redis, this.#prefix)
  }

  /** Of the lineage. */
  async name(): Promise<string> {
    return (await this.#redis.hget(this.#key, "name")) ?? ""
  }

  async read(): Promise<LineageNote> {
    const { name, system, tables, transaction, row } = await this.#redis.hgetall(this.#key)
    const [shard, number] = (row ?? "").split(" ").map(Number)
    return {
      lineage: name ?? "",
      system,
      tables,
      transaction: Number(transaction ?? 0),
      row: number === undefined ? undefined : { shard: shard!, number },
    }
  }

  /** @returns the lineage's name: another one if somebody has begun it, and then nothing was noted */
  keep({ lineage, system, tables, transaction, row }: LineageNote): Promise<string> {
    return this.#note(lineage, "", system ?? "", transaction, row ? `${row.shard} ${row.number}` : "", tables ?? "")
  }

  /** Begins another lineage, unless somebody has done so already. @returns its name */
  leave(lineage: string, next: string, { system, tables }: Pick<LineageNote, "system" | "tables">): Promise<string> {
    return this.#note(lineage, next, system ?? "", 0, "", tables ?? "")
  }

  #note(
    ...args: [lineage: string, next: string, system: string, transaction: number, row: string, tables: string]
  ): Promise<string> {
    const redis = this.#redis as Redis & { "note-lineage"(...args: (string | number)[]): Promise<string> }
    return redis["note-lineage"](this.#key, ...args)
  }
}
