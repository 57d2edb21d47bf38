import type { Snowflake } from "../../contract/core/fields.ts"
import type { CallState, VoiceState } from "../../domain/voice/voice.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    voice_states: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", user_id: "bigint" },
      given: [
        "server_id",
        "user_id",
        "channel_id",
        "voice_session_id",
        "gateway_session_id",
        "self_mute",
        "self_deaf",
        "self_video",
        "self_stream",
        "suppress",
        "joined_at",
      ],
      leftOut: { worker: "Which process of the server holds the call: nothing about the person" },
      atPurge: "ended",
    },
    voice_calls: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "server_id", "channel_id", "voice_session_id", "began_at", "ends_at"],
      atPurge: "erased",
    },
    voice_usage: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", day: "integer" },
      given: ["user_id", "day", "seconds"],
      atPurge: "erased",
    },
  },
}

type VoiceRow = VoiceState & { server_id: Snowflake }
type CallRow = CallState & { user_id: Snowflake }

export const putVoiceState = defineWrite<VoiceRow>("putVoiceState", (sql, rows) => {
  const last = lastOf(rows, row => `${row.server_id}:${row.user_id}`)
  return sql`
    INSERT INTO voice_states (server_id, user_id, channel_id, voice_session_id, worker, gateway_session_id,
      self_mute, self_deaf, self_video, self_stream, suppress, joined_at)
    SELECT * FROM unnest(${column(last, "server_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "channel_id")}::bigint[],
      ${column(last, "voice_session_id")}::text[], ${column(last, "worker")}::text[], ${column(last, "gateway_session_id")}::text[],
      ${column(last, "self_mute")}::text[]::boolean[], ${column(last, "self_deaf")}::text[]::boolean[], ${column(last, "self_video")}::text[]::boolean[],
      ${column(last, "self_stream")}::text[]::boolean[], ${column(last, "suppress")}::text[]::boolean[], ${column(last, "joined_at")}::bigint[])
    ON CONFLICT (server_id, user_id) DO UPDATE SET channel_id = excluded.channel_id, voice_session_id = excluded.voice_session_id,
      worker = excluded.worker, gateway_session_id = excluded.gateway_session_id, self_mute = excluded.self_mute, self_deaf = excluded.self_deaf,
      self_video = excluded.self_video, self_stream = excluded.self_stream, suppress = excluded.suppress, joined_at = excluded.joined_at`
})

export const deleteVoiceState = defineWrite<{ server_id: Snowflake; user_id: Snowflake }>(
  "deleteVoiceState",
  (sql, rows) => sql`
    DELETE FROM voice_states USING unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (server_id, user_id)
    WHERE voice_states.server_id = t.server_id AND voice_states.user_id = t.user_id`,
)

export const putVoiceCall = defineWrite<CallRow>("putVoiceCall", (sql, rows) => {
  const last = lastOf(rows, row => row.user_id)
  return sql`
    INSERT INTO voice_calls (user_id, server_id, channel_id, voice_session_id, began_at, ends_at)
    SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "server_id")}::bigint[], ${column(last, "channel_id")}::bigint[],
      ${column(last, "voice_session_id")}::text[], ${column(last, "began_at")}::bigint[], ${column(last, "ends_at")}::bigint[])
    ON CONFLICT (user_id) DO UPDATE SET server_id = excluded.server_id, channel_id = excluded.channel_id,
      voice_session_id = excluded.voice_session_id, began_at = excluded.began_at, ends_at = excluded.ends_at`
})

export const deleteVoiceCall = defineWrite<{ user_id: Snowflake }>(
  "deleteVoiceCall",
  (sql, rows) => sql`DELETE FROM voice_calls WHERE user_id = ANY(${column(rows, "user_id")}::bigint[])`,
)

export const addVoiceUsage = defineWrite<{ user_id: Snowflake; day: number; seconds: number }>(
  "addVoiceUsage",
  (sql, rows) => sql`
    INSERT INTO voice_usage (user_id, day, seconds)
    SELECT user_id, day, sum(seconds) FROM unnest(${column(rows, "user_id")}::bigint[], ${column(rows, "day")}::int[], ${column(rows, "seconds")}::int[])
      AS t (user_id, day, seconds) GROUP BY user_id, day
    ON CONFLICT (user_id, day) DO UPDATE SET seconds = voice_usage.seconds + excluded.seconds`,
)

