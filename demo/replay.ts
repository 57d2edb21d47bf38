/**
 * Replays a recorded conversation on a server while some of its authors listen, and holds what they
 * saw against what was acknowledged: every message of their channels, once, in order, letter by
 * letter.
 */
import { randomBytes } from "node:crypto"
import { parseArgs } from "node:util"
import { GatewayClient } from "../client/gateway.ts"
import { ApiError, createClient } from "../client/rest.ts"
import type { Client } from "../client/rest.ts"
import { routes } from "../src/contract/contract.ts"
import { chooseListeners, compare, plan, quantile } from "./conversation.ts"
import type { Author, ChannelPlan, Line, Plan, Post, ServerPlan, Verdict } from "./conversation.ts"
import { startOwnServer } from "./own-server.ts"
import { Progress } from "./progress.ts"
import { readRecording } from "./recording.ts"

const usage = `npm run demo -- FILE [--url http://host:port] [--listeners 24] [--concurrency 32] [--limit N]

FILE           a git repository, or JSON lines (gzipped or not) with at, server, channel, author, text
--url          a running server with limits off; without it one is started for the demo
--listeners    how many authors listen on the gateway meanwhile
--concurrency  how many channels are posted to at once
--limit        read only that many messages`

/** Each registration costs the server one password hash: more at once would only queue. */
const maxConcurrentRegistrations = 8
/** The listeners are given up on when nothing arrives for this long after the last post. */
const quietMs = 15_000

/** What stops the demo with a sentence and without a stack. */
class Stop extends Error {}

type Starling = Client<typeof routes>

interface Arguments {
  file: string
  url: string | undefined
  listeners: number
  concurrency: number
  limit: number
}

function readArguments(): Arguments {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      url: { type: "string" },
      listeners: { type: "string", default: "24" },
      concurrency: { type: "string", default: "32" },
      limit: { type: "string" },
    },
  })
  const number = (name: string, value: string, least: number) => {
    if (!/^\d+$/.test(value) || Number(value) < least)
      throw new Stop(`--${name} takes a whole number from ${least}\n\n${usage}`)
    return Number(value)
  }
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0) throw new Stop(usage)
  return {
    file,
    url: values.url,
    listeners: number("listeners", values.listeners, 0),
    concurrency: number("concurrency", values.concurrency, 1),
    limit: values.limit === undefined ? Infinity : number("limit", values.limit, 1),
  }
}

async function main(): Promise<void> {
  const { file, url, listeners, concurrency, limit } = readArguments()
  const run = Date.now().toString(36).slice(-6)
  const conversation = plan(await read(file, limit), run)
  const { servers, authors, channels, posts, skipped } = conversation
  say(
    `${file}: ${count(posts)} messages by ${count(authors)} authors in ${servers.length} servers and ${channels} channels`,
  )
  for (const [reason, many] of skipped) say(`skipped ${count(many)}: ${reason}`)
  if (posts === 0) throw new Stop("nothing to replay")

  if (url !== undefined) {
    await replay(url, conversation, run, listeners, concurrency)
    return
  }
  say("starting a server …")
  const own = await startOwnServer()
  const interrupted = () => {
    own.stop().then(
      () => process.exit(130),
      () => process.exit(130),
    )
  }
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
  try {
    await replay(own.url, conversation, run, listeners, concurrency)
  } finally {
    await own.stop()
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
  }
}

async function read(file: string, limit: number): Promise<Line[]> {
  const lines: Line[] = []
  try {
    for await (const line of readRecording(file)) {
      lines.push(line)
      if (lines.length >= limit) break
    }
  } catch (cause) {
    throw new Stop((cause as Error).message, { cause })
  }
  return lines
}

