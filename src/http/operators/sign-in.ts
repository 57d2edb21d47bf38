import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { OperatorLogin, routes } from "../../contract/operators/sign-in.ts"
import { limitedAddress, parseAddress } from "../../domain/core/client-address.ts"
import {
  operatorChallengeSeconds,
  operatorCodesAllowed,
  operatorSessionSeconds,
  type Operator,
} from "../../domain/operators/operators.ts"
import { newBackupCodes, newTotpSecret, readBackupCode, stepOf, totpUri } from "../../integrations/one-time-codes.ts"
import type { Hashing } from "../../integrations/password-hashing.ts"
import type { Secrets } from "../../integrations/secrets.ts"
import { secondsAt } from "../../std/clock.ts"
import type { OperatorRow } from "../../storage/operators/operators.ts"
import { failureKey } from "../../storage/operators/failures.ts"
import type { OperatorFactor } from "../../storage/operators/sign-in.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy, Uses } from "../shared/http.ts"

type SignInNeeds = Http<"operators"> &
  Policy<{
    readonly server_name: string
    readonly admin_ui_require_otp: boolean
    readonly admin_ui_max_attempts: number
    readonly admin_ui_window_seconds: number
    readonly admin_ui_lockout_seconds: number
  }> &
  Uses<{ readonly hashing: Hashing; readonly secrets: Secrets }>

const totpSeal = (operator: string) => `operator totp ${operator}`
const backupSeal = (operator: string) => `operator backup ${operator}`

const nothingYet: Omit<OperatorLogin, "status"> = {
  token: null,
  admin_id: null,
  otp_secret: null,
  otp_qr_uri: null,
  message: null,
  challenge_token: null,
}

const isOperatorId = (text: string): boolean => /^(0|[1-9]\d{0,17})$/.test(text)

/** Backup codes as people get them, and as they are kept. */
function newCodes(secrets: Secrets, operator: string): { shown: string[]; digests: string[] } {
  const shown = newBackupCodes().map(code => readBackupCode(code)!)
  return { shown, digests: shown.map(code => secrets.digest(code, backupSeal(operator))) }
}

/**
 * Judges passwords and codes of operators. It keeps:
 *   OPIN1  Wrong names, passwords and codes count together, by address and by name; whether there is
 *       such a name makes no difference, in time neither. Only a complete sign-in clears the count.
 *   OPIN2  Who guesses is told by the lock only that there is one, also where a guess was right.
 *   OPIN3  A code opens one session at most.
 */
function createJudging({ storage, policy, clock, integrations: { hashing, secrets } }: SignInNeeds) {
  const limits = {
    allowed: policy.admin_ui_max_attempts,
    windowSeconds: policy.admin_ui_window_seconds,
    lockSeconds: policy.admin_ui_lockout_seconds,
  }

  async function requireUnlocked(keys: readonly string[]): Promise<void> {
    const seconds = await storage.operators.lockedFor(keys)
    if (seconds === 0) return
    const message = `Too many login attempts. Try again in ${seconds} seconds.`
    throw fail("operator_locked", { message, retry_after: seconds })
  }

  async function countFailure(keys: readonly string[]): Promise<void> {
    if (!(await storage.operators.countFailure(keys, limits))) await requireUnlocked(keys)
  }

  return {
    requireUnlocked,
    countFailure,

    async isRight(keys: readonly string[], password: string, operator: OperatorRow | undefined): Promise<boolean> {
      await requireUnlocked(keys)
      const isRight = await hashing.verify(password, operator?.password_hash)
      if (isRight) await requireUnlocked(keys)
      else await countFailure(keys)
      return isRight
    },

    /** The code of an app. */
    appCode({ id }: OperatorRow, sealed: string, code: string): { secret: string; step: number } | undefined {
      const step = stepOf(code, secrets.open(sealed, totpSeal(id)), secondsAt(clock()))
      return step === undefined ? undefined : { secret: sealed, step }
    },

    /** A code of the app in use, or a backup code; whether it is used already, the database says. */
    factorOf(operator: OperatorRow, code: string): OperatorFactor | undefined {
      const backup = readBackupCode(code.replaceAll("-", ""))
      if (backup !== undefined) return { digest: secrets.digest(backup, backupSeal(operator.id)) }
      return operator.totp_secret === null ? undefined : this.appCode(operator, operator.totp_secret, code)
    },
  }
}

