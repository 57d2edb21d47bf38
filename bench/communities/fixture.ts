/**
 * Servers of every size, as full as a server may be: channels, roles, overrides, and as many
 * members, bans and audit entries as asked for, and invites up to what a server may have. Written
 * into the database before the server starts.
 */
import postgres from "postgres"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { epochMs, idOf, shardCount } from "../../src/domain/core/snowflake.ts"

export interface Person {
  readonly id: string
  readonly token: string
}

export interface Community {
  readonly members: number
  readonly id: string
  readonly channels: readonly string[]
  /** One that everybody sees, and nothing says anything of. */
  readonly plainChannel: string
  /** Without `@everyone`, the lowest first. */
  readonly roles: readonly string[]
  readonly invite: string
  /** The number of the first member among all users. */
  readonly firstUser: number
  /** By id half of the members come after this one. */
  readonly middle: string
  /** Members who can sign in, those with the lowest ids, the owner first. */
  readonly people: readonly Person[]
}

export interface Fixture {
  readonly communities: readonly Community[]
  /** In no server. */
  readonly strangers: readonly Person[]
}

export interface FixtureSizes {
  readonly communities: readonly { readonly members: number; readonly people: number }[]
  readonly strangers: number
  /** Of each community. */
  readonly channels: number
  readonly roles: number
}

export const fullFixture = { channels: limits.channelsPerServer, roles: limits.rolesPerServer }

const categories = 20
/** Channels that only one role sees, and as many in which only one may write. */
const privateChannels = 25
/**
 * Older than anything else in the database, so that no id is the same; ids are as long as others.
 */
const usersMs = epochMs + 50 * 86_400_000
const serversMs = epochMs + 60 * 86_400_000
const doomedMs = epochMs + 70 * 86_400_000
/** Ids of nobody and of nothing else. */
const bannedFrom = "10000000000000000"

export async function plant(databaseUrl: string, sizes: FixtureSizes): Promise<Fixture> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  try {
    let users = 0
    const loadGroups: { members: number; firstUser: number; people: Person[] }[] = []
    for (const { members, people } of sizes.communities) {
      loadGroups.push({ members, firstUser: users, people: await plantUsers(sql, users, members, people) })
      users += members
    }
    const strangers = await plantUsers(sql, users, sizes.strangers, sizes.strangers)
    const communities: Community[] = []
    for (const [at, loadGroup] of loadGroups.entries()) {
      // An odd stride meets every shard once before it meets one twice.
      const shard = (at * 397 + 11) % shardCount
      const { channels, roles } = sizes
      communities.push(await plantServer(sql, { ms: serversMs + at, shard, channels, roles, ...loadGroup }))
    }
    await sql`VACUUM ANALYZE users, sessions, servers, roles, channels, channel_overrides, members, invites, bans, audit_log`
    return { communities, strangers }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Another server of the same members in some shard. `at`: how many such there are already. */
export async function plantTwin(
  databaseUrl: string,
  community: Community,
  { shard, at }: { shard: number; at: number },
): Promise<Community> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  const { members, firstUser, people, channels, roles } = community
  try {
    const sizes = { members, channels: channels.length, roles: roles.length + 1 }
    return await plantServer(sql, { ms: doomedMs + at, shard, firstUser, people, ...sizes })
  } finally {
    await sql.end({ timeout: 5 })
  }
}

const userIdOf = (at: number) => idOf(at % shardCount, { ms: usersMs + Math.floor(at / shardCount), sequence: 0 })

/** The same in SQL, for the number `i`. */
const userId = (sql: postgres.Sql) =>
  sql`(((${usersMs - epochMs}::bigint + i / ${shardCount}) << 22) + ((i % ${shardCount})::bigint << 12))`

const now = () => Math.floor(Date.now() / 1_000)

async function plantUsers(sql: postgres.Sql, first: number, count: number, withToken: number): Promise<Person[]> {
  if (count === 0) return []
  await sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT ${userId(sql)}, 'member_' || lpad(i::text, 7, '0'), 'member_' || i || '@example.invalid', ${now()}
    FROM generate_series(${first}::int, ${first + count - 1}::int) AS i`
  // Else whether a user exists would be looked up as if there were a few of them.
  await sql`ANALYZE users`
  const people = Array.from({ length: withToken }, (_, k) => {
    const at = first + k
    const id = userIdOf(at)
    const session = idOf(at % shardCount, { ms: usersMs + Math.floor(at / shardCount), sequence: 1 })
    const secret = newSecret()
    return { id, session, token: `${session}.${secret}`, hash: hashSecret(secret) }
  })
  await sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT id, user_id, token_hash, '127.0.0.1', 'benchmark', ${now()}, ${now() + 7 * 86_400}, ${now()}
    FROM unnest(${people.map(person => person.session)}::bigint[], ${people.map(person => person.id)}::bigint[],
      ${people.map(person => person.hash)}::text[]) AS s (id, user_id, token_hash)`
  return people.map(({ id, token }) => ({ id, token }))
}

