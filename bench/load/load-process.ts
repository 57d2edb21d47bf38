/**
 * The clients of one server, in a process of their own, so that nothing they cost counts as the
 * server's. It does what the benchmark asks of it over IPC; posts and frames meet here, so
 * latencies are differences of one clock.
 */
import { waitMs } from "../../client/backoff.ts"
import type { Backoff } from "../../client/backoff.ts"
import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import { Histogram } from "../statistics.ts"
import type { LatencySummary } from "../statistics.ts"
import type { DialectName } from "./dialects.ts"
import { HttpConnection, type HttpReply } from "./http-connection.ts"
import { markedBody, MarkReader } from "./marked-posts.ts"
import type { Around } from "./marked-posts.ts"
import { NatsConnection } from "./nats-connection.ts"
import { Session, SessionClosed, SessionRefused } from "./session.ts"
import type { SessionOptions } from "./session.ts"

export interface Poster {
  /** Of the REST interface, with the channel in it. */
  path: string
  token: string
}

/** What a client asks for, and what it may expect then. */
export interface Kind {
  /** Added to the URL. */
  query: string
  intents?: number
  compress?: boolean
  /** Its frames are pieces of a zlib stream, which say nothing before they are inflated. */
  inflates?: boolean
  /** Whether posts reach it. */
  hears: boolean
}

export interface Connecting {
  /** WebSocket URL, with a query. */
  url: string
  /** One session each; null where nobody identifies. */
  tokens: (string | null)[]
  /** To connect from, in turn; one has no more than some 28,000 ports. */
  addresses: string[]
  maxConcurrent: number
  /** Left out, all are as the server has them by default, and hear. */
  kinds?: Kind[]
  /**
   * Session i is in server i % `servers`, as post n is. Within a server the kinds take turns. 1
   * when left out.
   */
  servers?: number
  /** How many sessions there are before these, here and elsewhere. */
  first?: number
  /** They come back when they lose their connection. */
  returns?: boolean
  /** How another server than ours is spoken to. */
  dialect?: DialectName
}

export interface Posting {
  /** HTTP origin, or `nats://`. */
  url: string
  /** HTTP origins that are sent every post too. */
  mirrors?: string[]
  /** Poster n posts in server n % servers. */
  posters: Poster[]
  inFlight: number
  /** Of each lane, from one post to the next at least. */
  everyMs: number
  seconds: number
  /** Makes the nonces of this run differ from those of any other. */
  run: string
  /** Characters that each post is longer. */
  padding?: number
  /** What else each post says. */
  around?: Around
  /** Sessions may hear posts in different orders. */
  mayDiffer?: boolean
  /**
   * By server: how many other groups of load clients hear a post and say so, and how many sessions
   * they have there.
   */
  elsewhere?: { loadGroups: number; sessions: number }[]
}

export interface Throughput {
  posts: number
  seconds: number
  /** From the post leaving to its answer, or to its frame at a session. */
  latency: LatencySummary
}

export interface Pinging {
  url: string
  /** One connection each, from an address of its own. */
  posters: (Poster & { address: string })[]
  everyMs: number
  seconds: number
  run: string
}

export interface SigningIn {
  /** HTTP origin. */
  url: string
  path: string
  /** Who sign in, one after another, over and over. */
  usernames: string[]
  password: string
  /** How many have signed in before. */
  first: number
  inFlight: number
  /** Of each lane, from one to the next at least. */
  everyMs: number
  seconds: number
  /** Others than 200 are counted, not thrown. */
  mayBeRefused?: boolean
}

export interface SignedIn {
  /** By status, and why where the answer says that: `503 redis`. */
  answers: Record<string, number>
  seconds: number
  /** Of those who got in. */
  latency: LatencySummary
}

export interface Getting {
  /** HTTP origin. */
  url: string
  path: string
  /**
   * Who ask. So many of them take turns until each has asked `timesEach`, then it is others' turn;
   * and so on and over again.
   */
  tokens: string[]
  atATime: number
  timesEach: number
  /** How often somebody has asked before. */
  first: number
  /** Kept connections, which take turns. */
  connections: number
  /** As clients do: all that somebody asks goes over one of them. */
  keepsConnection?: boolean
  inFlight: number
  seconds: number
  /** Ends earlier when there were so many. */
  most: number
}