type Judging = ReturnType<typeof createJudging>

const keysOf = (name: string, address: string) => [
  failureKey.ofAddress(limitedAddress(parseAddress(address)!)),
  failureKey.ofName(name),
]
const signedIn = (token: string): OperatorLogin => ({ ...nothingYet, status: "success", token })

function newSession(operator_id: string, address: string) {
  const token = newSecret()
  const session = { token_hash: hashSecret(token), operator_id, lastsSeconds: operatorSessionSeconds, address }
  return { token, session }
}

/**
 * Draws another secret: the one in use stays until a code of this one was right. @returns undefined
 * where the password that was right is another by now
 */
async function beginSetup(
  { storage, policy, integrations: { secrets } }: SignInNeeds,
  { id, name, password_hash }: OperatorRow,
  message: string,
): Promise<OperatorLogin | undefined> {
  const [secret, challenge_token] = [newTotpSecret(), newSecret()]
  const isBegun = await storage.operators.beginSetup({
    token_hash: hashSecret(challenge_token),
    operator_id: id,
    lastsSeconds: operatorChallengeSeconds,
    totp_pending: secrets.seal(secret, totpSeal(id)),
    password_hash,
  })
  if (!isBegun) return undefined
  const otp_qr_uri = totpUri(`${policy.server_name} Admin`, name, secret)
  const more = { admin_id: id, otp_secret: secret, otp_qr_uri, message, challenge_token }
  return { ...nothingYet, ...more, status: "otp_setup_required" }
}

type Routes = typeof routes
type SigningIn = "operatorLogin" | "verifyOperatorOtp" | "operatorLogout"

export const operatorSignIn = (http: SignInNeeds): Handlers<Routes> => {
  const judging = createJudging(http)
  return { ...signingIn(http, judging), ...securing(http, judging) }
}

/** Without a session. */
function signingIn(http: SignInNeeds, judging: Judging): Handlers<Pick<Routes, SigningIn>> {
  const {
    storage: { operators },
    policy,
    integrations: { hashing, secrets },
  } = http

  return {
    async operatorLogin({ body: { username, password }, address, trail }) {
      hashing.requireCapacity()
      const operator = await operators.findByName(username)
      // PostgreSQL and JavaScript do not lower every letter alike: a name counts as it is stored.
      const keys = keysOf(operator?.name ?? username, address)
      if (operator) trail.operator = operator
      // Not the name: it may be a password that went into the wrong field.
      else trail.target = "an unknown name"
      if (!(await judging.isRight(keys, password, operator))) throw fail("invalid_credentials")
      await operators.forgetExpired()
      const { id, password_hash } = operator!

      if (!policy.admin_ui_require_otp) {
        const { token, session } = newSession(id, address)
        if (!(await operators.finishWithPassword({ ...session, password_hash }))) throw fail("invalid_credentials")
        await operators.clearFailures([...keys, failureKey.inSession(id)])
        return signedIn(token)
      }
      if (operator!.must_setup_otp || operator!.totp_secret === null) {
        const begun = await beginSetup(http, operator!, "OTP setup required")
        if (!begun) throw fail("invalid_credentials")
        return begun
      }
      const challenge_token = newSecret()
      await operators.challenge({
        token_hash: hashSecret(challenge_token),
        operator_id: id,
        lastsSeconds: operatorChallengeSeconds,
      })
      return { ...nothingYet, status: "otp_required", admin_id: id, message: "OTP required", challenge_token }
    },

    async verifyOperatorOtp({ body, address, trail }) {
      const { admin_id: id, code, is_setup = false, challenge_token } = body
      if (!isOperatorId(id)) throw fail("invalid_operator_id")
      const challenge = hashSecret(challenge_token)
      const known = await operators.tryChallenge(challenge, operatorCodesAllowed, { id, is_setup })
      if (!known) throw fail("invalid_operator_challenge")
      const operator = await operators.find(id)
      if (!operator) throw fail("operator_not_found")
      trail.operator = operator
      const keys = keysOf(operator.name, address)
      await judging.requireUnlocked(keys)
      const { token, session } = newSession(id, address)
      const wrong = async () => {
        await judging.countFailure(keys)
        return fail("invalid_operator_code")
      }

      if (is_setup) {
        const { totp_pending } = operator
        if (totp_pending === null) throw fail("invalid_operator_challenge")
        const right = judging.appCode(operator, totp_pending, code)
        if (!right) throw await wrong()
        const { shown, digests } = newCodes(secrets, id)
        const setup = { ...session, challenge, totp_pending, step: right.step, backup_codes: digests }
        if (!(await operators.finishSetup(setup))) throw fail("invalid_operator_challenge")
        await operators.clearFailures([...keys, failureKey.inSession(id)])
        return { ...signedIn(token), backup_codes: shown }
      }
      if (operator.totp_secret === null) throw fail("operator_otp_not_configured")
      const factor = judging.factorOf(operator, code)
      if (!factor || !(await operators.finishWithCode({ ...session, challenge, factor }))) throw await wrong()
      await operators.clearFailures([...keys, failureKey.inSession(id)])
      return signedIn(token)
    },

    async operatorLogout({ token, trail }) {
      const ended = token === "" ? undefined : await operators.endSession(hashSecret(token))
      if (ended) trail.operator = { id: ended.operator_id, name: ended.name }
      return success
    },
  }
}

