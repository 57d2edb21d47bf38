import { randomInt } from "node:crypto"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import {
  closing,
  isSessionOver,
  isTakenBack,
  openPool,
  within,
  type Observe,
  type PoolOptions,
  type Sql,
  type Statement,
  type Statements,
} from "./database.ts"
import { groupWrites, numbers, type StatementPart, type Write } from "./write.ts"

export const personalData: PersonalData = {
  others: {
    lanes: { why: "Processes of the server" },
    outbox: { why: "Events on their way; gone seconds after they have arrived, but for the newest of each shard" },
  },
}

/** A row of the outbox: what one batch publishes for one shard. */
export interface OutboxRow {
  shard: number
  number: number
  last_id: Snowflake
  /** JSON: never empty, and without control characters. */
  body: string
}

/** Between texts of JSON, in which it cannot stand (RFC 7464). */
const recordSeparator = "\u001E"

export interface Batch {
  turns: readonly { home: string; writes: readonly Write[] }[]
  outbox: readonly OutboxRow[]
}

/**
 * Somebody declared this worker dead and raised its generation: nothing of the batch was written.
 */
export class Fenced extends Error {
  constructor() {
    super("the lane's generation is over")
  }
}

/** How often a batch is tried that PostgreSQL rolls back because of another transaction. */
const attempts = 3

interface LaneOptions extends Omit<PoolOptions, "connections"> {
  incarnation: string
  lane: number
  generation: number
  observe: Observe
}

/**
 * One connection on which a worker's batches are committed, one at a time. It keeps:
 *   LANE1  A batch is written completely or not at all.
 *   LANE2  A batch is written only in the lane's current generation: raising the generation
 *       waits for the batch in flight, by a row lock, and refuses every later one.
 */
export class Lane {
  readonly #open: () => Sql
  readonly #observe: Observe
  readonly #timeoutMs: number
  #sql: Sql
  readonly #incarnation: string
  readonly #lane: number
  #generation: number
  #drawn: number | undefined

  constructor({ observe, ...options }: LaneOptions) {
    this.#open = () => openPool({ ...options, connections: 1, idleInTransactionTimeoutMs: 1_000 })
    this.#observe = observe
    this.#sql = this.#open()
    this.#timeoutMs = options.connectTimeoutMs + options.statementTimeoutMs
    this.#incarnation = options.incarnation
    this.#lane = options.lane
    this.#generation = options.generation
  }

  /**
   * Rejects with `Fenced`, with what PostgreSQL refused, or, after a bounded time, without anybody
   * knowing the outcome.
   */
  async commit(batch: Batch): Promise<void> {
    for (let attempt = 1; ; attempt++)
      try {
        return await this.#observe(within(this.#commit(batch), this.#timeoutMs, "commit"))
      } catch (error) {
        // Batches of two lanes conflicted: nothing of this one was written.
        if (attempt === attempts || !isTakenBack(error)) throw error
      }
  }

  async #commit(batch: Batch): Promise<void> {
    const groups = groupWrites(batch.turns)
    const [first] = groups
    if (groups.length === 1 && first!.kind.fenced)
      return this.#commitInOneStatement(first!.kind.fenced(first!.rows), batch.outbox)
    await this.#sql.begin(async sql => {
      // Sent together: the fence's answer is looked at before COMMIT.
      const fence = asked(sql, this.fence())
      const statements = groups.map(({ kind, rows }) => kind.statement(sql, rows))
      const outbox = asked(sql, this.keep(batch.outbox))
      const [standing, ...written] = await Promise.allSettled([fence, ...statements, outbox])
      if ([standing, ...written].some(isConnectionLost)) await closing
      // The fence counts first: with another owner at work the other statements may fail for any
      // reason.
      if (standing.status === "rejected") throw standing.reason
      if (standing.value.length === 0) throw new Fenced()
      for (const outcome of written) if (outcome.status === "rejected") throw outcome.reason
    })
  }

  /**
   * A batch of one kind of rows is one statement, without BEGIN, where the kind has one for that.
   */
  async #commitInOneStatement(sent: StatementPart, outbox: readonly OutboxRow[]): Promise<void> {
    const fence = this.fence()
    const kept = this.keep(outbox, "lane,")
    const before = fence.parameters.length
    const text = `
      WITH lane AS MATERIALIZED (${fence.text(0)}),
           ${sent.text(before)},
           kept AS (${kept.text(before + sent.parameters.length)})
      SELECT count(*)::int AS standing FROM lane`
    const parameters = [...fence.parameters, ...sent.parameters, ...kept.parameters]
    const [row] = await asked(this.#sql, { text: () => text, parameters })
    if (row!["standing"] === 0) throw new Fenced()
  }

  /** LANE2: a row as long as the generation is this one, locked until the batch is written. */
  fence(): StatementPart {
    return {
      text: before => `
        SELECT 1 FROM lanes WHERE incarnation = $${before + 1} AND lane = $${before + 2} AND generation = $${before + 3} FOR SHARE`,
      parameters: [this.#incarnation, this.#lane, this.#generation],
    }
  }

  /**
   * Writes what the batch publishes; with the fence in the same statement, only if it has a row.
   * The bodies are one text: as elements of an array each of their quotes would be escaped here and
   * read back there, which costs more than all else that is done with them.
   */
  keep(rows: readonly OutboxRow[], fence: "lane," | "" = ""): StatementPart {
    return {
      text: before => `
        INSERT INTO outbox (shard, number, last_id, body)
        SELECT t.* FROM ${fence} unnest(
          $${before + 1}::smallint[], $${before + 2}::bigint[], $${before + 3}::bigint[], string_to_array($${before + 4}, '${recordSeparator}')) AS t`,
      parameters: [
        numbers(rows, ({ shard }) => shard),
        numbers(rows, ({ number }) => number),
        numbers(rows, ({ last_id }) => last_id),
        rows.reduce((all, { body }, i) => (i === 0 ? body : all + recordSeparator + body), ""),
      ],
    }
  }

  /**
   * After an unknown outcome: when this returns, whatever was in flight is over, and nothing of it
   * can take effect later.
   */
  async raise(): Promise<void> {
    // A connection of its own: one that was lost in the middle may keep what is asked of it waiting
    // for ever.
    this.#sql.end({ timeout: 0 }).catch(() => {})
    this.#sql = this.#open()
    await this.#observe(within(this.#raise(), this.#timeoutMs, "raising the generation"))
  }

  async #raise(): Promise<void> {
    // Drawn once and kept until it is known to stand: an attempt whose answer was lost is
    // recognised by the next.
    this.#drawn ??= randomInt(2 ** 30, 2 ** 31 - 1)
    const [row] = await this.#sql<{ generation: number }[]>`
      UPDATE lanes SET generation = ${this.#drawn} WHERE incarnation = ${this.#incarnation} AND lane = ${this.#lane} AND generation IN (${this.#generation}, ${this.#drawn})
      RETURNING generation`
    if (!row) throw new Fenced()
    this.#generation = row.generation
    this.#drawn = undefined
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 })
  }
}

const asked = (sql: Statements, { text, parameters }: StatementPart): Statement =>
  sql.unsafe(text(0), [...parameters], { prepare: true })

const isConnectionLost = (outcome: PromiseSettledResult<unknown>): boolean =>
  outcome.status === "rejected" && isSessionOver(outcome.reason)