interface Planting {
  readonly ms: number
  readonly shard: number
  readonly firstUser: number
  readonly members: number
  readonly people: readonly Person[]
  readonly channels: number
  readonly roles: number
}

async function plantServer(sql: postgres.Sql, planting: Planting): Promise<Community> {
  const { ms, shard, firstUser, members, people } = planting
  const idAt = (sequence: number) => idOf(shard, { ms, sequence })
  const id = idAt(0)
  const channels = Array.from({ length: planting.channels }, (_, i) => idAt(1 + i))
  const roles = Array.from({ length: planting.roles - 1 }, (_, i) => idAt(1_000 + i))
  const owner = people[0]!.id
  const invite = `bench${String(ms).slice(-7)}`
  const folders = Math.min(categories, Math.floor(channels.length / 4))
  const places = channels.map((_, i) => (i < folders ? null : channels[i % folders]!))

  await sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    VALUES (${id}, ${`Community of ${members}`}, ${owner}, ${members}, ${now()})`
  await sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT id, ${id}, CASE WHEN place = 0 THEN '@everyone' ELSE 'Role ' || place END, '#336699', place, false, false,
      CASE WHEN place = 0 THEN ${[...grantedAtCreation]}::text[] ELSE '{messages.send}'::text[] END
    FROM unnest(${[id, ...roles]}::bigint[], ${[id, ...roles].map((_, place) => String(place))}::int[]) AS r (id, place)`
  await sql`
    INSERT INTO channels (id, server_id, name, channel_type, topic, position, category_id, nsfw, slowmode_seconds,
      read_receipts_enabled, created_at)
    SELECT id, ${id}, 'channel-' || place, CASE WHEN category_id IS NULL THEN 'category' ELSE 'text' END, 'What is talked about here',
      place, category_id, false, 0, true, ${now()}
    FROM unnest(${channels}::bigint[], ${places}::bigint[], ${channels.map((_, place) => String(place))}::int[]) AS c (id, category_id, place)`
  const ruled = channels.slice(folders, folders + 2 * Math.min(privateChannels, Math.floor(channels.length / 8)))
  const rows = ruled.flatMap((channel, i) => {
    const flag = maskOf([i % 2 === 0 ? "channels.view" : "messages.send"])
    return [
      { channel, target: id, allow: 0, deny: flag },
      { channel, target: roles[i % roles.length]!, allow: flag, deny: 0 },
    ]
  })
  await sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT channel, target, ${id}, 'role', allow, deny
    FROM unnest(${rows.map(row => row.channel)}::bigint[], ${rows.map(row => row.target)}::bigint[], ${rows.map(row => row.allow)}::bigint[],
      ${rows.map(row => row.deny)}::bigint[]) AS o (channel, target, allow, deny)`
  // One role each, a third has two.
  await sql`
    INSERT INTO members (server_id, user_id, joined_at, nickname, roles)
    SELECT ${id}, ${userId(sql)}, ${now()}, CASE WHEN i % 10 = 0 THEN 'Nick ' || i END,
      CASE WHEN i % 3 = 0 THEN ARRAY[(r.list)[1 + i % r.size], (r.list)[1 + (i / 3) % r.size]] ELSE ARRAY[(r.list)[1 + i % r.size]] END
    FROM generate_series(${firstUser}::int, ${firstUser + members - 1}::int) AS i,
      (SELECT ${roles}::bigint[] AS list, ${roles.length}::int AS size) AS r`
  await sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at)
    SELECT CASE WHEN i = 0 THEN ${invite} ELSE ${invite} || i END, ${id}, ${channels[folders]!}, ${owner}, 0, 0, false, 0, ${now()} - i, NULL
    FROM generate_series(0, ${Math.min(members, limits.invitesPerServer) - 1}::int) AS i`
  await sql`
    INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at)
    SELECT ${id}, ${bannedFrom}::bigint + ${firstUser}::int + i, 'for good', ${owner}, ${now()} FROM generate_series(1, ${members}::int) AS i`
  await sql`
    INSERT INTO audit_log (server_id, id, user_id, action, target_type, target_id, target_name, changes, reason, created_at)
    SELECT ${id}, ${bannedFrom}::bigint + i, ${owner}, CASE WHEN i % 100 = 0 THEN 'MEMBER_KICK' ELSE 'MEMBER_JOIN' END, 'member',
      ${owner}, NULL, '{}', '', ${now()}
    FROM generate_series(1, ${members}::int) AS i`
  const middle = userIdOf(firstUser + Math.floor(members / 2) - 1)
  return { members, firstUser, middle, id, channels, plainChannel: channels.at(-1)!, roles, invite, people }
}
