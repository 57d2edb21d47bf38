import { RE2JS } from "re2js"
import type { ErrorCode } from "../contract/errors.ts"
import { isReserved, isUsername } from "../domain/usernames.ts"

/** What an account may be called, beyond the length: the schema's affair. */
export function usernameRules(policy: {
  readonly reserved_usernames: readonly string[]
  readonly blocked_usernames: readonly string[]
}) {
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
