import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/accounts/two-factor.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import {
  isTotpCode,
  newBackupCodes,
  newTotpSecret,
  readBackupCode,
  stepOf,
  totpUri,
} from "../../integrations/one-time-codes.ts"
import { createChallengeReading } from "./challenges.ts"
import { createMappedRoles, type MappedRolesNeeds } from "./mapped-roles.ts"
import { backupSeal, createSignIn, own, signedIn, totpSeal } from "./sign-in.ts"
import type { Http, Policy } from "../shared/http.ts"
import type { SignInNeeds } from "./sign-in.ts"

type TwoFactorNeeds = SignInNeeds &
  MappedRolesNeeds &
  Http<"oneTimeTokens"> &
  Policy<{ readonly two_factor_issuer?: string | undefined; readonly server_name: string }>

export function twoFactor(http: TwoFactorNeeds): Handlers<typeof routes> {
  const {
    ask,
    storage,
    policy,
    clock,
    integrations: { secrets },
  } = http
  const seconds = () => secondsAt(clock())
  const signIn = createSignIn(http)
  const waiting = createChallengeReading(http)
  const withMappedRoles = createMappedRoles(http)

  return {
    async completeTwoFactor(call) {
      const { token, user, groups } = await waiting(call.body.challenge_token)
      const { secret, session } = await signIn.oneMoreSession(call, user.id)
      const factor = signIn.factorOf(user, call.body.code)
      const verdict = await signIn.tryCode(
        user,
        () => ask(userActor, user.id, { type: "answerChallenge", token, factor, session }),
        ({ outcome }) => outcome === "wrong",
      )
      if (verdict.outcome === "wrong") throw fail("invalid_second_factor")
      if (verdict.outcome === "used") throw fail("used_challenge")
      await withMappedRoles(user, verdict.session_id, groups)
      await signIn.clearFailures(user)
      return signedIn(user, `${verdict.session_id}.${secret}`)
    },

    async getTwoFactorStatus({ caller }) {
      const user = await storage.users.find(caller.user_id)
      if (!user) throw fail("user_not_found")
      return { enabled: user.totp_enabled, backup_codes_remaining: user.backup_codes.length }
    },

    async enableTwoFactor({ caller, body: { password } }) {
      if (password === "") throw fail("password_required")
      const user = await own(http, caller.user_id)
      const secret = newTotpSecret()
      const codes = newBackupCodes()
      await signIn.requirePassword(user, password, "invalid_password", ({ id, totp_enabled, password_hash }) => {
        if (totp_enabled) throw fail("second_factor_enabled")
        return ask(userActor, id, {
          type: "prepareSecondFactor",
          secret: secrets.seal(secret, totpSeal(id)),
          backup_codes: codes.map(code => secrets.digest(readBackupCode(code)!, backupSeal(id))),
          proof: { password_hash },
        })
      })
      const issuer = policy.two_factor_issuer ?? policy.server_name
      return { secret, qr_uri: totpUri(issuer, user.username, secret), backup_codes: codes }
    },

    async confirmTwoFactor({ caller, body: { code } }) {
      if (!isTotpCode(code)) throw fail("six_digits_required")
      const user = await own(http, caller.user_id)
      if (user.totp_enabled || user.totp_secret === null) throw fail("second_factor_not_started")
      const secret = user.totp_secret
      const step = stepOf(code, secrets.open(secret, totpSeal(user.id)), seconds())
      const { right } = await signIn.tryCode(
        user,
        async () => {
          if (step === undefined) return { right: false }
          await ask(userActor, user.id, { type: "confirmSecondFactor", secret, step })
          return { right: true }
        },
        verdict => !verdict.right,
      )
      if (!right) throw fail("invalid_code")
      return success
    },

    async disableTwoFactor({ caller, body: { password, code } }) {
      if (password === "") throw fail("password_required")
      if (code === "") throw fail("second_factor_code_required")
      const user = await own(http, caller.user_id)
      if (!user.totp_enabled) throw fail("second_factor_not_enabled")
      const { right } = await signIn.requirePassword(user, password, "invalid_password", known => {
        const factor = signIn.factorOf(known, code)
        const proof = { password_hash: known.password_hash }
        return signIn.tryCode(
          known,
          () => ask(userActor, known.id, { type: "disableSecondFactor", factor, proof }),
          verdict => !verdict.right,
        )
      })
      if (!right) throw fail("invalid_second_factor")
      return success
    },
  }
}
