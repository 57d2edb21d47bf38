import type { Sql, Statement } from "./database.ts"

/**
 * Tables whose rows wait for operators, each with a key `id` and an index of `(status, id)`: pages
 * and counts read indexes alone, whatever the rows hold.
 */
type Queue = "message_reports" | "user_reports" | "hash_reports" | "feedback"

/** Which of them: absent `status`, all. */
export interface QueuePlace {
  readonly status?: string | undefined
  readonly limit: number
  readonly offset: number
}

/** The ids of a page, the latest first; who asks joins the rows. */
export const queuePage = (sql: Sql, queue: Queue, { status, limit, offset }: QueuePlace): Statement => sql`
  SELECT id FROM ${sql(queue)} ${status === undefined ? sql`` : sql`WHERE status = ${status}`} ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`

/** How many there are of each status; it is counted up to `most`. */
export async function countsByStatus<Status extends string>(
  sql: Sql,
  queue: Queue,
  statuses: readonly Status[],
  most: number,
): Promise<Record<Status, number>> {
  const rows = await sql<{ status: Status; count: number }[]>`
    SELECT status, (SELECT count(*)::int FROM (SELECT FROM ${sql(queue)} q WHERE q.status = s.status LIMIT ${most}) AS counted) AS count
    FROM unnest(${[...statuses]}::text[]) AS s (status)`
  return Object.fromEntries(rows.map(({ status, count }) => [status, count])) as Record<Status, number>
}
