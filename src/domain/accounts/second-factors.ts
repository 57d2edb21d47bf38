import type { Account } from "./accounts.ts"
import { sameHash } from "../core/hashes.ts"

/**
 * A user's code in the form that is stored: the time step of an authenticator's code, or the digest
 * of a backup code.
 */
export type SecondFactor =
  | { readonly secret: string; readonly step: number }
  | { readonly digest: string }
  /** Nothing that could be right. */
  | null

/** What using it changes in the account; undefined: it is wrong, or was used before. */
export function accepted(
  account: Pick<Account, "totp_enabled" | "totp_secret" | "totp_step" | "backup_codes">,
  factor: SecondFactor,
): Partial<Account> | undefined {
  if (!account.totp_enabled || factor === null) return undefined
  if ("digest" in factor) {
    const left = account.backup_codes.filter(digest => !sameHash(digest, factor.digest))
    return left.length < account.backup_codes.length ? { backup_codes: left } : undefined
  }
  return factor.secret === account.totp_secret && factor.step > account.totp_step
    ? { totp_step: factor.step }
    : undefined
}
