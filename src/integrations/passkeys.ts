import type {
  PasskeyAssertion,
  PasskeyAttestation,
  PasskeyCreation,
  PasskeyRequest,
} from "../contract/accounts/passkeys.ts"
import type { PasskeyPlace, PasskeyState, PasskeyUse } from "../domain/accounts/passkeys.ts"

/** Milliseconds that a browser waits for a person. */
const timeoutMs = 300_000
/** COSE: EdDSA, ES256 and RS256, which all authenticators know one of. */
const algorithms = [-8, -7, -257]

/** Some 25 MB and 0.3 s that only workers pay which have something to check. */
const library = () => import("@simplewebauthn/server")

/**
 * We ask for no attestation; who sends one with certificates nevertheless has the library fetch what
 * they name, whatever that is, before it has checked anything (FETCH1).
 */
async function isWithoutCertificates(attestationObject: string): Promise<boolean> {
  const { decodeAttestationObject, isoBase64URL } = await import("@simplewebauthn/server/helpers")
  const given = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject))
  const format = given.get("fmt")
  return format === "none" || (format === "packed" && given.get("attStmt").get("x5c") === undefined)
}

type Known = Pick<PasskeyState, "credential_id" | "transports">
type Verification = PasskeyRequest["userVerification"]

export type Passkeys = ReturnType<typeof createPasskeys>

/** Passkeys of this server as WebAuthn describes them. What it checks is no secret. */
export function createPasskeys({ rpId, origins }: PasskeyPlace, rpName: string) {
  const expected = { expectedOrigin: [...origins], expectedRPID: rpId }
  const described = (known: readonly Known[]) =>
    known.map(({ credential_id, transports }) => ({
      id: credential_id,
      type: "public-key" as const,
      transports: [...transports],
    }))

  return {
    creation: (
      challenge: string,
      user: { id: string; username: string },
      known: readonly Known[],
    ): PasskeyCreation => ({
      challenge,
      rp: { id: rpId, name: rpName },
      user: { id: Buffer.from(user.id).toString("base64url"), name: user.username, displayName: user.username },
      pubKeyCredParams: algorithms.map(alg => ({ type: "public-key", alg })),
      timeout: timeoutMs,
      attestation: "none",
      excludeCredentials: described(known),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
    }),

    request: (challenge: string, known: readonly Known[], userVerification: Verification): PasskeyRequest => ({
      challenge,
      rpId,
      timeout: timeoutMs,
      userVerification,
      allowCredentials: described(known),
    }),

    /** The new passkey; undefined: it is none of this server, or its authenticator did not verify who made it. */
    async attested(
      challenge: string,
      { response, ...credential }: PasskeyAttestation,
    ): Promise<Pick<PasskeyState, "credential_id" | "public_key" | "counter" | "transports" | "synced"> | undefined> {
      const { verifyRegistrationResponse } = await library()
      const { transports = [], ...signed } = response
      try {
        if (!(await isWithoutCertificates(response.attestationObject))) return undefined
        const { verified, registrationInfo } = await verifyRegistrationResponse({
          ...expected,
          expectedChallenge: challenge,
          response: { ...credential, response: signed, clientExtensionResults: {} },
          requireUserVerification: true,
          supportedAlgorithmIDs: algorithms,
        })
        if (!verified) return undefined
        const { credential: made, credentialBackedUp: synced } = registrationInfo
        const public_key = Buffer.from(made.publicKey).toString("base64url")
        return { credential_id: made.id, public_key, counter: made.counter, transports, synced }
      } catch {
        // It throws for everything that does not fit.
        return undefined
      }
    },

    /** What a signature says; undefined: it is not right. The counter is judged by the turn. */
    async asserted(
      challenge: string,
      { response, ...credential }: PasskeyAssertion,
      known: Pick<PasskeyState, "credential_id" | "public_key">,
      isVerified: boolean,
    ): Promise<PasskeyUse | undefined> {
      const { verifyAuthenticationResponse } = await library()
      const { userHandle, ...signed } = response
      try {
        const { verified, authenticationInfo } = await verifyAuthenticationResponse({
          ...expected,
          expectedChallenge: challenge,
          response: {
            ...credential,
            response: { ...signed, ...(userHandle !== undefined && { userHandle }) },
            clientExtensionResults: {},
          },
          credential: { id: known.credential_id, publicKey: Buffer.from(known.public_key, "base64url"), counter: 0 },
          requireUserVerification: isVerified,
        })
        if (!verified) return undefined
        const { newCounter: counter, credentialBackedUp: synced } = authenticationInfo
        return { credential_id: known.credential_id, counter, synced }
      } catch {
        return undefined
      }
    },
  }
}

/** The challenge that an authenticator says it has signed. */
export function challengeIn({
  response,
}: {
  readonly response: { readonly clientDataJSON: string }
}): string | undefined {
  try {
    const data = JSON.parse(Buffer.from(response.clientDataJSON, "base64url").toString()) as unknown
    const { challenge } = data as { challenge?: unknown }
    return typeof challenge === "string" && /^[\w-]{43}$/.test(challenge) ? challenge : undefined
  } catch {
    return undefined
  }
}
