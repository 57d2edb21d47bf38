import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from "node:crypto"
import type {
  PasskeyAssertion,
  PasskeyAttestation,
  PasskeyCreation,
  PasskeyRequest,
} from "../../src/contract/accounts/passkeys.ts"
import type { Starling } from "./person.ts"

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest()
const flags = { present: 0x01, verified: 0x04, mayBeBackedUp: 0x08, isBackedUp: 0x10, attested: 0x40 }

/** What is wrong with what it says. */
export interface Flaws {
  readonly origin?: string
  readonly rpId?: string
  readonly challenge?: string
  readonly type?: string
  readonly isUnverified?: boolean
  /** Signs something else. */
  readonly isForged?: boolean
  /** Says by whom it was made: the format, and where the certificate says that it may have been taken back. */
  readonly made?: { readonly format: "apple" | "packed"; readonly listAt: number }
}

/** Of "Key", by itself, to be looked up at `http://127.0.0.1:00000/`. */
const certificate =
  "MIIBljCCAT2gAwIBAgIUCNXh63CWTNmCddNt-PosupSvajkwCgYIKoZIzj0EAwIwDjEMMAoGA1UEAwwDS2V5MCAXDTI2MTEyNzIwNTMzNloYDzIxMjYxMTAzMjA1MzM2WjAOMQwwCgYDVQQDDANLZXkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATLH_wEewY_42Xa48zFOYSUvZesoEiF7BoCnler8o7qwF6rXqBIhQYI3EkFGoLvHDxcMlri2nqNTNzr5yLf-0Nio3cwdTAdBgNVHQ4EFgQU22jGESEsAfLWpNtmgL9LscIaErcwHwYDVR0jBBgwFoAU22jGESEsAfLWpNtmgL9LscIaErcwKAYDVR0fBCEwHzAdoBugGYYXaHR0cDovLzEyNy4wLjAuMTowMDAwMC8wCQYDVR0TBAIwADAKBggqhkjOPQQDAgNHADBEAiA61W6FGiu9LKK6VIGCGmcdCD9FEgWQsF_pLvjB928dGwIgUyXVQ3_FvpO06S87LBhehKo9NvWmTo3W0xVCyghwIB4"

/** In CBOR: the name of the format, and `attStmt` with what it says. */
function statementOf(made: Flaws["made"]): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.from([0x60 + value.length]), Buffer.from(value)])
  if (!made) return Buffer.concat([text("none"), text("attStmt"), Buffer.from("a0", "hex")])
  const bytes = Buffer.from(certificate, "base64url")
  bytes.write(String(made.listAt).padStart(5, "0"), bytes.indexOf(":00000/") + 1)
  const size = Buffer.alloc(2)
  size.writeUInt16BE(bytes.length)
  // {"alg": -7, "sig": h'00', "x5c": [certificate]}
  const said = [
    Buffer.from("a3", "hex"),
    text("alg"),
    Buffer.from("26", "hex"),
    text("sig"),
    Buffer.from("4100", "hex"),
  ]
  const chain = [text("x5c"), Buffer.from("8159", "hex"), size, bytes]
  return Buffer.concat([text(made.format), text("attStmt"), ...said, ...chain])
}

/** An authenticator with one passkey, as WebAuthn describes them: ES256, no attestation. */
export class Authenticator {
  readonly #privateKey: KeyObject
  readonly #cose: Buffer
  readonly #id = randomBytes(32)
  /** 0: it does not count, as those that are kept in an account. */
  counter: number
  readonly #origin: string
  user: string | undefined

  constructor({ counter = 0, origin = "http://localhost:8000" } = {}) {
    this.counter = counter
    this.#origin = origin
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
    this.#privateKey = privateKey
    const { x, y } = publicKey.export({ format: "jwk" })
    const [first, second] = [x!, y!].map(text => Buffer.from(text, "base64url")) as [Buffer, Buffer]
    // {1: EC2, 3: ES256, -1: P-256, -2: x, -3: y}
    this.#cose = Buffer.concat([
      Buffer.from("a5010203262001215820", "hex"),
      first,
      Buffer.from("225820", "hex"),
      second,
    ])
  }

  get id(): string {
    return this.#id.toString("base64url")
  }

  create({ challenge, rp, user }: PasskeyCreation, flaws: Flaws = {}): PasskeyAttestation {
    this.user = user.id
    const length = Buffer.alloc(2)
    length.writeUInt16BE(this.#id.length)
    const attested = Buffer.concat([Buffer.alloc(16), length, this.#id, this.#cose])
    const data = this.#data(flaws.rpId ?? rp.id, flags.attested, flaws, attested)
    const size = Buffer.alloc(2)
    size.writeUInt16BE(data.length)
    const attestation = Buffer.concat([
      Buffer.from("a363666d74", "hex"), // fmt
      statementOf(flaws.made),
      Buffer.from("686175746844617461", "hex"), // authData
      Buffer.from("59", "hex"),
      size,
      data,
    ])
    return {
      ...this.#named(),
      response: {
        clientDataJSON: this.#client("webauthn.create", challenge, flaws).toString("base64url"),
        attestationObject: attestation.toString("base64url"),
        transports: ["internal"],
      },
    }
  }

  sign({ challenge, rpId }: PasskeyRequest, flaws: Flaws = {}): PasskeyAssertion {
    if (this.counter > 0) this.counter++
    const data = this.#data(flaws.rpId ?? rpId, 0, flaws)
    const client = this.#client("webauthn.get", challenge, flaws)
    const text = Buffer.concat([data, sha256(flaws.isForged ? "something else" : client)])
    return {
      ...this.#named(),
      response: {
        clientDataJSON: client.toString("base64url"),
        authenticatorData: data.toString("base64url"),
        signature: sign("sha256", text, this.#privateKey).toString("base64url"),
        userHandle: this.user,
      },
    }
  }

  #named() {
    return { id: this.id, rawId: this.id, type: "public-key" as const }
  }

  #client(type: string, challenge: string, flaws: Flaws): Buffer {
    const said = {
      type: flaws.type ?? type,
      challenge: flaws.challenge ?? challenge,
      origin: flaws.origin ?? this.#origin,
    }
    return Buffer.from(JSON.stringify({ ...said, crossOrigin: false }))
  }

  #data(rpId: string, more: number, { isUnverified }: Flaws, rest = Buffer.alloc(0)): Buffer {
    const backup = this.counter === 0 ? flags.mayBeBackedUp | flags.isBackedUp : 0
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(this.counter)
    const byte = flags.present | (isUnverified ? 0 : flags.verified) | backup | more
    return Buffer.concat([sha256(rpId), Buffer.from([byte]), counter, rest])
  }
}

/** Gives somebody who is signed in a passkey. */
export async function givePasskey(
  rest: Starling,
  { password, code }: { password?: string; code?: string },
  authenticator = new Authenticator(),
  name = "Key",
) {
  const options = await rest.preparePasskey({
    ...(password !== undefined && { password }),
    ...(code !== undefined && { code }),
  })
  return { authenticator, ...(await rest.addPasskey({ name, passkey: authenticator.create(options) })) }
}
