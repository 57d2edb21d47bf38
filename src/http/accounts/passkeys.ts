import { userActor } from "../../actors/user.ts"
import type { PasskeyVerdict } from "../../actors/accounts/passkeys.ts"
import type { PasskeyChallenges } from "../../cluster/passkey-challenges.ts"
import { limits, type PasskeyAssertion, type routes } from "../../contract/accounts/passkeys.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { PasskeyUse } from "../../domain/accounts/passkeys.ts"
import { challengeIn, type Passkeys } from "../../integrations/passkeys.ts"
import { passkeyObject, type PasskeyRow } from "../../storage/accounts/passkeys.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy, Uses } from "../shared/http.ts"
import { createChallengeReading } from "./challenges.ts"
import { createIdentityProof } from "./identity-proof.ts"
import { createMappedRoles, type MappedRolesNeeds } from "./mapped-roles.ts"
import { createSignIn, own, signedIn, type SignInNeeds } from "./sign-in.ts"

type PasskeyNeeds = SignInNeeds &
  MappedRolesNeeds &
  Http<"passkeys" | "oneTimeTokens"> &
  Policy<{ readonly passkey_login_enabled: boolean }> &
  Uses<PasskeyUses>

export interface PasskeyUses {
  /** Undefined: the address of this server can have none. */
  readonly passkeys: Passkeys | undefined
  readonly passkeyChallenges: PasskeyChallenges
}

const signingIn = "sign in"

export function passkeys(http: PasskeyNeeds): Handlers<typeof routes> {
  const { ask, storage, policy, log } = http
  const { passkeys: offered, passkeyChallenges: challenges } = http.integrations
  const signIn = createSignIn(http)
  const requireIdentity = createIdentityProof(http)
  const waiting = createChallengeReading(http)
  const withMappedRoles = createMappedRoles(http)
  const required = (): Passkeys => {
    if (!offered) throw fail("passkeys_disabled")
    return offered
  }
  const requiredAlone = (): Passkeys => {
    if (!policy.passkey_login_enabled) throw fail("passkeys_disabled")
    return required()
  }

  /** What a passkey has signed for a purpose; everything that is wrong with it is one refusal. */
  async function signed(
    passkey: PasskeyAssertion,
    purpose: string,
    isAlone: boolean,
  ): Promise<[PasskeyRow, PasskeyUse]> {
    const challenge = challengeIn(passkey)
    // PASS3: used up by whatever comes with it.
    if (challenge === undefined || !(await challenges.take(challenge, purpose))) throw fail("passkey_refused")
    const known = await storage.passkeys.find(passkey.id)
    if (!known) throw fail("passkey_refused")
    const use = await required().asserted(challenge, passkey, known, isAlone)
    if (!use) throw fail("passkey_refused")
    return [known, use]
  }

  function sessionOf(verdict: PasskeyVerdict, { id, user_id, counter }: PasskeyRow, use: PasskeyUse): string {
    if (verdict.outcome === "right") return verdict.session_id
    // PASS1: nobody but an operator and the user can find out which of the two is the copy.
    if (verdict.outcome === "copied")
      log.warn({ user: user_id, passkey: id, counter: use.counter, known: counter }, "passkey refused as a copy")
    throw fail("passkey_refused")
  }

  return {
    async beginPasskeySignIn() {
      const offer = requiredAlone()
      return offer.request(await challenges.issue(signingIn), [], "required")
    },

    async completePasskeySignIn(call) {
      requiredAlone()
      const [known, use] = await signed(call.body, signingIn, true)
      const user = await storage.users.find(known.user_id)
      if (!user) throw fail("passkey_refused")
      const { secret, session } = await signIn.oneMoreSession(call, user.id)
      const verdict = await ask(userActor, user.id, { type: "signInWithPasskey", use, session })
      const session_id = sessionOf(verdict, known, use)
      // As after a sign-in through a provider: nothing was guessed.
      await signIn.clearFailures(user, false)
      return signedIn(user, `${session_id}.${secret}`)
    },

    async beginPasskeyFactor({ body: { challenge_token } }) {
      const offer = required()
      const { token, user } = await waiting(challenge_token)
      const known = await storage.passkeys.ofUser(user.id)
      return offer.request(await challenges.issue(`answer ${token.id}`), known, "preferred")
    },

    async completePasskeyFactor(call) {
      required()
      const { token, user, groups } = await waiting(call.body.challenge_token)
      const [known, use] = await signed(call.body.passkey, `answer ${token.id}`, false)
      if (known.user_id !== user.id) throw fail("passkey_refused")
      const { secret, session } = await signIn.oneMoreSession(call, user.id)
      // Counted like a code while it is tried: a lock holds here, too.
      const verdict = await signIn.tryCode(
        user,
        () => ask(userActor, user.id, { type: "answerByPasskey", token, use, session }),
        () => false,
      )
      if (verdict.outcome === "used") throw fail("used_challenge")
      const session_id = sessionOf(verdict, known, use)
      await withMappedRoles(user, session_id, groups)
      await signIn.clearFailures(user)
      return signedIn(user, `${session_id}.${secret}`)
    },

    listPasskeys: async ({ caller }) => (await storage.passkeys.ofUser(caller.user_id)).map(passkeyObject),

    async preparePasskey({ caller, body }) {
      const offer = required()
      const known = await storage.passkeys.ofUser(caller.user_id)
      if (known.length >= limits.passkeysPerUser) throw fail("passkey_limit")
      await requireIdentity(caller, body, async shown => {
        const { confirmed } = await ask(userActor, caller.user_id, { type: "confirmIdentity", ...shown })
        return confirmed
      })
      const user = await own(http, caller.user_id)
      return offer.creation(await challenges.issue(`add ${caller.session_id}`), user, known)
    },

    async addPasskey({ caller, body: { name, passkey } }) {
      const offer = required()
      const challenge = challengeIn(passkey)
      if (challenge === undefined || !(await challenges.take(challenge, `add ${caller.session_id}`)))
        throw fail("passkey_unverified")
      const made = await offer.attested(challenge, passkey)
      if (!made) throw fail("passkey_unverified")
      return ask(userActor, caller.user_id, { type: "addPasskey", ...made, name, session_id: caller.session_id })
    },

    renamePasskey: ({ caller, params: { passkey_id }, body: { name } }) =>
      ask(userActor, caller.user_id, { type: "renamePasskey", passkey_id, name }),

    async removePasskey({ caller, params: { passkey_id }, body }) {
      await requireIdentity(caller, body, async shown => {
        const { confirmed } = await ask(userActor, caller.user_id, { type: "removePasskey", passkey_id, ...shown })
        return confirmed
      })
      return success
    },
  }
}
