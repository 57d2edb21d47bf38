import type { Snowflake } from "../../contract/core/fields.ts"
import {
  fileStatusAfter,
  hashReportStatuses,
  type BlockedHash,
  type BlockedUploader,
  type FileReviewAction,
  type HashReport,
  type ListedHashReport,
} from "../../domain/messages/file-blocks.ts"
import type { Review } from "../../domain/messages/reports.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement, Statements } from "../core/database.ts"
import { countsByStatus, queuePage, type QueuePlace } from "../core/queues.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    blocked_uploaders: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "reason", "blocked_at", "expires_at"],
      leftOut: { blocked_by: "Who decided it is theirs to say" },
      atPurge: "erased",
    },
    hash_reports: {
      userColumns: ["reporter_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "hash_value",
        "phash_value",
        "reporter_id",
        "reason",
        "details",
        "status",
        "reported_at",
        "uploader_id",
        "message_id",
        "attachment_url",
        "block_uploader",
        "counts",
      ],
      leftOut: {
        reviewed_at: "What reviewers do with a report is theirs to say",
        reviewed_by: "What reviewers do with a report is theirs to say",
        admin_notes: "What reviewers note of a report is theirs to say",
      },
      othersRows: { uploader_id: "What others reported is theirs to know" },
      atPurge: "erased",
    },
    blocked_hashes: {
      userColumns: ["blocked_by"],
      key: { hash_value: "text" },
      given: [
        "hash_value",
        "hash_type",
        "phash_threshold",
        "reason",
        "blocked_at",
        "blocked_by",
        "auto_blocked",
        "alike",
      ],
      atPurge: "kept",
    },
  },
}

/**
 * Changes what is said in the one that waits for review of the same reporter about the same file:
 * its id and its place stay.
 */
export const putHashReport = defineWrite<HashReport>("putHashReport", (sql, rows) => {
  const last = lastOf(rows, ({ reporter_id, hash_value }) => `${reporter_id} ${hash_value}`)
  const each = <Key extends keyof HashReport>(key: Key) => column(last, key)
  return sql`
      INSERT INTO hash_reports (id, hash_value, phash_value, reporter_id, reason, details, reported_at, uploader_id, message_id,
        attachment_url, block_uploader, counts)
      SELECT * FROM unnest(${each("id")}::bigint[], ${each("hash_value")}::text[], ${each("phash_value")}::text[], ${each("reporter_id")}::bigint[],
        ${each("reason")}::text[], ${each("details")}::text[], ${each("reported_at")}::bigint[], ${each("uploader_id")}::bigint[],
        ${each("message_id")}::bigint[], ${each("attachment_url")}::text[], ${each("block_uploader")}::text[]::boolean[], ${each("counts")}::text[]::boolean[])
      ON CONFLICT (hash_value, reporter_id) WHERE status = 'pending' DO UPDATE SET phash_value = excluded.phash_value,
        reason = excluded.reason, details = excluded.details, uploader_id = excluded.uploader_id,
        message_id = excluded.message_id, attachment_url = excluded.attachment_url, block_uploader = excluded.block_uploader,
        counts = excluded.counts`
})

/**
 * The same of a file of a reported message. What the reporter has said of the file itself is left
 * as it is; that they could see it counts.
 */
export const addHashReport = defineWrite<HashReport>("addHashReport", (sql, rows) => {
  const last = lastOf(rows, ({ reporter_id, hash_value }) => `${reporter_id} ${hash_value}`)
  const each = <Key extends keyof HashReport>(key: Key) => column(last, key)
  return sql`
      INSERT INTO hash_reports AS r (id, hash_value, phash_value, reporter_id, reason, details, reported_at, uploader_id, message_id,
        attachment_url, block_uploader, counts)
      SELECT t.id, t.hash_value, nullif(c.phash, ''), t.reporter_id, t.reason, t.details, t.reported_at, t.uploader_id, t.message_id,
        t.attachment_url, t.block_uploader, t.counts
      FROM unnest(${each("id")}::bigint[], ${each("hash_value")}::text[], ${each("reporter_id")}::bigint[], ${each("reason")}::text[],
        ${each("details")}::text[], ${each("reported_at")}::bigint[], ${each("uploader_id")}::bigint[], ${each("message_id")}::bigint[],
        ${each("attachment_url")}::text[], ${each("block_uploader")}::text[]::boolean[], ${each("counts")}::text[]::boolean[])
        AS t (id, hash_value, reporter_id, reason, details, reported_at, uploader_id, message_id, attachment_url, block_uploader, counts)
        LEFT JOIN upload_contents c ON c.hash = t.hash_value
      ON CONFLICT (hash_value, reporter_id) WHERE status = 'pending' DO UPDATE SET counts = r.counts OR excluded.counts,
        uploader_id = coalesce(r.uploader_id, excluded.uploader_id), message_id = coalesce(r.message_id, excluded.message_id),
        attachment_url = coalesce(r.attachment_url, excluded.attachment_url)`
})

