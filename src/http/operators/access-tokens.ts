import { setTimeout as sleep } from "node:timers/promises"
import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { AccessToken, routes } from "../../contract/operators/access-tokens.ts"
import {
  accessTokenBytes,
  isAccessToken,
  isScopeMode,
  isScopeType,
  scopeValue,
  type ScopeMode,
} from "../../domain/service/access-tokens.ts"
import { seenByAllMs } from "../../domain/service/server-status.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { FigureSources } from "./overview.ts"
import type { SecurityNeeds } from "./security.ts"

type AccessTokenNeeds = Http<"accessTokens" | "accessUses"> &
  Pick<SecurityNeeds, "service"> & { readonly figures: Pick<FigureSources, "lookAtState"> }

const wrong = (message: string) => fail("invalid_access_token_value", { message })

function tokenIn(chosen: string | undefined): string {
  if (chosen === undefined) return newSecret(accessTokenBytes)
  if (!isAccessToken(chosen)) throw wrong("token must have 32 to 128 characters of A-Z a-z 0-9 . _ ~ -")
  return chosen
}

function modeIn(text: string | undefined): ScopeMode | undefined {
  if (text === undefined || isScopeMode(text)) return text
  throw wrong("scope_mode must be none, monitor or enforce")
}

/**
 * API access tokens, as operators issue and watch them. What is answered holds on every worker:
 * a token that was taken back is accepted nowhere, and a new one everywhere.
 */
export const operatorAccessTokens = ({
  storage,
  clock,
  service,
  figures,
}: AccessTokenNeeds): Handlers<typeof routes> => {
  const { accessTokens, accessUses } = storage

  /** The worker that answers looks at once. */
  async function knownEverywhere(): Promise<void> {
    await Promise.all([figures.lookAtState(), sleep(seenByAllMs(service.lookEveryMs))])
  }

  function endIn(expires_at: number | undefined): number | undefined {
    if (expires_at !== undefined && expires_at <= secondsAt(clock())) throw wrong("expires_at must be in the future")
    return expires_at
  }

  async function find(id: string): Promise<AccessToken> {
    const found = await accessTokens.find(id)
    if (!found) throw fail("access_token_not_found")
    return found
  }

  return {
    listAccessTokens: ({ query }) => accessTokens.listShown(query.include_revoked),

    async createAccessToken({ body, operator, trail }) {
      const token = tokenIn(body.token)
      const made = await accessTokens.create({
        name: body.name || null,
        description: body.description || null,
        created_by: operator.id,
        token_hash: hashSecret(token),
        mode: modeIn(body.scope_mode) ?? "none",
        scopes: [],
        expires_at: endIn(body.expires_at) ?? null,
      })
      if (made === "taken") throw fail("access_token_exists")
      if (!made) throw fail("access_token_limit")
      trail.result = { id: made.id }
      await knownEverywhere()
      return { token, access_token: await find(made.id) }
    },

    async getAccessToken({ params: { token_id }, query: { recent_limit } }) {
      const access_token = await find(token_id)
      const [scopes, use] = await Promise.all([accessTokens.scopesOf(token_id), accessUses.of(token_id, recent_limit)])
      const { use_count_total, denied_count_total, distinct_ip_count } = access_token
      return {
        access_token,
        scopes,
        ...use,
        total_events: use_count_total + denied_count_total,
        distinct_ip_count,
        denied_count_total,
      }
    },

    async editAccessToken({ params: { token_id }, body: { name, description, expires_at, clear_expiry, scope_mode } }) {
      const isChanged = await accessTokens.change(token_id, {
        name,
        description,
        mode: modeIn(scope_mode),
        expires_at: clear_expiry === true ? null : endIn(expires_at),
      })
      if (!isChanged) throw fail("access_token_not_found")
      if ([expires_at, clear_expiry, scope_mode].some(value => value !== undefined)) await knownEverywhere()
      return find(token_id)
    },

    async rotateAccessToken({ params, body, operator, trail }) {
      const token = tokenIn(body.token)
      const made = await accessTokens.rotate(params.token_id, hashSecret(token), operator.id)
      if (made === "taken") throw fail("access_token_exists")
      if (!made) throw fail("access_token_not_found")
      trail.result = { id: made.id }
      await knownEverywhere()
      return { token, access_token: await find(made.id) }
    },

    async addAccessTokenScope({ params, body: { scope_type, value: text }, operator }) {
      if (!isScopeType(scope_type)) throw wrong("scope_type must be ip or cidr")
      const value = scopeValue(scope_type, text.trim())
      if (value === undefined)
        throw wrong(
          scope_type === "ip" ? "value must be an IP address" : "value must be a network such as 192.0.2.0/24",
        )
      const added = await accessTokens.addScope(params.token_id, { scope_type, value }, operator.id)
      if (!added) throw fail("access_token_not_found")
      if (added === "full") throw fail("access_token_scope_limit")
      await knownEverywhere()
      return added
    },

    async removeAccessTokenScope({ params }) {
      const isGone = await accessTokens.removeScope(params.token_id, params.scope_id)
      if (isGone === undefined) throw fail("access_token_not_found")
      if (!isGone) throw fail("access_token_scope_not_found")
      await knownEverywhere()
      return success
    },

    async revokeAccessToken({ params, operator, trail }) {
      const revoked = await accessTokens.revoke(params.token_id, operator.id)
      if (!revoked) throw fail("access_token_not_found")
      trail.result = { name: revoked.name }
      await knownEverywhere()
      return success
    },
  }
}
