import type { Snowflake } from "../../contract/core/fields.ts"
import {
  reportStatuses,
  statusAfter,
  type ListedMessageReport,
  type ListedUserReport,
  type MessageReport,
  type Review,
  type UserReport,
} from "../../domain/messages/reports.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import { countsByStatus, queuePage, type QueuePlace } from "../core/queues.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

const leftOut = {
  reviewed_at: "What reviewers do with a report is theirs to say",
  reviewed_by: "What reviewers do with a report is theirs to say",
  admin_notes: "What reviewers note of a report is theirs to say",
  action_taken: "What reviewers do with a report is theirs to say",
}
const othersRows = { reported_user_id: "What others reported is theirs to know" }

export const personalData: PersonalData = {
  personal: {
    message_reports: {
      userColumns: ["reporter_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "message_id",
        "channel_id",
        "server_id",
        "reporter_id",
        "reported_user_id",
        "reason",
        "category",
        "details",
        "status",
        "reported_at",
      ],
      leftOut: { ...leftOut, message_content: "What others wrote is theirs" },
      othersRows,
      atPurge: "erased",
    },
    user_reports: {
      userColumns: ["reporter_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "reported_user_id",
        "reporter_id",
        "reason",
        "category",
        "details",
        "evidence_message_ids",
        "status",
        "reported_at",
      ],
      leftOut,
      othersRows,
      atPurge: "erased",
    },
  },
}

/**
 * Reports of messages and users. They keep:
 *   REP1  A reporter has one report that waits for review of the same message or user. Another
 *       changes what is said in it; its id, its place, and what it shows of the message stay: what
 *       was reported first is what was seen.
 */
export const putMessageReport = defineWrite<MessageReport>("putMessageReport", (sql, rows) => {
  const last = lastOf(rows, row => `${row.reporter_id} ${row.channel_id} ${row.message_id}`)
  const each = <Key extends keyof MessageReport>(key: Key) => column(last, key)
  return sql`
    INSERT INTO message_reports (id, message_id, channel_id, server_id, reporter_id, reported_user_id, reason, category, details,
      message_content, reported_at)
    SELECT * FROM unnest(${each("id")}::bigint[], ${each("message_id")}::bigint[], ${each("channel_id")}::bigint[], ${each("server_id")}::bigint[],
      ${each("reporter_id")}::bigint[], ${each("reported_user_id")}::bigint[], ${each("reason")}::text[], ${each("category")}::text[],
      ${each("details")}::text[], ${each("message_content")}::text[], ${each("reported_at")}::bigint[])
    ON CONFLICT (reporter_id, channel_id, message_id) WHERE status = 'pending'
      DO UPDATE SET reason = excluded.reason, category = excluded.category, details = excluded.details`
})

/** Of an account that is about to be erased there is no report any more. */
export const putUserReport = defineWrite<UserReport>("putUserReport", (sql, rows) => {
  const last = lastOf(rows, row => `${row.reporter_id} ${row.reported_user_id}`)
  const each = <Key extends Exclude<keyof UserReport, "evidence_message_ids">>(key: Key) => column(last, key)
  return sql`
    INSERT INTO user_reports (id, reported_user_id, reporter_id, reason, category, details, evidence_message_ids, reported_at)
    SELECT t.id, t.reported_user_id, t.reporter_id, t.reason, t.category, t.details, t.evidence::bigint[], t.reported_at
    FROM unnest(${each("id")}::bigint[], ${each("reported_user_id")}::bigint[], ${each("reporter_id")}::bigint[], ${each("reason")}::text[],
      ${each("category")}::text[], ${each("details")}::text[], ${last.map(row => `{${row.evidence_message_ids.join(",")}}`)}::text[],
      ${each("reported_at")}::bigint[]) AS t (id, reported_user_id, reporter_id, reason, category, details, evidence, reported_at)
    JOIN users u ON u.id = t.reported_user_id AND u.deletion_status <> 'purged'
    ON CONFLICT (reporter_id, reported_user_id) WHERE status = 'pending'
      DO UPDATE SET reason = excluded.reason, category = excluded.category, details = excluded.details,
        evidence_message_ids = excluded.evidence_message_ids`
})