/** What operators make of reports. */
const reviewStorage = (sql: Sql) => ({
  /** The latest first. */
  hashReports: (place: QueuePlace): Promise<ListedHashReport[]> =>
    sql<ListedHashReport[]>`
      SELECT r.id::text AS id, hash_value, phash_value, reporter_id::text AS reporter_id, u.username AS reporter_username, reason, details, status,
        reported_at, reviewed_at, reviewed_by::text AS reviewed_by, o.name AS reviewed_by_username, admin_notes, uploader_id::text AS uploader_id, message_id::text AS message_id,
        attachment_url, block_uploader, counts
      FROM (${queuePage(sql, "hash_reports", place)}) AS page JOIN hash_reports r USING (id) LEFT JOIN users u ON u.id = r.reporter_id
        LEFT JOIN operators o ON o.id = r.reviewed_by
      ORDER BY r.id DESC`,

  hashReportCounts: (most: number) => countsByStatus(sql, "hash_reports", hashReportStatuses, most),

  async reportedHash(id: Snowflake): Promise<string | undefined> {
    const [row] = await sql<{ hash_value: string }[]>`SELECT hash_value FROM hash_reports WHERE id = ${id}`
    return row?.hash_value
  },

  /**
   * Blocks what a report is about, and where it asks for that the uploader: somebody who has sent
   * such a file indeed, because a reporter can name anybody. @returns undefined where there is no
   * such report
   */
  async blockAsReported(
    review: Review<FileReviewAction>,
    block: OperatorsBlock,
  ): Promise<{ blocked_uploader: Snowflake | null } | undefined> {
    const { reason, blocked_at, blocked_by } = block
    const [row] = await sql<{ found: number; blocked_uploader: Snowflake | null }[]>`
      WITH reviewed AS (${reviewing(sql, review)} RETURNING hash_value, uploader_id, block_uploader),
        ${blocking(sql, block, sql`EXISTS (SELECT FROM reviewed)`)},
        uploader AS (
          INSERT INTO blocked_uploaders (user_id, reason, blocked_at, blocked_by, expires_at)
          SELECT uploader_id, ${reason}, ${blocked_at}::bigint, ${blocked_by}::bigint, NULL FROM reviewed r
          WHERE block_uploader AND EXISTS (SELECT FROM uploads u WHERE u.hash = r.hash_value AND u.user_id = r.uploader_id)
          ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, blocked_at = excluded.blocked_at,
            blocked_by = excluded.blocked_by, expires_at = excluded.expires_at
          RETURNING user_id)
      SELECT (SELECT count(*)::int FROM reviewed) AS found, (SELECT user_id::text FROM uploader) AS blocked_uploader`
    return row!.found > 0 ? { blocked_uploader: row!.blocked_uploader } : undefined
  },

  /**
   * Ends the block of what a report is about, and of what looks like it. Who has reported it before
   * counts no longer: else the next report would block it again at once. @returns whether there is
   * such a report
   */
  async clearAsReported(review: Review<FileReviewAction>): Promise<boolean> {
    const [row] = await sql<{ found: number }[]>`
      WITH reviewed AS (${reviewing(sql, review)} RETURNING hash_value),
        gone AS (DELETE FROM blocked_hashes b USING reviewed r WHERE b.hash_value = r.hash_value OR b.alike = r.hash_value)
      SELECT count(*)::int AS found FROM reviewed`
    // On its own, and in one order: two reviews of one file do not wait for each other.
    await sql`
      UPDATE hash_reports SET counts = false WHERE id IN (
        SELECT o.id FROM hash_reports o JOIN hash_reports cleared USING (hash_value)
        WHERE cleared.id = ${review.id} AND cleared.status = 'cleared' AND o.status = 'pending' AND o.counts ORDER BY o.id FOR UPDATE OF o)`
    // A review that blocked it at the same moment was not seen yet: the statement had begun before
    // that one was committed.
    await sql`
      WITH cleared AS MATERIALIZED (SELECT hash_value FROM hash_reports WHERE id = ${review.id} AND status = 'cleared' FOR SHARE)
      DELETE FROM blocked_hashes b USING cleared c WHERE b.hash_value = c.hash_value OR b.alike = c.hash_value`
    return row!.found > 0
  },

  /** @returns whether there is such a report */
  async dismissHashReport(review: Review<FileReviewAction>): Promise<boolean> {
    const { count } = await sql`${reviewing(sql, review)}`
    return count > 0
  },
})

