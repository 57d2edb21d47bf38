import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals"
import { allIntents, type Snowflake, type UserResponse } from "../../client/contract.ts"
import { GatewayClient } from "../../client/gateway.ts"
import { createClient, type Client } from "../../client/client.ts"
import { Store, type Change } from "../../client/store.ts"
import { eraseDrafts } from "./drafts.ts"
import { erase, keep, restore } from "./offline/kept.ts"
import { followService, type Outage } from "./outage.ts"

/** Everything of a person who is signed in. */
export interface Session {
  readonly client: Client
  readonly gateway: GatewayClient
  readonly store: Store
  /** The account, as its owner sees it. */
  readonly account: Signal<UserResponse | undefined>
  /** When what is shown was current last, in Unix milliseconds; undefined: it is, or nothing is shown yet. */
  readonly asOf: Signal<number | undefined>
  /** Why there is no connection, where more is known of it than that it was lost. */
  readonly outage: ReadonlySignal<Outage | undefined>
}

const tokenKey = "starling.app.token"
/** What a proxy puts before the paths of the server. */
export const base = /^(.*?)\/(?:app|invite)(?:\/|$)/.exec(location.pathname)?.[1] ?? ""
const origin = location.origin + base

const current = signal<Session | undefined>(undefined)
/** Undefined: nobody is signed in. */
export const session: ReadonlySignal<Session | undefined> = current
/** For what is only shown to a person who is signed in. */
export function me(): Session {
  if (!current.value) throw new Error("nobody is signed in")
  return current.value
}
export const ownId = (): Snowflake => me().store.state.user?.id ?? ""

/** A client for who is not signed in yet. */
export const anonymous = createClient({ baseUrl: origin })

const versions = new Map<Change, Signal<number>>()
function versionOf(change: Change): Signal<number> {
  let version = versions.get(change)
  if (!version) versions.set(change, (version = signal(0)))
  return version
}

/** Read while something is rendered: it is rendered again when that part of the store changes. */
export function watch(...changes: readonly Change[]): Store {
  for (const change of changes) void versionOf(change).value
  return me().store
}

const maxRestMs = 200
const waiting = new Set<Change>()
let isDue = false
let restsUntil = 0
/** Where many events come, a third of the time is for showing them: the rest is for who types and scrolls. */
const restShare = 2
/** At most once a frame, however many events come. */
function renderSoon(changes: ReadonlySet<Change>): void {
  for (const change of changes) waiting.add(change)
  if (isDue) return
  isDue = true
  if (document.hidden) setTimeout(renderNow, 250)
  else {
    const restMs = restsUntil - performance.now()
    if (restMs > 0) setTimeout(() => requestAnimationFrame(renderNow), restMs)
    else requestAnimationFrame(renderNow)
  }
}
function renderNow(): void {
  isDue = false
  const beganAt = performance.now()
  // Comes after the frame has been laid out and painted.
  setTimeout(() => {
    const now = performance.now()
    restsUntil = now + Math.min(maxRestMs, restShare * (now - beganAt))
  }, 0)
  batch(() => {
    for (const change of waiting) versionOf(change).value++
  })
  waiting.clear()
}

/** Nearly a minute: as long as it takes until a worker that was killed has a successor on a busy machine. */
const patient = { attempts: 16, firstMs: 200, maxMs: 5_000, jitter: 1, maxWaitMs: 30_000 }

/** The gateway's close code for a token that is no longer good: another session has ended this one, or an operator. */
const authenticationFailed = 4004

/** Servers beyond these are read when somebody opens them. */
const maxServersRead = 50

/** Why the person was signed out, to be said where they sign in. */
export const signedOutBecause = signal<"ended" | undefined>(undefined)

export function signIn(token: string): void {
  localStorage.setItem(tokenKey, token)
  begin(token)
}

/** Goes on with the session that this browser has. */
export function goOn(): void {
  const token = localStorage.getItem(tokenKey)
  if (token !== null) begin(token)
}

export async function signOut(): Promise<void> {
  const { client } = me()
  leave()
  await client.logout().catch(() => {})
}

const endings: (() => void)[] = []
/** Called when the person is signed out, by whomever. */
export const onLeave = (ending: () => void): void => void endings.push(ending)

function endWhatWas(): void {
  stopKeeping?.()
  stopKeeping = undefined
  for (const ending of endings.splice(0)) ending()
}

function leave(): void {
  localStorage.removeItem(tokenKey)
  endWhatWas()
  erase().catch(() => {})
  eraseDrafts()
  current.value?.gateway.close()
  current.value = undefined
  location.hash = ""
}

let stopKeeping: (() => void) | undefined

/** For so long the connection waits for what this browser has kept. */
const keptWithinMs = 500

/** Shows what this browser has kept, unless the server was faster, and keeps what comes. */
async function openKept(token: string): Promise<void> {
  const kept = await restore(token)
  const { value } = current
  if (value?.client.token !== token) return
  if (kept && value.store.restore(kept.state)) value.asOf.value = kept.at
  stopKeeping?.()
  stopKeeping = keep(value.store, token, kept?.state)
}

function begin(token: string): void {
  endWhatWas()
  current.value?.gateway.close()
  const client = createClient({ baseUrl: origin, token, retry: patient })
  const gateway = new GatewayClient({ url: origin, token, intents: allIntents })
  // The dot says that there is no connection.
  gateway.on("error", () => {})
  const store = new Store({ client: () => client, maxMessages: 300, onError() {} })
  const account = signal<UserResponse | undefined>(undefined)
  const asOf = signal<number | undefined>(undefined)
  store.subscribe(changes => {
    if (changes.has("connection") && store.connection === "live") asOf.value = undefined
  })
  store.subscribe(renderSoon)
  store.follow(gateway)
  const service = followService(gateway, anonymous)
  onLeave(service.end)
  gateway.on("close", close => {
    if (store.state.user) asOf.value ??= Date.now()
    if (close.willReconnect || current.value?.gateway !== gateway) return
    if (close.code !== authenticationFailed) return service.closed(close)
    signedOutBecause.value = "ended"
    leave()
  })
  // What is looked at is read first; marks of the others need their channels.
  gateway.on("ready", ({ guilds }) => {
    setTimeout(() => guilds.slice(0, maxServersRead).forEach(({ id }) => store.openServer(id)), 0)
    // A page that was opened during maintenance was refused it.
    loading.then(() => (account.value ? undefined : loadAccount())).catch(() => {})
  })
  gateway.on("USER_UPDATE", ({ id }) => {
    if (id === store.state.user?.id) loadAccount().catch(() => {})
  })
  const loadAccount = async () => {
    account.value = await client.getMe().catch(() => account.value)
  }
  signedOutBecause.value = undefined
  current.value = { client, gateway, store, account, asOf, outage: service.outage }
  const loading = loadAccount()
  // First what is kept, which a fast server would be ahead of: then nothing would be in sight until all is read.
  Promise.race([openKept(token).catch(() => {}), new Promise(resolve => setTimeout(resolve, keptWithinMs))])
    .then(() => (current.value?.gateway === gateway ? gateway.connect() : undefined))
    .catch(() => {})
}

// The browser knows before the next try is due.
addEventListener("online", () => {
  const { value } = current
  if (value && value.store.connection !== "live") value.gateway.reconnect().catch(() => {})
})

// Another tab has signed out, or in as somebody else.
addEventListener("storage", ({ key, newValue }) => {
  if (key !== tokenKey) return
  if (newValue === null) return leave()
  eraseDrafts()
  begin(newValue)
})
