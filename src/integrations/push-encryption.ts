import {
  createCipheriv,
  createECDH,
  createPrivateKey,
  type ECDH,
  generateKeyPairSync,
  hkdfSync,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto"

/** What a browser's subscription says of itself, in base64url. */
export interface BrowserKeys {
  readonly p256dh: string
  readonly auth: string
}

const curve = "prime256v1"
const saltBytes = 16
const authBytes = 16
const pointBytes = 65
/** Of a record of RFC 8188; what is pushed fits into one. */
const recordBytes = 4096
const tagBytes = 16
/** Bytes of text that one push takes: record size, less tag and padding delimiter. */
export const maxPushBytes = recordBytes - tagBytes - 1

const bytesOf = (text: string) => Buffer.from(text, "base64url")

/** Whether a message can be encrypted for these keys: the public one is a point of the curve. */
export function areBrowserKeys({ p256dh, auth }: BrowserKeys): boolean {
  const point = bytesOf(p256dh)
  if (point.length !== pointBytes || point[0] !== 4 || bytesOf(auth).length !== authBytes) return false
  try {
    fresh().computeSecret(point)
    return true
  } catch {
    return false
  }
}

function fresh(): ECDH {
  const pair = createECDH(curve)
  pair.generateKeys()
  return pair
}

const derive = (secret: Uint8Array, salt: Uint8Array, info: Uint8Array | string, bytes: number) =>
  Buffer.from(hkdfSync("sha256", secret, salt, info, bytes))

/**
 * Encrypts for one browser, as RFC 8291 says, with the content encoding `aes128gcm` of RFC 8188.
 * `pair` and `salt` are new for each message; a test has those of the RFC.
 */
export function encryptPush(
  text: string,
  keys: BrowserKeys,
  pair: ECDH = fresh(),
  salt: Uint8Array = randomBytes(saltBytes),
): Buffer {
  const plain = Buffer.from(text)
  if (plain.length > maxPushBytes) throw new Error("a push is too long")
  const browser = bytesOf(keys.p256dh)
  const own = pair.getPublicKey()
  const about = Buffer.concat([Buffer.from("WebPush: info\0"), browser, own])
  const secret = derive(pair.computeSecret(browser), bytesOf(keys.auth), about, 32)
  const key = derive(secret, salt, "Content-Encoding: aes128gcm\0", 16)
  const nonce = derive(secret, salt, "Content-Encoding: nonce\0", 12)
  const cipher = createCipheriv("aes-128-gcm", key, nonce)
  // 2: the last record, without padding.
  const sealed = Buffer.concat([cipher.update(plain), cipher.update(Buffer.of(2)), cipher.final(), cipher.getAuthTag()])
  const header = Buffer.alloc(saltBytes + 5)
  header.set(salt)
  header.writeUInt32BE(recordBytes, saltBytes)
  header.writeUInt8(own.length, saltBytes + 4)
  return Buffer.concat([header, own, sealed])
}

/** A pair of VAPID keys (RFC 8292): the public one as a point in base64url, the private one as JSON Web Key. */
export function newVapidKeys(): { publicKey: string; privateKey: string } {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: curve })
  const { x, y, ...rest } = privateKey.export({ format: "jwk" })
  const point = Buffer.concat([Buffer.of(4), bytesOf(x!), bytesOf(y!)])
  return { publicKey: point.toString("base64url"), privateKey: JSON.stringify({ x, y, ...rest }) }
}

export const vapidKey = (privateKey: string): KeyObject =>
  createPrivateKey({ key: JSON.parse(privateKey) as JsonWebKey, format: "jwk" })

/** The header `Authorization` of RFC 8292. `expires`: Unix seconds, at most a day from now. */
export function vapidHeader(
  { audience, subject, expires }: { readonly audience: string; readonly subject: string; readonly expires: number },
  keys: { readonly publicKey: string; readonly key: KeyObject },
): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const claims = `${part({ typ: "JWT", alg: "ES256" })}.${part({ aud: audience, exp: expires, sub: subject })}`
  const signature = sign("sha256", Buffer.from(claims), { key: keys.key, dsaEncoding: "ieee-p1363" })
  return `vapid t=${claims}.${signature.toString("base64url")}, k=${keys.publicKey}`
}
