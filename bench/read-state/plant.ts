/**
 * Channels of one server with more and more messages, and with more and more readers. Written into
 * the database before the server starts.
 */
import postgres from "postgres"
import { epochMs, idOf, markOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { stretch, tallyMessages } from "../../src/storage/messages/read-state.ts"
import { plant, type Community, type Person } from "../communities/fixture.ts"

/** The channel that grows in one way, and stays as it is in the other. */
export interface Size {
  readonly channel: string
  readonly messages: number
  readonly readers: number
}

export interface Readings {
  readonly community: Community
  readonly byMessages: readonly Size[]
  readonly byReaders: readonly Size[]
  /** Somebody in many servers, with something unread in some of their channels. */
  readonly joiner: Person
  readonly joined: { readonly servers: number; readonly channels: number; readonly ahead: number }
}

export interface Extents {
  readonly messages: readonly number[]
  readonly readers: readonly number[]
  readonly servers: number
  readonly channelsOfEach: number
}

const usual = { messages: 10_000, readers: 1_000 }
/** So many of the people write in turn; they are the first of them. */
export const authors = 64
/** Messages are a moment apart, and younger than everybody's joining. */
const messagesMs = epochMs + 80 * 86_400_000
const stepMs = 10

/** The id of a channel's message by its number, from 1. */
export const messageAt = (channel: string, number: number): string =>
  idOf(shardOf(channel), { ms: messagesMs + number * stepMs, sequence: markOf(channel).sequence % 4096 })

export async function plantReadings(databaseUrl: string, { messages, readers, servers, channelsOfEach }: Extents) {
  const members = Math.max(...readers) + 100
  const fixture = await plant(databaseUrl, {
    communities: [{ members, people: 256 }],
    strangers: 1,
    channels: 4 + 4 + messages.length + readers.length,
    roles: 2,
  })
  const community = fixture.communities[0]!
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  try {
    await sql`UPDATE members SET since_id = 1`
    const plain = community.channels.slice(-(messages.length + readers.length))
    const byMessages = messages.map((count, i) => ({ channel: plain[i]!, messages: count, readers: usual.readers }))
    const byReaders = readers.map((count, i) => ({
      channel: plain[messages.length + i]!,
      messages: usual.messages,
      readers: count,
    }))
    for (const size of [...byMessages, ...byReaders]) await fill(sql, community, size)
    const joiner = fixture.strangers[0]!
    const ahead = await plantJoined(sql, joiner, community, servers, channelsOfEach)
    await sql`VACUUM ANALYZE messages, message_tallies, read_states, members, channels, servers, roles`
    return { community, byMessages, byReaders, joiner, joined: { servers, channels: servers * channelsOfEach, ahead } }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Authors write in turn. Readers have read up to somewhere in the last hundred messages. */
async function fill(sql: postgres.Sql, { id }: Community, { channel, messages, readers }: Size): Promise<void> {
  const base = messageAt(channel, 0)
  const step = BigInt(stepMs) << 22n
  await sql`
    WITH authors AS (SELECT array_agg(user_id ORDER BY user_id) AS list FROM (SELECT user_id FROM members WHERE server_id = ${id} ORDER BY user_id LIMIT ${authors}) AS m)
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel}, ${base}::bigint + i * ${step.toString()}::bigint, ${id}, authors.list[1 + i % ${authors}::int], 'the quick brown fox jumps over the lazy dog'
    FROM generate_series(1, ${messages}::int) AS i, authors`
  const { kind, row } = tallyMessages({ channel_id: channel })
  for (let done = 0; done < messages; done += stretch * 16) await kind.statement(sql, [row])
  await sql`
    INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id)
    SELECT ${channel}, user_id, 1, at, at
    FROM (
      SELECT user_id, ${base}::bigint + (${messages}::int - 1 - (row_number() OVER ())::int % 100) * ${step.toString()}::bigint AS at
      FROM (SELECT user_id FROM members WHERE server_id = ${id} ORDER BY user_id DESC LIMIT ${readers}) AS m) AS r`
}

/**
 * Servers of one person, in each channel of which somebody has said something; every hundredth they
 * have not read.
 */
async function plantJoined(
  sql: postgres.Sql,
  { id: user }: Person,
  { people }: Community,
  servers: number,
  channels: number,
): Promise<number> {
  const ids = Array.from({ length: servers }, (_, i) => idOf((i * 37) % 1024, { ms: messagesMs + i, sequence: 4_000 }))
  const places = ids.flatMap(server =>
    Array.from({ length: channels }, (_, k) => ({
      server,
      channel: (BigInt(server) - BigInt(k + 1)).toString(),
      message: (BigInt(server) + (BigInt(1 + k) << 32n)).toString(),
    })),
  )
  await sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT id, 'Joined', ${people[0]!.id}::bigint, 1, 1 FROM unnest(${ids}::bigint[]) AS id`
  await sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT id, id, '@everyone', '#000000', 0, false, false, '{channels.view,messages.read,messages.send}' FROM unnest(${ids}::bigint[]) AS id`
  await sql`
    INSERT INTO members (server_id, user_id, joined_at, since_id) SELECT id, ${user}::bigint, 1, 1 FROM unnest(${ids}::bigint[]) AS id`
  const columns = [
    places.map(one => one.server),
    places.map(one => one.channel),
    places.map(one => one.message),
  ] as const
  await sql`
    INSERT INTO channels (id, server_id, name, channel_type, position, nsfw, slowmode_seconds, read_receipts_enabled, created_at)
    SELECT channel, server, 'c', 'text', 0, false, 0, true, 1 FROM unnest(${columns[0]}::bigint[], ${columns[1]}::bigint[]) AS p (server, channel)`
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT channel, message, server, ${people[0]!.id}::bigint, 'hello'
    FROM unnest(${columns[0]}::bigint[], ${columns[1]}::bigint[], ${columns[2]}::bigint[]) AS p (server, channel, message)`
  await sql`
    INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id)
    SELECT channel, ${user}::bigint, 1, message, message
    FROM unnest(${columns[1]}::bigint[], ${columns[2]}::bigint[]) WITH ORDINALITY AS p (channel, message, number) WHERE number % 100 > 0`
  return Math.floor(places.length / 100)
}
