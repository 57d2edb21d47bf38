import type { Snowflake } from "../../contract/core/fields.ts"
import { isOfDomain } from "./email-addresses.ts"
import {
  configuredProviders,
  namesIn,
  providerNames,
  textOf,
  type Claims,
  type OAuthCredentials,
  type OAuthProfile,
} from "./oauth.ts"

/** An OpenID Connect issuer that the operator has named, beside the four providers. */
export interface OidcIssuer {
  /** What routes call it. */
  readonly id: string
  /** What people read on its button. */
  readonly name: string
  readonly issuer: string
  readonly client_id: string
  readonly client_secret: string
  readonly scope: string
  /** Domains whose addresses it may vouch for; none: all. */
  readonly email_domains: readonly string[]
  readonly groups_claim: string
  /** Of a group: roles of servers here. */
  readonly roles: Readonly<Record<string, readonly Snowflake[]>>
}

export interface OidcPolicy {
  readonly oidc_issuers: readonly OidcIssuer[]
}

/** Everybody who can vouch for people here, in the order in which they are offered. */
export const signInProviders = (policy: OAuthCredentials & OidcPolicy): { id: string; name: string }[] => [
  ...policy.oidc_issuers.map(({ id, name }) => ({ id, name })),
  ...configuredProviders(policy).map(id => ({ id, name: providerNames[id] })),
]

/** Whether what an issuer says of groups means anything here. */
export const hasRoles = ({ roles }: Pick<OidcIssuer, "roles">): boolean => Object.keys(roles).length > 0

/**
 * The profile in the claims of an issuer: of its token, completed by its user endpoint. Only an
 * address that it has verified itself counts, and of foreign domains none.
 */
export function profileOfIssuer(issuer: OidcIssuer, claims: Claims): OAuthProfile | undefined {
  const subject = textOf(claims["sub"])
  const iss = textOf(claims["iss"])
  if (subject === null || iss === null) return undefined
  const email = claims["email_verified"] === true ? textOf(claims["email"]) : null
  const groups = groupsIn(claims, issuer.groups_claim)
  return {
    issuer: iss,
    subject,
    email: email !== null && isOfDomain(email, issuer.email_domains) ? email : null,
    names: namesIn(claims, ["preferred_username", "nickname", "name"]),
    ...(groups && { groups }),
  }
}

/**
 * The groups that a claim names; none where there is no such claim. Undefined: there are too many
 * for the token, and the issuer only says where they can be asked for.
 */
function groupsIn(claims: Claims, name: string): string[] | undefined {
  const elsewhere = claims["_claim_names"]
  if (typeof elsewhere === "object" && elsewhere !== null && Object.hasOwn(elsewhere, name)) return undefined
  const said = claims[name]
  return (Array.isArray(said) ? said : [said]).filter(group => typeof group === "string")
}

export interface RoleChange {
  readonly give: Snowflake[]
  readonly take: Snowflake[]
}

/**
 * What has to change, by server, so that somebody has exactly those of the issuer's roles that
 * their groups stand for. Roles that it does not name are nobody's business here.
 * @param serverOf of every role that exists
 * @param held the roles of the person by server, for each server that they are in
 */
export function roleChanges(
  { roles }: Pick<OidcIssuer, "roles">,
  groups: readonly string[],
  serverOf: ReadonlyMap<Snowflake, Snowflake>,
  held: ReadonlyMap<Snowflake, readonly Snowflake[]>,
): Map<Snowflake, RoleChange> {
  const meant = new Set(groups.flatMap(group => (Object.hasOwn(roles, group) ? roles[group]! : [])))
  const changes = new Map<Snowflake, RoleChange>()
  for (const role of new Set(Object.values(roles).flat())) {
    const server = serverOf.get(role)
    if (server === undefined) continue
    const has = held.get(server)?.includes(role) ?? false
    if (has === meant.has(role)) continue
    const change = changes.get(server) ?? { give: [], take: [] }
    change[has ? "take" : "give"].push(role)
    changes.set(server, change)
  }
  return changes
}
