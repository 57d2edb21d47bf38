import { unavailable } from "../../contract/core/errors.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Endpoint } from "../../domain/service/endpoints.ts"
import {
  beginOf,
  daySeconds,
  keptDays,
  spans,
  type TimingRow,
  type TimingSums,
  type TimingWindow,
} from "../../domain/service/telemetry.ts"
import { secondsAt } from "../../std/clock.ts"
import postgres from "postgres"
import { isLockTimeout, type Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  others: {
    telemetry_timings: { why: "How long requests took, of all callers together" },
    telemetry_writers: { why: "How far each process has written them" },
  },
}

/** Partitions that are made before their day begins. */
const daysAhead = 2
/** What waits for other statements gives way after so long. */
const lockWaitMs = 1_000
/** Under this number days are added one after another. */
const partitionLock = 7_301_025

/** A batch of one process. Its number rises, and a repeat has the same. */
export interface TimingBatch {
  readonly writer: string
  readonly number: number
  readonly rows: readonly TimingRow[]
}

const partitionOf = (day: number): string =>
  `telemetry_timings_${new Date(day * 1000).toISOString().slice(0, 10).replaceAll("-", "")}`

/** PostgreSQL finds no partition for a row. */
const isOfMissingDay = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === "23514" && error.constraint_name === undefined

const literal = (numbers: readonly number[]): string => `{${numbers.join(",")}}`

/** The sums of what is kept and what is new; a histogram is merged by its buckets. */
function insert(sql: Sql, { writer, number, rows }: TimingBatch) {
  const filled = rows.map(({ figures }) => figures.filled())
  const of = (value: (row: TimingRow) => string | number) => rows.map(row => value(row)) as string[]
  return sql`
    WITH turn AS (
      INSERT INTO telemetry_writers AS w (writer, batch, written_at) VALUES (${writer}, ${number}, extract(epoch FROM now())::bigint)
      ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at WHERE w.batch < excluded.batch
      RETURNING 1)
    INSERT INTO telemetry_timings AS kept
      (span, at, endpoint, method, source, count, errors, sum_us, min_us, max_us, queries, query_us, buckets, counts)
    SELECT span, at, endpoint, method, source, count, errors, sum_us, min_us, max_us, queries, query_us, buckets::smallint[], counts::integer[]
    FROM turn, unnest(
      ${of(row => row.span)}::integer[], ${of(row => row.at)}::bigint[], ${of(row => row.endpoint)}::text[],
      ${of(row => row.method)}::text[], ${of(row => row.source)}::text[], ${of(row => row.figures.count)}::bigint[],
      ${of(row => row.figures.errors)}::bigint[], ${of(row => row.figures.sumUs)}::bigint[], ${of(row => row.figures.minUs)}::bigint[],
      ${of(row => row.figures.maxUs)}::bigint[], ${of(row => row.figures.queries)}::bigint[], ${of(row => row.figures.queryUs)}::bigint[],
      ${filled.map(({ buckets }) => literal(buckets))}::text[], ${filled.map(({ counts }) => literal(counts))}::text[]
    ) AS new (span, at, endpoint, method, source, count, errors, sum_us, min_us, max_us, queries, query_us, buckets, counts)
    ON CONFLICT (span, endpoint, method, source, at) DO UPDATE SET
      count = kept.count + excluded.count, errors = kept.errors + excluded.errors, sum_us = kept.sum_us + excluded.sum_us,
      min_us = least(kept.min_us, excluded.min_us), max_us = greatest(kept.max_us, excluded.max_us),
      queries = kept.queries + excluded.queries, query_us = kept.query_us + excluded.query_us,
      (buckets, counts) = (
        SELECT array_agg(bucket ORDER BY bucket), array_agg(least(n, 2147483647)::integer ORDER BY bucket)
        FROM (
          SELECT bucket, sum(n) AS n
          FROM (SELECT * FROM unnest(kept.buckets, kept.counts) UNION ALL SELECT * FROM unnest(excluded.buckets, excluded.counts))
            AS both_of_them (bucket, n)
          GROUP BY bucket) AS merged)`
}

/** Makes the partitions of these days, unless they are there. */
async function addDays(sql: Sql, days: readonly number[]): Promise<void> {
  if (days.length === 0) return
  // One transaction. Names and bounds are made of numbers.
  await sql
    .unsafe(
      `SELECT set_config('lock_timeout', '${lockWaitMs}', true), pg_advisory_xact_lock(${partitionLock});` +
        days
          .map(
            day =>
              `CREATE TABLE IF NOT EXISTS ${partitionOf(day)} PARTITION OF telemetry_timings FOR VALUES FROM (${day}) TO (${day + daySeconds});`,
          )
          .join(""),
    )
    .simple()
}