export interface Wanted {
  method: string
  path: string
  token: string
  /** JSON, ASCII only. */
  body?: string
}

export interface Requesting {
  /** HTTP origin. */
  url: string
  /** In this order. */
  requests: Wanted[]
  inFlight: number
}

export interface Told {
  /** Sessions that have been told. */
  sessions: number
  /** When the last of them was, milliseconds since 1970. */
  lastAt: number
  /** Posts that came to any session meanwhile. */
  posts: number
}

export interface Return {
  /** Sessions that lost their connection and have it again. */
  resumed: number
  refused: number
  /** Milliseconds since 1970. */
  lastAt: number
  /** From the end of a connection to RESUMED. */
  away: LatencySummary
}

export interface Commands {
  connect: { input: Connecting; output: { seconds: number } }
  /** As `connect`, up to the server's HELLO. */
  open: { input: Connecting; output: { seconds: number } }
  /** All that are open identify at once. */
  identify: { input: null; output: { seconds: number; ready: LatencySummary } }
  disconnect: { input: null; output: null }
  /** All lose their connection at once. */
  drop: { input: null; output: null }
  /**
   * Until nobody has been away for so long, once somebody was: no connection is about to be lost
   * any more.
   */
  back: { input: { quietMs: number }; output: Return }
  /**
   * From now on no more than so many bytes a second are read from each connection, 0: none. They
   * may be closed for it.
   */
  readSlowly: { input: { bytesPerSecond: number }; output: null }
  /** Posts one message and answers a frame of it as it came, and how long it was by kind. */
  sample: { input: { url: string; poster: Poster; run: string }; output: { frame: string; bytes: number[] } }
  /**
   * From now on posts are counted, and the one who posts is told of those that all have here.
   * Answers who hears, by server.
   */
  listen: { input: null; output: { hearing: number[] } }
  /** Posts one message and answers what the server answered. */
  answer: { input: { url: string; poster: Poster; run: string }; output: { body: string } }
  /** A post is in flight until every session has its frame. */
  fanOut: { input: Posting; output: Throughput & { deliveries: number; isOneOrder: boolean } }
  /** A post is in flight until it is answered. */
  posts: { input: Posting; output: Throughput }
  /** A sign-in is in flight until it is answered. */
  signIn: { input: SigningIn; output: SignedIn }
  /** Those who sign in begin no other. */
  stopSigningIn: { input: null; output: null }
  /** A request is in flight until it is answered. */
  gets: { input: Getting; output: { gets: number; seconds: number; latency: LatencySummary } }
  /**
   * Any requests, each in flight until it is answered with 200; lanes have connections of their own
   * and take them in turn.
   */
  requests: { input: Requesting; output: { count: number; seconds: number; latency: LatencySummary } }
  /**
   * From now on it is noted which sessions get an event of this name, and how many posts come.
   * Frames are JSON.
   */
  watch: { input: { name: string }; output: null }
  /** Until all sessions have got that event, and for so long after it. */
  watched: { input: { restMs: number }; output: Told }
  /** Posts now and then; answers the milliseconds to each session, by poster and session. */
  ping: { input: Pinging; output: { latencies: number[][][] } }
}

/** How long a frame may be on its way before the run has failed. */
const lostAfterMs = 20_000
/** As the server asks for. */
const heartbeatEverySeconds = 45
const attempts = 20
const wayBackMs = 120_000

let sessions: Session[] = []
/** How many have a place in `sessions`, ready or not. */
let expected = 0
/** How many sessions hear a post, by server; and the sessions that must not. */
let hearing: number[] = []
const deaf = new Set<number>()
/** By session. */
const kindOf: number[] = []
let lost: Error | undefined
let mayLose = false
let onMarked: (session: number, number: number, frame: Buffer) => void = () => undefined
let onHeardElsewhere: (number: number) => void = () => undefined

