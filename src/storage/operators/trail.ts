import type { TrailEntry } from "../../contract/operators/trail.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  others: {
    operator_trail: {
      why: "What operators did, for a year: it is about operators, and names users by their ids only",
      columns: { address: "Where an operator called from" },
    },
  },
}

export interface NewTrailEntry {
  readonly operator: { readonly id: string; readonly name: string } | undefined
  readonly action: string
  readonly target: string | undefined
  /** JSON, see `trailText`. */
  readonly input: string
  readonly address: string
}

/** How a call ended. */
export interface TrailOutcome {
  /** HTTP status. */
  readonly outcome: number
  readonly error: string | undefined
  /** JSON, see `trailText`. */
  readonly result: string
}

type TrailRow = Omit<TrailEntry, "input" | "result"> & { readonly input: string; readonly result: string }

export const operatorTrailStorage = (sql: Sql) => ({
  /** Records a call before it does anything. @returns its id, for `end` */
  async begin({ operator, action, target, input, address }: NewTrailEntry): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      INSERT INTO operator_trail (operator_id, operator, action, target, input, address)
      VALUES (${operator?.id ?? null}, ${operator?.name ?? null}, ${action}, ${target ?? null}, ${input}, ${address}) RETURNING id::text`
    return row!.id
  },

  /** How it ended. */
  async end(id: string, { outcome, error, result }: TrailOutcome): Promise<void> {
    await sql`
      UPDATE operator_trail SET outcome = ${outcome}, error = ${error ?? null}, result = ${result} WHERE id = ${id} AND outcome IS NULL`
  },

  /** Entries are kept for a year; PostgreSQL refuses to delete younger ones. */
  async forgetOld(limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM operator_trail WHERE id IN (
        SELECT id FROM operator_trail WHERE at < extract(epoch FROM now() - interval '1 year 1 day')::bigint ORDER BY at LIMIT ${limit})`
    return count
  },

  /** The newest first. */
  async page(asked: {
    operator?: string | undefined
    action?: string | undefined
    target?: string | undefined
    before?: string | undefined
    limit: number
  }): Promise<TrailEntry[]> {
    const { operator, action, target, before, limit } = asked
    const rows = await sql<TrailRow[]>`
      SELECT id::text, at, operator_id::text, operator, action, target, input, address, outcome, error, result FROM operator_trail
      WHERE true
        ${operator === undefined ? sql`` : sql`AND lower(operator) = lower(${operator})`}
        ${action === undefined ? sql`` : sql`AND action = ${action}`}
        ${target === undefined ? sql`` : sql`AND target = ${target}`}
        ${before === undefined ? sql`` : sql`AND id < ${before}`}
      ORDER BY operator_trail.id DESC LIMIT ${limit}`
    return rows.map(({ input, result, ...row }) => ({
      ...row,
      input: JSON.parse(input) as TrailEntry["input"],
      result: JSON.parse(result) as TrailEntry["result"],
    }))
  },
})
