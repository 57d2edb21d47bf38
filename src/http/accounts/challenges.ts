import { readToken } from "../../cluster/one-time-tokens.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import type { Http } from "../shared/http.ts"

/** Reads the token of a sign-in that waits for its second factor, and whose it is. The turn looks once more. */
export const createChallengeReading = ({
  storage,
  clock,
}: Pick<Http<"oneTimeTokens" | "users">, "storage" | "clock">) =>
  async function waiting(text: string): Promise<{ token: { id: Snowflake; token_hash: string }; user: UserRow }> {
    const token = readToken("two_factor", text)
    if (!token) throw fail("invalid_challenge")
    const known = await storage.oneTimeTokens.find(token.id)
    if (known?.kind !== "two_factor" || !sameHash(known.token_hash, token.token_hash)) throw fail("used_challenge")
    if (known.expires_at <= secondsAt(clock())) throw fail("expired_challenge")
    const user = await storage.users.find(known.user_id)
    if (!user) throw fail("used_challenge")
    return { token, user }
  }
