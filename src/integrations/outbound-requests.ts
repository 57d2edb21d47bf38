import { lookup, Resolver } from "node:dns/promises"
import { Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import type { LookupFunction } from "node:net"
import { callbackify } from "node:util"
import { parseAddress } from "../domain/core/client-address.ts"
import { isPublic } from "../domain/core/public-addresses.ts"
import { within } from "../std/deadline.ts"

/**
 * Requests to addresses that somebody has typed in. They keep:
 *   FETCH1  A connection is made to an address that was looked at, and to no other: a name is resolved
 *         once for each connection, and every address that it has must be a public one.
 *   FETCH2  Nothing is followed anywhere, and an answer takes no more time and memory than it may.
 */
export class OutboundRequests {
  readonly #resolve: Resolve
  readonly #mayBePrivate: boolean
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }

  constructor({ mayBePrivate, resolve = everyAddress, maxSockets = 64 }: OutboundOptions) {
    this.#resolve = resolve
    this.#mayBePrivate = mayBePrivate
    const options = { keepAlive: true, maxSockets, timeout: idleMs }
    this.#agents = { http: new HttpAgent(options), https: new HttpsAgent(options) }
  }

  /** Fails with `PrivateAddress` or as name resolution does, without any request. */
  async check(url: string): Promise<void> {
    const { hostname } = new URL(url)
    await this.#allowed(hostname)
  }

  async post(
    url: string,
    { headers, body, timeoutMs, maxAnswerBytes }: OutboundRequest,
  ): Promise<{ status: number; text: string; headers: IncomingHttpHeaders }> {
    const target = new URL(url)
    const { request: ask, ...way } = await this.#wayTo(target)
    const length = Buffer.byteLength(body)
    return new Promise((resolve, reject) => {
      const request = ask(
        target,
        { ...way, method: "POST", headers: { ...headers, "content-length": String(length) } },
        response => {
          textOf(response, maxAnswerBytes).then(
            text => {
              clearTimeout(deadline)
              resolve({ status: response.statusCode ?? 0, text, headers: response.headers })
            },
            (error: Error) => end(error),
          )
        },
      )
      const end = (error: Error) => {
        clearTimeout(deadline)
        reject(error)
        request.destroy()
      }
      const deadline = setTimeout(() => end(new LateAnswer()), timeoutMs)
      request.on("error", end)
      request.end(body)
    })
  }

  /** The bytes at an address, in pieces. Whatever is no answer of 200 and of so many bytes at most is thrown. */
  async *read(
    url: string,
    { timeoutMs, maxBytes }: { timeoutMs: number; maxBytes: number },
  ): AsyncGenerator<Buffer, void> {
    const target = new URL(url)
    if (target.protocol !== "https:" && target.protocol !== "http:")
      throw new Error(`${target.protocol} is not fetched`)
    const { request: ask, ...way } = await this.#wayTo(target)
    const late = new AbortController()
    const deadline = setTimeout(() => late.abort(new LateAnswer()), timeoutMs)
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        ask(target, { ...way, signal: late.signal }, resolve)
          .on("error", reject)
          .end()
      })
      try {
        if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode ?? 0}`)
        let size = 0
        for await (const piece of response as AsyncIterable<Buffer>) {
          size += piece.length
          if (size > maxBytes) throw new Error(`longer than ${maxBytes} bytes`)
          yield piece
        }
      } finally {
        response.destroy()
      }
    } finally {
      clearTimeout(deadline)
    }
  }

  /** What asks an address that is allowed, and looks up a name as one that has to be. */
  async #wayTo({ protocol, hostname }: URL) {
    // A name that is an address is not looked up by anybody.
    if (addressIn(hostname)) await this.#allowed(hostname)
    return protocol === "https:"
      ? { request: httpsRequest, agent: this.#agents.https, lookup: this.#lookup }
      : { request: httpRequest, agent: this.#agents.http, lookup: this.#lookup }
  }

  /** Connections that wait for the next request end. */
  close(): void {
    this.#agents.http.destroy()
    this.#agents.https.destroy()
  }

  /** FETCH1 */
  readonly #lookup: LookupFunction = (hostname, options, callback) => {
    const found = callbackify(() => this.#allowed(hostname))
    found((error: Error | null, addresses) => {
      if (error) return callback(error, [])
      const all = addresses.map(address => ({ address, family: address.includes(":") ? 6 : 4 }))
      return options.all ? callback(null, all) : callback(null, all[0]!.address, all[0]!.family)
    })
  }

  async #allowed(hostname: string): Promise<readonly string[]> {
    const name = unbracketed(hostname)
    const addresses = parseAddress(name) ? [name] : await this.#resolve(name)
    if (addresses.length === 0) throw new Error(`${name} has no address`)
    if (!this.#mayBePrivate && !addresses.every(isPublicText)) throw new PrivateAddress(name)
    return addresses
  }
}

export interface OutboundOptions {
  readonly mayBePrivate: boolean
  readonly resolve?: Resolve
  readonly maxSockets?: number
}

/** All addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>

export interface OutboundRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** Until all of the answer is there. */
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
}

export class PrivateAddress extends Error {
  override name = "PrivateAddress"
  constructor(name: string) {
    super(`${name} leads into a private network`)
  }
}

export class LateAnswer extends Error {
  override name = "LateAnswer"
  constructor() {
    super("no answer in time")
  }
}

const idleMs = 30_000
const resolveMs = 3_000
/** For one try. */
const dnsMs = 1_000

async function everyAddress(name: string): Promise<readonly string[]> {
  const found = await within(resolveMs, lookup(name, { all: true, verbatim: true }), () => {
    throw new Error(`${name} was not resolved in time`)
  })
  return found.map(({ address }) => address)
}

/**
 * All addresses that DNS knows of a name. The operating system would be asked on one of the four threads
 * that serve files as well: a user who chooses names that nobody answers for would hold them all.
 * @param servers of a test
 */
export function byDns(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: dnsMs, tries: 2 })
  if (servers) resolver.setServers(servers)
  return async name => {
    const asked = Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const answers = await within(resolveMs, asked, () => {
      throw new Error(`${name} was not resolved in time`)
    })
    return answers.flatMap(answer => (answer.status === "fulfilled" ? answer.value : []))
  }
}

const unbracketed = (hostname: string) => hostname.replace(/^\[|\]$/g, "")
const addressIn = (hostname: string) => parseAddress(unbracketed(hostname))

/** What is no address, such as one with a zone, is none of the public network. */
function isPublicText(text: string): boolean {
  const address = parseAddress(text)
  return address !== undefined && isPublic(address)
}

/** FETCH2 */
async function textOf(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size > maxBytes) throw new Error("the answer is too long")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}