export const reportsStorage = (sql: Sql) => ({
  async pendingMessageReportsOf(reporter: Snowflake): Promise<number> {
    const [row] = await sql<{ reports: number }[]>`
      SELECT count(*)::int AS reports FROM message_reports WHERE reporter_id = ${reporter} AND status = 'pending'`
    return row!.reports
  },

  async pendingUserReportsOf(reporter: Snowflake): Promise<number> {
    const [row] = await sql<{ reports: number }[]>`
      SELECT count(*)::int AS reports FROM user_reports WHERE reporter_id = ${reporter} AND status = 'pending'`
    return row!.reports
  },

  /** The one that holds what the reporter said last. */
  async latestMessageReport(
    reporter: Snowflake,
    channel: Snowflake,
    message: Snowflake,
  ): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM message_reports WHERE reporter_id = ${reporter} AND channel_id = ${channel} AND message_id = ${message}
      ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  async latestUserReport(reporter: Snowflake, reported: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM user_reports WHERE reporter_id = ${reporter} AND reported_user_id = ${reported} ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  /** The latest first. */
  messageReports: (place: QueuePlace): Promise<ListedMessageReport[]> =>
    sql<
      ListedMessageReport[]
    >`${listedMessageReports(sql, queuePage(sql, "message_reports", place))} ORDER BY r.id DESC`,

  async messageReport(id: Snowflake): Promise<ListedMessageReport | undefined> {
    const [row] = await sql<ListedMessageReport[]>`${listedMessageReports(sql, sql`SELECT ${id}::bigint AS id`)}`
    return row
  },

  userReports: (place: QueuePlace): Promise<ListedUserReport[]> =>
    sql<ListedUserReport[]>`
      SELECT r.id::text AS id, r.reported_user_id::text AS reported_user_id, r.reporter_id::text AS reporter_id, r.reason, r.category, r.details,
        r.evidence_message_ids::text[] AS evidence_message_ids, r.reported_at, ${reviewColumns(sql)}
      FROM (${queuePage(sql, "user_reports", place)}) AS page JOIN user_reports r USING (id) ${withNames(sql)} ORDER BY r.id DESC`,

  /** What a channel and its server are called; null: they are gone, or it is a DM. */
  async placeOf(
    channel: Snowflake,
    server: Snowflake | null,
  ): Promise<{ channel_name: string | null; server_name: string | null }> {
    const [row] = await sql<{ channel_name: string | null; server_name: string | null }[]>`
      SELECT (SELECT name FROM channels WHERE id = ${channel}) AS channel_name, (SELECT name FROM servers WHERE id = ${server}) AS server_name`
    return row!
  },

  messageReportCounts: (most: number) => countsByStatus(sql, "message_reports", reportStatuses, most),
  userReportCounts: (most: number) => countsByStatus(sql, "user_reports", reportStatuses, most),

  /** The last review counts. @returns whether there is such a report */
  async reviewMessage({ id, action, notes, by, at }: Review): Promise<boolean> {
    const { count } = await sql`
      UPDATE message_reports SET status = ${statusAfter[action]}, reviewed_at = ${at}, reviewed_by = ${by}, admin_notes = ${notes},
        action_taken = ${action} WHERE id = ${id}`
    return count > 0
  },

  async reviewUser({ id, action, notes, by, at }: Review): Promise<boolean> {
    const { count } = await sql`
      UPDATE user_reports SET status = ${statusAfter[action]}, reviewed_at = ${at}, reviewed_by = ${by}, admin_notes = ${notes},
        action_taken = ${action} WHERE id = ${id}`
    return count > 0
  },
})

const reviewColumns = (sql: Sql): Statement => sql`
  r.status, r.reviewed_at, r.reviewed_by::text AS reviewed_by, o.name AS reviewed_by_username, r.admin_notes, r.action_taken,
  reporter.username AS reporter_username, reported.username AS reported_username`
const withNames = (sql: Sql): Statement => sql`
  LEFT JOIN users reporter ON reporter.id = r.reporter_id LEFT JOIN users reported ON reported.id = r.reported_user_id
  LEFT JOIN operators o ON o.id = r.reviewed_by`

const listedMessageReports = (sql: Sql, ids: Statement): Statement => sql`
  SELECT r.id::text AS id, r.message_id::text AS message_id, r.channel_id::text AS channel_id, r.server_id::text AS server_id,
    r.reporter_id::text AS reporter_id, r.reported_user_id::text AS reported_user_id, r.reason, r.category, r.details, r.message_content,
    r.reported_at, ${reviewColumns(sql)}
  FROM (${ids}) AS page JOIN message_reports r USING (id) ${withNames(sql)}`
