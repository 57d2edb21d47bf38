import type { Snowflake } from "../../../client/contract.ts"
import { emptyState, type ClientState, type History } from "../../../client/state.ts"
import type { Store } from "../../../client/store.ts"

/**
 * What the browser keeps of a person, so that the page opens without a connection: what was read
 * last, and what was written and not sent. It is bounded, and erased at sign-out.
 */
const databaseName = "starling"
const stateKey = "state"

/** Of each kind so many are kept, those that were opened last. */
const bounds = { servers: 30, directs: 100, histories: 20, messages: 50, outgoing: 200 }
/** Between two looks at what has changed. */
const everyMs = 5_000

/** A message that waits for the connection. */
export interface KeptOutgoing {
  /** In which it was written: another person's is not sent. */
  readonly session: string
  readonly nonce: string
  readonly channel: Snowflake
  readonly input: object
  readonly sentAt: number
}

interface KeptState {
  /** Of which session it is: another's is erased. */
  readonly session: string
  /** When it was current, in Unix milliseconds. */
  readonly at: number
  readonly state: ClientState
}

let opening: Promise<IDBDatabase> | undefined
const database = (): Promise<IDBDatabase> =>
  (opening ??= new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(databaseName, 1)
    request.addEventListener("upgradeneeded", () => {
      request.result.createObjectStore("kept")
      request.result.createObjectStore("outbox", { keyPath: "nonce" })
    })
    request.addEventListener("success", () => resolve(request.result))
    request.addEventListener("error", () => reject(request.error ?? new Error("nothing can be kept")))
  }))

/** Where a browser keeps nothing, as in some private windows, the page goes on without. */
async function within<T>(
  name: "kept" | "outbox",
  mode: IDBTransactionMode,
  act: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T | undefined> {
  try {
    const opened = await database()
    return await new Promise<T>((resolve, reject) => {
      const transaction = opened.transaction(name, mode)
      const request = act(transaction.objectStore(name))
      // Once this is asked for, the browser does it though the page may be closed or loaded again at once.
      if (mode === "readwrite") transaction.commit()
      transaction.addEventListener("complete", () => resolve(request.result))
      for (const end of ["error", "abort"] as const)
        transaction.addEventListener(end, () => reject(transaction.error ?? new Error("not kept")))
    })
  } catch {
    return undefined
  }
}

/** A session's id, which its token begins with, and which is no secret. */
const sessionOf = (token: string): string => token.split(".")[0] ?? ""

/** @returns what was kept in this session; what another session has kept is erased */
export async function restore(token: string): Promise<KeptState | undefined> {
  const found = await within<KeptState | undefined>("kept", "readonly", store => store.get(stateKey))
  if (!found) return undefined
  if (found.session === sessionOf(token)) return found
  await erase()
  return undefined
}

export async function erase(): Promise<void> {
  await Promise.all([
    within("kept", "readwrite", store => store.clear()),
    within("outbox", "readwrite", store => store.clear()),
  ])
}

export const keepOutgoing = (token: string, { nonce, channel, input, sentAt }: Omit<KeptOutgoing, "session">) =>
  within("outbox", "readwrite", store => store.put({ session: sessionOf(token), nonce, channel, input, sentAt }))
export const dropOutgoing = (nonce: string) => within("outbox", "readwrite", store => store.delete(nonce))
/** Those of this session, in the order in which they were written. */
export async function keptOutgoing(token: string): Promise<KeptOutgoing[]> {
  const all =
    (await within<KeptOutgoing[]>("outbox", "readonly", store => store.getAll(undefined, bounds.outgoing))) ?? []
  const own = all.filter(({ session }) => session === sessionOf(token))
  return own.toSorted((one, other) => one.sentAt - other.sentAt)
}

/** Keeps what is shown, every few seconds while it is current. The answer ends that. */
export function keep(store: Store, token: string, before: ClientState | undefined): () => void {
  // Channels that nobody has opened since stay as they were kept.
  const earlier = new Map(before ? historiesOf(before) : [])
  let isChanged = false
  let isEnded = false
  const save = async () => {
    if (!isChanged || isEnded || store.connection !== "live" || store.isReading) return
    isChanged = false
    const kept: KeptState = { session: sessionOf(token), at: Date.now(), state: excerpt(store.state, earlier) }
    await within("kept", "readwrite", objects => objects.put(kept, stateKey))
    // Signed out meanwhile.
    if (isEnded) await erase()
  }
  const unsubscribe = store.subscribe(() => {
    isChanged = true
  })
  const saveNow = () => void save()
  const timer = setInterval(saveNow, everyMs)
  document.addEventListener("visibilitychange", saveNow)
  addEventListener("pagehide", saveNow)
  return () => {
    isEnded = true
    unsubscribe()
    clearInterval(timer)
    document.removeEventListener("visibilitychange", saveNow)
    removeEventListener("pagehide", saveNow)
  }
}

function* historiesOf({ servers, directs }: ClientState): Iterable<[Snowflake, History]> {
  for (const server of servers.values()) if (server) yield* server.histories
  for (const [channel, { history }] of directs) if (history) yield [channel, history]
}

const lastOf = <K, V>(map: Iterable<[K, V]>, count: number): Map<K, V> => new Map([...map].slice(-count))
const firstOf = <K, V>(map: Iterable<[K, V]>, count: number): Map<K, V> => new Map([...map].slice(0, count))

/** As much of a state as is kept, in objects of its own. */
function excerpt(state: ClientState, earlier: ReadonlyMap<Snowflake, History>): ClientState {
  // What was opened last stands last.
  const opened = new Map(earlier)
  for (const [channel, history] of historiesOf(state)) {
    opened.delete(channel)
    opened.set(channel, history)
  }
  const histories = lastOf(opened, bounds.histories)
  for (const [channel, { floor, messages }] of histories) {
    const kept = [...messages.values()].toSorted((one, other) => (BigInt(one.id) < BigInt(other.id) ? -1 : 1))
    const newest = kept.slice(-bounds.messages)
    const isCut = newest.length < kept.length
    histories.set(channel, {
      floor: isCut ? BigInt(newest[0]!.id) : floor,
      messages: new Map(newest.map(message => [message.id, message])),
    })
  }
  const authors = new Set(
    [...histories.values()].flatMap(({ messages }) => [...messages.values()].map(one => one.author_id)),
  )
  const ofChannels = (channels: ReadonlyMap<Snowflake, unknown>) =>
    new Map([...histories].filter(([id]) => channels.has(id)))
  const isShown = (user: Snowflake) => authors.has(user) || user === state.user?.id
  const servers = firstOf(state.servers, bounds.servers)
  for (const [id, server] of servers)
    if (server)
      servers.set(id, {
        ...server,
        members: new Map([...server.members].filter(([user]) => isShown(user))),
        histories: ofChannels(server.channels),
        bans: null,
        voice: new Map(),
      })
  const directs = firstOf(state.directs, bounds.directs)
  for (const [id, direct] of directs) directs.set(id, { ...direct, history: histories.get(id) })
  const { user, names, relationships, unread } = state
  return { ...emptyState(), user, servers, directs, names, relationships, unread }
}
