import { codesAllowed, tokensOfAKind, type OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { deleteOneTimeToken, putOneTimeToken } from "../../storage/accounts/one-time-tokens.ts"
import type { Write } from "../../storage/core/write.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * A user's one-time tokens, one fact of their home: all of them, loaded when a command first needs
 * them. It keeps:
 *   OTT1  A token is used once. A second use fails.
 *   OTT2  The number of open tokens of a kind is bounded; the oldest one is removed. Of
 *       `restore_email` none is: a further change of address is refused.
 */
export const tokenFacts = defineFact<UserState, readonly OneTimeToken[]>({
  keep: 1,
  load: async (storage, user, [key]) => new Map([[key!, await storage.oneTimeTokens.ofUser(user)]]),
})
const all = "all"

/** Of every command that reads or changes them. */
export const needsTokens = () => [tokenFacts.need(all)]

type User = Readonlied<UserState>

export const tokensOf = (user: User): readonly OneTimeToken[] => tokenFacts.of(user).get(all) ?? []

/** Part of a turn's effects. */
export interface TokenChange {
  readonly apply: (draft: UserState) => void
  readonly write: Write[]
}

const changed = (tokens: readonly OneTimeToken[], write: Write[]): TokenChange => ({
  apply: draft => {
    tokenFacts.of(draft).set(all, tokens)
  },
  write,
})

/** A new token (OTT2). `now`: Unix seconds. */
export function issueToken(
  user: User,
  token: Pick<OneTimeToken, "id" | "kind" | "token_hash" | "expires_at" | "groups"> & { email?: string },
  now: number,
  atMost = tokensOfAKind,
): TokenChange {
  const added: OneTimeToken = { email: null, totp_secret: null, is_confirmed: false, ...token, failures: 0 }
  const known = tokensOf(user)
  const ofKind = known.filter(({ kind, expires_at }) => kind === token.kind && expires_at > now)
  const surplus = new Set(ofKind.slice(0, Math.max(0, ofKind.length - atMost + 1)))
  const over = known.filter(one => surplus.has(one) || one.expires_at <= now)
  return changed(
    [...known.filter(one => !over.includes(one)), added],
    [...over.map(({ id }) => deleteOneTimeToken({ id })), putOneTimeToken({ ...added, user_id: user.id })],
  )
}

/** Ends tokens, all unless told otherwise (OTT1). @param added come in the same turn */
export function voidTokens(
  user: User,
  isMeant: (token: OneTimeToken) => boolean = () => true,
  added: readonly OneTimeToken[] = [],
): TokenChange {
  const known = tokensOf(user)
  return changed(
    [...known.filter(token => !isMeant(token)), ...added],
    [
      ...known.filter(isMeant).map(({ id }) => deleteOneTimeToken({ id })),
      ...added.map(token => putOneTimeToken({ ...token, user_id: user.id })),
    ],
  )
}

/** A token with some of it changed. */
export function replaceToken(user: User, token: OneTimeToken): TokenChange {
  return changed(
    tokensOf(user).map(known => (known.id === token.id ? token : known)),
    [putOneTimeToken({ ...token, user_id: user.id })],
  )
}

/** Counts a wrong code that came with a token; after too many it is void. */
export function countWrongCode(user: User, token: OneTimeToken): TokenChange {
  const failed = { ...token, failures: token.failures + 1 }
  if (failed.failures >= codesAllowed) return voidTokens(user, ({ id }) => id === token.id)
  return replaceToken(user, failed)
}
