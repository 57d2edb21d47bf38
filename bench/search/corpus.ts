/**
 * A million messages to search, written straight into the database: servers of very different
 * sizes, words as frequent as words are (the n-th as often as 1/n), a part of it in Chinese, and
 * readers who are in few and in very many servers.
 */
import postgres from "postgres"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { epochMs, idOf, shardCount } from "../../src/domain/core/snowflake.ts"

export interface Reader {
  readonly id: string
  readonly token: string
  readonly servers: number
}

export interface Corpus {
  readonly messages: number
  /** In three servers, in thirty, in all that one may be in. */
  readonly readers: readonly Reader[]
  /** The largest server, which everybody is in, and its channels. */
  readonly server: string
  readonly channels: readonly string[]
}

export const servers = 400
const channelsOfAServer = 10
const authors = 1_000
export const vocabulary = 50_000
const start = epochMs + 200 * 86_400_000
/** One message in so many is in Chinese. */
const messagesPerChinese = 10
const characters = 3_000

/** The n-th most frequent word. */
export const wordOf = (n: number): string =>
  (n * 7_919).toString(16).replace(/./g, digit => "aeioulnrstmdkbpg"[Number.parseInt(digit, 16)]!)
export const characterOf = (n: number): string => String.fromCodePoint(0x4e00 + n)

/** From 1, the n-th as often as 1/n. */
const zipf = (sql: postgres.Sql, most: number) => sql`floor(exp(random() * ln(${most}::float8 + 1)))::int`

export async function plantCorpus(databaseUrl: string, messages: number): Promise<Corpus> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  try {
    await sql`SELECT setseed(0.5)`
    const userId = (at: number) => idOf(at % shardCount, { ms: start - 86_400_000 + at, sequence: 0 })
    const users = Array.from({ length: authors }, (_, at) => userId(at))
    await sql`
      INSERT INTO users (id, username, email, created_at)
      SELECT id, 'writer_' || place, 'writer_' || place || '@example.invalid', 0
      FROM unnest(${users}::bigint[]) WITH ORDINALITY AS u (id, place)`
    const inServers = [3, 30, 200]
    const people = inServers.map((count, i) => {
      const secret = newSecret()
      const session = idOf(i, { ms: start - 1_000, sequence: 1 })
      return { id: users[i]!, token: `${session}.${secret}`, session, hash: hashSecret(secret), servers: count }
    })
    const until = Math.floor(Date.now() / 1_000) + 7 * 86_400
    await sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      SELECT id, user_id, token_hash, '127.0.0.1', 'benchmark', 0, ${until}, ${until - 8 * 86_400}
      FROM unnest(${people.map(({ session }) => session)}::bigint[], ${people.map(({ id }) => id)}::bigint[], ${people.map(({ hash }) => hash)}::text[])
        AS s (id, user_id, token_hash)`
    const homes = Array.from({ length: servers }, (_, at) => {
      const shard = (at * 397 + 11) % shardCount
      const id = (sequence: number) => idOf(shard, { ms: start - 500, sequence })
      return { id: id(0), shard, channels: Array.from({ length: channelsOfAServer }, (_, i) => id(1 + i)) }
    })
    await sql`
      INSERT INTO servers (id, name, owner_id, member_count, created_at)
      SELECT id, 'Server ' || place, ${users[3]!}, 1, 0 FROM unnest(${homes.map(({ id }) => id)}::bigint[]) WITH ORDINALITY AS s (id, place)`
    await sql`
      INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
      SELECT id, id, '@everyone', '#336699', 0, false, false, ${[...grantedAtCreation]}::text[] FROM unnest(${homes.map(({ id }) => id)}::bigint[]) AS id`
    for (const { id, channels } of homes)
      await sql`
        INSERT INTO channels (id, server_id, name, channel_type, position, nsfw, slowmode_seconds, read_receipts_enabled, created_at)
        SELECT c, ${id}, 'channel', 'text', 0, false, 0, true, 0 FROM unnest(${channels}::bigint[]) AS c`
    // One channel of each server is closed to everybody.
    await sql`
      INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
      SELECT channel, server, server, 'role', 0, ${maskOf(["channels.view"])}::bigint
      FROM unnest(${homes.map(({ channels }) => channels[9]!)}::bigint[], ${homes.map(({ id }) => id)}::bigint[]) AS o (channel, server)`
    for (const { id, servers } of people)
      await sql`
        INSERT INTO members (server_id, user_id, joined_at) SELECT s, ${id}, 0 FROM unnest(${homes.slice(0, servers).map(({ id }) => id)}::bigint[]) AS s`
    await sql`CREATE TEMP TABLE bench_homes AS
      SELECT place, id, shard FROM unnest(${homes.map(({ id }) => id)}::bigint[], ${homes.map(({ shard }) => shard)}::int[]) WITH ORDINALITY AS h (id, shard, place)`
    await sql`CREATE TEMP TABLE bench_users AS SELECT place, id FROM unnest(${users}::bigint[]) WITH ORDINALITY AS u (id, place)`
    const step = 100_000
    for (let from = 0; from < messages; from += step)
      await sql`
        INSERT INTO messages (channel_id, id, server_id, author_id, content)
        SELECT h.id + 1 + m.channel, ((${start - epochMs}::bigint + m.i * 20) << 22) + (h.shard << 12), h.id, u.id,
          CASE WHEN m.i % ${messagesPerChinese} = 0
            THEN (SELECT string_agg(chr(19968 + ${zipf(sql, characters)} + 0 * (m.i + g)), '') FROM generate_series(1, 8 + m.i % 20) AS g)
            ELSE (SELECT string_agg(translate(to_hex(${zipf(sql, vocabulary)} * 7919 + 0 * (m.i + g)), '0123456789abcdef', 'aeioulnrstmdkbpg'), ' ') FROM generate_series(1, 3 + m.i % 18) AS g) END
        FROM (SELECT i, ${zipf(sql, servers)} AS home, floor(random() * ${channelsOfAServer})::int AS channel, ${zipf(sql, authors)} AS author
          FROM generate_series(${from}::int, ${Math.min(messages, from + step) - 1}::int) AS i OFFSET 0) AS m
        JOIN bench_homes h ON h.place = m.home JOIN bench_users u ON u.place = m.author`
    await sql`VACUUM ANALYZE messages, users, members, channels, servers, roles, channel_overrides`
    return {
      messages,
      readers: people.map(({ id, token, servers }) => ({ id, token, servers })),
      server: homes[0]!.id,
      channels: homes[0]!.channels,
    }
  } finally {
    await sql.end({ timeout: 5 })
  }
}
