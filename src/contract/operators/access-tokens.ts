import { z } from "zod"
import { omittable, queryFlag, Seconds, SecondsInput, Success, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { clampedInt, RowId } from "./fields.ts"

const tokens = { mount: "operators", auth: "operator", tag: "Operators: access tokens" } as const

const ScopeMode = z.enum(["none", "monitor", "enforce"])

export const AccessToken = z
  .object({
    id: RowId,
    name: z.string().nullable(),
    description: z.string().nullable(),
    created_by: RowId.nullable().describe("An operator. Null: somebody at the machine"),
    created_at: Seconds,
    first_used_at: Seconds.nullable(),
    last_used_at: Seconds.nullable(),
    last_used_ip_address: z.string().nullable(),
    last_used_user_agent: z.string().nullable(),
    last_used_path: z.string().nullable(),
    expires_at: Seconds.nullable(),
    scope_mode: ScopeMode,
    use_count_total: z.int().describe("Requests that were let in"),
    distinct_ip_count: z.int().describe("Addresses of the last 30 days, at most about 10,000"),
    denied_count_total: z.int(),
    revoked: z.boolean(),
    revoked_at: Seconds.nullable(),
    revoked_by: RowId.nullable(),
  })
  .meta({ id: "AccessToken" })
export type AccessToken = z.infer<typeof AccessToken>

export const AccessTokenScope = z
  .object({
    id: RowId,
    scope_type: z.enum(["ip", "cidr"]),
    value: z.string(),
    created_by: RowId.nullable(),
    created_at: Seconds,
  })
  .meta({ id: "AccessTokenScope" })

const AccessTokenDetail = z
  .object({
    access_token: AccessToken,
    scopes: z.array(AccessTokenScope),
    recent_events: z.array(
      z.object({
        id: RowId,
        used_at: Seconds,
        ip_address: z.string().nullable(),
        method: z.string().nullable(),
        path: z.string().nullable().describe("Of the route; its parameters are names in braces. Null: of no route"),
        user_agent: z.string().nullable(),
        allowed: z.boolean(),
        scope_match: z.boolean().nullable(),
        reject_reason: z.enum(["expired", "ip_scope_denied"]).nullable(),
      }),
    ),
    top_ips: z.array(
      z.object({
        ip_address: z.string(),
        request_count: z.int(),
        denied_count: z.int(),
        last_seen_at: Seconds.nullable(),
      }),
    ),
    top_paths: z.array(
      z.object({
        method: z.string().nullable(),
        path: z.string().nullable(),
        request_count: z.int(),
        last_seen_at: Seconds.nullable(),
      }),
    ),
    total_events: z.int(),
    distinct_ip_count: z.int(),
    denied_count_total: z.int(),
  })
  .meta({ id: "AccessTokenDetail" })

const byToken = z.object({ token_id: RowId })
const ChosenToken = omittable(text(32, 128)).describe(
  "A token of your own: A-Z a-z 0-9 . _ ~ -. Omitted: a random one of 32 characters",
)
/** A value that has a refusal of its own. */
const Mode = omittable(z.string().max(32)).meta({
  type: "string",
  enum: ScopeMode.options,
  description: "What the scopes are for: nothing, a mark in its use, or a refusal of requests from elsewhere",
})
const Issued = z
  .object({ token: z.string().describe("Shown only here"), access_token: AccessToken })
  .meta({ id: "IssuedAccessToken" })

export const listAccessTokens = defineRoute({
  ...tokens,
  method: "GET",
  path: "/admin/security/access-tokens",
  summary: "List the API access tokens, the newest first",
  query: z.object({
    include_revoked: queryFlag.default(true),
  }),
  reply: z.array(AccessToken),
  fails: [],
})

export const createAccessToken = defineRoute({
  ...tokens,
  trail: { keeps: ["name", "description", "expires_at", "scope_mode"], target: "name" },
  method: "POST",
  path: "/admin/security/access-tokens",
  summary:
    "Issue an API access token. As long as there is one that is not revoked, every application has to send one with each request",
  body: z
    .object({
      name: omittable(text(0, 100)),
      description: omittable(text(0, 500)),
      token: ChosenToken,
      expires_at: omittable(SecondsInput),
      scope_mode: Mode,
    })
    .meta({ id: "AccessTokenRequest" }),
  example: { name: "The app", scope_mode: "monitor", expires_at: 1_893_456_000 },
  reply: Issued,
  fails: ["access_token_exists", "invalid_access_token_value", "access_token_limit"],
})

export const getAccessToken = defineRoute({
  ...tokens,
  method: "GET",
  path: "/admin/security/access-tokens/:token_id",
  summary: "Get an API access token with its scopes and its use",
  params: byToken,
  query: z.object({ recent_limit: clampedInt(1, 200).default(100) }),
  reply: AccessTokenDetail,
  fails: ["access_token_not_found"],
})

export const editAccessToken = defineRoute({
  ...tokens,
  trail: { keeps: ["name", "description", "expires_at", "clear_expiry", "scope_mode"] },
  method: "PATCH",
  path: "/admin/security/access-tokens/:token_id",
  summary: "Change an API access token. What is omitted or null stays as it is",
  params: byToken,
  body: z
    .object({
      name: omittable(text(0, 100)),
      description: omittable(text(0, 500)),
      expires_at: omittable(SecondsInput),
      clear_expiry: omittable(z.boolean()).describe("True: it has no end from now on, whatever `expires_at` says"),
      scope_mode: Mode,
    })
    .meta({ id: "AccessTokenEdit" }),
  example: { name: "The app", description: "Shipped with version 2" },
  reply: AccessToken,
  fails: ["access_token_not_found", "invalid_access_token_value"],
})

export const rotateAccessToken = defineRoute({
  ...tokens,
  method: "POST",
  path: "/admin/security/access-tokens/:token_id/rotate",
  summary: "Replace an API access token by a new one with the same name, end, mode and scopes, and revoke it",
  params: byToken,
  body: z.object({ token: ChosenToken }).meta({ id: "RotateAccessToken" }),
  example: { token: "Uo8kq3XvB1nTz7RfWc5yGh2LmPd9SeJa" },
  reply: Issued,
  fails: ["access_token_not_found", "access_token_exists", "invalid_access_token_value"],
})

export const addAccessTokenScope = defineRoute({
  ...tokens,
  trail: { keeps: ["scope_type", "value"] },
  method: "POST",
  path: "/admin/security/access-tokens/:token_id/scopes",
  summary: "Add an address or a network from which an API access token may be used. No effect if it has it",
  params: byToken,
  body: z
    .object({
      scope_type: z
        .string()
        .max(32)
        .meta({ enum: ["ip", "cidr"] }),
      value: text(1, 128).describe("An address, or a network with its bits"),
    })
    .meta({ id: "AccessTokenScopeRequest" }),
  example: { scope_type: "cidr", value: "192.0.2.0/24" },
  reply: AccessTokenScope,
  fails: ["access_token_not_found", "invalid_access_token_value", "access_token_scope_limit"],
})

export const removeAccessTokenScope = defineRoute({
  ...tokens,
  method: "DELETE",
  path: "/admin/security/access-tokens/:token_id/scopes/:scope_id",
  summary: "Remove a scope of an API access token",
  params: z.object({ token_id: RowId, scope_id: RowId }),
  reply: Success,
  fails: ["access_token_not_found", "access_token_scope_not_found"],
})

export const revokeAccessToken = defineRoute({
  ...tokens,
  method: "POST",
  path: "/admin/security/access-tokens/:token_id/revoke",
  summary: "Revoke an API access token. Without any, none is asked for",
  params: byToken,
  reply: Success,
  fails: ["access_token_not_found"],
})

export const routes = {
  listAccessTokens,
  createAccessToken,
  getAccessToken,
  editAccessToken,
  rotateAccessToken,
  addAccessTokenScope,
  removeAccessTokenScope,
  revokeAccessToken,
}
