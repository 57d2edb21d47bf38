import { z } from "zod"
import type { ErrorCode } from "../core/errors.ts"
import { omittable } from "../core/fields.ts"

/** How signed-in users prove their identity once more before an action that cannot be undone. */
export const identityProof = {
  password: omittable(z.string().max(1024)).describe(
    "Required if the account has a password. Without a password, the sign-in must be at most ten minutes old",
  ),
  code: omittable(z.string().max(64)).describe(
    "A code of the second factor or a backup code. Required if a second factor is set up",
  ),
}

export const identityFailures = [
  "password_required",
  "wrong_password",
  "fresh_sign_in_required",
  "second_factor_code_required",
  "wrong_code",
  "account_locked",
] as const satisfies ErrorCode[]
