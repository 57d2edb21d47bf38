import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { OutboxRow } from "./lanes.ts"
import type { Sql, Statement } from "./database.ts"

export const personalData: PersonalData = {
  others: {
    incarnations: { why: "Processes of the server" },
    redis_origin: { why: "Which Redis the cluster began with" },
    shards: { why: "Which process owns what" },
  },
}

export interface ShardRow {
  shard: number
  owner: string | null
  epoch: number
}

export interface IncarnationRow {
  id: string
  host: string
  slot: number
  role: string
}

/** A row of the outbox that is about to be deleted. `messages`: which it is about. */
export interface SweptRow {
  readonly shard: number
  readonly number: number
  readonly messages: readonly { readonly channel_id: Snowflake; readonly message_id: Snowflake }[]
}

/** What is done with rows that are about to be deleted, as a part of a WITH query. */
type BeforeSweep = (sql: Sql, rows: readonly SweptRow[]) => Statement

/** Numbers of one shard without a hole between them. */
interface Span {
  readonly shard: number
  readonly first: number
  last: number
}

/** The same rows as few spans: rows of a shard are confirmed nearly in their order. */
function spansOf(rows: readonly Pick<SweptRow, "shard" | "number">[]): Span[] {
  const spans: Span[] = []
  let last: Span | undefined
  for (const { shard, number } of rows.toSorted((a, b) => a.shard - b.shard || a.number - b.number))
    if (last?.shard === shard && number <= last.last + 1) last.last = number
    else spans.push((last = { shard, first: number, last: number }))
  return spans
}

/**
 * Who is a member, who owns which shard, and what each shard has still to publish: the part of the
 * cluster that only PostgreSQL decides.
 */
