import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { barToSignIn } from "../../domain/accounts/accounts.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { insertExternalAccount } from "../../storage/accounts/oauth.ts"
import type { ActorKind } from "../../runtime/actor.ts"

/** Sign-ins through others, among the commands of a user. */
export interface OAuthCommands {
  /**
   * From now on an account at a provider signs in here: its owner and this one's have the same
   * address, and both have confirmed it. Not where this alone does not sign the user in: a user
   * without a second factor, or one who is kept out, must not prepare anything for later. Refused
   * with `user_exists` when it already signs in somewhere.
   */
  linkExternalAccount(input: ExternalAccount & { email: string }): { linked: boolean }
}

export interface ExternalAccount {
  provider: string
  issuer: string
  subject: string
}

export const oauthCommands: ActorKind<UserState, UserState, OAuthCommands>["commands"] = {
  linkExternalAccount: {
    turn({ state: user, now }, { provider, issuer, subject, email }) {
      // Checked again: the address may have been given up since the route checked.
      if (!mayLink(user, email)) throw fail("oauth_email_unconfirmed")
      if (user.totp_enabled || barToSignIn(user, secondsAt(now))) return { reply: { linked: false } }
      return { write: [linkTo(user.id, { provider, issuer, subject }, now)], reply: { linked: true } }
    },
  },
}

export const linkTo = (user: Snowflake, { provider, issuer, subject }: ExternalAccount, nowMs: number) =>
  insertExternalAccount({ provider, issuer, subject, user_id: user, linked_at: secondsAt(nowMs) })

/**
 * A user who registered somebody else's address first must not get what its owner signs in with.
 */
const mayLink = (user: Readonly<Pick<UserState, "email" | "email_confirmed">>, email: string): boolean =>
  user.email_confirmed && user.email?.toLowerCase() === email.toLowerCase()
