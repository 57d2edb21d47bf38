/**
 * The clients of one server, in a process of their own, so that nothing they cost counts as the server's. It does what the
 * benchmark asks of it over IPC; posts and frames meet here, so latencies are differences of one clock.
 */
import { closeCodes } from "../../src/contract/gateway-codes.ts"
import { Histogram } from "../statistics.ts"
import type { LatencySummary } from "../statistics.ts"
import { HttpConnection } from "./http-connection.ts"
import { markedBody, markedNumber } from "./marked-posts.ts"
import { Session, SessionClosed } from "./session.ts"
import type { SessionOptions } from "./session.ts"

export interface Poster {
  /** Of the REST interface, with the channel in it. */
  path: string
  token: string
}

export interface Connecting {
  /** WebSocket URL. */
  url: string
  /** One session each; null where nobody identifies. */
  tokens: (string | null)[]
  /** To connect from, in turn; one has no more than some 28,000 ports. */
  addresses: string[]
  atOnce: number
}

export interface Posting {
  /** HTTP origin. */
  url: string
  posters: Poster[]
  inFlight: number
  /** Of each lane, from one post to the next at least. */
  everyMs: number
  seconds: number
  /** Makes the nonces of this run differ from those of any other. */
  run: string
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

export interface Commands {
  connect: { input: Connecting; output: { seconds: number } }
  disconnect: { input: null; output: null }
  /** Posts one message and answers a frame of it as it came. */
  sample: { input: { url: string; poster: Poster; run: string }; output: { frame: string } }
  /** Posts one message and answers what the server answered. */
  answer: { input: { url: string; poster: Poster; run: string }; output: { body: string } }
  /** A post is in flight until every session has its frame. */
  fanOut: { input: Posting; output: Throughput & { deliveries: number } }
  /** A post is in flight until it is answered. */
  posts: { input: Posting; output: Throughput }
  /** Posts now and then; answers the milliseconds to each session, by poster and session. */
  ping: { input: Pinging; output: { latencies: number[][][] } }
}

/** How long a frame may be on its way before the run has failed. */
const lostAfterMs = 20_000
/** The server asks for a heartbeat every 45 s. */
const heartbeatEverySeconds = 35
const attempts = 20

let sessions: Session[] = []
/** How many have a place in `sessions`, ready or not. */
let expected = 0
let lost: Error | undefined
let onMarked: (session: number, number: number, frame: Buffer) => void = () => undefined

const beating = setInterval(() => {
  const tick = Math.floor(performance.now() / 1_000) % heartbeatEverySeconds
  for (let i = tick; i < sessions.length; i += heartbeatEverySeconds) sessions[i]?.heartbeat()
}, 1_000)

async function connect({ url, tokens, addresses, atOnce }: Connecting): Promise<{ seconds: number }> {
  const from = performance.now()
  const queue = tokens.entries()
  const lane = async () => {
    for (const [i, token] of queue) {
      const index = expected++
      sessions[index] = await begin({
        url,
        token: token ?? undefined,
        localAddress: addresses[i % addresses.length],
        onFrame: frame => {
          const number = markedNumber(frame)
          if (number !== undefined) onMarked(index, number, frame)
        },
        onLost: why => {
          lost ??= why
        },
      })
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return { seconds: (performance.now() - from) / 1_000 }
}

/** Comes back when a busy server asks for that. */
async function begin(options: SessionOptions): Promise<Session> {
  for (let attempt = 1; ; attempt++) {
    const session = new Session(options)
    try {
      await session.ready
      return session
    } catch (cause) {
      session.close()
      const mayRetry = cause instanceof SessionClosed && cause.code === closeCodes.try_again_later.code
      if (!mayRetry || attempt === attempts) throw cause
      await pause(500 * (0.5 + Math.random()))
    }
  }
}

function disconnect(): null {
  for (const session of sessions) session.close()
  sessions = []
  expected = 0
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

async function post(connection: HttpConnection, { path, token }: Poster, body: string): Promise<Buffer> {
  const reply = await connection.post(path, token, body)
  if (reply.status !== 200) throw new Error(`POST ${path}: ${reply.status} ${reply.body.toString()}`)
  return reply.body
}

const nobody = Array.from<undefined>({ length: 1 })

function sample({ url, poster, run }: Commands["sample"]["input"]): Promise<{ frame: string }> {
  return withConnections(url, nobody, async ([connection]) => {
    let missing = sessions.length
    const seen = new Promise<string>(resolve => {
      onMarked = (_session, _number, frame) => {
        if (--missing === 0) resolve(frame.toString())
      }
    })
    await post(connection!, poster, markedBody(0, run))
    return { frame: await within(seen, "a post at every session") }
  })
}

function answer({ url, poster, run }: Commands["answer"]["input"]): Promise<{ body: string }> {
  return withConnections(url, nobody, async ([connection]) => {
    const body = await post(connection!, poster, markedBody(0, run))
    return { body: body.toString() }
  })
}

async function fanOut({
  url,
  posters,
  inFlight,
  everyMs,
  seconds,
  run,
}: Posting): Promise<Commands["fanOut"]["output"]> {
  const latency = new Histogram()
  /** Per post: when it left, at how many sessions it is missing, whom to tell when it is everywhere. */
  const sentAt: number[] = []
  const missing: number[] = []
  const everywhere: (() => void)[] = []
  let deliveries = 0
  let doubled = 0
  onMarked = (_session, number) => {
    latency.record(performance.now() - sentAt[number]!)
    deliveries++
    const left = --missing[number]!
    if (left === 0) everywhere[number]!()
    else if (left < 0) doubled++
  }

  const connections = Math.max(inFlight, posters.length)
  return withConnections(url, Array.from({ length: connections }), async open => {
    const from = performance.now()
    const until = from + seconds * 1_000
    // Each lane has connections of its own and takes them in turn: alone, it still posts as many people on many workers.
    const lane = async (first: number) => {
      for (let turn = first; performance.now() < until; turn += inFlight) {
        const number = sentAt.length
        const arrived = new Promise<void>(resolve => everywhere.push(resolve))
        missing.push(sessions.length)
        const body = markedBody(number, run)
        const next = performance.now() + everyMs
        sentAt.push(performance.now())
        const poster = posters[turn % posters.length]!
        await Promise.all([post(open[turn % connections]!, poster, body), within(arrived, "a post at every session")])
        if (performance.now() < next) await pause(next - performance.now())
      }
    }
    await Promise.all(Array.from({ length: inFlight }, (_, i) => lane(i)))
    const took = (performance.now() - from) / 1_000
    if (doubled > 0) throw new Error(`${doubled} frames came twice`)
    return { posts: sentAt.length, deliveries, seconds: took, latency: latency.summary() }
  })
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
  disconnect,
  sample,
  answer,
  fanOut,
  posts,
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

process.on("message", (request: Parameters<typeof obey>[0]) => {
  obey(request).catch((cause: unknown) => {
    throw cause
  })
})
process.on("disconnect", () => {
  clearInterval(beating)
  process.exit()
})
