/**
 * Who lives in the benchmark: users with a session each, servers, memberships. They are written
 * straight into a fresh database before the server starts. Registering twenty thousand people over
 * the interface would hash passwords for ten minutes, and none of that is measured here.
 */
import postgres from "postgres"
import { hashSecret, newSecret } from "../src/cluster/tokens.ts"
import { grantedAtCreation } from "../src/domain/core/permissions.ts"
import { epochMs, idOf, shardCount } from "../src/domain/core/snowflake.ts"
import type { Poster } from "./load/load-process.ts"

export interface Population {
  /** Members of one server, who all see its one channel. */
  audience: { tokens: string[]; posters: Poster[] }
  /** Authors, each with a channel to post in; four to a server. */
  authors: Poster[]
  /** Each in ten of a hundred servers; posters go round these. */
  idlers: { tokens: string[]; posters: Poster[] }
  /**
   * As many users each time, over more and more servers: user i and poster i are in server i %
   * `servers`.
   */
  spreads: { servers: number; tokens: string[]; posters: Poster[] }[]
  /**
   * People with a password, the same one for all, in no server. By group: who they are, and the
   * first session of each.
   */
  registered: { usernames: string[]; tokens: string[] }[]
  /** A few members of a quiet server. */
  quiet: { channel: string; tokens: string[]; posters: Poster[] }
}

export interface Sizes {
  audience: number
  authors: number
  idlers: number
  /** Users of each spread, and over how many servers they are. */
  spreads?: { users: number; servers: number[] }
  /** Groups of people with a password of this hash, each with so many sessions. */
  registered?: { passwordHash: string; groups: { users: number; sessions: number }[] }
}

const idleServers = 100
const serversOfAnIdler = 10
const authorsInAServer = 4
const quietMembers = 16
const postersOfASpread = 32

interface User {
  id: string
  username: string
  sessions: Session[]
  /** Of the first session. */
  token: string
  passwordHash: string | null
  /** When their sessions were last used, Unix seconds. */
  seenAt: number
}

interface Session {
  id: string
  token: string
  tokenHash: string
}

interface Server {
  id: string
  channel: string
  members: User[]
}

export async function settle(databaseUrl: string, sizes: Sizes): Promise<Population> {
  const fixture = new Fixture()
  const audience = fixture.users(sizes.audience)
  const hall = fixture.server(audience)

  const authors = fixture.users(sizes.authors)
  const posts = authors.flatMap((_, i) => {
    if (i % authorsInAServer > 0) return []
    const members = authors.slice(i, i + authorsInAServer)
    const server = fixture.server(members)
    return members.map(author => posterOf(author, server))
  })

  const idlers = fixture.users(sizes.idlers)
  const homes = Array.from({ length: idleServers }, (): User[] => [])
  // A stride of seven: neighbours have some servers in common, not all.
  for (const [u, user] of idlers.entries())
    for (let k = 0; k < serversOfAnIdler; k++) homes[(u + k * 7) % idleServers]!.push(user)
  const housed = homes.filter(members => members.length > 0).map(members => fixture.server(members))

  const spreads = (sizes.spreads?.servers ?? []).map(count => {
    const users = fixture.users(sizes.spreads!.users)
    const servers = Array.from({ length: count }, (_, s) => fixture.server(users.filter((_, u) => u % count === s)))
    const posting = Math.ceil(postersOfASpread / count) * count
    const posters = Array.from({ length: posting }, (_, p) => posterOf(users[p % users.length]!, servers[p % count]!))
    return { servers: count, tokens: users.map(user => user.token), posters }
  })

  const registered = (sizes.registered?.groups ?? []).map(({ users, sessions }) => {
    const passwordHash = sizes.registered!.passwordHash
    const group = fixture.users(users, { sessions, passwordHash, seenSecondsAgo: 3_600 })
    return { usernames: group.map(user => user.username), tokens: group.map(user => user.token) }
  })

  const quiet = fixture.users(quietMembers)
  const corner = fixture.server(quiet)

  await fixture.write(databaseUrl)
  return {
    audience: { tokens: audience.map(user => user.token), posters: audience.map(user => posterOf(user, hall)) },
    authors: posts,
    idlers: {
      tokens: idlers.map(user => user.token),
      posters: housed.map(server => posterOf(server.members[0]!, server)),
    },
    spreads,
    registered,
    quiet: {
      channel: corner.channel,
      tokens: quiet.map(user => user.token),
      posters: quiet.map(user => posterOf(user, corner)),
    },
  }
}

const posterOf = ({ token }: User, { channel }: Server): Poster => ({
  path: `/api/v1/channels/${channel}/messages`,
  token,
})