let beat = Math.floor(performance.now() / 1_000)
const beating = setInterval(() => {
  // Timers drift: no second is left out, as a session that misses two heartbeats is closed.
  for (const now = Math.floor(performance.now() / 1_000); beat < now; beat++)
    for (let i = beat % heartbeatEverySeconds; i < sessions.length; i += heartbeatEverySeconds) sessions[i]?.heartbeat()
}, 1_000)

const plainKind: Kind = { query: "", hears: true }

const connect = (input: Connecting) => connectAll(input, false)
const open = (input: Connecting) => connectAll(input, true)

async function connectAll(
  {
    url,
    tokens,
    addresses,
    maxConcurrent,
    kinds = [plainKind],
    servers = 1,
    first = 0,
    returns = false,
    dialect,
  }: Connecting,
  waits: boolean,
): Promise<{ seconds: number }> {
  const from = performance.now()
  const queue = tokens.entries()
  while (hearing.length < servers) hearing.push(0)
  const readers = kinds.map(kind => new MarkReader(kind.inflates ?? false))
  const lane = async () => {
    for (const [i, token] of queue) {
      const index = expected++
      const server = (first + i) % servers
      const at = Math.floor((first + i) / servers) % kinds.length
      const kind = kinds[at]!
      kindOf[index] = at
      if (kind.hears) hearing[server]!++
      else deaf.add(index)
      const reader = readers[at]!
      const options: SessionOptions = {
        url: `${url}${kind.query}${servers > 1 ? `&server=${server}` : ""}`,
        token: token ?? undefined,
        localAddress: addresses[i % addresses.length],
        intents: kind.intents,
        compress: kind.compress,
        waits,
        keepsPlace: returns,
        dialect,
        onFrame: frame => {
          slowDown(index, frame.length)
          watching?.look(index, frame)
          const number = reader.number(frame)
          if (number === undefined) return
          if (deaf.has(index)) lost ??= new Error("a session got what its intents leave out")
          else onMarked(index, number, frame)
        },
        onLost: why => {
          if (returns) comeBack(index, options)
          else if (!mayLose) lost ??= why
        },
      }
      sessions[index] = await begin(options)
    }
  }
  await Promise.all(Array.from({ length: maxConcurrent }, lane))
  return { seconds: (performance.now() - from) / 1_000 }
}

/** Comes again when a busy server asks for that. */
async function begin(options: SessionOptions): Promise<Session> {
  for (let attempt = 1; ; attempt++) {
    const session = new Session(options)
    try {
      await (options.waits ? Promise.race([session.opened, session.ready]) : session.ready)
      return session
    } catch (cause) {
      session.close()
      const mayRetry = cause instanceof SessionClosed && cause.code === closeCodes.try_again_later.code
      if (!mayRetry || attempt === attempts) throw cause
      await pause(500 * (0.5 + Math.random()))
    }
  }
}

async function identify(): Promise<Commands["identify"]["output"]> {
  const from = performance.now()
  const latency = new Histogram()
  for (const session of sessions) session.identify()
  for (const session of sessions) {
    await session.ready
    latency.record(session.waited)
  }
  return { seconds: (performance.now() - from) / 1_000, ready: latency.summary() }
}

let absent = 0
let refused = 0
let away = new Histogram()
let lastAt = 0

/**
 * Soon, as another worker may be there; less and less often, or ten thousand would keep the one
 * that starts from starting.
 */
const comingBack: Backoff = { firstMs: 220, maxMs: 2_000, jitter: 0.9 }

/** As clients do: not all in the same millisecond, and on and on. */
function comeBack(index: number, options: SessionOptions): void {
  const leftAt = performance.now()
  absent++
  const again = async () => {
    const until = leftAt + wayBackMs
    for (let attempt = 0; performance.now() < until; attempt++) {
      await pause(waitMs(comingBack, attempt))
      const session = new Session({ ...options, waits: false, resume: sessions[index]!.place })
      try {
        await session.ready
        sessions[index] = session
        away.record(performance.now() - leftAt)
        lastAt = performance.timeOrigin + performance.now()
        absent--
        return
      } catch (cause) {
        session.close()
        if (!(cause instanceof SessionRefused)) continue
        refused++
        absent--
        return
      }
    }
    throw new Error("a session did not come back")
  }
  again().catch((cause: unknown) => {
    lost ??= cause as Error
  })
}

