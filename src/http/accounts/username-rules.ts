import { RE2JS } from "re2js"
import type { ErrorCode } from "../../contract/core/errors.ts"
import { isReserved, isUsername } from "../../domain/accounts/usernames.ts"

export interface UsernamePolicy {
  readonly reserved_usernames: readonly string[]
  readonly blocked_usernames: readonly string[]
}

/** What the operator decides about new accounts. */
export interface RegistrationPolicy extends UsernamePolicy {
  readonly email_allowed_domains: readonly string[]
}

/** What an account may be called, beyond the length, which the schema decides. */
export function usernameRules(policy: UsernamePolicy) {
  const blocked = policy.blocked_usernames.map(pattern => RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE))

  return {
    /** Undefined when a name will do. */
    refusal(name: string): ErrorCode | undefined {
      if (!isUsername(name)) return "invalid_username"
      if (isReserved(name, policy.reserved_usernames)) return "reserved_username"
      return blocked.some(pattern => pattern.matcher(name).find()) ? "blocked_username" : undefined
    },
  }
}
