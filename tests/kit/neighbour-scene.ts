/** What stands in the tables when neighbours come: accounts, an ordinary server and the largest legal one. */
import { limits } from "../../src/contract/core/limits.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { idOf, shardCount } from "../../src/domain/core/snowflake.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import type { Sql } from "../../src/storage/core/database.ts"
import { plantedId, plantServer } from "./seeds.ts"

export interface Account {
  readonly id: string
  readonly token: string
  /** Its own, as a proxy in front would name it. */
  readonly address: string
}

export interface PlantedServer {
  readonly id: string
  readonly channels: readonly string[]
}

/** Where neighbours are, as it crosses to their process. */
export interface Scene {
  readonly url: string
  /** Members of the strangers' servers, of which each worker owns one, with a channel each. */
  readonly strangers: readonly Account[]
  readonly strangerChannels: readonly string[]
  /** Members of both servers below; the first ones are administrators of both. */
  readonly administrators: readonly Account[]
  readonly members: readonly Account[]
  /** With 1,000 members, messages to react to, and webhooks. */
  readonly club: PlantedServer & {
    readonly messages: readonly string[]
    readonly webhooks: readonly { readonly id: string; readonly secret: string }[]
    /** A channel whose pages are as heavy as they may be, and one with many messages. */
    readonly heavyChannel: string
    readonly longChannel: string
  }
  /** With as many channels, roles and overrides as a server may have. */
  readonly large: PlantedServer & { readonly roles: readonly string[] }
}

const counts = { strangers: 16, administrators: 24, members: 160, inClub: 1_000, longChannel: 20_000 }
const now = Math.floor(Date.now() / 1_000)

/** @param shards one of each worker */
export async function plantScene(sql: Sql, url: string, shards: readonly number[]): Promise<Scene> {
  const strangers = await plantAccounts(sql, "stranger", counts.strangers, 1)
  const administrators = await plantAccounts(sql, "administrator", counts.administrators, 2)
  const members = await plantAccounts(sql, "member", counts.members, 3)
  const others = await plantAccounts(sql, "other", counts.inClub - counts.members - counts.administrators, 4)
  const owner = administrators[0]!
  const strangerServers = []
  for (const shard of shards)
    strangerServers.push(await plantServer({ sql }, { owner: strangers[0]!, members: strangers.slice(1), shard }))
  const present = [...administrators.slice(1), ...members, ...others]
  const club = await plantServer({ sql }, { owner, members: present, channels: 8, shard: shards[0]! })
  const large = await plantServer(
    { sql },
    { owner, members: present, channels: limits.channelsPerServer, shard: shards[0]! },
  )
  const clubRoles = await plantRoles(sql, club.server_id, 1)
  const roles = await plantRoles(sql, large.server_id, limits.rolesPerServer - 1)
  await grant(sql, club.server_id, administrators, () => [clubRoles[0]!])
  await grant(sql, large.server_id, administrators, () => [roles[0]!])
  await grant(sql, large.server_id, members, (_, at) =>
    Array.from({ length: 20 }, (_role, k) => roles[1 + ((at * 7 + k * 11) % (roles.length - 1))]!),
  )
  await plantOverrides(sql, { id: large.server_id, channels: large.channel_ids }, roles)
  const [place, heavyChannel, longChannel] = club.channel_ids as [string, string, string]
  const writer = members[0]!
  const messages = await plantMessages(sql, { server: club.server_id, channel: place, writer, count: 30 })
  await plantMessages(sql, { server: club.server_id, channel: heavyChannel, writer, count: 100 })
  await sql`UPDATE messages SET embeds = ${JSON.stringify(fattestEmbeds())}::text::json WHERE channel_id = ${heavyChannel}`
  await plantMessages(sql, { server: club.server_id, channel: longChannel, writer, count: counts.longChannel })
  const webhooks = await plantWebhooks(sql, club.server_id, { channel: place, creators: administrators })
  await sql`ANALYZE`
  return {
    url,
    strangers,
    strangerChannels: strangerServers.map(({ channel_id }) => channel_id),
    administrators,
    members,
    club: { id: club.server_id, channels: club.channel_ids, messages, webhooks, heavyChannel, longChannel },
    large: { id: large.server_id, channels: large.channel_ids, roles },
  }
}