function drop(): null {
  for (const session of sessions) session.drop()
  return null
}

async function back({ quietMs }: { quietMs: number }): Promise<Return> {
  for (let quietFrom = Infinity; ;) {
    if (lost !== undefined) throw lost
    const { count } = away.summary()
    const isAnybodyAway = absent > 0
    if (isAnybodyAway || count + refused === 0) quietFrom = performance.now()
    else if (performance.now() - quietFrom > quietMs) break
    await pause(50)
  }
  const summary = away.summary()
  const result: Return = { resumed: summary.count, refused, lastAt, away: summary }
  away = new Histogram()
  refused = 0
  return result
}

let slowly: { bytesPerSecond: number; read: Map<number, number> } | undefined

function readSlowly({ bytesPerSecond }: { bytesPerSecond: number }): null {
  mayLose = true
  slowly = { bytesPerSecond, read: new Map() }
  if (bytesPerSecond === 0) for (const session of sessions) session.pause()
  return null
}

/** A second of reading at a time: what came in it is paid for with a pause. */
function slowDown(index: number, bytes: number): void {
  if (!slowly || slowly.bytesPerSecond === 0) return
  const { bytesPerSecond, read } = slowly
  const already = read.get(index) ?? 0
  read.set(index, already + bytes)
  if (already > 0) return
  const session = sessions[index]!
  session.pause()
  // What one read took is handed over in one go, so it is all counted by then.
  setImmediate(() => {
    const seconds = read.get(index)! / bytesPerSecond
    read.delete(index)
    setTimeout(() => session.unpause(), seconds * 1_000)
  })
}

function disconnect(): null {
  for (const session of sessions) session.close()
  sessions = []
  expected = 0
  hearing = []
  deaf.clear()
  slowly = undefined
  lost = undefined
  return null
}

async function withConnections<T>(
  url: string,
  addresses: (string | undefined)[],
  use: (connections: HttpConnection[]) => Promise<T>,
): Promise<T> {
  const connections = await Promise.all(addresses.map(address => HttpConnection.open(url, address)))
  try {
    return await use(connections)
  } finally {
    for (const connection of connections) connection.close()
  }
}

type PostConnection = Pick<HttpConnection, "post" | "close">

const openPosting = (origin: string): Promise<PostConnection> =>
  origin.startsWith("nats:") ? NatsConnection.open(origin) : HttpConnection.open(origin)

async function post(connection: PostConnection, { path, token }: Poster, body: string): Promise<Buffer> {
  const reply = await connection.post(path, token, body)
  if (reply.status !== 200) throw new Error(`POST ${path}: ${reply.status} ${reply.body.toString()}`)
  return reply.body
}

const nobody = Array.from<undefined>({ length: 1 })

function sample({ url, poster, run }: Commands["sample"]["input"]): Promise<Commands["sample"]["output"]> {
  return withConnections(url, nobody, async ([connection]) => {
    let missing = hearing[0]!
    const bytes: number[] = []
    const seen = new Promise<string>(resolve => {
      onMarked = (session, _number, frame) => {
        bytes[kindOf[session]!] = frame.length
        if (--missing === 0) resolve(frame.toString())
      }
    })
    await post(connection!, poster, markedBody(0, run))
    return { frame: await within(seen, "a post at every session"), bytes }
  })
}

function listen(): { hearing: number[] } {
  const missing = new Map<number, number>()
  onMarked = (_session, number) => {
    const left = (missing.get(number) ?? hearing[number % hearing.length]!) - 1
    missing.set(number, left)
    if (left === 0) process.send?.({ heard: number })
    else if (left < 0) lost ??= new Error("a frame came twice")
  }
  return { hearing }
}

