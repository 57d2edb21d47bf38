import { limits, type Passkey } from "../../contract/accounts/passkeys.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { openToken } from "../../domain/accounts/one-time-tokens.ts"
import { isCopied, type PasskeyState, type PasskeyUse } from "../../domain/accounts/passkeys.ts"
import { accepted, type SecondFactor } from "../../domain/accounts/second-factors.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { secondsAt } from "../../std/clock.ts"
import { deletePasskey, insertPasskey, passkeyObject, updatePasskey } from "../../storage/accounts/passkeys.ts"
import { needsTokens, tokensOf, voidTokens } from "./one-time-tokens.ts"
import { needsPasskeys, passkeysOf, withPasskeys } from "./passkey-facts.ts"
import { becoming, requireOpen, requireProof, startedSession, type NewSession, type Proof } from "./sign-in.ts"

/**
 * Passkeys, among the commands of a user's home. Whether a signature is right was checked before;
 * the turn decides what it opens. They keep:
 *   PASS1  A passkey whose counter does not rise opens nothing: somebody has a copy of it.
 *   PASS2  A passkey signs in only while it is the user's: not after the command that removed it is
 *       answered.
 */
export interface PasskeyCommands {
  addPasskey(input: Omit<PasskeyState, "id" | "created_at" | "last_used_at"> & { session_id: Snowflake }): Passkey
  renamePasskey(input: { passkey_id: Snowflake; name: string }): Passkey
  /** False: the code was wrong. */
  removePasskey(input: { passkey_id: Snowflake; proof: Proof; factor: SecondFactor }): { confirmed: boolean }
  /** A session without a further challenge: the authenticator has verified who uses it. */
  signInWithPasskey(input: { use: PasskeyUse; session: NewSession }): PasskeyVerdict
  answerByPasskey(input: {
    token: { id: Snowflake; token_hash: string }
    use: PasskeyUse
    session: NewSession
  }): PasskeyVerdict | { outcome: "used" }
}

/** `copied`: see PASS1; `gone`: it is not the user's. */
export type PasskeyVerdict = { outcome: "copied" } | { outcome: "gone" } | { outcome: "right"; session_id: Snowflake }

type User = Readonlied<UserState>

const found = (user: User, id: Snowflake): PasskeyState => {
  const known = passkeysOf(user).find(passkey => passkey.id === id)
  if (!known) throw fail("passkey_not_found")
  return known
}
const replaced = (user: User, changed: PasskeyState) => ({
  apply: withPasskeys(passkeysOf(user).map(known => (known.id === changed.id ? changed : known))),
  write: [updatePasskey(changed)],
})

/** What a use changes; undefined: it opens nothing. */
function used(user: User, { credential_id, counter, synced }: PasskeyUse, now: number) {
  const known = passkeysOf(user).find(passkey => passkey.credential_id === credential_id)
  if (!known) return "gone"
  if (isCopied(known, { counter })) return "copied" // PASS1
  return replaced(user, { ...known, counter, synced, last_used_at: secondsAt(now) })
}

export const passkeyCommands: ActorKind<UserState, UserState, PasskeyCommands>["commands"] = {
  addPasskey: {
    needs: needsPasskeys,
    turn({ state: user, now, newId }, { session_id, ...passkey }) {
      // It may have ended while the passkey was checked (P12).
      if (!user.sessions.has(session_id)) throw fail("revoked_token")
      const known = passkeysOf(user)
      if (known.length >= limits.passkeysPerUser) throw fail("passkey_limit")
      const added: PasskeyState = { ...passkey, id: newId(), created_at: secondsAt(now), last_used_at: null }
      return {
        apply: withPasskeys([...known, added]),
        write: [insertPasskey({ ...added, user_id: user.id })],
        reply: passkeyObject(added),
      }
    },
  },

  renamePasskey: {
    needs: needsPasskeys,
    turn({ state: user }, { passkey_id, name }) {
      const renamed = { ...found(user, passkey_id), name }
      return { ...replaced(user, renamed), reply: passkeyObject(renamed) }
    },
  },

  removePasskey: {
    needs: needsPasskeys,
    turn({ state: user }, { passkey_id, proof, factor }) {
      requireProof(user, proof, "wrong_password")
      const { id } = found(user, passkey_id)
      const changes = user.totp_enabled ? accepted(user, factor) : {}
      if (!changes) return { reply: { confirmed: false } }
      const code = user.totp_enabled ? becoming(user, changes) : undefined
      const left = withPasskeys(passkeysOf(user).filter(passkey => passkey.id !== id))
      return {
        apply: draft => {
          left(draft)
          code?.apply(draft)
        },
        write: [deletePasskey({ id }), ...(code?.write ?? [])],
        reply: { confirmed: true },
      }
    },
  },

  signInWithPasskey: {
    needs: needsPasskeys,
    turn({ state: user, now, newId }, { use, session }) {
      const change = used(user, use, now)
      if (typeof change === "string") return { reply: { outcome: change } }
      requireOpen(user, now)
      const started = startedSession(user, newId(), session, now)
      return {
        apply: draft => {
          change.apply(draft)
          started.effects.apply(draft)
        },
        write: [...change.write, ...started.effects.write],
        publish: started.effects.publish,
        reply: { outcome: "right", session_id: started.id },
      }
    },
  },

  answerByPasskey: {
    needs: () => [...needsTokens(), ...needsPasskeys()],
    turn({ state: user, now, newId }, { token, use, session }) {
      const open = openToken(tokensOf(user), token, "two_factor", secondsAt(now))
      if (!open) return { reply: { outcome: "used" } }
      const change = used(user, use, now)
      if (typeof change === "string") return { reply: { outcome: change } }
      requireOpen(user, now)
      const over = voidTokens(user, ({ id }) => id === open.id)
      const started = startedSession(user, newId(), session, now)
      return {
        apply: draft => {
          change.apply(draft)
          over.apply(draft)
          started.effects.apply(draft)
        },
        write: [...change.write, ...over.write, ...started.effects.write],
        publish: started.effects.publish,
        reply: { outcome: "right", session_id: started.id },
      }
    },
  },
}
