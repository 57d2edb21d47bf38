import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { sendMail } from "../../contract/core/jobs.ts"
import type { Account } from "../../domain/accounts/accounts.ts"
import { openToken, wayBackSeconds, waysBack, type OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { compareIds, secondsOf } from "../../domain/core/snowflake.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { secondsAt } from "../../std/clock.ts"
import { insertMail, type MailKind } from "../../storage/accounts/mails.ts"
import { unlinkExternalAccounts } from "../../storage/accounts/oauth.ts"
import type { Write } from "../../storage/core/write.ts"
import { needsPasskeys, withoutPasskeysSince } from "./passkey-facts.ts"
import { needsTokens, replaceToken, tokensOf, voidTokens } from "./one-time-tokens.ts"
import { becoming, endedSessions } from "./sign-in.ts"

/**
 * The way back to an address that an account has left, among the commands of a user's home. It is
 * for somebody whose account was taken with their password and session. It keeps:
 *   ACC5  Who reads the mail to an address that an account has left can bring the account back to
 *       it, for 72 hours. Nothing that somebody does who holds the account ends that. Of several
 *       addresses the one that was left first wins.
 *   ACC6  The account comes back as it left the address: no session, password or sign-in through a
 *       provider that was added since opens it, and its second factor is the one of then. From an
 *       address that nobody had confirmed it comes back without any of these. Passkeys are as
 *       sign-ins through a provider.
 */
export interface EmailRestorationCommands {
  /** For a mail that is about to go out. Null: there is no way back any longer. */
  startRestoration(input: { token_id: Snowflake; token_hash: string; expires_at: number }): { email: string | null }
  /** Ends every session. The owner sets a new password by the mail that follows. */
  restoreEmail(input: { token: { id: Snowflake; token_hash: string } }): { ended: number }
}

type User = Readonlied<UserState>

export const isWayBack = ({ kind }: Pick<OneTimeToken, "kind">): boolean => kind === "restore_email"

export const emailRestorationCommands: ActorKind<UserState, UserState, EmailRestorationCommands>["commands"] = {
  startRestoration: {
    needs: needsTokens,
    turn({ state: user, now }, { token_id, token_hash, expires_at }) {
      const kept = tokensOf(user).find(token => isWayBack(token) && token.id === token_id)
      if (!kept || kept.expires_at <= secondsAt(now)) return { reply: { email: null } }
      return { ...replaceToken(user, { ...kept, token_hash, expires_at }), reply: { email: kept.email } }
    },
  },

  restoreEmail: {
    needs: () => [...needsTokens(), ...needsPasskeys()],
    turn({ state: user, now, newId }, { token }) {
      const open = openToken(tokensOf(user), token, "restore_email", secondsAt(now))
      if (!open) throw fail("invalid_token")
      if (user.deletion_status !== "active") throw fail("account_deleted")
      // ACC5
      const used = voidTokens(user, one => !isWayBack(one) || compareIds(one.id, open.id) >= 0)
      const confirmed = { email: open.email, email_verified: true, email_confirmed: true }
      // ACC6
      const restored = becoming(user, { ...confirmed, password_hash: null, ...formerSecondFactor(user, open) })
      const ended = endedSessions(user, [...user.sessions.keys()])
      const passkeys = withoutPasskeysSince(user, open.is_confirmed ? open.id : "0")
      const reset = mailOf(user, { id: newId(), kind: "password_reset" }, now)
      return {
        apply: draft => {
          used.apply(draft)
          restored.apply(draft)
          passkeys.apply(draft)
          ended.apply(draft)
        },
        write: [
          ...used.write,
          ...restored.write,
          unlinkExternalAccounts({ user_id: user.id, since: open.is_confirmed ? secondsOf(open.id) : 0 }),
          ...passkeys.write,
          ...ended.write,
          ...reset.write,
        ],
        publish: [...ended.publish, ...reset.publish],
        after: ended.after,
        reply: { ended: ended.write.length },
      }
    },
  },
}

/** What a change of address adds to its turn. */
export interface WayBack {
  readonly tokens: readonly OneTimeToken[]
  readonly write: readonly Write[]
  readonly publish: readonly Publication[]
}
export const noWayBack: WayBack = { tokens: [], write: [], publish: [] }

/**
 * The way back from a new address (ACC5). The same address in other letters needs none: whose mail
 * it is does not change.
 */
export function wayBackFrom(user: User, email: string, nowMs: number, newId: () => Snowflake): WayBack {
  if (user.email === null || user.email.toLowerCase() === email.toLowerCase()) return noWayBack
  const now = secondsAt(nowMs)
  const ends = tokensOf(user).flatMap(token => (isWayBack(token) && token.expires_at > now ? token.expires_at : []))
  if (ends.length >= waysBack) throw fail("too_many_email_changes", { retry_after: Math.min(...ends) - now })
  const token: OneTimeToken = {
    id: newId(),
    kind: "restore_email",
    // Nothing has this hash: the secret is made when the mail is sent.
    token_hash: "",
    email: user.email,
    // Who is mailed at an address that nobody has confirmed may be a stranger to the user who set these up.
    totp_secret: user.email_confirmed && user.totp_enabled ? user.totp_secret : null,
    is_confirmed: user.email_confirmed,
    failures: 0,
    expires_at: now + wayBackSeconds,
  }
  return { tokens: [token], ...mailOf(user, { id: token.id, kind: "restore_email" }, nowMs) }
}

const mailOf = (user: User, { id, kind }: { id: Snowflake; kind: MailKind }, nowMs: number) => ({
  write: [insertMail({ id, user_id: user.id, kind, asked_at: secondsAt(nowMs) })],
  publish: [sendMail.at({ mail_id: id }, { key: `mail:${id}` })],
})

/**
 * The second factor of then, where it is another one now. Its backup codes are void: who has held
 * the account may have seen them.
 */
function formerSecondFactor(user: User, { totp_secret }: OneTimeToken): Partial<Account> {
  if (totp_secret === (user.totp_enabled ? user.totp_secret : null)) return {}
  return { totp_enabled: totp_secret !== null, totp_secret, totp_step: 0, backup_codes: [] }
}
