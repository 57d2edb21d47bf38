import type {
  PasskeyAssertion,
  PasskeyAttestation,
  PasskeyCreationOptions,
  PasskeyRequestOptions,
} from "../../client/contract.ts"
import { t } from "../kit/text.ts"

/** Whether this browser can have passkeys here: it needs https, or this machine. */
export const hasPasskeys =
  typeof PublicKeyCredential === "function" && "parseRequestOptionsFromJSON" in PublicKeyCredential

/** What the browser gives; it says nothing that a person could use when they turn it down. */
async function given<Json>(asked: Promise<Credential | null>): Promise<Json> {
  const credential = await asked.catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "InvalidStateError")
      throw new Error(t("This passkey is in your account already."))
    throw new Error(t("No passkey was used."))
  })
  if (!(credential instanceof PublicKeyCredential)) throw new Error(t("No passkey was used."))
  return credential.toJSON() as Json
}

export function newPasskey(options: PasskeyCreationOptions): Promise<PasskeyAttestation> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  return given(navigator.credentials.create({ publicKey }))
}

export function signedWithPasskey(options: PasskeyRequestOptions): Promise<PasskeyAssertion> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  return given(navigator.credentials.get({ publicKey }))
}
