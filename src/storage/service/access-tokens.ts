import { maxAccessTokens, type AccessToken, type ScopeMode } from "../../domain/service/access-tokens.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  others: {
    access_tokens: { why: "Keys to the whole API, of programs" },
  },
}

export interface AccessTokenRow extends AccessToken {
  name: string
  created_at: number
}

export interface NewAccessToken {
  name: string
  token_hash: string
  mode: ScopeMode
  scopes: readonly string[]
  /** Seconds; null: for ever. */
  lastsSeconds: number | null
}

/** Every change raises the version that workers look at. */
export const accessTokensStorage = (sql: Sql) => ({
  /** Those that are not revoked, the newest first. */
  async list(): Promise<AccessTokenRow[]> {
    return sql<AccessTokenRow[]>`
      SELECT id::text AS id, name, token_hash, mode, scopes, created_at, expires_at FROM access_tokens
      WHERE revoked_at IS NULL ORDER BY access_tokens.id DESC LIMIT ${maxAccessTokens}`
  },

  /** Whether there is such a token, or was: what was revoked stays so. */
  async isTaken(token_hash: string): Promise<boolean> {
    const rows = await sql`SELECT 1 FROM access_tokens WHERE token_hash = ${token_hash}`
    return rows.length > 0
  },

  /** @returns its id; undefined when there are as many as there may be */
  async create({ name, token_hash, mode, scopes, lastsSeconds }: NewAccessToken): Promise<string | undefined> {
    const [row] = await sql<{ id: string }[]>`
      WITH changed AS (UPDATE service SET access_version = access_version + 1 RETURNING extract(epoch FROM now())::bigint AS at),
           kept AS (SELECT count(*) AS n FROM access_tokens, changed WHERE revoked_at IS NULL)
      INSERT INTO access_tokens (name, token_hash, mode, scopes, created_at, expires_at)
      SELECT ${name}, ${token_hash}, ${mode}, ${[...scopes]}::text[], at, at + ${lastsSeconds}::bigint FROM changed, kept WHERE n < ${maxAccessTokens}
      RETURNING id::text`
    return row?.id
  },

  /** @returns the token's name; undefined when there is none that is not revoked */
  async revoke(id: string): Promise<string | undefined> {
    const [row] = await sql<{ name: string }[]>`
      WITH gone AS (
             UPDATE access_tokens SET revoked_at = extract(epoch FROM now())::bigint WHERE id = ${id} AND revoked_at IS NULL RETURNING name),
           changed AS (UPDATE service SET access_version = access_version + 1 WHERE EXISTS (SELECT 1 FROM gone))
      SELECT name FROM gone`
    return row?.name
  },
})
