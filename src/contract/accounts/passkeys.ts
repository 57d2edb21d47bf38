import { z } from "zod"
import { LoginReply } from "./auth.ts"
import { identityFailures, identityProof } from "./identity-proof.ts"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

export const limits = { passkeysPerUser: 20, passkeyNameCharacters: 64 } as const
export const limitNotes: LimitNotes<typeof limits> = {
  passkeysPerUser: refused("passkeys", "passkey_limit"),
  passkeyNameCharacters: refused("characters"),
}

const tag = "Passkeys"

const base64url = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[A-Za-z0-9_-]+$/, "must be base64url")
const credentialId = base64url(1_366).describe("1,023 bytes at most")
const publicKey = z.literal("public-key")

const Descriptor = z.object({ id: z.string(), type: publicKey, transports: z.array(z.string()) })
const verification = z.enum(["required", "preferred", "discouraged"])

/** For `navigator.credentials.create`, as `parseCreationOptionsFromJSON` takes it. */
export const PasskeyCreation = z
  .object({
    challenge: z.string().describe("Valid once, for five minutes"),
    rp: z.object({ id: z.string(), name: z.string() }),
    user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
    pubKeyCredParams: z.array(z.object({ type: publicKey, alg: z.int() })),
    timeout: z.int(),
    attestation: z.literal("none"),
    excludeCredentials: z.array(Descriptor),
    authenticatorSelection: z.object({
      residentKey: z.literal("required"),
      requireResidentKey: z.literal(true),
      userVerification: verification,
    }),
  })
  .meta({ id: "PasskeyCreationOptions" })
export type PasskeyCreation = z.infer<typeof PasskeyCreation>

/** For `navigator.credentials.get`, as `parseRequestOptionsFromJSON` takes it. */
export const PasskeyRequest = z
  .object({
    challenge: z.string().describe("Valid once, for five minutes"),
    rpId: z.string(),
    timeout: z.int(),
    userVerification: verification,
    allowCredentials: z.array(Descriptor),
  })
  .meta({ id: "PasskeyRequestOptions" })
export type PasskeyRequest = z.infer<typeof PasskeyRequest>

/** What `toJSON()` of the credential gives; what else is in it is not looked at. */
export const PasskeyAttestation = z
  .object({
    id: credentialId,
    rawId: credentialId,
    type: publicKey,
    response: z.object({
      clientDataJSON: base64url(8_192),
      attestationObject: base64url(32_768),
      transports: omittable(z.array(z.string().max(32)).max(10)),
    }),
  })
  .meta({ id: "PasskeyAttestation" })
export type PasskeyAttestation = z.output<typeof PasskeyAttestation>

export const PasskeyAssertion = z
  .object({
    id: credentialId,
    rawId: credentialId,
    type: publicKey,
    response: z.object({
      clientDataJSON: base64url(8_192),
      authenticatorData: base64url(4_096),
      signature: base64url(2_048),
      userHandle: omittable(base64url(128)),
    }),
  })
  .meta({ id: "PasskeyAssertion" })
export type PasskeyAssertion = z.output<typeof PasskeyAssertion>

const assertion = {
  id: sample.secret,
  rawId: sample.secret,
  type: "public-key" as const,
  response: { clientDataJSON: sample.secret, authenticatorData: sample.secret, signature: sample.secret },
}

export const Passkey = z
  .object({
    id: Snowflake,
    name: z.string(),
    synced: z.boolean().describe("Whether it is kept in an account of its maker, and so on several devices"),
    created_at: Seconds,
    last_used_at: Seconds.nullable(),
  })
  .meta({ id: "PasskeyResponse" })
export type Passkey = z.infer<typeof Passkey>

const name = text(1, limits.passkeyNameCharacters)
const byPasskey = z.object({ passkey_id: Snowflake })

export const beginPasskeySignIn = defineRoute({
  method: "POST",
  path: "/auth/passkeys/options",
  summary: "Start a sign-in with a passkey alone. The authenticator chooses the account",
  tag,
  auth: "public",
  reply: PasskeyRequest,
  fails: ["passkeys_disabled"],
})