async function replay(
  url: string,
  conversation: Plan,
  run: string,
  listeners: number,
  concurrency: number,
): Promise<void> {
  const { servers, authors } = conversation
  const anonymous = createClient({ baseUrl: url, retry: true, fetch: unlimited }, routes)
  const { age_gate_enabled: hasAgeGate } = await anonymous.getPasswordRequirements()
  const password = `Demo-7-${randomBytes(12).toString("base64url")}`

  const register = async (username: string): Promise<Starling> => {
    const ofAge = hasAgeGate ? { age: 30, age_verified: true, dob: "1990-01-01" } : {}
    const { token } = await anonymous.register({ username, email: `${username}@example.com`, password, ...ofAge })
    if (token === null) throw new Error(`${username} was registered without a token`)
    return anonymous.as(token)
  }

  const registering = new Progress("registering", authors)
  const clients: Starling[] = []
  await eachConcurrently(
    maxConcurrentRegistrations,
    servers.flatMap(server => server.authors),
    async author => {
      clients[author.index] = await register(author.username)
      registering.step()
    },
  )
  const registrationRate = registering.end()

  const joining = new Progress("joining", authors)
  const channelIds = new Map<ChannelPlan, string>()
  for (const [index, server] of servers.entries()) {
    const owner = await register(`owner_${index + 1}_${run}`)
    const code = await build(owner, server, channelIds)
    await eachConcurrently(maxConcurrentRegistrations, server.authors, async ({ index }) => {
      await clients[index]!.joinByInvite({ invite_code: code })
      joining.step()
    })
  }
  const joinRate = joining.end()

  const hearing = await Hearing.open(url, chooseListeners(servers, listeners), clients, conversation, run)
  try {
    const posting = await post(conversation, clients, channelIds, run, concurrency)
    const deliverySeconds = await hearing.settle(posting.sent, channelIds)
    const isWhole = hearing.report(posting, channelIds)
    say(
      [
        `registrations  ${rate(registrationRate)}, joins ${rate(joinRate)}`,
        `messages       ${count(posting.latencies.length)} acknowledged in ${posting.seconds.toFixed(1)} s, ${rate(posting.latencies.length / posting.seconds)}`,
        `post latency   p50 ${ms(quantile(posting.latencies, 0.5))}, p99 ${ms(quantile(posting.latencies, 0.99))}`,
        `deliveries     ${count(hearing.deliveries)}, ${rate(hearing.deliveries / (posting.seconds + deliverySeconds))}`,
      ].join("\n"),
    )
    if (!isWhole) throw new Stop("FAILED: what was acknowledged is not what was seen")
    say("every listener saw every message of its channels once, in order, letter by letter")
  } finally {
    hearing.close()
  }
}

/** One server with its channels, as its owner makes it; answers an invite. */
async function build(owner: Starling, { name, channels }: ServerPlan, ids: Map<ChannelPlan, string>): Promise<string> {
  const server = await owner.createServer({ name })
  for (const plan of channels) {
    const channel = await owner.createChannel({ server_id: server.id, name: plan.name, type: "text" })
    ids.set(plan, channel.id)
  }
  const { code } = await owner.createInvite({ channel_id: ids.get(channels[0]!)!, max_age: 0, max_uses: 0 })
  return code
}

interface Posting {
  /** Per channel, the acknowledged posts in their order. */
  sent: Map<ChannelPlan, Post[]>
  /** Post index → message id. */
  ids: Map<number, string>
  /** Milliseconds, sorted. */
  latencies: number[]
  refused: number
  seconds: number
}

/** Channels beside each other, the messages of one channel one after another. */
async function post(
  { servers, posts }: Plan,
  clients: readonly Starling[],
  channelIds: ReadonlyMap<ChannelPlan, string>,
  run: string,
  concurrency: number,
): Promise<Posting> {
  const posting: Posting = { sent: new Map(), ids: new Map(), latencies: [], refused: 0, seconds: 0 }
  const progress = new Progress("posting", posts)
  const startedAt = performance.now()
  // The longest first, or the last one would run alone.
  const channels = servers.flatMap(server => server.channels).sort((a, b) => b.posts.length - a.posts.length)
  await eachConcurrently(concurrency, channels, async channel => {
    const sent: Post[] = []
    posting.sent.set(channel, sent)
    for (const one of channel.posts) {
      const from = performance.now()
      try {
        const message = await clients[one.author.index]!.createMessage({
          channel_id: channelIds.get(channel)!,
          content: one.text,
          nonce: nonceOf(run, one.index),
        })
        posting.latencies.push(performance.now() - from)
        posting.ids.set(one.index, message.id)
        sent.push(one)
      } catch (cause) {
        if (cause instanceof Stop) throw cause
        if (posting.refused++ < 5) say(`refused: ${channel.name}, post ${one.index}: ${(cause as Error).message}`)
      }
      progress.step()
    }
  })
  progress.end()
  posting.seconds = (performance.now() - startedAt) / 1_000
  posting.latencies.sort((a, b) => a - b)
  return posting
}

const nonceOf = (run: string, index: number) => `demo-${run}-${index}`

interface Ear {
  author: Author
  server: ServerPlan
  client: GatewayClient
  /** Channel id → post indexes as they came. */
  seen: Map<string, number[]>
}

/** The listeners, and what they heard. */
class Hearing {
  deliveries = 0
  #altered = 0
  #reconnections = 0
  #lastAt = 0
  readonly #ears: Ear[] = []
  /** Post index → message id, as the first listener saw it. */
  readonly #ids = new Map<number, string>()

