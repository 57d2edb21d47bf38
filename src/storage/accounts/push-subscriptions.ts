import type { Snowflake } from "../../contract/core/fields.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    push_subscriptions: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "session_id", "endpoint", "directs", "mentions", "hides_content", "created_at"],
      leftOut: { p256dh: "Key of the browser, which only the browser has a use for", auth: secretReason },
      atPurge: "erased",
    },
  },
  others: { push_keys: { why: "The key pair with which the server signs what it pushes" } },
}

export interface PushSubscriptionRow {
  id: Snowflake
  user_id: Snowflake
  session_id: Snowflake
  endpoint: string
  p256dh: string
  auth: string
  directs: boolean
  mentions: boolean
  hides_content: boolean
  created_at: number
}

/**
 * An endpoint is one browser: it belongs to who named it last, so that nobody reads there what is
 * for who was signed in before. With a session that has ended meanwhile nothing is kept.
 */
export const putPushSubscription = defineWrite<PushSubscriptionRow>("putPushSubscription", (sql, rows) => {
  const last = lastOf(rows, ({ endpoint }) => endpoint)
  return sql`
    INSERT INTO push_subscriptions AS p (id, user_id, session_id, endpoint, p256dh, auth, directs, mentions, hides_content, created_at)
    SELECT t.* FROM unnest(${column(last, "id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "session_id")}::bigint[],
      ${column(last, "endpoint")}::text[], ${column(last, "p256dh")}::text[], ${column(last, "auth")}::text[],
      ${column(last, "directs")}::text[]::boolean[], ${column(last, "mentions")}::text[]::boolean[],
      ${column(last, "hides_content")}::text[]::boolean[], ${column(last, "created_at")}::bigint[])
      AS t (id, user_id, session_id, endpoint, p256dh, auth, directs, mentions, hides_content, created_at)
    JOIN sessions s ON s.id = t.session_id
    ON CONFLICT (endpoint) DO UPDATE SET id = excluded.id, user_id = excluded.user_id, session_id = excluded.session_id,
      p256dh = excluded.p256dh, auth = excluded.auth, directs = excluded.directs, mentions = excluded.mentions,
      hides_content = excluded.hides_content, created_at = excluded.created_at`
})

export const deletePushSubscription = defineWrite<{ id: Snowflake; user_id: Snowflake }>(
  "deletePushSubscription",
  (sql, rows) => sql`
    DELETE FROM push_subscriptions p USING unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (id, user_id)
    WHERE p.id = t.id AND p.user_id = t.user_id`,
)

/** What a push takes, and whose it is. */
export type PushTarget = Omit<PushSubscriptionRow, "session_id" | "directs" | "mentions" | "created_at">

export const pushSubscriptionsStorage = (sql: Sql) => {
  /** The session is good, and the account is not barred. `now`: Unix seconds. */
  const isOpen = (now: number) => sql`
    s.expires_at > ${now} AND s.id > (SELECT reset_until FROM service) AND u.deletion_status = 'active' AND u.locked_until <= ${now}`
  const target = sql`p.id, p.user_id, p.endpoint, p.p256dh, p.auth, p.hides_content`
  const joined = sql`push_subscriptions p JOIN sessions s ON s.id = p.session_id JOIN users u ON u.id = p.user_id`
  return {
    /** The oldest first. */
    async ofUser(user: Snowflake, now: number): Promise<PushSubscriptionRow[]> {
      return sql<PushSubscriptionRow[]>`
        SELECT p.id, p.user_id, p.session_id, p.endpoint, p.p256dh, p.auth, p.directs, p.mentions, p.hides_content, p.created_at
        FROM ${joined} WHERE p.user_id = ${user} AND ${isOpen(now)} ORDER BY p.id`
    },

    /** Those of users who do not want to be disturbed are left out, as are those that do not take this. */
    async takersOf(users: readonly Snowflake[], kind: "directs" | "mentions", now: number): Promise<PushTarget[]> {
      return sql<PushTarget[]>`
        SELECT ${target} FROM ${joined} LEFT JOIN presences c ON c.user_id = p.user_id
        WHERE p.user_id = ANY(${[...users]}::bigint[]) AND ${isOpen(now)} AND p.${sql(kind)} AND coalesce(c.status <> 'dnd', true)
        ORDER BY p.id`
    },

    async find(id: Snowflake, now: number): Promise<PushTarget | undefined> {
      const [row] = await sql<PushTarget[]>`SELECT ${target} FROM ${joined} WHERE p.id = ${id} AND ${isOpen(now)}`
      return row
    },

    async namesOf(channel: Snowflake): Promise<{ server: string; channel: string } | undefined> {
      const [row] = await sql<{ server: string; channel: string }[]>`
        SELECT s.name AS server, c.name AS channel FROM channels c JOIN servers s ON s.id = c.server_id WHERE c.id = ${channel}`
      return row
    },

    /** The key pair that all processes use: this one, unless there was one before. */
    async keepKeys(made: { public_key: string; private_key: string }) {
      await sql`INSERT INTO push_keys (public_key, private_key) VALUES (${made.public_key}, ${made.private_key}) ON CONFLICT DO NOTHING`
      const [row] = await sql<
        { public_key: string; private_key: string }[]
      >`SELECT public_key, private_key FROM push_keys`
      return row!
    },
  }
}
