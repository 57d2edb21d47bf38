import type { Snowflake } from "../../contract/core/fields.ts"
import { fail } from "../../contract/core/errors.ts"
import { secondsAt } from "../../std/clock.ts"
import { openToken, type OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { RequestedMail } from "../../storage/accounts/mails.ts"
import { isWayBack } from "./email-restoration.ts"
import { needsPasskeys, withoutPasskeysSince } from "./passkey-facts.ts"
import { issueToken, needsTokens, tokensOf, voidTokens } from "./one-time-tokens.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { becoming, endedSessions } from "./sign-in.ts"

/**
 * What comes back by mail, among the commands of a user's home. A mailed token counts only for the
 * address it was sent to.
 */
export interface EmailLinkCommands {
  /**
   * For a mail that is about to go out. Of one kind the last three are good: who asks for a mail in
   * somebody's name ends none of their links. Null: there is nothing to be mailed.
   */
  startMailedToken(input: { kind: RequestedMail; token_hash: string; email: string; expires_at: number }): {
    token_id: Snowflake | null
  }
  /**
   * The same for a link that an operator hands to somebody, by which an account that has no password
   * becomes theirs. Null: it is somebody's already.
   */
  startClaim(input: { token_hash: string; expires_at: number }): { token_id: Snowflake | null }
  verifyEmail(input: { token: PresentedToken }): { verified: true }
  /**
   * Ends every session, and with the password all that was open for the one before; not the way back
   * to an address that the account has left (ACC5).
   */
  resetPassword(input: { token: PresentedToken; password_hash: string }): { ended: number }
}

export interface PresentedToken {
  id: Snowflake
  token_hash: string
}

/** Links of a kind that are good at the same time. */
const openLinks = 3

/** A user who answers a mail reads what is sent to the address. */
const confirmed = { email_verified: true, email_confirmed: true }

export const emailLinkCommands: ActorKind<UserState, UserState, EmailLinkCommands>["commands"] = {
  startMailedToken: {
    needs: needsTokens,
    turn({ state: user, now, newId }, { kind, token_hash, email, expires_at }) {
      if (user.email !== email || user.deletion_status !== "active") return { reply: { token_id: null } }
      if (kind === "verify_email" && user.email_confirmed) return { reply: { token_id: null } }
      const token = { id: newId(), kind, token_hash, email, expires_at }
      return { ...issueToken(user, token, secondsAt(now), openLinks), reply: { token_id: token.id } }
    },
  },

  startClaim: {
    needs: needsTokens,
    turn({ state: user, now, newId }, { token_hash, expires_at }) {
      if (user.bot || user.password_hash !== null || user.deletion_status !== "active")
        return { reply: { token_id: null } }
      const id = newId()
      // It was sent to no address, so it shows of none whose it is.
      const token = { id, kind: "password_reset", token_hash, expires_at } as const
      return { ...issueToken(user, token, secondsAt(now), 1), reply: { token_id: id } }
    },
  },

  verifyEmail: {
    needs: needsTokens,
    turn({ state: user, now }, { token }) {
      requireEmailLink(user, token, "verify_email", now)
      const used = voidTokens(user, ({ kind }) => kind === "verify_email")
      const verified = becoming(user, confirmed)
      return {
        apply: draft => {
          used.apply(draft)
          verified.apply(draft)
        },
        write: [...used.write, ...verified.write],
        reply: { verified: true },
      }
    },
  },

  resetPassword: {
    needs: () => [...needsTokens(), ...needsPasskeys()],
    turn({ state: user, now }, { token, password_hash }) {
      const { email } = requireEmailLink(user, token, "password_reset", now)
      const used = voidTokens(user, token => !isWayBack(token))
      const shown = email === null ? { email_verified: true } : confirmed
      const reset = becoming(user, { ...shown, password_hash })
      const ended = endedSessions(user, [...user.sessions.keys()])
      // Who made the account with an address that is not theirs has prepared no way back (ACC6).
      const prepared = user.email_confirmed ? undefined : withoutPasskeysSince(user, "0")
      return {
        apply: draft => {
          used.apply(draft)
          reset.apply(draft)
          ended.apply(draft)
          prepared?.apply(draft)
        },
        write: [...used.write, ...reset.write, ...ended.write, ...(prepared?.write ?? [])],
        publish: ended.publish,
        after: ended.after,
        reply: { ended: ended.write.length },
      }
    },
  },
}

/** Of two who come with one token the second finds it gone (OTT1). */
function requireEmailLink(
  user: Readonlied<UserState>,
  token: PresentedToken,
  kind: RequestedMail,
  now: number,
): OneTimeToken {
  const open = openToken(tokensOf(user), token, kind, secondsAt(now))
  if (!open || (open.email !== null && open.email !== user.email)) throw fail("invalid_token")
  return open
}
