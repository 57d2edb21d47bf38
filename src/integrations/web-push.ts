import type { KeyObject } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { byDns, OutboundRequests, PrivateAddress, type Resolve } from "./outbound-requests.ts"
import { PushPlaces } from "./push-places.ts"
import {
  areBrowserKeys,
  type BrowserKeys,
  encryptPush,
  newVapidKeys,
  vapidHeader,
  vapidKey,
} from "./push-encryption.ts"
import type { Push, PushOutcome } from "../domain/messages/pushes.ts"
import type { Secrets } from "./secrets.ts"

interface StoredKeys {
  readonly public_key: string
  readonly private_key: string
}

export interface PushKeysOptions {
  readonly storage: { readonly pushSubscriptions: { keepKeys(made: StoredKeys): Promise<StoredKeys> } }
  readonly secrets: Pick<Secrets, "seal" | "open">
}

const sealedAs = "push keys"

/**
 * The VAPID keys of the cluster. Who needs them first makes them, and PostgreSQL keeps the pair
 * that came first: what browsers have subscribed with stays good.
 */
export class PushKeys {
  readonly #options: PushKeysOptions
  #known: Promise<{ readonly publicKey: string; readonly key: KeyObject }> | undefined

  constructor(options: PushKeysOptions) {
    this.#options = options
  }

  get(): Promise<{ readonly publicKey: string; readonly key: KeyObject }> {
    return (this.#known ??= this.#read().catch((error: unknown) => {
      this.#known = undefined
      throw error
    }))
  }

  async publicKey(): Promise<string> {
    return (await this.get()).publicKey
  }

  async #read() {
    const { storage, secrets } = this.#options
    const { publicKey, privateKey } = newVapidKeys()
    const made = { public_key: publicKey, private_key: secrets.seal(privateKey, sealedAs) }
    const kept = await storage.pushSubscriptions.keepKeys(made)
    return { publicKey: kept.public_key, key: vapidKey(secrets.open(kept.private_key, sealedAs)) }
  }
}

export interface WebPushOptions {
  readonly keys: PushKeys
  /** Whom a push service can write to: an https or mailto address. */
  readonly subject: string
  /** Endpoints may be in private networks, and without TLS. */
  readonly mayBePrivate: boolean
  readonly resolve?: Resolve
  /** Unix milliseconds. */
  readonly now: () => number
}

/** How often, and how far apart, a place to send from is looked for. */
const maxLooks = 10
const lookMs = 50
const maxAnswerBytes = 16_384
/** How long a signature is good. */
const signedSeconds = 12 * 3_600
/** Longer than this nobody is told to wait. */
const maxWaitMs = 3_600_000

/** Names that anybody chooses are looked up where they hold no thread; private ones may be known to this machine alone. */
const pushRequests = ({
  mayBePrivate,
  resolve = mayBePrivate ? undefined : byDns(),
}: Pick<WebPushOptions, "mayBePrivate" | "resolve">) =>
  new OutboundRequests({ mayBePrivate, ...(resolve && { resolve }) })

/** Sends to push services, whose addresses browsers name: to public ones only (FETCH1, FETCH2). */
export class WebPush {
  readonly #options: WebPushOptions
  readonly #requests: OutboundRequests
  readonly #places = new PushPlaces(() => performance.now())

  constructor(options: WebPushOptions) {
    this.#options = options
    this.#requests = pushRequests(options)
  }

  async send(browser: BrowserKeys & { readonly endpoint: string }, push: Push): Promise<PushOutcome> {
    const { hostname } = new URL(browser.endpoint)
    // Of a service that answers, one is free in a moment.
    for (let look = 1; ; look++) {
      const place = this.#places.take(hostname)
      if (typeof place === "object") return this.#send(browser, push, place.timeoutMs).finally(place.over)
      if (place !== undefined) return { kind: "later", waitMs: place, why: "slow before" }
      if (look === maxLooks) return { kind: "later", waitMs: undefined, why: "no place" }
      await sleep(lookMs)
    }
  }

  async #send(
    browser: BrowserKeys & { readonly endpoint: string },
    push: Push,
    timeoutMs: number,
  ): Promise<PushOutcome> {
    const { keys, subject, now } = this.#options
    const expires = Math.floor(now() / 1000) + signedSeconds
    const authorization = vapidHeader(
      { audience: new URL(browser.endpoint).origin, subject, expires },
      await keys.get(),
    )
    const request = {
      headers: {
        authorization,
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        ttl: String(push.ttlSeconds),
        urgency: "high",
        ...(push.topic !== undefined && { topic: push.topic }),
      },
      body: encryptPush(push.text, browser),
      timeoutMs,
      maxAnswerBytes,
    }
    try {
      const { status, headers } = await this.#requests.post(browser.endpoint, request)
      return outcomeOf(status, headers["retry-after"], now())
    } catch (error) {
      if (error instanceof PrivateAddress) return { kind: "refused", why: "private address" }
      return { kind: "later", waitMs: undefined, why: error instanceof Error ? error.message : "no answer" }
    }
  }

  close(): void {
    this.#requests.close()
  }
}

function outcomeOf(status: number, retryAfter: string | undefined, now: number): PushOutcome {
  if (status >= 200 && status < 300) return { kind: "sent" }
  if (status === 404 || status === 410) return { kind: "gone" }
  const why = `answered ${status}`
  if (status !== 429 && status < 500) return { kind: "refused", why }
  return { kind: "later", waitMs: waitIn(retryAfter, now), why }
}

/** Seconds, or a date. */
function waitIn(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), maxWaitMs)
}

/** Looks at what browsers say of themselves, before it is kept. */
export class PushEndpoints {
  readonly #mayBePrivate: boolean
  readonly #requests: OutboundRequests

  constructor(options: Pick<WebPushOptions, "mayBePrivate" | "resolve">) {
    this.#mayBePrivate = options.mayBePrivate
    this.#requests = pushRequests(options)
  }

  /** @returns the endpoint as it is kept */
  async check(text: string, keys: BrowserKeys): Promise<{ endpoint: string } | { problem: string }> {
    const endpoint = endpointIn(text, this.#mayBePrivate)
    if (endpoint === undefined) return { problem: "its endpoint is no https address" }
    if (!areBrowserKeys(keys)) return { problem: "its keys are none" }
    try {
      await this.#requests.check(endpoint)
    } catch (error) {
      return { problem: error instanceof PrivateAddress ? "private address" : "its endpoint is not to be found" }
    }
    return { endpoint }
  }
}

/** Undefined: nobody can be pushed to there. With `mayBePrivate` it may do without TLS. */
function endpointIn(text: string, mayBePrivate: boolean): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, username, password, hash, href } = new URL(text)
  const isSafe = protocol === "https:" || (mayBePrivate && protocol === "http:")
  return isSafe && username === "" && password === "" && hash === "" ? href : undefined
}