function answer({ url, poster, run }: Commands["answer"]["input"]): Promise<{ body: string }> {
  return withConnections(url, nobody, async ([connection]) => {
    const body = await post(connection!, poster, markedBody(0, run))
    return { body: body.toString() }
  })
}

async function fanOut({
  url,
  mirrors = [],
  posters,
  inFlight,
  everyMs,
  seconds,
  run,
  padding = 0,
  around,
  mayDiffer = false,
  elsewhere = [],
}: Posting): Promise<Commands["fanOut"]["output"]> {
  const latency = new Histogram()
  /**
   * Per post: when it left, for how many sessions and groups of load clients it is missing, whom to
   * tell when it is everywhere.
   */
  const sentAt: number[] = []
  const missing: number[] = []
  const everywhere: (() => void)[] = []
  const servers = Math.max(1, hearing.length)
  let deliveries = 0
  let doubled = 0
  const arrive = (number: number) => {
    const left = --missing[number]!
    if (left === 0) everywhere[number]!()
    else if (left < 0) doubled++
  }
  /** By session, of what it heard and in which order. */
  const digests = new Int32Array(sessions.length)
  onHeardElsewhere = arrive
  onMarked = (session, number) => {
    latency.record(performance.now() - sentAt[number]!)
    deliveries++
    digests[session] = (Math.imul(digests[session]!, 31) + number + 1) | 0
    arrive(number)
  }

  const connections = Math.ceil(posters.length / inFlight) * inFlight
  const connect = (origin: string) => Promise.all(Array.from({ length: connections }, () => openPosting(origin)))
  const open = await Promise.all([url, ...mirrors].map(connect))
  try {
    const from = performance.now()
    const until = from + seconds * 1_000
    // Each lane has connections of its own and takes them in turn: alone, it still posts as many
    // people on many workers.
    const lane = async (first: number) => {
      for (let turn = first; performance.now() < until; turn += inFlight) {
        const number = sentAt.length
        const server = number % servers
        const others = elsewhere[server] ?? { loadGroups: 0, sessions: 0 }
        const arrived = new Promise<void>(resolve => everywhere.push(resolve))
        missing.push((hearing[server] ?? 0) + others.loadGroups)
        if (missing[number] === 0) everywhere[number]!()
        const body = markedBody(number, run, padding, around)
        const next = performance.now() + everyMs
        sentAt.push(performance.now())
        const poster = posters[number % posters.length]!
        const sent = open.map(origin => post(origin[turn % connections]!, poster, body))
        await Promise.all([...sent, within(arrived, "a post at every session")])
        deliveries += others.sessions
        if (performance.now() < next) await pause(next - performance.now())
      }
    }
    await Promise.all(Array.from({ length: inFlight }, (_, i) => lane(i)))
    const took = (performance.now() - from) / 1_000
    if (doubled > 0) throw new Error(`${doubled} frames came twice`)
    const heard = new Set(digests.filter((_, session) => !deaf.has(session)))
    const isOneOrder = heard.size <= 1
    if (!isOneOrder && !mayDiffer && servers === 1 && mirrors.length === 0)
      throw new Error("sessions heard the posts in different orders")
    return { posts: sentAt.length, deliveries, seconds: took, latency: latency.summary(), isOneOrder }
  } finally {
    for (const connection of open.flat()) connection.close()
  }
}

async function posts({ url, posters, inFlight, seconds, run }: Posting): Promise<Throughput> {
  const latency = new Histogram()
  let count = 0
  return withConnections(url, Array.from({ length: inFlight }), async connections => {
    const from = performance.now()
    const until = from + seconds * 1_000
    const lane = async (connection: HttpConnection, poster: Poster) => {
      for (let now = performance.now(); now < until;) {
        await post(connection, poster, markedBody(count++, run))
        const done = performance.now()
        latency.record(done - now)
        now = done
      }
    }
    await Promise.all(connections.map((connection, i) => lane(connection, posters[i % posters.length]!)))
    return { posts: count, seconds: (performance.now() - from) / 1_000, latency: latency.summary() }
  })
}