/** Names are equally long, so that frames are. */
const usernameOf = (i: number) => `bench_${String(i).padStart(6, "0")}`

class Fixture {
  readonly #now = Date.now()
  readonly #users: User[] = []
  readonly #servers: Server[] = []

  users(count: number, { sessions = 1, passwordHash = null as string | null, seenSecondsAgo = 0 } = {}): User[] {
    const seenAt = Math.floor(this.#now / 1_000) - seenSecondsAgo
    const users = Array.from({ length: count }, (_, k): User => {
      const at = this.#users.length + k
      const shard = at % shardCount
      // Yesterday, so that no id of today can be the same.
      const ms = this.#yesterday + Math.floor(at / shardCount)
      const own = Array.from({ length: sessions }, (_, i): Session => {
        const id = idOf(shard, { ms, sequence: 1 + i })
        const secret = newSecret()
        return { id, token: `${id}.${secret}`, tokenHash: hashSecret(secret) }
      })
      const id = idOf(shard, { ms, sequence: 0 })
      return { id, username: usernameOf(at), sessions: own, token: own[0]!.token, passwordHash, seenAt }
    })
    this.#users.push(...users)
    return users
  }

  /** The first member owns it. A channel's id carries its server's shard. */
  server(members: User[]): Server {
    const at = this.#servers.length
    // An odd stride meets every shard once before it meets one twice.
    const shard = (at * 397) % shardCount
    const mark = { ms: this.#yesterday + 3_600_000 + Math.floor(at / shardCount), sequence: 0 }
    const server = { id: idOf(shard, mark), channel: idOf(shard, { ...mark, sequence: 1 }), members }
    this.#servers.push(server)
    return server
  }

  async write(databaseUrl: string): Promise<void> {
    const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
    const users = this.#users
    const sessions = users.flatMap(user => user.sessions.map(session => ({ user, session })))
    const servers = this.#servers
    const now = Math.floor(this.#now / 1_000)
    const column = <T>(rows: readonly T[], of: (row: T, i: number) => string) => rows.map(of)
    try {
      await sql`
        INSERT INTO users (id, username, email, password_hash, created_at)
        SELECT id, name, name || '@example.invalid', password_hash, ${now}
        FROM unnest(${column(users, user => user.id)}::bigint[], ${column(users, user => user.username)}::text[],
          ${users.map(user => user.passwordHash)}::text[]) AS u (id, name, password_hash)`
      await sql`
        INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
        SELECT id, user_id, token_hash, '127.0.0.1', 'benchmark', ${now}, ${now + 7 * 86_400}, seen_at
        FROM unnest(${column(sessions, ({ session }) => session.id)}::bigint[],
          ${column(sessions, ({ user }) => user.id)}::bigint[],
          ${column(sessions, ({ session }) => session.tokenHash)}::text[],
          ${column(sessions, ({ user }) => String(user.seenAt))}::bigint[]) AS s (id, user_id, token_hash, seen_at)`
      await sql`
        INSERT INTO servers (id, name, owner_id, member_count, created_at)
        SELECT id, name, owner_id, member_count, ${now}
        FROM unnest(${column(servers, server => server.id)}::bigint[], ${column(servers, (_, i) => `Server ${i}`)}::text[],
          ${column(servers, server => server.members[0]!.id)}::bigint[],
          ${column(servers, server => String(server.members.length))}::int[]) AS s (id, name, owner_id, member_count)`
      await sql`
        INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
        SELECT id, id, '@everyone', '#000000', 0, false, false, ${[...grantedAtCreation]}::text[]
        FROM unnest(${column(servers, server => server.id)}::bigint[]) AS s (id)`
      await sql`
        INSERT INTO channels (id, server_id, name, channel_type, position, nsfw, slowmode_seconds, read_receipts_enabled, created_at)
        SELECT id, server_id, 'general', 'text', 0, false, 0, true, ${now}
        FROM unnest(${column(servers, server => server.channel)}::bigint[], ${column(servers, server => server.id)}::bigint[])
          AS c (id, server_id)`
      for (const { id, members } of servers)
        await sql`
          INSERT INTO members (server_id, user_id, joined_at)
          SELECT ${id}, user_id, ${now} FROM unnest(${column(members, user => user.id)}::bigint[]) AS m (user_id)`
      // As autovacuum would have left them; what is still empty stays as it is in a fresh
      // installation.
      await sql`VACUUM ANALYZE users, sessions, servers, roles, channels, members`
    } finally {
      await sql.end({ timeout: 5 })
    }
  }

  get #yesterday(): number {
    return Math.max(epochMs, this.#now - 86_400_000)
  }
}
