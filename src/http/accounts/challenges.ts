import { readToken } from "../../cluster/one-time-tokens.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { SaidGroups } from "../../domain/accounts/one-time-tokens.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import type { Http } from "../shared/http.ts"

interface WaitingSignIn {
  readonly token: { readonly id: Snowflake; readonly token_hash: string }
  readonly user: UserRow
  /** What a provider has said at its beginning. */
  readonly groups: SaidGroups | null
}

/** Reads the token of a sign-in that waits for its second factor, and whose it is. The turn looks once more. */
export const createChallengeReading = ({
  storage,
  clock,
}: Pick<Http<"oneTimeTokens" | "users">, "storage" | "clock">) =>
  async function waiting(text: string): Promise<WaitingSignIn> {
    const token = readToken("two_factor", text)
    if (!token) throw fail("invalid_challenge")
    const known = await storage.oneTimeTokens.find(token.id)
    if (known?.kind !== "two_factor" || !sameHash(known.token_hash, token.token_hash)) throw fail("used_challenge")
    if (known.expires_at <= secondsAt(clock())) throw fail("expired_challenge")
    const user = await storage.users.find(known.user_id)
    if (!user) throw fail("used_challenge")
    return { token, user, groups: known.groups ?? null }
  }
