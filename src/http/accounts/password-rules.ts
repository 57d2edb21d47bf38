import { fail } from "../../contract/core/errors.ts"
import { passwordFaults, type PasswordRules } from "../../domain/accounts/passwords.ts"

/** Refuses a password that the rules do not allow, and says what it lacks. */
export function requireStrong(password: string, rules: PasswordRules): void {
  const faults = passwordFaults(password, rules)
  if (faults.length > 0) throw fail("weak_password", { message: `Weak password: it needs ${faults.join(", ")}` })
}
