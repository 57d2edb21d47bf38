import type { ErrorCode } from "../../contract/core/errors.ts"
import type { Statement, Statements } from "./database.ts"

/** One row's change, decided by a turn and committed with whatever else is waiting. */
export interface Write<Row = unknown> {
  readonly kind: WriteKind<Row>
  readonly row: Row
}

/**
 * Rows of one kind go out in one statement. `conflicts` translates a violated constraint into what
 * the caller is told; "done": the same was committed before; "again": the command looks closer, and
 * decides anew.
 */
export interface WriteKind<Row = unknown> {
  readonly name: string
  readonly statement: (sql: Statements, rows: readonly Row[]) => Statement
  readonly conflicts: Readonly<Record<string, ErrorCode | "done" | "again">>
  /**
   * For a kind of which many batches are made: the same as parts of a WITH query. They write
   * nothing where the query before them, `lane`, has no row. A batch of nothing else is then one
   * statement.
   */
  readonly fenced?: (rows: readonly Row[]) => StatementPart
}

/**
 * A part of a statement of which the text is always the same: put together from nested templates,
 * postgres.js would make and escape all of it anew each time. Lists go as PostgreSQL writes arrays,
 * see `numbers` and `texts`.
 */
export interface StatementPart {
  /** @param before how many parameters the statement has before those of this part */
  readonly text: (before: number) => string
  readonly parameters: readonly (string | number)[]
}

/** An array of numbers, ids among them, as PostgreSQL reads it: none of them has to be quoted. */
export const numbers = <Row>(rows: readonly Row[], of: (row: Row) => string | number | null): string =>
  `{${rows.map(row => of(row) ?? "NULL").join(",")}}`

/** The same of texts. */
export const texts = <Row>(rows: readonly Row[], of: (row: Row) => string | null): string =>
  `{${rows
    .map(row => {
      const text = of(row)
      if (text === null) return "NULL"
      return `"${hasSigns.test(text) ? text.replace(signs, "\\$&") : text}"`
    })
    .join(",")}}`
const hasSigns = /["\\]/
const signs = /["\\]/g

export function defineWrite<Row>(
  name: string,
  statement: (sql: Statements, rows: readonly Row[]) => Statement,
  conflicts: Record<string, ErrorCode | "done" | "again"> = {},
  fenced?: WriteKind<Row>["fenced"],
): (row: Row) => Write {
  const kind: WriteKind<Row> = { name, statement, conflicts, ...(fenced && { fenced }) }
  return row => ({ kind, row }) as unknown as Write
}

/** The last row of each key, where it alone counts: a batch may change one thing several times. */
export const lastOf = <Row>(rows: readonly Row[], keyOf: (row: Row) => string): Row[] => [
  ...new Map(rows.map(row => [keyOf(row), row])).values(),
]

/**
 * The values of one column, as a parameter for `unnest`. Flags go as text (`::text[]::boolean[]`):
 * postgres.js takes an array whose first element is a boolean for a boolean.
 */
export const column = <Row, Key extends keyof Row>(rows: readonly Row[], key: Key): string[] =>
  rows.map(row => {
    const value = row[key]
    return (typeof value === "boolean" ? String(value) : (value ?? null)) as string
  })

/**
 * Puts writes into as few statements as their homes' orders allow: a write joins the latest group
 * of its kind unless a later group already holds a write of the same home.
 */
export function groupWrites(
  turns: readonly { home: string; writes: readonly Write[] }[],
): { kind: WriteKind; rows: unknown[] }[] {
  const groups: { kind: WriteKind; rows: unknown[] }[] = []
  const newestOfKind = new Map<WriteKind, number>()
  const newestOfHome = new Map<string, number>()
  for (const { home, writes } of turns)
    for (const { kind, row } of writes) {
      let at = newestOfKind.get(kind)
      if (at === undefined || at < (newestOfHome.get(home) ?? 0)) {
        at = groups.push({ kind, rows: [] }) - 1
        newestOfKind.set(kind, at)
      }
      groups[at]!.rows.push(row)
      newestOfHome.set(home, at)
    }
  return groups
}
