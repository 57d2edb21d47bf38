import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    mails: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "kind", "number", "asked_at", "tried_at", "sent_at"],
      atPurge: "erased",
    },
  },
}

/** Mails that anybody may ask for, by an address. */
export type RequestedMail = "verify_email" | "password_reset"
/** `restore_email` is sent to an address that an account has left. */
export type MailKind = RequestedMail | "restore_email"

export interface Mail {
  kind: MailKind
  /** Null: nobody has the address that was named, or its owner has been sent enough. */
  user_id: Snowflake | null
}

/**
 * Of a user, in the day for which mails are remembered. Who changes between addresses and comes
 * back to one, again and again, does not mail strangers without end.
 */
const waysBackPerDay = 10

/**
 * A mail that a user's home decides on. Of `restore_email` the id is that of the token, whose secret
 * is made when the mail is sent.
 */
export const insertMail = defineWrite<{ id: Snowflake; user_id: Snowflake; kind: MailKind; asked_at: number }>(
  "insertMail",
  (sql, rows) => sql`
    INSERT INTO mails (id, user_id, kind, asked_at) OVERRIDING SYSTEM VALUE
    SELECT m.* FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "kind")}::text[],
      ${column(rows, "asked_at")}::bigint[]) AS m (id, user_id, kind, asked_at)
    WHERE m.kind <> 'restore_email'
      OR (SELECT count(*) FROM mails k WHERE k.user_id = m.user_id AND k.kind = m.kind) < ${waysBackPerDay}::int`,
)

export const mailsStorage = (sql: Sql) => ({
  /**
   * Notes that a mail is wanted by the owner of the address. One statement with the same steps
   * whether somebody has it or not: its time tells nothing. Undefined: another request for the same
   * got ahead at this moment. @param now Unix seconds @param perHour further mails of the kind to
   * one user are wanted by nobody
   */
  async request(kind: RequestedMail, email: string, now: number, perHour: number): Promise<string | undefined> {
    const [row] = await sql<{ id: string }[]>`
      WITH account AS (
        SELECT u.id, coalesce(max(m.number), 0) AS last, count(*) FILTER (WHERE m.asked_at > ${now - 3600}) AS recent
        FROM users u LEFT JOIN mails m ON m.user_id = u.id AND m.kind = ${kind}
        WHERE lower(u.email) = lower(${email}) GROUP BY u.id
      )
      INSERT INTO mails (user_id, kind, number, asked_at)
      SELECT a.id, ${kind}, coalesce(a.last, 0) + 1, ${now}
      FROM (VALUES (1)) AS one LEFT JOIN account a ON a.recent < ${perHour}::int
      ON CONFLICT (user_id, kind, number) DO NOTHING
      RETURNING id::text`
    return row?.id
  },

  /**
   * Takes a mail that is not sent, for one of those who may be at it: for `leaseSeconds` nobody
   * else gets it.
   */
  async take(id: string, now: number, leaseSeconds: number): Promise<Mail | undefined> {
    const [row] = await sql<Mail[]>`
      UPDATE mails SET tried_at = ${now}
      WHERE id = ${id} AND sent_at IS NULL AND (tried_at IS NULL OR tried_at <= ${now - leaseSeconds})
      RETURNING kind, user_id`
    return row
  },

  /**
   * After a failure: the next worker tries again. The mail comes after those that were tried longer
   * ago.
   */
  async putBack(id: string, leaseSeconds: number): Promise<void> {
    await sql`UPDATE mails SET tried_at = tried_at - ${leaseSeconds}::bigint WHERE id = ${id} AND sent_at IS NULL`
  },

  /** There is nothing left to do for it. One for nobody is not kept. */
  async settle(id: string, now: number): Promise<void> {
    await sql`WITH gone AS (DELETE FROM mails WHERE id = ${id} AND user_id IS NULL)
      UPDATE mails SET sent_at = ${now} WHERE id = ${id} AND user_id IS NOT NULL`
  },

  /**
   * Those that wait although a job had its time, first those that were not tried for longest: none
   * holds up the others.
   */
  async waiting(before: number, limit: number): Promise<string[]> {
    const rows = await sql<{ id: string }[]>`
      SELECT id::text FROM mails WHERE sent_at IS NULL AND asked_at <= ${before} AND (tried_at IS NULL OR tried_at <= ${before})
      ORDER BY tried_at NULLS FIRST, asked_at LIMIT ${limit}`
    return rows.map(({ id }) => id)
  },

  /** Sent or not: after so long nobody waits for one. */
  async forgetOld(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE asked_at <= ${before} ORDER BY asked_at LIMIT ${limit})`
    return count
  },
})
