import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify, type ECDH } from "node:crypto"
import { createServer, type IncomingHttpHeaders, type Server } from "node:http"
import type { AddressInfo } from "node:net"

/** What a browser may say of itself. The address is a public one, and nothing is sent there. */
export const pushedTo = {
  endpoint: "https://1.1.1.1/nobody",
  keys: {
    p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth: "BTBZMqHH6r4Tts7J_aSIgg",
  },
}

export interface Pushed {
  /** The path of the endpoint. */
  readonly to: string
  readonly headers: IncomingHttpHeaders
  /** As the browser reads it. */
  readonly note: Record<string, unknown>
  /** What the signature says. */
  readonly claims: { readonly aud: string; readonly exp: number; readonly sub: string }
}

/**
 * A push service on this machine, with the browsers behind it: what comes is decrypted as RFC 8291
 * tells receivers, and its signature is checked as RFC 8292 tells push services.
 */
export class PushService {
  readonly #server: Server
  readonly #browsers = new Map<string, { readonly pair: ECDH; readonly auth: Buffer }>()
  readonly got: Pushed[] = []
  readonly problems: string[] = []
  /** Paths of requests that are never answered, and how many of those were open at once. */
  readonly silent = new Set<string>()
  maxSilent = 0
  #silentNow = 0
  /** Statuses that the next requests are answered with, by path; then 201. */
  readonly answers = new Map<string, { status: number; headers?: Record<string, string> }[]>()
  #publicKey = ""

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const to = request.url!
        try {
          this.got.push(this.#read(to, request.headers, Buffer.concat(chunks)))
        } catch (error) {
          this.problems.push(String(error))
        }
        if (this.silent.has(to)) {
          this.maxSilent = Math.max(this.maxSilent, ++this.#silentNow)
          response.on("close", () => this.#silentNow--)
          return
        }
        const { status, headers = {} } = this.answers.get(to)?.shift() ?? { status: 201 }
        response.writeHead(status, headers).end()
      })
    })
  }

  async start(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, "127.0.0.1", resolve))
    return this
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** A browser subscribes with the server's key. */
  browser(name: string, publicKey: string) {
    this.#publicKey = publicKey
    const pair = createECDH("prime256v1")
    const known = { pair, auth: randomBytes(16) }
    pair.generateKeys()
    this.#browsers.set(`/${name}`, known)
    return {
      endpoint: `${this.origin}/${name}`,
      keys: { p256dh: pair.getPublicKey("base64url"), auth: known.auth.toString("base64url") },
    }
  }

  /** Notes that came to a browser. */
  notesOf = (name: string) => this.got.filter(({ to }) => to === `/${name}`).map(({ note }) => note)

  #read(to: string, headers: IncomingHttpHeaders, body: Buffer): Pushed {
    const browser = this.#browsers.get(to)
    if (!browser) throw new Error(`nobody subscribed with ${to}`)
    if (headers["content-encoding"] !== "aes128gcm") throw new Error("another encoding")
    return {
      to,
      headers,
      claims: this.#claims(headers.authorization ?? ""),
      note: JSON.parse(decrypted(body, browser)),
    }
  }

  #claims(authorization: string): Pushed["claims"] {
    const [, token, k] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(authorization) ?? []
    if (token === undefined || k !== this.#publicKey) throw new Error("not signed by the server that was subscribed to")
    const point = Buffer.from(k, "base64url")
    const [x, y] = [point.subarray(1, 33), point.subarray(33)].map(part => part.toString("base64url"))
    const key = createPublicKey({ key: { kty: "EC", crv: "P-256", x: x!, y: y! }, format: "jwk" })
    const [header, claims, signature] = token.split(".")
    const isGood = verify(
      "sha256",
      Buffer.from(`${header}.${claims}`),
      { key, dsaEncoding: "ieee-p1363" },
      Buffer.from(signature!, "base64url"),
    )
    if (!isGood) throw new Error("the signature is wrong")
    return JSON.parse(Buffer.from(claims!, "base64url").toString())
  }
}

function decrypted(body: Buffer, { pair, auth }: { pair: ECDH; auth: Buffer }): string {
  const salt = body.subarray(0, 16)
  const keyLength = body.readUInt8(20)
  const sender = body.subarray(21, 21 + keyLength)
  const sealed = body.subarray(21 + keyLength)
  const bytes = (secret: Buffer, with_: Buffer, info: Buffer, count: number) =>
    Buffer.from(hkdfSync("sha256", secret, with_, info, count))
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), pair.getPublicKey(), sender])
  const secret = bytes(pair.computeSecret(sender), auth, info, 32)
  const key = bytes(secret, salt, Buffer.from("Content-Encoding: aes128gcm\0"), 16)
  const nonce = bytes(secret, salt, Buffer.from("Content-Encoding: nonce\0"), 12)
  const decipher = createDecipheriv("aes-128-gcm", key, nonce).setAuthTag(sealed.subarray(-16))
  const plain = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
  const end = plain.lastIndexOf(2)
  return plain.subarray(0, end).toString()
}