const reviewing = (sql: Statements, { id, action, notes, by, at }: Review<FileReviewAction>): Statement => sql`
  UPDATE hash_reports SET status = ${fileStatusAfter[action]}, reviewed_at = ${at}, reviewed_by = ${by}, admin_notes = ${notes} WHERE id = ${id}`

/** Files that nobody may send, users who may not send files, and reports of files. */
export const fileBlocksStorage = (sql: Sql) => ({
  /** Why a file with this SHA-256, or one that looks like this picture, may not be sent. */
  async reasonAgainst(hash: string, phash = ""): Promise<string | undefined> {
    const [found] = await sql<{ reason: string }[]>`
      SELECT reason FROM blocked_hashes WHERE hash_value = ${hash}
      ${phash === "" ? sql`` : sql`UNION ALL SELECT reason FROM (${alikeTo(sql, phash)}) b`} LIMIT 1`
    return found?.reason
  },

  /** Replaces an earlier block. What looks like a blocked picture is blocked as well. */
  async blockHash(block: OperatorsBlock): Promise<void> {
    await sql`WITH ${blocking(sql, block)} SELECT FROM one`
  },

  /** A picture was found that looks like a blocked one. @returns whether there was such a block */
  async blockAlike(hash: string, phash: string, now: number): Promise<boolean> {
    const { count } = await sql`
      INSERT INTO blocked_hashes (hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by, auto_blocked, alike)
      SELECT ${hash}, 'sha256', 0, reason, ${now}, blocked_by, false, hash_value FROM (${alikeTo(sql, phash)}) b LIMIT 1
      ON CONFLICT (hash_value) DO UPDATE SET auto_blocked = false`
    return count > 0
  },

  /** @returns whether it was blocked */
  async unblockHash(hash: string): Promise<boolean> {
    const { count } = await sql`
      WITH alike AS (DELETE FROM blocked_hashes WHERE alike = ${hash})
      DELETE FROM blocked_hashes WHERE hash_value = ${hash}`
    return count > 0
  },

  async blockedHash(hash: string): Promise<BlockedHash | undefined> {
    const [found] = await sql<BlockedHash[]>`SELECT ${hashColumns(sql)} FROM blocked_hashes WHERE hash_value = ${hash}`
    return found
  },

  /** The latest first; not those that were blocked for looking like others. */
  async blockedHashes(limit: number, offset = 0): Promise<BlockedHash[]> {
    return sql<BlockedHash[]>`
      SELECT ${hashColumns(sql)} FROM blocked_hashes WHERE alike IS NULL ORDER BY blocked_at DESC, hash_value LIMIT ${limit} OFFSET ${offset}`
  },

  /** Blocks a file that so many distinct users have reported who could see it. */
  async blockReported(hash: string, reports: number, now: number): Promise<boolean> {
    const { count } = await sql`
      INSERT INTO blocked_hashes (hash_value, hash_type, phash_threshold, reason, blocked_at, auto_blocked)
      SELECT ${hash}, CASE WHEN length(${hash}::text) <= 32 THEN 'phash' ELSE 'sha256' END, 0, 'Reported by several users', ${now}, true
      WHERE ${reports} <= (SELECT count(*) FROM hash_reports WHERE hash_value = ${hash} AND status = 'pending' AND counts)
      ON CONFLICT (hash_value) DO NOTHING`
    return count > 0
  },

  async pendingReportsOf(reporter: Snowflake): Promise<number> {
    const [row] = await sql<{ reports: number }[]>`
      SELECT count(*)::int AS reports FROM hash_reports WHERE reporter_id = ${reporter} AND status = 'pending'`
    return row!.reports
  },

  /** The report that holds what somebody said last of a file. */
  async latestReport(reporter: Snowflake, hash: string): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM hash_reports WHERE hash_value = ${hash} AND reporter_id = ${reporter} ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  /** Replaces an earlier block. */
  async blockUploader({ user_id, reason, blocked_at, blocked_by, expires_at }: BlockedUploader): Promise<void> {
    await sql`
      INSERT INTO blocked_uploaders (user_id, reason, blocked_at, blocked_by, expires_at)
      VALUES (${user_id}, ${reason}, ${blocked_at}, ${blocked_by}, ${expires_at})
      ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, blocked_at = excluded.blocked_at,
        blocked_by = excluded.blocked_by, expires_at = excluded.expires_at`
  },

  /** @returns whether the user was blocked */
  async unblockUploader(user: Snowflake): Promise<boolean> {
    const { count } = await sql`DELETE FROM blocked_uploaders WHERE user_id = ${user}`
    return count > 0
  },

  /** Whether a user may not send files now. */
  async isBlockedUploader(user: Snowflake, now: number): Promise<boolean> {
    const rows = await sql`
      SELECT FROM blocked_uploaders WHERE user_id = ${user} AND (expires_at IS NULL OR expires_at > ${now})`
    return rows.length > 0
  },

  /** Those in force, the latest first. */
  async blockedUploaders(
    now: number,
    limit: number,
    offset = 0,
  ): Promise<(BlockedUploader & { username: string | null })[]> {
    return sql<(BlockedUploader & { username: string | null })[]>`
      SELECT user_id::text AS user_id, username, reason, blocked_at, blocked_by::text AS blocked_by, expires_at
      FROM blocked_uploaders b LEFT JOIN users u ON u.id = b.user_id
      WHERE expires_at IS NULL OR expires_at > ${now} ORDER BY blocked_at DESC, b.user_id LIMIT ${limit} OFFSET ${offset}`
  },

  ...reviewStorage(sql),

  /** Blocks that are over. */
  async forgetBlockedUploaders(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM blocked_uploaders WHERE user_id = ANY(ARRAY(SELECT user_id FROM blocked_uploaders WHERE expires_at <= ${before} LIMIT ${limit}))`
    return count
  },
})

type OperatorsBlock = Omit<BlockedHash, "auto_blocked">

/** Parts of a statement that blocks a hash, with what looks like it. `where`: a condition. */
const blocking = (
  sql: Statements,
  { hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by }: OperatorsBlock,
  where: Statement = sql`true`,
): Statement => sql`
  one AS (
    INSERT INTO blocked_hashes (hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by, auto_blocked)
    SELECT ${hash_value}, ${hash_type}, ${phash_threshold}::integer, ${reason}, ${blocked_at}::bigint, ${blocked_by}::bigint, false WHERE ${where}
    ON CONFLICT (hash_value) DO UPDATE SET hash_type = excluded.hash_type, phash_threshold = excluded.phash_threshold, reason = excluded.reason,
      blocked_at = excluded.blocked_at, blocked_by = excluded.blocked_by, auto_blocked = false, alike = NULL
    RETURNING hash_value),
  those_alike AS (
    INSERT INTO blocked_hashes (hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by, auto_blocked, alike)
    SELECT hash, 'sha256', 0, ${reason}, ${blocked_at}::bigint, ${blocked_by}::bigint, false, one.hash_value FROM one, upload_contents
    WHERE ${hash_type} = 'phash' AND length(one.hash_value) = 16 AND length(phash) = 16
      AND ${differing(sql, sql`phash`, sql`${hash_value}::text`)} <= ${phash_threshold}
    ON CONFLICT (hash_value) DO NOTHING)`

const hashColumns = (sql: Statements): Statement => sql`
  hash_value, hash_type, phash_threshold, reason, blocked_at, blocked_by::text AS blocked_by, auto_blocked`

/** How many bits of two perceptual hashes differ. */
const differing = (sql: Statements, one: Statement, other: Statement): Statement =>
  sql`bit_count(('x' || ${one})::bit(64) # ('x' || ${other})::bit(64))`

/** Blocks of pictures that look like this one. */
const alikeTo = (sql: Statements, phash: string): Statement => sql`
  SELECT hash_value, reason, blocked_by FROM blocked_hashes
  WHERE hash_type = 'phash' AND length(hash_value) = 16 AND ${differing(sql, sql`hash_value`, sql`${phash}::text`)} <= phash_threshold
  ORDER BY blocked_at LIMIT 1`