/** Who is in a server's voice channels. */
export async function voiceStatesOf(sql: Sql, server: Snowflake): Promise<Map<Snowflake, VoiceState>> {
  const rows = await sql<VoiceState[]>`
    SELECT user_id, channel_id, voice_session_id, worker, gateway_session_id, self_mute, self_deaf, self_video, self_stream, suppress, joined_at
    FROM voice_states WHERE server_id = ${server}`
  return new Map(rows.map(row => [row.user_id, row]))
}

/** A user's newest call, and how much they used on the latest days. */
export async function voiceOfUser(
  sql: Sql,
  user: Snowflake,
): Promise<{ call: CallState | null; voiceSeconds: Map<number, number> }> {
  const rows = await sql<(Partial<CallState> & { day: number | null; seconds: number | null })[]>`
    SELECT c.server_id, c.channel_id, c.voice_session_id, c.began_at, c.ends_at, u.day, u.seconds
    FROM (SELECT ${user}::bigint AS user_id) AS asked
    LEFT JOIN voice_calls c USING (user_id)
    LEFT JOIN LATERAL (SELECT day, seconds FROM voice_usage v WHERE v.user_id = asked.user_id ORDER BY day DESC LIMIT 2) AS u ON true`
  const [{ server_id, channel_id, voice_session_id, began_at, ends_at } = {}] = rows
  return {
    call: voice_session_id
      ? {
          server_id: server_id!,
          channel_id: channel_id!,
          voice_session_id,
          began_at: began_at!,
          ends_at: ends_at ?? null,
        }
      : null,
    voiceSeconds: new Map(rows.flatMap(({ day, seconds }) => (day === null ? [] : [[day, seconds!] as const]))),
  }
}

/** A call as the worker that ends it names it. */
export interface HeldCall {
  server_id: Snowflake
  user_id: Snowflake
  channel_id: Snowflake
  voice_session_id: string
  worker: string
  gateway_session_id: string
}

/** The calls behind one, in the order of their keys. */
const heldAfter = (sql: Sql, after: HeldCall | undefined, limit: number) => sql`
  AND (v.server_id, v.user_id) > (${after?.server_id ?? 0}::bigint, ${after?.user_id ?? 0}::bigint)
  ORDER BY v.server_id, v.user_id LIMIT ${limit}`

export const voiceStorage = (sql: Sql) => ({
  /** Calls whose worker has been dead for longer than so many milliseconds: nobody resumed them. */
  async leftBehind(windowMs: number, after: HeldCall | undefined, limit: number): Promise<HeldCall[]> {
    return sql<HeldCall[]>`
      SELECT v.server_id, v.user_id, v.channel_id, v.voice_session_id, v.worker, v.gateway_session_id
      FROM voice_states v LEFT JOIN incarnations i ON i.id = v.worker
      WHERE (i.id IS NULL OR i.died_at < now() - ${windowMs} * interval '1 millisecond') ${heldAfter(sql, after, limit)}`
  },

  /** Calls whose gateway sessions live on a worker, as far as their servers' homes know. */
  async heldBy(worker: string, after: HeldCall | undefined, limit: number): Promise<HeldCall[]> {
    return sql<HeldCall[]>`
      SELECT v.server_id, v.user_id, v.channel_id, v.voice_session_id, v.worker, v.gateway_session_id
      FROM voice_states v WHERE v.worker = ${worker} ${heldAfter(sql, after, limit)}`
  },

  /** Calls that should have ended before a Unix second. */
  async expired(before: number, limit: number): Promise<{ user_id: Snowflake }[]> {
    return sql<{ user_id: Snowflake }[]>`
      SELECT user_id FROM voice_calls WHERE ends_at < ${before * 1000} ORDER BY ends_at LIMIT ${limit}`
  },

  /** Only today and yesterday are asked for. */
  async forgetUsage(today: number): Promise<void> {
    await sql`DELETE FROM voice_usage WHERE day < ${today - 30}`
  },
})