let accountsMade = 0
async function plantAccounts(sql: Sql, name: string, count: number, net: number): Promise<Account[]> {
  const people = Array.from({ length: count }, (_, at) => {
    const n = accountsMade++
    const ms = Date.now() - 86_400_000 + Math.floor(n / shardCount)
    const [id, session] = [2, 3].map(sequence => idOf(n % shardCount, { ms, sequence })) as [string, string]
    const secret = newSecret()
    const address = `10.${net}.${at >> 8}.${at & 255}`
    return { id, session, name: `${name}_${at}`, address, token: `${session}.${secret}`, hash: hashSecret(secret) }
  })
  const of = (key: "id" | "session" | "name" | "hash" | "address") => people.map(person => person[key])
  await sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT id, name, name || '@example.invalid', ${now} FROM unnest(${of("id")}::bigint[], ${of("name")}::text[]) AS u (id, name)`
  await sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT id, user_id, hash, address, 'neighbours', ${now}, ${now + 7 * 86_400}, ${now}
    FROM unnest(${of("session")}::bigint[], ${of("id")}::bigint[], ${of("hash")}::text[], ${of("address")}::text[])
      AS s (id, user_id, hash, address)`
  return people.map(({ id, token, address }) => ({ id, token, address }))
}

/** The first one may do everything. */
async function plantRoles(sql: Sql, server: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => plantedId())
  await sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT id, ${server}, 'Role ' || place, '#336699', ${count + 1} - place, false, false,
      CASE WHEN place = 1 THEN '{administrator}'::text[] ELSE '{messages.send}'::text[] END
    FROM unnest(${ids}::bigint[]) WITH ORDINALITY AS r (id, place)`
  return ids
}

async function grant(
  sql: Sql,
  server: string,
  people: readonly Account[],
  rolesOf: (person: Account, at: number) => string[],
): Promise<void> {
  const rows = people.flatMap((person, at) => rolesOf(person, at).map(role => ({ user: person.id, role })))
  await sql`
    UPDATE members SET roles = g.roles
    FROM (SELECT "user", array_agg(DISTINCT role) AS roles
      FROM unnest(${rows.map(row => row.user)}::bigint[], ${rows.map(row => row.role)}::bigint[]) AS r ("user", role) GROUP BY 1) AS g
    WHERE server_id = ${server} AND user_id = g."user"`
}

/** As many as there may be, all about who views a channel. */
async function plantOverrides(sql: Sql, { id, channels }: PlantedServer, roles: readonly string[]): Promise<void> {
  const each = Math.floor(limits.overridesPerServer / channels.length) - 1
  const view = maskOf(["channels.view"])
  const rows = channels.flatMap((channel, at) =>
    Array.from({ length: each }, (_, k) => ({
      channel,
      role: roles[1 + ((at * 3 + k * 13) % (roles.length - 1))]!,
      k,
    })),
  )
  await sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT channel, role, ${id}, 'role', CASE WHEN k % 2 = 0 THEN ${view}::bigint ELSE 0 END,
      CASE WHEN k % 2 = 0 THEN 0 ELSE ${view}::bigint END
    FROM unnest(${rows.map(row => row.channel)}::bigint[], ${rows.map(row => row.role)}::bigint[], ${rows.map(row => row.k)}::int[])
      AS o (channel, role, k)
    ON CONFLICT DO NOTHING`
}

async function plantMessages(
  sql: Sql,
  { server, channel, writer, count }: { server: string; channel: string; writer: Account; count: number },
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => plantedId())
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel}, id, ${server}, ${writer.id}, 'the quick brown fox ' || place || ' jumps over ' || md5(place::text)
    FROM unnest(${ids}::bigint[]) WITH ORDINALITY AS m (id, place)`
  return ids
}

async function plantWebhooks(
  sql: Sql,
  server: string,
  { channel, creators }: { channel: string; creators: readonly Account[] },
): Promise<{ id: string; secret: string }[]> {
  const made = creators.map(({ id: creator }) => ({ id: plantedId(), secret: newSecret(48), creator }))
  await sql`
    INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
    SELECT id, ${server}, ${channel}, creator, creator, 'Hook', hash, ${now}
    FROM unnest(${made.map(one => one.id)}::bigint[], ${made.map(one => one.creator)}::bigint[],
      ${made.map(one => hashSecret(one.secret))}::text[]) AS w (id, creator, hash)`
  return made.map(({ id, secret }) => ({ id, secret }))
}

/** Embeds that are as long as those of one message may be. */
export function fattestEmbeds(): object[] {
  const { allBytes, allCharacters } = limits.embed
  const count = limits.embedsPerMessage
  const description = "ü".repeat(allCharacters / count)
  const longest = Math.floor((allBytes / count - Buffer.byteLength(description) - 80) / 2)
  const url = (part: string) => `https://example.com/${part}/`.padEnd(Math.min(limits.urlCharacters, longest), "u")
  return Array.from({ length: count }, (_, at) => ({
    description,
    url: url(`a${at}`),
    image: { url: url(`b${at}`) },
  }))
}
