import { userActor } from "../actors/user.ts"
import { hashSecret, keptUserAgent, newSecret } from "../cluster/tokens.ts"
import type { LoginReply, routes } from "../contract/auth.ts"
import { fail } from "../contract/errors.ts"
import { success } from "../contract/fields.ts"
import { newAccount } from "../domain/accounts.ts"
import { ageRefusal, dayOf } from "../domain/birth-dates.ts"
import { isEmailAddress } from "../domain/email-addresses.ts"
import { passwordFaults } from "../domain/passwords.ts"
import { isReserved, isUsername } from "../domain/usernames.ts"
import { privateUser, type UserRow } from "../storage/users.ts"
import type { Call, Handlers, Http } from "./handlers.ts"

const failuresAllowed = 5
const lockSeconds = 15 * 60

export function auth({ ask, create, storage, hashing, policy, clock, hasDocs }: Http): Handlers<typeof routes> {
  const seconds = () => Math.floor(clock() / 1000)

  /** A session to be, and the part of its token that nobody else knows. */
  function newSession({ address, userAgent }: Pick<Call, "address" | "userAgent">) {
    const secret = newSecret()
    const session = {
      token_hash: hashSecret(secret),
      ip_address: address,
      user_agent: keptUserAgent(userAgent),
      expires_at: seconds() + policy.session_lifetime_hours * 3600,
      sessionsPerUser: policy.sessions_per_user,
    }
    return { secret, session }
  }

  const isLocked = async (names: readonly string[]) => {
    const until = await Promise.all(names.map(name => storage.sessions.lockedUntil(name)))
    return until.some(time => time > seconds())
  }

  return {
    async register(call) {
      const { username, email, password, ...age } = call.body
      if (!isUsername(username)) throw fail("invalid_username")
      if (isReserved(username, policy.reserved_usernames)) throw fail("reserved_username")
      if (!isEmailAddress(email)) throw fail("invalid_email")
      const faults = passwordFaults(password, policy)
      if (faults.length > 0) throw fail("weak_password", { message: `Weak password: it needs ${faults.join(", ")}` })
      const refusal = ageRefusal(age, policy, dayOf(clock()))
      if (refusal) throw fail(refusal)
      // Spares the hash; what decides is the database's unique index.
      if (await storage.users.exists(username, email)) throw fail("user_exists")

      const { secret, session } = newSession(call)
      const account = newAccount({
        username,
        email,
        password_hash: await hashing.hash(password),
        created_at: seconds(),
        age_verified: policy.age_gate_enabled,
        ...(policy.alpha_registration && { tier: "alpha", badges: ["alpha_tester"] }),
      })
      const { user, session_id } = await create(userActor, { type: "register", user: account, session })
      return signedIn(user, session_id, secret)
    },

    async login(call) {
      const name = (call.body.username ?? call.body.email)!
      const user = await storage.users.findByLogin(name)
      // Whoever spells a known name differently meets the same lock; an unknown name locks just so.
      const names = [...new Set([name, ...(user ? [user.username] : [])].map(spelling => spelling.toLowerCase()))]
      if (await isLocked(names)) throw fail("account_locked")

      const { secret, session } = newSession(call)
      const matches = await hashing.verify(call.body.password, user?.password_hash)
      if (!user || !matches) {
        const now = seconds()
        await Promise.all(names.map(name => storage.sessions.countFailure(name, now, failuresAllowed, lockSeconds)))
        throw fail("invalid_credentials")
      }
      // Guesses sent at the same time must not outrun the count.
      if (await isLocked(names)) throw fail("account_locked")
      await storage.sessions.clearFailures(names)
      const { session_id } = await ask(userActor, user.id, { type: "startSession", session })
      return signedIn(user, session_id, secret)
    },

    async logout({ caller: { user_id, session_id } }) {
      await ask(userActor, user_id, { type: "endSession", session_id })
      return success
    },

    getPasswordRequirements: () => ({
      min_length: policy.password_min_length,
      max_length: policy.password_max_length,
      require_uppercase: policy.password_require_uppercase,
      require_lowercase: policy.password_require_lowercase,
      require_digit: policy.password_require_digit,
      require_special: policy.password_require_special,
      age_gate_enabled: policy.age_gate_enabled,
      age_verification_type: policy.age_verification_type,
      minimum_age: policy.minimum_age,
      docs_enabled: hasDocs,
    }),
  }
}

const signedIn = (user: UserRow, session: string, secret: string): LoginReply => ({
  status: "success",
  token: `${session}.${secret}`,
  user: privateUser(user),
  challenge_token: null,
  methods: null,
  expires_in: null,
})
