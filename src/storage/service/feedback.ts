import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/service/feedback.ts"
import {
  isResolved,
  ticketStatuses,
  type Feedback,
  type FeedbackTimes,
  type Ticket,
  type TicketNote,
  type TicketStatus,
} from "../../domain/service/feedback.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import { countsByStatus, queuePage, type QueuePlace } from "../core/queues.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    feedback: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "content", "category", "rating", "status", "created_at"],
      leftOut: {
        resolved_at: "What operators do with a ticket is theirs to say",
        resolved_by: "What operators do with a ticket is theirs to say",
      },
      atPurge: "kept",
    },
  },
  others: {
    feedback_notes: { why: "What operators note about tickets" },
  },
}

export const insertFeedback = defineWrite<Feedback>(
  "insertFeedback",
  (sql, rows) => sql`
    INSERT INTO feedback (id, user_id, content, category, rating, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "content")}::text[],
      ${column(rows, "category")}::text[], ${column(rows, "rating")}::integer[], ${column(rows, "created_at")}::bigint[])`,
)

/** What users tell operators, which are the operators' tickets. */
export const feedbackStorage = (sql: Sql) => ({
  /** When somebody sent something, as far as limits look back. */
  async timesOf(user: Snowflake): Promise<FeedbackTimes> {
    const rows = await sql<{ created_at: number }[]>`
      SELECT created_at FROM feedback WHERE user_id = ${user} ORDER BY created_at DESC LIMIT ${limits.feedbackPerDay}`
    return rows.map(({ created_at }) => created_at)
  },

  /** The latest first. */
  tickets: (place: QueuePlace): Promise<Ticket[]> =>
    sql<Ticket[]>`${ticketsOf(sql, queuePage(sql, "feedback", place))} ORDER BY f.id DESC`,

  async ticket(id: Snowflake): Promise<Ticket | undefined> {
    const [row] = await sql<Ticket[]>`${ticketsOf(sql, sql`SELECT ${id}::bigint AS id`)}`
    return row
  },

  ticketCounts: (most: number) => countsByStatus(sql, "feedback", ticketStatuses, most),

  /** @returns whether there is such a ticket */
  async setTicketStatus(id: Snowflake, status: TicketStatus, by: Snowflake, now: number): Promise<boolean> {
    const [at, who] = isResolved(status) ? [now, by] : [null, null]
    const { count } = await sql`
      UPDATE feedback SET status = ${status}, resolved_at = ${at}, resolved_by = ${who} WHERE id = ${id}`
    return count > 0
  },

  /** The oldest first. */
  notesOf: (ticket: Snowflake): Promise<TicketNote[]> =>
    sql<TicketNote[]>`
      ${notesIn(sql, sql`feedback_notes`)} WHERE ticket_id = ${ticket} ORDER BY n.id`,

  /** @returns undefined where the ticket has as many as it may have, or is none */
  async addNote(
    { ticket_id, admin_id, content, created_at }: Omit<TicketNote, "id" | "admin_username">,
    most: number,
  ): Promise<TicketNote | undefined> {
    const [row] = await sql<TicketNote[]>`
      WITH added AS (
        INSERT INTO feedback_notes (ticket_id, admin_id, content, created_at)
        SELECT id, ${admin_id}::bigint, ${content}, ${created_at}::bigint FROM feedback
        WHERE id = ${ticket_id} AND ${most} > (SELECT count(*) FROM feedback_notes WHERE ticket_id = ${ticket_id})
        RETURNING *)
      ${notesIn(sql, sql`added`)}`
    return row
  },
})

const notesIn = (sql: Sql, rows: Statement): Statement => sql`
  SELECT n.id::text AS id, n.ticket_id::text AS ticket_id, n.admin_id::text AS admin_id, coalesce(o.name, 'Unknown') AS admin_username, n.content,
    n.created_at
  FROM ${rows} n LEFT JOIN operators o ON o.id = n.admin_id`

const ticketsOf = (sql: Sql, ids: Statement): Statement => sql`
  SELECT f.id::text AS id, f.user_id::text AS user_id, coalesce(u.username, 'Unknown') AS username, f.content, f.category, f.rating, f.status,
    f.created_at, f.resolved_at, f.resolved_by::text AS resolved_by, o.name AS resolved_by_username
  FROM (${ids}) AS page JOIN feedback f USING (id) LEFT JOIN users u ON u.id = f.user_id AND u.deletion_status <> 'purged'
    LEFT JOIN operators o ON o.id = f.resolved_by`
