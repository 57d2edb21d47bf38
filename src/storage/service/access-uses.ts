import type { AccessUseBatch, PlacedUse } from "../../domain/service/access-uses.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

const why = "Where programs use their keys from"
const columns = { ip_address: "Of those who run the program; nothing says which user was signed in" }

export const personalData: PersonalData = {
  others: {
    access_token_events: { why, columns: { ...columns, user_agent: "Of the program" } },
    access_token_addresses: { why, columns },
    access_token_paths: { why: "For which routes programs use their keys" },
  },
}

/** Of each token. Beyond them the earliest are forgotten. */
const keptEvents = 1_000
const keptAddresses = 10_000
/** Days without use after which an address or a use is forgotten. */
const keptDays = 30

const maxShown = 50

export interface AccessTokenUse {
  recent_events: (Omit<PlacedUse, "token"> & { id: string })[]
  top_ips: { ip_address: string; request_count: number; denied_count: number; last_seen_at: number }[]
  top_paths: { method: string | null; path: string | null; request_count: number; last_seen_at: number }[]
}

/** What is known of the use of access tokens. */
export const accessUsesStorage = (sql: Sql) => ({
  /**
   * Rows are locked in the order of their keys, so that two workers wait for one another and not
   * both for each other. An UPDATE alone takes them in the order in which it finds them.
   */
  async note({ tokens, addresses, paths, events }: AccessUseBatch): Promise<void> {
    const rows = (values: readonly object[]) => sql`${JSON.stringify(values)}::text::jsonb`
    const latest = tokens.map(({ latest: use, ...counts }) => ({
      ...counts,
      ...(use && { ip: use.ip_address, agent: use.user_agent, path: use.path, at: use.used_at }),
    }))
    await sql`
      WITH held AS MATERIALIZED (
        SELECT id FROM access_tokens WHERE id = ANY(${tokens.map(({ token }) => token)}::bigint[]) ORDER BY id FOR NO KEY UPDATE)
      UPDATE access_tokens t SET use_count_total = use_count_total + n.requests - n.denied, denied_count_total = denied_count_total + n.denied,
        first_used_at = CASE WHEN n.at IS NULL THEN first_used_at ELSE least(first_used_at, n.first_at) END,
        last_used_at = greatest(last_used_at, n.at),
        last_used_ip_address = CASE WHEN n.at >= coalesce(last_used_at, 0) THEN n.ip ELSE last_used_ip_address END,
        last_used_user_agent = CASE WHEN n.at >= coalesce(last_used_at, 0) THEN n.agent ELSE last_used_user_agent END,
        last_used_path = CASE WHEN n.at >= coalesce(last_used_at, 0) THEN n.path ELSE last_used_path END
      FROM held JOIN jsonb_to_recordset(${rows(latest)}) AS n
        (token bigint, requests bigint, denied bigint, first_at bigint, at bigint, ip text, agent text, path text) ON n.token = held.id
      WHERE t.id = held.id`
    await sql`
      INSERT INTO access_token_addresses AS a (token_id, ip_address, requests, denied, last_seen_at)
      SELECT token, ip_address, requests, denied, last_seen_at FROM jsonb_to_recordset(${rows(addresses)}) AS n
        (token bigint, ip_address text, requests bigint, denied bigint, last_seen_at bigint) ORDER BY token, ip_address
      ON CONFLICT (token_id, ip_address) DO UPDATE SET requests = a.requests + excluded.requests, denied = a.denied + excluded.denied,
        last_seen_at = greatest(a.last_seen_at, excluded.last_seen_at)`
    await sql`
      INSERT INTO access_token_paths AS p (token_id, method, path, requests, last_seen_at)
      SELECT token, method, path, requests, last_seen_at FROM jsonb_to_recordset(${rows(paths)}) AS n
        (token bigint, method text, path text, requests bigint, last_seen_at bigint) ORDER BY token, method, path
      ON CONFLICT (token_id, method, path) DO UPDATE SET requests = p.requests + excluded.requests,
        last_seen_at = greatest(p.last_seen_at, excluded.last_seen_at)`
    await sql`
      INSERT INTO access_token_events (token_id, used_at, ip_address, method, path, user_agent, allowed, scope_match, reject_reason)
      SELECT token, used_at, ip_address, method, path, user_agent, allowed, scope_match, reject_reason FROM jsonb_to_recordset(${rows(events)}) AS n
        (token bigint, used_at bigint, ip_address text, method text, path text, user_agent text, allowed boolean, scope_match boolean, reject_reason text)`
  },

  async of(token: string, recent: number): Promise<AccessTokenUse> {
    const [recent_events, top_ips, top_paths] = await Promise.all([
      sql<AccessTokenUse["recent_events"][number][]>`
        SELECT e.id::text AS id, used_at, ip_address, method, path, user_agent, allowed, scope_match, reject_reason FROM access_token_events e
        WHERE token_id = ${token} ORDER BY e.id DESC LIMIT ${recent}`,
      sql<AccessTokenUse["top_ips"][number][]>`
        SELECT ip_address, requests AS request_count, denied AS denied_count, last_seen_at FROM access_token_addresses
        WHERE token_id = ${token} ORDER BY requests DESC, ip_address LIMIT ${maxShown}`,
      sql<AccessTokenUse["top_paths"][number][]>`
        SELECT nullif(method, '') AS method, nullif(path, '') AS path, requests AS request_count, last_seen_at FROM access_token_paths
        WHERE token_id = ${token} ORDER BY requests DESC, path, method LIMIT ${maxShown}`,
    ])
    return { recent_events, top_ips, top_paths }
  },

  /** Forgets events that are old, or that many have come after. @returns how many */
  async forgetEvents(now: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM access_token_events WHERE id = ANY(ARRAY(
        SELECT id FROM access_token_events WHERE used_at < ${now - keptDays * 86_400} LIMIT ${limit}))
      OR id = ANY(ARRAY(
        SELECT e.id FROM access_tokens t, LATERAL (
          SELECT id FROM access_token_events WHERE token_id = t.id ORDER BY id DESC OFFSET ${keptEvents}) AS e LIMIT ${limit}))`
    return count
  },

  async forgetAddresses(now: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM access_token_addresses WHERE (token_id, ip_address) IN (
        (SELECT token_id, ip_address FROM access_token_addresses WHERE last_seen_at < ${now - keptDays * 86_400} LIMIT ${limit})
        UNION ALL
        (SELECT t.id, a.ip_address FROM access_tokens t, LATERAL (
          SELECT ip_address FROM access_token_addresses WHERE token_id = t.id ORDER BY last_seen_at DESC, ip_address OFFSET ${keptAddresses}) AS a LIMIT ${limit}))`
    return count
  },
})