  static async open(
    url: string,
    chosen: { server: ServerPlan; author: Author }[],
    clients: readonly Starling[],
    conversation: Plan,
    run: string,
  ): Promise<Hearing> {
    const hearing = new Hearing()
    const posts = new Map(
      conversation.servers.flatMap(({ channels }) =>
        channels.flatMap(channel => channel.posts.map(one => [nonceOf(run, one.index), one] as const)),
      ),
    )
    await Promise.all(
      chosen.map(async ({ server, author }, index) => {
        const encoding = index % 2 ? "msgpack" : "json"
        const client = new GatewayClient({ url, token: clients[author.index]!.token!, encoding })
        const ear: Ear = { author, server, client, seen: new Map() }
        hearing.#ears.push(ear)
        client.on("close", () => {
          hearing.#reconnections++
        })
        client.on("MESSAGE_CREATE", message => hearing.#hear(ear, message, posts.get(message.nonce ?? "")))
        await client.connect()
      }),
    )
    say(`${hearing.#ears.length} authors listen`)
    return hearing
  }

  #hear(ear: Ear, message: { id: string; channel_id: string; content: string | null }, post: Post | undefined): void {
    this.deliveries++
    this.#lastAt = performance.now()
    const seen = ear.seen.get(message.channel_id) ?? []
    ear.seen.set(message.channel_id, seen)
    seen.push(post?.index ?? -1)
    if (!post) return
    const id = this.#ids.get(post.index) ?? message.id
    this.#ids.set(post.index, id)
    if (message.content !== post.text || message.id !== id) this.#altered++
  }

  /**
   * Waits until everything that was acknowledged is in, or nothing more comes; answers the seconds
   * that took.
   */
  async settle(sent: ReadonlyMap<ChannelPlan, Post[]>, channelIds: ReadonlyMap<ChannelPlan, string>): Promise<number> {
    const from = performance.now()
    const isMissing = () =>
      this.#ears.some(({ server, seen }) =>
        server.channels.some(
          channel => (seen.get(channelIds.get(channel)!)?.length ?? 0) < (sent.get(channel)?.length ?? 0),
        ),
      )
    while (isMissing() && performance.now() - Math.max(this.#lastAt, from) < quietMs) await pause(20)
    const tookMs = Math.max(0, this.#lastAt - from)
    // What comes twice may come late.
    await pause(500)
    return tookMs / 1_000
  }

  /** Prints what is wrong; answers whether nothing is. */
  report(posting: Posting, channelIds: ReadonlyMap<ChannelPlan, string>): boolean {
    const sum: Verdict = { lost: 0, doubled: 0, disordered: 0, foreign: 0 }
    let worst = 0
    for (const { author, server, seen } of this.#ears) {
      for (const channel of server.channels) {
        const sent = (posting.sent.get(channel) ?? []).map(({ index }) => index)
        const verdict = compare(sent, seen.get(channelIds.get(channel)!) ?? [])
        for (const kind of Object.keys(sum) as (keyof Verdict)[]) sum[kind] += verdict[kind]
        const isWrong = Object.values(verdict).some(many => many > 0)
        if (isWrong && worst++ < 10)
          say(`${author.username} in ${server.name}/${channel.name}: ${JSON.stringify(verdict)}`)
      }
    }
    let altered = this.#altered
    for (const [index, id] of posting.ids) if ((this.#ids.get(index) ?? id) !== id) altered++
    const { refused } = posting
    say(
      `\nlisteners      ${this.#ears.length}, reconnected ${this.#reconnections} times\n` +
        `lost ${sum.lost}, doubled ${sum.doubled}, out of order ${sum.disordered}, altered ${altered}, of others ${sum.foreign}, refused ${refused}`,
    )
    return [sum.lost, sum.doubled, sum.disordered, sum.foreign, altered, refused].every(many => many === 0)
  }

  close(): void {
    for (const { client } of this.#ears) client.close()
  }
}

/**
 * `fetch` that stops the demo at the first sign of limits: a replay that waits for them shows
 * nothing.
 */
const unlimited: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  const isLimited = response.headers.has("x-ratelimit-limit") && response.headers.get("x-ratelimit-scope") !== "bypass"
  if (response.status === 429 || isLimited) {
    throw new Stop("this server limits its callers; start it with RATE_LIMITS=off, or leave out --url")
  }
  return response
}

/** Runs `work` on every item, `width` at a time; the first failure stops the rest. */
async function eachConcurrently<T>(
  width: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values()
  let isStopped = false
  const lane = async () => {
    for (const item of queue) {
      if (isStopped) return
      try {
        await work(item)
      } catch (cause) {
        isStopped = true
        throw cause
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: width }, lane))
  for (const end of ends) if (end.status === "rejected") throw end.reason
}

const pause = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))
const count = (n: number) => n.toLocaleString("en")
const rate = (perSecond: number) => `${count(Math.round(perSecond))}/s`
const ms = (value: number) => `${value.toFixed(1)} ms`
const say = (text: string) => process.stdout.write(`${text}\n`)

try {
  await main()
} catch (cause) {
  const isPlain = cause instanceof Stop || cause instanceof ApiError
  process.stderr.write(`${isPlain ? cause.message : (cause as Error).stack}\n`)
  process.exitCode = 1
}
