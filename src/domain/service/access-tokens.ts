import { isWithin, parseRange, type Address, type AddressRange } from "../core/client-address.ts"

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

export type AccessVerdict =
  | { readonly isOpen: true; readonly outside?: string }
  | { readonly isOpen: false; readonly refusal: "access_token_required" | "invalid_access_token" }

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
    if (this.isEmpty) return { isOpen: true }
    if (hash === undefined) return { isOpen: false, refusal: "access_token_required" }
    const token = this.#byHash.get(hash)
    if (!token || (token.expires_at !== null && token.expires_at <= now))
      return { isOpen: false, refusal: "invalid_access_token" }
    if (token.mode === "none" || token.ranges.some(range => isWithin(address, range))) return { isOpen: true }
    return token.mode === "monitor"
      ? { isOpen: true, outside: token.id }
      : { isOpen: false, refusal: "invalid_access_token" }
  }
}
