import { formatAddress, isWithin, parseRange, type Address, type AddressRange } from "../core/client-address.ts"

/**
 * What a token's ranges are for: nothing; a line in the log when it is used from elsewhere; a
 * refusal.
 */
export type ScopeMode = "none" | "monitor" | "enforce"

/** A token that applications present beside whatever their users sign in with. */
export interface AccessToken {
  readonly id: string
  /** SHA-256 in hex. */
  readonly token_hash: string
  readonly mode: ScopeMode
  /** Addresses and ranges, as `formatRange` writes them. */
  readonly scopes: readonly string[]
  /** Unix seconds; null: never. */
  readonly expires_at: number | null
}

/** More are not kept: each is told to an application by hand. */
export const maxAccessTokens = 1_000
/** More ranges of one token are not kept. */
export const maxScopes = 100
/** Of a token that nobody chose. */
export const accessTokenBytes = 24
/** What stands in a URL and in a header as it is. */
export const isAccessToken = (text: string): boolean => /^[A-Za-z0-9._~-]{32,128}$/.test(text)

const modes: readonly string[] = ["none", "monitor", "enforce"] satisfies ScopeMode[]
export const isScopeMode = (text: string): text is ScopeMode => modes.includes(text)

export type ScopeType = "ip" | "cidr"
export const isScopeType = (text: string): text is ScopeType => text === "ip" || text === "cidr"

/** An address, or a network with its bits, as it is kept. Undefined: it is none. */
export function scopeValue(type: ScopeType, text: string): string | undefined {
  const range = parseRange(text)
  if (!range) return undefined
  const { network, bits } = range
  if (type === "cidr") return `${formatAddress(network)}/${bits}`
  return bits === network.length * 8 ? formatAddress(network) : undefined
}

/** What became of a token that was presented. */
export interface AccessUse {
  readonly token: string
  readonly allowed: boolean
  /** Null: it was not looked at. */
  readonly scope_match: boolean | null
  readonly reject_reason: "expired" | "ip_scope_denied" | null
}

/** `use`: of a token that there is. */
export interface AccessVerdict {
  readonly refusal?: "access_token_required" | "invalid_access_token"
  readonly use?: AccessUse
}

interface Known extends AccessToken {
  readonly ranges: readonly AddressRange[]
}

/**
 * The tokens that are not revoked. Without any, everybody is let in. One whose time is over lets
 * nobody in and keeps the gate shut: that a date has passed opens nothing.
 */
export class AccessTokens {
  readonly #byHash: ReadonlyMap<string, Known>

  constructor(tokens: Iterable<AccessToken>) {
    this.#byHash = new Map(
      [...tokens].map(token => [
        token.token_hash,
        { ...token, ranges: token.scopes.flatMap(scope => parseRange(scope) ?? []) },
      ]),
    )
  }

  get isEmpty(): boolean {
    return this.#byHash.size === 0
  }

  /** @param hash of what was presented; undefined: nothing was. `now`: Unix seconds */
  judge(hash: string | undefined, address: Address, now: number): AccessVerdict {
    if (this.isEmpty) return {}
    if (hash === undefined) return { refusal: "access_token_required" }
    const token = this.#byHash.get(hash)
    if (!token) return { refusal: "invalid_access_token" }
    const { id, mode, ranges } = token
    if (token.expires_at !== null && token.expires_at <= now)
      return {
        refusal: "invalid_access_token",
        use: { token: id, allowed: false, scope_match: null, reject_reason: "expired" },
      }
    const isUnbound = mode === "none" || (mode === "monitor" && ranges.length === 0)
    const scope_match = isUnbound || ranges.some(range => isWithin(address, range))
    if (scope_match || mode === "monitor")
      return { use: { token: id, allowed: true, scope_match, reject_reason: null } }
    return {
      refusal: "invalid_access_token",
      use: { token: id, allowed: false, scope_match, reject_reason: "ip_scope_denied" },
    }
  }
}
