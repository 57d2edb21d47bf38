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

/** A browser asks for one at a time: what is suggested makes way for what was asked for, and waits for its end. */
let asked: Promise<unknown> = Promise.resolve()
let makeWay = new AbortController()

export function signedWithPasskey(options: PasskeyRequestOptions): Promise<PasskeyAssertion> {
  makeWay.abort()
  makeWay = new AbortController()
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const answer = given<PasskeyAssertion>(navigator.credentials.get({ publicKey }))
  asked = answer.catch(() => {})
  return answer
}

/** Whether this browser suggests passkeys where one writes a name. */
const suggests = async (): Promise<boolean> =>
  hasPasskeys && (await PublicKeyCredential.isConditionalMediationAvailable())

/** Who has chosen so many that are not good writes their name. */
const maxRefused = 5
/** So long before a challenge ends there is a new one. */
const renewedMs = 30_000

/**
 * Passkeys among what the browser suggests at a field for the name, until one is good or `signal`
 * ends it. Nothing is said of one that the person turns down.
 */
export async function suggestPasskeys(
  begin: () => Promise<PasskeyRequestOptions>,
  use: (passkey: PasskeyAssertion) => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  if (!(await suggests())) return
  for (let refused = 0; refused < maxRefused;) {
    await Promise.all([asked, isSeen()])
    if (signal.aborted) return
    // What is asked for while a challenge comes is made way for as well.
    const { signal: displaced } = makeWay
    const options = await begin()
    const over = AbortSignal.any([AbortSignal.timeout(Math.max(renewedMs, options.timeout - renewedMs)), displaced])
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
    const request = { publicKey, mediation: "conditional", signal: AbortSignal.any([signal, over]) } as const
    const credential = await navigator.credentials.get(request).catch(() => undefined)
    if (credential instanceof PublicKeyCredential) {
      if (await use(credential.toJSON() as PasskeyAssertion)) return
      refused++
    } else if (!over.aborted) return
  }
}

/** Nobody needs a new challenge on a page that nobody looks at. */
const isSeen = () =>
  new Promise<void>(resolve => {
    const look = () => {
      if (document.hidden) return
      document.removeEventListener("visibilitychange", look)
      resolve()
    }
    document.addEventListener("visibilitychange", look)
    look()
  })
