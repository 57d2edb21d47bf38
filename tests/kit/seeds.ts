import { randomInt } from "node:crypto"
import type { Channel } from "../../src/contract/communities/channels.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import type { Server } from "../../src/contract/communities/servers.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { epochMs, idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster } from "./cluster.ts"
import type { Person, Endpoint } from "./person.ts"

export interface SharedServer {
  readonly server: Server
  readonly channel: Channel
  /** The owner. */
  readonly ada: Person
  /** A member. */
  readonly lin: Person
}

/** Ada's server with its first channel, and Lin as its member. */
export async function sharedServer(cluster: Cluster, endpoint: Endpoint = cluster.workers[0]!): Promise<SharedServer> {
  const [ada, lin] = await Promise.all([cluster.person("ada", endpoint), cluster.person("lin", endpoint)])
  const server = await ada.on(endpoint).createServer({ name: "Shared" })
  const [channel] = await ada.on(endpoint).listChannels({ server_id: server.id })
  const { code } = await ada.on(endpoint).createInvite({ channel_id: channel!.id })
  await lin.on(endpoint).joinByInvite({ invite_code: code })
  return { server, channel: channel!, ada, lin }
}

/** The DM of two. @returns its id */
export async function dmBetween(one: Person, other: Person, endpoint: Endpoint): Promise<string> {
  return (await one.on(endpoint).openDirectChannel({ recipient_id: other.id })).id
}

/**
 * The shards of a run. Every worker opens its share of them, which is most of what hundreds of starts cost; nothing minds how
 * many there are.
 */
export const testShards: readonly number[] = Array.from({ length: 64 }, (_, i) => i * 16)
export const anyShard = (): number => testShards[randomInt(testShards.length)]!

let made = 0
/** An id of a shard (any, unless told) that no worker makes: its time is long ago. */
export const plantedId = (shard = anyShard()): string =>
  idOf(shard, { ms: epochMs + 86_400_000 + process.pid * 1_000 + Math.floor(++made / 2048), sequence: made % 2048 })

interface Plan {
  owner: Pick<Person, "id">
  members?: readonly Pick<Person, "id">[]
  /** What @everyone may do; what it may in a new server, unless told. */
  everyone?: readonly Permission[]
  memberCount?: number
  channels?: number
  slowmode?: number
  shard?: number
}

/** A server that stands in the tables only: its home wakes to it, so it can be as no sequence of requests makes one quickly. */
export async function plantServer(
  { sql }: Pick<Cluster, "sql">,
  plan: Plan,
): Promise<{ server_id: string; channel_id: string; channel_ids: string[] }> {
  const { owner, members = [], everyone = [...grantedAtCreation], channels = 1, slowmode = 0 } = plan
  const { shard = anyShard() } = plan
  const server_id = plantedId(shard)
  const people = [owner, ...members]
  const ids = Array.from({ length: channels }, () => plantedId(shard))
  await sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    VALUES (${server_id}, 'Planted', ${owner.id}, ${plan.memberCount ?? people.length}, 1704153600)`
  await sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    VALUES (${server_id}, ${server_id}, '@everyone', '#000000', 0, false, false, ${[...everyone]}::text[])`
  await sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT ${server_id}, id, 1704153600 FROM unnest(${people.map(person => person.id)}::bigint[]) AS id`
  await sql`
    INSERT INTO channels (id, server_id, name, channel_type, position, nsfw, slowmode_seconds, read_receipts_enabled, created_at)
    SELECT id, ${server_id}, 'channel-' || position, 'text', position - 1, false, ${slowmode}, true, 1704153600
    FROM unnest(${ids}::bigint[]) WITH ORDINALITY AS planted (id, position)`
  return { server_id, channel_id: ids[0]!, channel_ids: ids }
}

/** A message in the tables. */
export async function plantMessage(
  { sql }: Cluster,
  {
    server_id,
    channel_id,
    author,
    content,
  }: { server_id: string; channel_id: string; author: Person; content: string },
): Promise<string> {
  const id = plantedId(shardOf(server_id))
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    VALUES (${channel_id}, ${id}, ${server_id}, ${author.id}, ${content})`
  return id
}