/** Makes the partitions of the next days, and drops those of days that are no longer kept. */
async function keepDays(sql: Sql, nowMs: number): Promise<void> {
  const today = beginOf(secondsAt(nowMs), daySeconds)
  const there = await sql<{ name: string }[]>`
    SELECT c.relname AS name FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhparent = 'telemetry_timings'::regclass`
  const names = new Set(there.map(({ name }) => name))
  const coming = Array.from({ length: daysAhead + 1 }, (_, i) => today + i * daySeconds)
  await addDays(
    sql,
    coming.filter(day => !names.has(partitionOf(day))),
  )
  const oldest = partitionOf(today - keptDays * daySeconds)
  for (const name of names)
    if (/^telemetry_timings_\d{8}$/.test(name) && name < oldest)
      await sql
        .unsafe(`SELECT set_config('lock_timeout', '${lockWaitMs}', true); DROP TABLE IF EXISTS ${name}`)
        .simple()
}

export const telemetryStorage = (sql: Sql) => {
  /** Rows of a window, each timing once, if `where` lets them by. */
  const within = ({ from, hoursFrom, daysFrom }: TimingWindow, where: postgres.Fragment) => sql`
    SELECT * FROM telemetry_timings WHERE span = ${spans[0]} AND at >= ${from} AND at < ${hoursFrom} AND ${where}
    UNION ALL SELECT * FROM telemetry_timings WHERE span = ${spans[1]} AND at >= ${hoursFrom} AND at < ${daysFrom} AND ${where}
    UNION ALL SELECT * FROM telemetry_timings WHERE span = ${spans[2]} AND at >= ${daysFrom} AND ${where}`

  return {
    /** Adds a batch, once however often it comes. */
    async add(batch: TimingBatch): Promise<void> {
      try {
        await insert(sql, batch)
      } catch (error) {
        if (!isOfMissingDay(error)) throw error
        await addDays(sql, [...new Set(batch.rows.map(({ at }) => beginOf(at, daySeconds)))])
        await insert(sql, batch)
      }
    },

    /**
     * Sums of each endpoint that has any in a window, most timings first. `endpoint`: a part of its name, whatever the
     * case; `source`: who measured.
     */
    stats: (
      window: TimingWindow,
      { endpoint, source }: { endpoint?: string | undefined; source?: string | undefined } = {},
    ): Promise<TimingSums[]> => {
      const where = sql`
        (${source ?? null}::text IS NULL OR source = ${source ?? null})
        AND (${endpoint ?? null}::text IS NULL OR strpos(lower(endpoint), lower(${endpoint ?? null})) > 0)`
      return sql<TimingSums[]>`
        WITH chosen AS (${within(window, where)}),
          filled AS (
            SELECT endpoint, method, array_agg(bucket::integer ORDER BY bucket) AS buckets, array_agg(n::float8 ORDER BY bucket) AS counts
            FROM (
              SELECT endpoint, method, bucket, sum(n) AS n FROM chosen, unnest(buckets, counts) AS one (bucket, n)
              GROUP BY endpoint, method, bucket) AS by_bucket
            GROUP BY endpoint, method)
        SELECT endpoint, method, sum(count)::float8 AS count, sum(errors)::float8 AS errors, sum(sum_us)::float8 AS sum_us,
          min(min_us)::float8 AS min_us, max(max_us)::float8 AS max_us, sum(queries)::float8 AS queries, sum(query_us)::float8 AS query_us,
          coalesce(sum(count) FILTER (WHERE source <> 'server'), 0)::float8 AS told, filled.buckets, filled.counts
        FROM chosen JOIN filled USING (endpoint, method)
        GROUP BY endpoint, method, filled.buckets, filled.counts
        ORDER BY 3 DESC, endpoint, method`
    },

    /** What one endpoint had, in parts of `width` seconds that hold any, in order of time. */
    history: (
      { endpoint, method }: Endpoint,
      { from, width }: { from: number; width: number },
    ): Promise<{ timestamp: number; count: number; errors: number; sum_us: number }[]> =>
      sql`
        SELECT at - at % ${width}::bigint AS timestamp, sum(count)::float8 AS count, sum(errors)::float8 AS errors, sum(sum_us)::float8 AS sum_us
        FROM telemetry_timings
        WHERE span = ${spans[0]} AND endpoint = ${endpoint} AND method = ${method} AND at >= ${from}
        GROUP BY 1 ORDER BY 1`,

    /** Forgets all timings. @returns how many they were */
    async reset(): Promise<number> {
      const forgetting = sql
        .unsafe(
          `SELECT set_config('lock_timeout', '${lockWaitMs}', true);
          LOCK TABLE telemetry_timings IN ACCESS EXCLUSIVE MODE;
          SELECT coalesce(sum(count), 0)::float8 AS forgotten FROM telemetry_timings WHERE span = ${daySeconds};
          TRUNCATE telemetry_timings;`,
        )
        .simple() as Promise<unknown>
      const results = (await forgetting.catch((error: unknown) => {
        throw isLockTimeout(error) ? unavailable("timings are being read or written", 1, { cause: error }) : error
      })) as { forgotten?: number }[][]
      return results.flat().find(row => row.forgotten !== undefined)!.forgotten!
    },

    keepDays: (nowMs: number): Promise<void> => keepDays(sql, nowMs),

    /** Processes that have written nothing since then have ended. */
    async forgetWriters(beforeS: number, limit: number): Promise<number> {
      const gone = await sql`
        DELETE FROM telemetry_writers WHERE writer IN (SELECT writer FROM telemetry_writers WHERE written_at < ${beforeS} LIMIT ${limit})`
      return gone.count
    },
  }
}