export const placementStorage = (sql: Sql, beforeSweep: BeforeSweep) => ({
  /** Makes a new incarnation with its lanes; an id is never used twice. */
  async enrol(row: IncarnationRow, lanes: number): Promise<void> {
    await sql`
      WITH born AS (INSERT INTO incarnations (id, host, slot, role) VALUES (${row.id}, ${row.host}, ${row.slot}, ${row.role}) RETURNING id)
      INSERT INTO lanes (incarnation, lane) SELECT id, generate_series(0, ${lanes - 1}::int) FROM born`
  },

  async isDead(incarnation: string): Promise<boolean> {
    const [row] = await sql<
      { dead: boolean }[]
    >`SELECT died_at IS NOT NULL AS dead FROM incarnations WHERE id = ${incarnation}`
    return row?.dead ?? true
  },

  async living(): Promise<IncarnationRow[]> {
    return sql<IncarnationRow[]>`SELECT id, host, slot, role FROM incarnations WHERE died_at IS NULL`
  },

  /**
   * Declares an incarnation dead, for ever. Raising its generations waits for the batch in flight,
   * whose transaction is bounded by its idle time-out, and refuses all that come later. @returns
   * whether this call was the one that did it
   */
  async declareDead(incarnation: string): Promise<boolean> {
    const rows = await sql`
      WITH fenced AS (UPDATE lanes SET generation = generation + 1 WHERE incarnation = ${incarnation} RETURNING 1),
           counted AS (SELECT count(*) FROM fenced)
      UPDATE incarnations SET died_at = now() FROM counted WHERE id = ${incarnation} AND died_at IS NULL RETURNING id`
    return rows.length > 0
  },

  /**
   * Declares dead a member that stood still while it had `lives`; not one that has come back since.
   * @returns the lives it has in truth, if it is not dead now
   */
  async declareSilent(incarnation: string, lives: number): Promise<number | undefined> {
    const rows = await sql`
      WITH silent AS (SELECT id FROM incarnations WHERE id = ${incarnation} AND died_at IS NULL AND lives = ${lives} FOR UPDATE),
           fenced AS (UPDATE lanes SET generation = generation + 1 FROM silent WHERE incarnation = silent.id RETURNING 1),
           counted AS (SELECT count(*) FROM fenced)
      UPDATE incarnations i SET died_at = now() FROM counted, silent WHERE i.id = silent.id RETURNING i.id`
    if (rows.length > 0) return undefined
    const [row] = await sql<
      { lives: number }[]
    >`SELECT lives FROM incarnations WHERE id = ${incarnation} AND died_at IS NULL`
    return row?.lives
  },

  /**
   * Counts a member up that was silent for too long. @returns its lives; undefined when it was
   * declared dead meanwhile
   */
  async revive(incarnation: string): Promise<number | undefined> {
    const [row] = await sql<
      { lives: number }[]
    >`UPDATE incarnations SET lives = lives + 1 WHERE id = ${incarnation} AND died_at IS NULL RETURNING lives`
    return row?.lives
  },

  /**
   * A worker has made its log anew in the Redis with this replication id. @returns false when it
   * was declared dead meanwhile
   */
  async noteLog(incarnation: string, at: string): Promise<boolean> {
    const rows = await sql`
      UPDATE incarnations SET log_at = ${at} WHERE id = ${incarnation} AND died_at IS NULL RETURNING 1`
    return rows.length > 0
  },

  /** Whether a worker made its log anew in that Redis while it lived. */
  async hasLog(incarnation: string, at: string): Promise<boolean> {
    const rows = await sql`SELECT 1 FROM incarnations WHERE id = ${incarnation} AND log_at = ${at}`
    return rows.length > 0
  },

  /** Web workers that died within the last hour, more than any session can be resumed after. */
  async diedLately(): Promise<string[]> {
    const rows = await sql<
      { id: string }[]
    >`SELECT id FROM incarnations WHERE role = 'web' AND died_at > now() - interval '1 hour'`
    return rows.map(row => row.id)
  },

  /** Every incarnation that is known to have died, of whichever role. */
  async dead(): Promise<string[]> {
    const rows = await sql<{ id: string }[]>`SELECT id FROM incarnations WHERE died_at IS NOT NULL`
    return rows.map(row => row.id)
  },

  /**
   * Incarnations that died long ago, with their lanes. Nobody of theirs can be writing any more.
   */
  async forgetDead(): Promise<void> {
    await sql`
      DELETE FROM incarnations i WHERE died_at < now() - interval '1 day' AND NOT EXISTS (SELECT 1 FROM shards WHERE owner = i.id)`
  },

  /** Another text after every change of an owner: each raises an epoch. See `epochsOf`. */
  async epochs(): Promise<string> {
    const [row] = await sql<[{ epochs: string }]>`SELECT count(*) || ' ' || sum(epoch) AS epochs FROM shards`
    return row.epochs
  },

  async shards(only?: readonly number[]): Promise<ShardRow[]> {
    return only
      ? sql<ShardRow[]>`SELECT shard, owner, epoch FROM shards WHERE shard = ANY(${[...only]}::smallint[])`
      : sql<ShardRow[]>`SELECT shard, owner, epoch FROM shards`
  },

  /**
   * Takes those of the shards that nobody living owns: a compare-and-set on the epoch that the
   * taker has seen, because a statement that waited for the row would not look at its former owner
   * again. The taker must be living itself.
   */
  async take(seen: readonly Pick<ShardRow, "shard" | "epoch">[], taker: string): Promise<ShardRow[]> {
    return sql<ShardRow[]>`
      UPDATE shards SET owner = ${taker}, epoch = shards.epoch + 1
      FROM unnest(${seen.map(row => row.shard)}::smallint[], ${seen.map(row => row.epoch)}::bigint[]) AS seen (shard, epoch)
      WHERE shards.shard = seen.shard AND shards.epoch = seen.epoch
        AND NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = shards.owner AND i.died_at IS NULL)
        AND EXISTS (SELECT 1 FROM incarnations i WHERE i.id = ${taker} AND i.died_at IS NULL)
      RETURNING shards.shard, shards.owner, shards.epoch`
  },

  /**
   * The owner's own decision, after it has finished with the shards: they are the taker's from now
   * on. Only at the epochs that the owner has seen: a statement that it has given up, and that is
   * carried out late, changes nothing that came after.
   */
  async handOver(
    seen: readonly Pick<ShardRow, "shard" | "epoch">[],
    owner: string,
    taker: string,
  ): Promise<ShardRow[]> {
    return sql<ShardRow[]>`
      UPDATE shards SET owner = CASE WHEN EXISTS (SELECT 1 FROM incarnations i WHERE i.id = ${taker} AND i.died_at IS NULL) THEN ${taker} END, epoch = shards.epoch + 1
      FROM unnest(${seen.map(row => row.shard)}::smallint[], ${seen.map(row => row.epoch)}::bigint[]) AS seen (shard, epoch)
      WHERE shards.shard = seen.shard AND shards.epoch = seen.epoch AND owner = ${owner}
      RETURNING shards.shard, shards.owner, shards.epoch`
  },

  /**
   * What the shards' former owners may not have published, in order; the newest row of a shard is
   * always among it.
   */
  async outbox(shards: readonly number[]): Promise<OutboxRow[]> {
    return sql<
      OutboxRow[]
    >`SELECT shard, number, last_id, body FROM outbox WHERE shard = ANY(${[...shards]}::smallint[]) ORDER BY shard, number`
  },

  /**
   * Whether a row was ever written: rows are numbered without a hole, and the newest is never
   * deleted.
   */
  async wasWritten(shard: number, number: number): Promise<boolean> {
    const [row] = await sql<{ last: number | null }[]>`SELECT max(number) AS last FROM outbox WHERE shard = ${shard}`
    return (row?.last ?? 0) >= number
  },

  /**
   * Forgets published rows by their exact keys. A repeat finds less of them, or nothing: what it then
   * says once more of their messages is harmless.
   */
  async sweep(rows: readonly SweptRow[]): Promise<void> {
    const spans = spansOf(rows)
    await sql`
      WITH swept AS MATERIALIZED (
        SELECT * FROM unnest(${spans.map(span => span.shard)}::smallint[], ${spans.map(span => span.first)}::bigint[], ${spans.map(span => span.last)}::bigint[])
          AS t (shard, first, last)),
      kept AS (${beforeSweep(sql, rows)})
      DELETE FROM outbox USING swept WHERE outbox.shard = swept.shard AND outbox.number BETWEEN swept.first AND swept.last`
  },

  /**
   * @returns the replication id of the Redis in which the cluster's first worker started: this one,
   * if it is the first
   */
  async redisOrigin(id: string): Promise<string> {
    await sql`INSERT INTO redis_origin (id) VALUES (${id}) ON CONFLICT DO NOTHING`
    const [row] = await sql<{ id: string }[]>`SELECT id FROM redis_origin`
    return row!.id
  },

  /** Resolves when PostgreSQL answers and takes writes. */
  async ping(): Promise<void> {
    const [row] = await sql<{ setting: string }[]>`SELECT current_setting('transaction_read_only') AS setting`
    if (row!.setting === "on") throw new Error("PostgreSQL is read-only")
  },
})
