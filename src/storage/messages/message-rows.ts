import type { MessageState } from "../../domain/messages/messages.ts"
import type { Sql, Statement } from "../core/database.ts"

/** Rows of messages, within a bound in bytes: some messages are a thousand times as long as others. */

/** Messages in their order. `isCut`: there were more, but they would have been too many bytes. */
export interface MessagesWithin {
  readonly messages: MessageState[]
  readonly isCut: boolean
}

/** Bytes that a row of `messageFields` takes, roughly, without unpacking text that is stored packed. */
export const bytesOfRow = `
  300 + coalesce(octet_length(content), 0) + CASE WHEN num_nonnulls(embeds, attachments, reactions, poll) = 0 THEN 0
    ELSE coalesce(octet_length(embeds::text), 0) + coalesce(octet_length(attachments::text), 0)
      + coalesce(octet_length(reactions::text), 0) + coalesce(octet_length(poll::text), 0) END`

/** What stands around rows that are measured. */
const measuring = (first: string) => ({
  head: `SELECT * FROM (
    SELECT *, sum(bytes) OVER (${first} ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before, (count(*) OVER ())::int AS found
    FROM (SELECT *, ${bytesOfRow} AS bytes FROM (`,
  tail: ") AS plain) AS sized) AS measured WHERE bytes_before <",
})

/**
 * The first of some rows that have so many bytes together, and one at least; `found` says how many
 * there were. All of it is text.
 * @param first what stands first; absent: the order in which they come
 */
export const within = (rows: string, maxBytes: string, first = ""): string => {
  const { head, tail } = measuring(first)
  return `${head}${rows}${tail} ${maxBytes}`
}

/** The same of rows that are read one by one. @param order ORDER BY, by the columns of `rows` */
export async function messagesWithin(
  sql: Sql,
  maxBytes: number,
  rows: Statement,
  order: string,
): Promise<MessagesWithin> {
  const { head, tail } = measuring(order)
  const found = await sql<(MessageState & { bytes?: unknown; bytes_before?: unknown; found?: number })[]>`
    ${sql.unsafe(head)}${rows}${sql.unsafe(tail)} ${maxBytes} ${sql.unsafe(order)}`
  const isCut = found.length > 0 && found.length < found[0]!.found!
  for (const row of found) {
    delete row.bytes
    delete row.bytes_before
    delete row.found
  }
  return { messages: found, isCut }
}