export const completePasskeySignIn = defineRoute({
  method: "POST",
  path: "/auth/passkeys",
  summary: "Complete a sign-in with a passkey alone. It stands for both factors",
  tag,
  auth: "public",
  body: PasskeyAssertion,
  example: assertion,
  reply: LoginReply,
  fails: ["passkeys_disabled", "passkey_refused", "account_locked", "account_deleted"],
})

export const beginPasskeyFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa/passkey/options",
  summary: "Start to answer the challenge of a sign-in with a passkey instead of a code",
  tag,
  auth: "public",
  body: z.object({ challenge_token: z.string().max(128) }).meta({ id: "PasskeyFactorRequest" }),
  example: { challenge_token: sample.secret },
  reply: PasskeyRequest,
  fails: ["passkeys_disabled", "invalid_challenge", "used_challenge", "expired_challenge"],
})

export const completePasskeyFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa/passkey",
  summary: "Complete a sign-in with a passkey as the second factor",
  tag,
  auth: "public",
  body: z.object({ challenge_token: z.string().max(128), passkey: PasskeyAssertion }).meta({ id: "PasskeyFactor" }),
  example: { challenge_token: sample.secret, passkey: assertion },
  reply: LoginReply,
  fails: [
    "passkeys_disabled",
    "invalid_challenge",
    "used_challenge",
    "expired_challenge",
    "passkey_refused",
    "account_locked",
  ],
})

export const listPasskeys = defineRoute({
  method: "GET",
  path: "/users/@me/passkeys",
  summary: "List the caller's passkeys, oldest first",
  tag,
  auth: "person",
  reply: z.array(Passkey),
  fails: [],
})

export const preparePasskey = defineRoute({
  method: "POST",
  path: "/users/@me/passkeys/options",
  summary: "Start to add a passkey. It must be completed within five minutes, in the same session",
  tag,
  auth: "person",
  body: z.object(identityProof).meta({ id: "PasskeyPreparation" }),
  example: { password: sample.password },
  reply: PasskeyCreation,
  fails: [...identityFailures, "passkeys_disabled", "passkey_limit"],
})

export const addPasskey = defineRoute({
  method: "POST",
  path: "/users/@me/passkeys",
  summary: "Add a passkey. From now on it signs the caller in, and answers for their second factor",
  tag,
  auth: "person",
  body: z.object({ name, passkey: PasskeyAttestation }).meta({ id: "PasskeyAddition" }),
  example: {
    name: "Laptop",
    passkey: {
      id: sample.secret,
      rawId: sample.secret,
      type: "public-key",
      response: { clientDataJSON: sample.secret, attestationObject: sample.secret },
    },
  },
  reply: Passkey,
  fails: ["passkeys_disabled", "passkey_unverified", "passkey_exists", "passkey_limit"],
})

export const renamePasskey = defineRoute({
  method: "PATCH",
  path: "/users/@me/passkeys/:passkey_id",
  summary: "Rename a passkey",
  tag,
  auth: "person",
  params: byPasskey,
  body: z.object({ name }).meta({ id: "PasskeyRename" }),
  example: { name: "Old laptop" },
  reply: Passkey,
  fails: ["invalid_passkey_id", "passkey_not_found"],
})

export const removePasskey = defineRoute({
  method: "DELETE",
  path: "/users/@me/passkeys/:passkey_id",
  summary: "Remove a passkey. Sessions that it has begun stay",
  tag,
  auth: "person",
  params: byPasskey,
  body: z.object(identityProof).meta({ id: "PasskeyRemoval" }),
  bodyOptional: true,
  example: { password: sample.password },
  reply: Success,
  fails: ["invalid_passkey_id", ...identityFailures, "passkey_not_found"],
})

export const routes = {
  beginPasskeySignIn,
  completePasskeySignIn,
  beginPasskeyFactor,
  completePasskeyFactor,
  listPasskeys,
  preparePasskey,
  addPasskey,
  renamePasskey,
  removePasskey,
}