let signInUntil = 0

async function signIn(input: SigningIn): Promise<SignedIn> {
  const { url, path, usernames, password, inFlight, everyMs, seconds, mayBeRefused = false } = input
  const answers: Record<string, number> = {}
  const latency = new Histogram()
  // As many again: who comes next need not be at the worker that has just had one.
  const free = await Promise.all(Array.from({ length: 2 * inFlight }, () => HttpConnection.open(url)))
  const all = [...free]
  try {
    let next = input.first
    const from = performance.now()
    signInUntil = from + seconds * 1_000
    const lane = async () => {
      while (performance.now() < signInUntil) {
        const connection = free.shift()!
        const body = JSON.stringify({ username: usernames[next++ % usernames.length], password })
        const sentAt = performance.now()
        const reply = await connection.post(path, undefined, body)
        const took = performance.now() - sentAt
        free.push(connection)
        const reason = reply.status === 200 ? undefined : /"reason":"([^"]*)"/.exec(reply.body.toString())?.[1]
        const outcome = reason === undefined ? String(reply.status) : `${reply.status} ${reason}`
        answers[outcome] = (answers[outcome] ?? 0) + 1
        if (reply.status === 200) latency.record(took)
        else if (!mayBeRefused) throw new Error(`POST ${path}: ${reply.status} ${reply.body.toString()}`)
        if (took < everyMs) await pause(everyMs - took)
      }
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
    return { answers, seconds: (performance.now() - from) / 1_000, latency: latency.summary() }
  } finally {
    for (const connection of all) connection.close()
  }
}

function stopSigningIn(): null {
  signInUntil = 0
  return null
}