/** With a session. */
function securing(http: SignInNeeds, judging: Judging): Handlers<Omit<Routes, SigningIn>> {
  const {
    storage: { operators },
    policy,
    integrations: { hashing, secrets },
  } = http

  /** The account of a session, whose password was right a moment ago. */
  async function byPassword({ id }: Operator, password: string): Promise<OperatorRow> {
    hashing.requireCapacity()
    const operator = await operators.find(id)
    if (!operator) throw fail("operator_session_ended")
    if (!(await judging.isRight([failureKey.inSession(id)], password, operator))) throw fail("wrong_operator_password")
    return operator
  }

  return {
    async changeOperatorPassword({ body: { current_password, new_password }, operator, trail }) {
      const { id, password_hash: former } = await byPassword(operator, current_password)
      const password_hash = await hashing.hash(new_password)
      const ended = await operators.changePassword({ id, former, password_hash, kept: operator.session })
      if (ended === undefined) throw fail("wrong_operator_password")
      trail.result = { sessions_ended: ended }
      return success
    },

    async getOperatorSecurity({ operator: { id } }) {
      const operator = await operators.find(id)
      if (!operator) throw fail("operator_session_ended")
      return {
        admin_id: id,
        username: operator.name,
        email: null,
        created_at: operator.created_at,
        last_login: operator.last_login,
        otp_required: policy.admin_ui_require_otp,
        otp_enabled: operator.totp_secret !== null,
        must_setup_otp: operator.must_setup_otp,
        backup_codes_remaining: operator.backup_codes.length,
      }
    },

    async beginOperatorOtp({ body: { current_password }, operator }) {
      const begun = await beginSetup(http, await byPassword(operator, current_password), "OTP setup started")
      if (!begun) throw fail("wrong_operator_password")
      return begun
    },

    async disableOperatorOtp({ body: { current_password, code }, operator }) {
      const known = await byPassword(operator, current_password)
      if (known.totp_secret === null) throw fail("operator_otp_not_enabled")
      const factor = judging.factorOf(known, code)
      if (!factor || !(await operators.disableOtp(known.id, factor))) {
        await judging.countFailure([failureKey.inSession(known.id)])
        throw fail("wrong_operator_code")
      }
      return success
    },

    async renewOperatorBackupCodes({ body: { current_password }, operator }) {
      const { id } = await byPassword(operator, current_password)
      const { shown, digests } = newCodes(secrets, id)
      if (!(await operators.renewBackupCodes(id, digests))) throw fail("operator_otp_required")
      return { success: true, backup_codes: shown }
    },
  }
}
