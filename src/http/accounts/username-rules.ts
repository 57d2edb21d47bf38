import { RE2JS } from "re2js"
import { setImmediate } from "node:timers/promises"
import { fail, type Failure } from "../../contract/core/errors.ts"
import { BannedUsernames, usualReason } from "../../domain/accounts/banned-usernames.ts"
import { isReserved, isUsername } from "../../domain/accounts/usernames.ts"
import type { Storage } from "../../storage/storage.ts"

export interface UsernamePolicy {
  readonly reserved_usernames: readonly string[]
  readonly blocked_usernames: readonly string[]
}

/** What the operator decides about new accounts. */
export interface RegistrationPolicy {
  readonly email_allowed_domains: readonly string[]
}

/** What an account may be called, beyond the length, which the schema decides. */
export interface UsernameRules {
  /** Undefined when a name will do. */
  refusal(name: string): Failure | undefined
}

/** What resources need that take names. */
export interface Names {
  /** What accounts may be called at this moment. */
  readonly usernames: () => Promise<UsernameRules>
}

const blockedFor = (reason: string) => fail("blocked_username", { extra: { reason } })

/**
 * What accounts may be called as the configuration says, and as operators have said until now: the
 * database is asked each time, so that a ban holds for every name that is chosen after it.
 */
export function createUsernameRules(
  policy: UsernamePolicy,
  bans: Pick<Storage["bannedUsernames"], "version" | "list">,
): Names["usernames"] {
  const blocked = policy.blocked_usernames.map(pattern => RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE))
  let known: { readonly version: number; readonly banned: BannedUsernames } | undefined

  async function bannedNow(): Promise<BannedUsernames> {
    const version = await bans.version()
    if (known?.version === version) return known.banned
    // What is banned after the version was asked for may be in the list: then it is read again.
    const banned = await BannedUsernames.of(await bans.list(), () => setImmediate(), known?.banned)
    if (known === undefined || known.version < version) known = { version, banned }
    return banned
  }

  return async () => {
    const banned = await bannedNow()
    return {
      refusal(name) {
        if (!isUsername(name)) return fail("invalid_username")
        if (isReserved(name, policy.reserved_usernames)) return fail("reserved_username")
        const reason = banned.reasonAgainst(name)
        if (reason !== undefined) return blockedFor(reason)
        return blocked.some(pattern => pattern.matcher(name).find()) ? blockedFor(usualReason) : undefined
      },
    }
  }
}
