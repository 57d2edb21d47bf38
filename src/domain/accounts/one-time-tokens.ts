import type { Snowflake } from "../../contract/core/fields.ts"
import { sameHash } from "../core/hashes.ts"

export type TokenKind = "two_factor" | "verify_email" | "password_reset" | "restore_email"

/** Groups of somebody of whom a provider has said so, of those that stand for roles here. */
export interface SaidGroups {
  readonly provider: string
  readonly groups: readonly string[]
}

/** What somebody is sent or given to come back with, once. */
export interface OneTimeToken {
  readonly id: Snowflake
  readonly kind: TokenKind
  /** SHA-256 of its secret, in hex. */
  readonly token_hash: string
  /** The address that a mailed one was sent to. */
  readonly email: string | null
  /** Of `restore_email`: the second factor that the account had at that address, sealed. */
  readonly totp_secret: string | null
  /** Of `restore_email`: whether somebody had shown that the address is theirs. */
  readonly is_confirmed: boolean
  /** Of `two_factor`: whose roles are set once the sign-in is complete; null: nobody's. */
  readonly groups?: SaidGroups | null
  /** Wrong codes that came with it. */
  readonly failures: number
  /** Unix seconds. */
  readonly expires_at: number
}

/** Wrong codes after which a second step has to start again. */
export const codesAllowed = 5
/** Of one user and kind; one more makes the oldest void. */
export const tokensOfAKind = 5

/** Addresses that an account may have left and can come back to. */
export const waysBack = 5
/** For how long each of them is open. */
export const wayBackSeconds = 72 * 3600

/** The one that was presented, if it is still open. `now`: Unix seconds. */
export function openToken(
  tokens: readonly OneTimeToken[],
  presented: { readonly id: Snowflake; readonly token_hash: string },
  kind: TokenKind,
  now: number,
): OneTimeToken | undefined {
  const found = tokens.find(({ id }) => id === presented.id)
  return found?.kind === kind && sameHash(found.token_hash, presented.token_hash) && found.expires_at > now
    ? found
    : undefined
}