async function gets(input: Getting): Promise<Commands["gets"]["output"]> {
  const { url, path, tokens, atATime, timesEach, first, connections, inFlight, seconds, most } = input
  const isKept = input.keepsConnection === true
  const groups = Math.floor(tokens.length / atATime)
  const tokenOf = (number: number) =>
    tokens[(Math.floor(number / (atATime * timesEach)) % groups) * atATime + (number % atATime)]!
  const latency = new Histogram()
  return withConnections(url, Array.from({ length: connections }), async all => {
    const free = [...all]
    /** The last request on each connection. */
    const under = all.map(() => Promise.resolve() as Promise<unknown>)
    const from = performance.now()
    const until = from + seconds * 1_000
    let count = 0
    const getByChance = async (number: number): Promise<HttpReply> => {
      const connection = free.shift()!
      const reply = await connection.get(path, tokenOf(number))
      free.push(connection)
      return reply
    }
    const getOverOwn = (number: number): Promise<HttpReply> => {
      const place = (number % atATime) % connections
      const reply = under[place]!.then(() => all[place]!.get(path, tokenOf(number)))
      under[place] = reply
      return reply
    }
    const lane = async () => {
      for (let now = performance.now(); now < until && count < most;) {
        const number = first + count++
        const reply = await (isKept ? getOverOwn(number) : getByChance(number))
        if (reply.status !== 200) throw new Error(`GET ${path}: ${reply.status} ${reply.body.toString()}`)
        const done = performance.now()
        latency.record(done - now)
        now = done
      }
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
    return { gets: count, seconds: (performance.now() - from) / 1_000, latency: latency.summary() }
  })
}

const connectionsOfALane = 4

async function requests({ url, requests, inFlight }: Requesting): Promise<Commands["requests"]["output"]> {
  const latency = new Histogram()
  return withConnections(url, Array.from({ length: inFlight * connectionsOfALane }), async all => {
    const queue = requests.values()
    const from = performance.now()
    const lane = async (first: number) => {
      let turn = 0
      for (const { method, path, token, body } of queue) {
        const sentAt = performance.now()
        const connection = all[first + inFlight * (turn++ % connectionsOfALane)]!
        const reply = await connection.request(method, path, token, body)
        if (reply.status !== 200) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.toString()}`)
        latency.record(performance.now() - sentAt)
      }
    }
    await Promise.all(Array.from({ length: inFlight }, (_, i) => lane(i)))
    return { count: requests.length, seconds: (performance.now() - from) / 1_000, latency: latency.summary() }
  })
}

let watching: Watch | undefined

/** Which sessions have got an event. */
class Watch {
  readonly #mark: Buffer
  readonly #told = new Set<number>()
  #lastAt = 0
  posts = 0

  constructor(name: string) {
    this.#mark = Buffer.from(`"t":"${name}"`)
  }

  look(session: number, frame: Buffer): void {
    // A dispatch begins with its name.
    if (this.#told.has(session) || frame.subarray(0, 64).indexOf(this.#mark) < 0) return
    this.#told.add(session)
    this.#lastAt = performance.timeOrigin + performance.now()
  }

  get told(): Told {
    return { sessions: this.#told.size, lastAt: this.#lastAt, posts: this.posts }
  }
}

function watch({ name }: Commands["watch"]["input"]): null {
  const begun = new Watch(name)
  watching = begun
  onMarked = () => {
    begun.posts++
  }
  return null
}

async function watched({ restMs }: Commands["watched"]["input"]): Promise<Told> {
  const until = performance.now() + lostAfterMs
  while (watching!.told.sessions < expected) {
    if (lost !== undefined) throw lost
    if (performance.now() > until)
      throw new Error(
        `${expected - watching!.told.sessions} of ${expected} sessions were not told within ${lostAfterMs / 1_000} s`,
      )
    await pause(5)
  }
  await pause(restMs)
  const { told } = watching!
  watching = undefined
  return told
}

async function ping({ url, posters, everyMs, seconds, run }: Pinging): Promise<Commands["ping"]["output"]> {
  const latencies = posters.map(() => sessions.map((): number[] => []))
  let sentAt = 0
  let from = 0
  let missing = 0
  let everywhere = () => undefined as void
  onMarked = session => {
    latencies[from]![session]!.push(performance.now() - sentAt)
    if (--missing === 0) everywhere()
  }
  const addresses = posters.map(poster => poster.address)
  return withConnections(url, addresses, async connections => {
    const until = performance.now() + seconds * 1_000
    for (let number = 0; performance.now() < until; number++) {
      from = number % posters.length
      missing = sessions.length
      const arrived = new Promise<void>(resolve => {
        everywhere = resolve
      })
      const body = markedBody(number, run)
      sentAt = performance.now()
      await Promise.all([post(connections[from]!, posters[from]!, body), within(arrived, "a post at every session")])
      // Not in step with any timer of the server's.
      await pause(everyMs * (0.5 + Math.random()))
    }
    return { latencies }
  })
}

function within<T>(promise: Promise<T>, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(lost ?? new Error(`${what} did not come within ${lostAfterMs / 1_000} s`))
    const timer = setTimeout(late, lostAfterMs)
    promise.finally(() => clearTimeout(timer)).then(resolve, reject)
  })
}

const pause = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

const commands: { [N in keyof Commands]: (input: Commands[N]["input"]) => unknown } = {
  connect,
  open,
  identify,
  disconnect,
  drop,
  back,
  readSlowly,
  sample,
  listen,
  answer,
  fanOut,
  posts,
  signIn,
  stopSigningIn,
  gets,
  requests,
  watch,
  watched,
  ping,
}

async function obey({ id, name, input }: { id: number; name: keyof Commands; input: never }): Promise<void> {
  try {
    const output = await commands[name](input)
    if (lost !== undefined) throw lost
    process.send?.({ id, output })
  } catch (cause) {
    process.send?.({ id, failure: (cause as Error).message })
  }
}

process.on("message", (request: Parameters<typeof obey>[0] | { heard: number }) => {
  if ("heard" in request) {
    onHeardElsewhere(request.heard)
    return
  }
  obey(request).catch((cause: unknown) => {
    throw cause
  })
})
process.on("disconnect", () => {
  clearInterval(beating)
  process.exit()
})
