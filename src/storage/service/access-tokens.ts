import type { Snowflake } from "../../contract/core/fields.ts"
import {
  maxAccessTokens,
  maxScopes,
  type AccessToken,
  type ScopeMode,
  type ScopeType,
} from "../../domain/service/access-tokens.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

const byOperator = "An operator, who is no user"

export const personalData: PersonalData = {
  others: {
    access_tokens: {
      why: "Keys to the whole API, of programs",
      columns: {
        created_by: byOperator,
        revoked_by: byOperator,
        last_used_ip_address: "Of those who run the program",
      },
    },
    access_token_scopes: { why: "From where programs may use them", columns: { created_by: byOperator } },
  },
}

export interface AccessTokenRow extends AccessToken {
  name: string | null
  created_at: number
}

/** A token as operators see it. */
export interface ShownAccessToken {
  readonly id: string
  readonly name: string | null
  readonly description: string | null
  readonly created_by: Snowflake | null
  readonly created_at: number
  readonly first_used_at: number | null
  readonly last_used_at: number | null
  readonly last_used_ip_address: string | null
  readonly last_used_user_agent: string | null
  readonly last_used_path: string | null
  readonly expires_at: number | null
  readonly scope_mode: ScopeMode
  readonly use_count_total: number
  readonly distinct_ip_count: number
  readonly denied_count_total: number
  readonly revoked: boolean
  readonly revoked_at: number | null
  readonly revoked_by: Snowflake | null
}

export interface AccessTokenScope {
  readonly id: string
  readonly scope_type: ScopeType
  readonly value: string
  readonly created_by: Snowflake | null
  readonly created_at: number
}

export interface NewAccessToken {
  readonly name: string | null
  readonly description?: string | null
  readonly created_by?: Snowflake | null
  readonly token_hash: string
  readonly mode: ScopeMode
  readonly scopes: readonly string[]
  /** Unix seconds; null: it has no end. */
  readonly expires_at: number | null
}

export interface AccessTokenChanges {
  readonly name?: string | undefined
  readonly description?: string | undefined
  /** Null: it has no end from now on. */
  readonly expires_at?: number | null | undefined
  readonly mode?: ScopeMode | undefined
}

/** Revoked ones beside those in force, or more than there may be. */
const maxListed = 2 * maxAccessTokens

/** Its hash is that of a token that there is, or was. */
const taken = "access_tokens_token_hash_key"

