import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Caller } from "../../cluster/admission.ts"
import type { SecondFactor } from "../../domain/accounts/second-factors.ts"
import { msOf } from "../../domain/core/snowflake.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import { createSignIn, own } from "./sign-in.ts"
import type { SignInNeeds } from "./sign-in.ts"

/** A user without a password proves their identity with a session no older than this. */
const maxSessionAgeMs = 600_000

/**
 * What the turn looks at once more: the hash that the password matched, and what the code would
 * have to be.
 */
export interface Shown {
  readonly proof: { readonly password_hash: string | null }
  readonly factor: SecondFactor
}

/** What a missing and a wrong password are refused with. */
interface PasswordRefusals {
  readonly missing: ErrorCode
  readonly wrong: ErrorCode
}

/**
 * Does what a signed-in user has to prove their identity for again. Guesses count like those of a
 * sign-in.
 */
export function createIdentityProof(
  http: SignInNeeds,
  refusals: PasswordRefusals = { missing: "password_required", wrong: "wrong_password" },
) {
  const signIn = createSignIn(http)

  /** @param attempt asks the turn that judges the code, and uses it up; false: it was wrong */
  return async function requireIdentity(
    { user_id, session_id }: Pick<Caller, "user_id" | "session_id">,
    { password, code }: { password?: string | undefined; code?: string | undefined },
    attempt: (shown: Shown) => Promise<boolean>,
  ): Promise<void> {
    const user = await own(http, user_id)
    const tryFactor = (known: UserRow): Promise<boolean> => {
      const proof = { password_hash: known.password_hash }
      if (!known.totp_enabled) return attempt({ proof, factor: null })
      if (code === undefined) throw fail("second_factor_code_required")
      const factor = signIn.factorOf(known, code)
      return signIn.tryCode(
        known,
        () => attempt({ proof, factor }),
        isRight => !isRight,
      )
    }
    const isRight = async () => {
      if (user.password_hash === null) {
        if (http.clock() - msOf(session_id) > maxSessionAgeMs) throw fail("fresh_sign_in_required")
        return tryFactor(user)
      }
      if (password === undefined) throw fail(refusals.missing)
      return signIn.requirePassword(user, password, refusals.wrong, tryFactor)
    }
    if (!(await isRight())) throw fail("wrong_code")
  }
}
