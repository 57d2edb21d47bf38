import { codePoints } from "../../contract/core/fields.ts"

/** What a password must hold. The names are those of the configuration. */
export interface PasswordRules {
  readonly password_min_length: number
  readonly password_max_length: number
  readonly password_require_uppercase: boolean
  readonly password_require_lowercase: boolean
  readonly password_require_digit: boolean
  readonly password_require_special: boolean
}

const upperCase = /\p{Lu}/u
const lowerCase = /\p{Ll}/u
const digit = /\p{Nd}/u
/** Neither a word character nor white space. */
const special = /[^\p{L}\p{M}\p{N}_\s]/u

/** What a password lacks, in words; empty when it will do. */
export function passwordFaults(password: string, rules: PasswordRules): string[] {
  const faults: string[] = []
  const length = codePoints(password)
  if (length < rules.password_min_length) faults.push(`at least ${rules.password_min_length} characters`)
  if (length > rules.password_max_length) faults.push(`at most ${rules.password_max_length} characters`)
  if (rules.password_require_uppercase && !upperCase.test(password)) faults.push("an upper-case letter")
  if (rules.password_require_lowercase && !lowerCase.test(password)) faults.push("a lower-case letter")
  if (rules.password_require_digit && !digit.test(password)) faults.push("a digit")
  if (rules.password_require_special && !special.test(password)) faults.push("a special character")
  return faults
}
