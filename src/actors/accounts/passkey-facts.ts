import type { PasskeyState } from "../../domain/accounts/passkeys.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { deletePasskey } from "../../storage/accounts/passkeys.ts"
import { defineFact } from "../shared/facts.ts"

/** A user's passkeys, one fact of their home: all of them, loaded when a command first needs them. */
export const passkeyFacts = defineFact<UserState, readonly PasskeyState[]>({
  keep: 1,
  load: async (storage, user, [key]) => new Map([[key!, await storage.passkeys.ofUser(user)]]),
})
const all = "all"

/** Of every command that reads or changes them. */
export const needsPasskeys = () => [passkeyFacts.need(all)]

export const passkeysOf = (user: Readonlied<UserState>): readonly PasskeyState[] => passkeyFacts.of(user).get(all) ?? []

export const withPasskeys = (passkeys: readonly PasskeyState[]) => (draft: UserState) => {
  passkeyFacts.of(draft).set(all, passkeys)
}

/** Ends those that were added at an id or later: part of a turn's effects. */
export function withoutPasskeysSince(user: Readonlied<UserState>, since: Snowflake) {
  const [ended, kept] = [true, false].map(isLater =>
    passkeysOf(user).filter(({ id }) => compareIds(id, since) >= 0 === isLater),
  ) as [PasskeyState[], PasskeyState[]]
  return { apply: withPasskeys(kept), write: ended.map(({ id }) => deletePasskey({ id })) }
}