/** Every change of what is enforced raises the version that workers look at. */
export const accessTokensStorage = (sql: Sql) => {
  const raised = () => sql`UPDATE service SET access_version = access_version + 1`
  const shown = () => sql`
    t.id::text AS id, name, description, created_by::text AS created_by, created_at, first_used_at, last_used_at, last_used_ip_address,
    last_used_user_agent, last_used_path, expires_at, mode AS scope_mode, use_count_total,
    (SELECT count(*)::int FROM access_token_addresses a WHERE a.token_id = t.id) AS distinct_ip_count,
    denied_count_total, revoked_at IS NOT NULL AS revoked, revoked_at, revoked_by::text AS revoked_by`

  async function find(id: string): Promise<ShownAccessToken | undefined> {
    const [row] = await sql<ShownAccessToken[]>`SELECT ${shown()} FROM access_tokens t WHERE t.id = ${id}`
    return row
  }

  async function scopesOf(id: string): Promise<AccessTokenScope[]> {
    return sql<AccessTokenScope[]>`
      SELECT s.id::text AS id, scope_type, value, created_by::text AS created_by, created_at FROM access_token_scopes s
      WHERE token_id = ${id} ORDER BY s.id`
  }

  return {
    /**
     * Those that are not revoked, the newest first. Two operators at once can go beyond the bound:
     * none of them is left out.
     */
    async list(): Promise<AccessTokenRow[]> {
      return sql<AccessTokenRow[]>`
        SELECT id::text AS id, name, token_hash, mode, scopes, created_at, expires_at FROM access_tokens
        WHERE revoked_at IS NULL ORDER BY access_tokens.id DESC LIMIT ${maxListed}`
    },

    /** As operators see them, the newest first. */
    async listShown(withRevoked: boolean): Promise<ShownAccessToken[]> {
      return sql<ShownAccessToken[]>`
        SELECT ${shown()} FROM access_tokens t WHERE ${withRevoked} OR revoked_at IS NULL ORDER BY t.id DESC LIMIT ${maxListed}`
    },

    find,

    scopesOf,

    /** @returns its id; "taken": there is such a token, or was; undefined: there are as many as there may be */
    async create(made: NewAccessToken): Promise<{ id: string } | "taken" | undefined> {
      const { name, description = null, created_by = null, token_hash, mode, scopes, expires_at } = made
      const rows = await sql<{ id: string }[]>`
        WITH changed AS (UPDATE service SET access_version = access_version + 1 RETURNING extract(epoch FROM now())::bigint AS at),
             kept AS (SELECT count(*) AS n FROM access_tokens, changed WHERE revoked_at IS NULL)
        INSERT INTO access_tokens (name, description, created_by, token_hash, mode, scopes, created_at, expires_at)
        SELECT ${name}::text, ${description}::text, ${created_by}::bigint, ${token_hash}, ${mode}, ${[...scopes]}::text[], at, ${expires_at}::bigint
        FROM changed, kept WHERE n < ${maxAccessTokens}
        RETURNING id::text`.catch(takenOr)
      return rows === "taken" ? rows : rows[0]
    },

    /** @returns false when there is no such token that is not revoked */
    async change(id: string, { name, description, expires_at, mode }: AccessTokenChanges): Promise<boolean> {
      const rows = await sql`
        WITH changed AS (
          UPDATE access_tokens SET name = coalesce(${name ?? null}::text, name), description = coalesce(${description ?? null}::text, description),
            mode = coalesce(${mode ?? null}::text, mode), expires_at = CASE WHEN ${expires_at === undefined} THEN expires_at ELSE ${expires_at ?? null}::bigint END
          WHERE id = ${id} AND revoked_at IS NULL RETURNING 1),
        told AS (${raised()} WHERE EXISTS (SELECT 1 FROM changed))
        SELECT 1 FROM changed`
      return rows.length > 0
    },

    /**
     * Another token in place of one: in no moment is there none of the two. @returns its id;
     * undefined: there is no such token that is not revoked
     */
    async rotate(id: string, token_hash: string, by: Snowflake | null): Promise<{ id: string } | "taken" | undefined> {
      const rows = await sql<{ id: string }[]>`
        WITH old AS (
               UPDATE access_tokens SET revoked_at = extract(epoch FROM now())::bigint, revoked_by = ${by}
               WHERE id = ${id} AND revoked_at IS NULL RETURNING *),
             changed AS (${raised()} WHERE EXISTS (SELECT 1 FROM old))
        INSERT INTO access_tokens (name, description, created_by, token_hash, mode, scopes, created_at, expires_at)
        SELECT name, description, ${by}::bigint, ${token_hash}, mode, scopes, revoked_at, expires_at FROM old
        RETURNING id::text`.catch(takenOr)
      return rows === "taken" ? rows : rows[0]
    },

    /** @returns false when there is none that is not revoked */
    async revoke(id: string, by: Snowflake | null = null): Promise<{ name: string | null } | undefined> {
      const [row] = await sql<{ name: string | null }[]>`
        WITH gone AS (
               UPDATE access_tokens SET revoked_at = extract(epoch FROM now())::bigint, revoked_by = ${by}
               WHERE id = ${id} AND revoked_at IS NULL RETURNING name),
             changed AS (${raised()} WHERE EXISTS (SELECT 1 FROM gone))
        SELECT name FROM gone`
      return row
    },

    /** One that the token has already stays as it is. @returns undefined when there is no such token that is not revoked */
    async addScope(
      id: string,
      { scope_type, value }: Pick<AccessTokenScope, "scope_type" | "value">,
      by: Snowflake | null,
    ): Promise<AccessTokenScope | "full" | undefined> {
      const [row] = await sql<(AccessTokenScope & { isThere: boolean })[]>`
        WITH token AS (SELECT id FROM access_tokens WHERE id = ${id} AND revoked_at IS NULL FOR UPDATE),
             known AS (SELECT s.* FROM access_token_scopes s JOIN token ON token.id = s.token_id WHERE value = ${value}),
             added AS (
               INSERT INTO access_token_scopes (token_id, scope_type, value, created_by, created_at)
               SELECT id, ${scope_type}, ${value}, ${by}::bigint, extract(epoch FROM now())::bigint FROM token
               WHERE (SELECT count(*) FROM access_token_scopes s WHERE s.token_id = token.id) < ${maxScopes}
               ON CONFLICT (token_id, value) DO NOTHING RETURNING *),
             listed AS (UPDATE access_tokens t SET scopes = array_append(scopes, added.value) FROM added WHERE t.id = added.token_id),
             changed AS (${raised()} WHERE EXISTS (SELECT 1 FROM added)),
             found AS (SELECT * FROM added UNION ALL SELECT * FROM known)
        SELECT found.id::text AS id, scope_type, value, created_by::text AS created_by, created_at, found.id IS NOT NULL AS "isThere"
        FROM token LEFT JOIN found ON true LIMIT 1`
      if (!row) return undefined
      const { isThere, ...scope } = row
      if (isThere) return scope
      // Somebody else has just added it, or there is no place for it.
      const [other] = (await scopesOf(id)).filter(each => each.value === value)
      return other ?? "full"
    },

    /** @returns whether the token has it no longer, and had it before; undefined: there is no such token that is not revoked */
    async removeScope(id: string, scope: string): Promise<boolean | undefined> {
      const [row] = await sql<{ isGone: boolean }[]>`
        WITH token AS (SELECT id FROM access_tokens WHERE id = ${id} AND revoked_at IS NULL FOR UPDATE),
             gone AS (DELETE FROM access_token_scopes s USING token WHERE s.token_id = token.id AND s.id = ${scope} RETURNING s.token_id, s.value),
             listed AS (UPDATE access_tokens t SET scopes = array_remove(scopes, gone.value) FROM gone WHERE t.id = gone.token_id),
             changed AS (${raised()} WHERE EXISTS (SELECT 1 FROM gone))
        SELECT EXISTS (SELECT 1 FROM gone) AS "isGone" FROM token`
      return row?.isGone
    },
  }
}

function takenOr(error: unknown): "taken" {
  if ((error as { constraint_name?: string }).constraint_name === taken) return "taken"
  throw error
}
