/**
 * A server of its own with two web workers and every limit, a stranger who uses it, and a process apart in which one
 * tenant does its worst. What the stranger observes is measured.
 */
import { fork, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay, performance } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { openPool, type Sql } from "../../src/storage/core/database.ts"
import { startPostgres } from "../chaos/local.ts"
import { plantScene, type Account, type Scene } from "./neighbour-scene.ts"
import { startProcesses, type Processes } from "./processes.ts"
import { until } from "./until.ts"

const program = fileURLToPath(new URL("../security/bad-neighbour/neighbour-process.ts", import.meta.url))

/** How many web workers there are. */
const workers = 2
/** The stranger does something so often, and has so many sessions that all have to be told of it. */
const everyMs = 100
const sessions = 4
/** What is posted has to be answered and delivered so long after the last post. */
const patienceMs = 10_000

export interface Times {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** What a stranger noticed in one period. */
export interface Observation {
  /** From the post to its answer, from the post to MESSAGE_CREATE on the last session, and of `/livez`. */
  readonly posts: Times
  readonly deliveries: Times
  readonly livez: Times
  /** Posts and looks at `/livez` that were not answered with 2xx, and posts that a session was not told of. */
  readonly failures: readonly string[]
  /** The longest time that the event loop of a web worker was not looked at. */
  readonly stallMs: number
  /** The same of the process that measures: what other work on the machine, and nobody's neighbour, does to a process. */
  readonly ownStallMs: number
  /** Of the web worker that holds the most. */
  readonly residentBytes: number
}

export interface Measurement {
  readonly name: string
  readonly rest: Observation
  readonly during: Observation
  readonly after: Observation
  /** By how much the worker that grew most had grown, at its worst. */
  readonly grownBytes: number
  /** What the neighbour was answered, by status or close code. */
  readonly answers: Readonly<Record<string, number>>
  /** Web workers that ended, and complaints of workers that were declared dead. */
  readonly deaths: readonly string[]
}

export interface Periods {
  readonly restMs: number
  readonly duringMs: number
  readonly afterMs: number
}

/** From the process of the neighbour. */
export type Reply =
  | { type: "ready" }
  | { type: "done"; answers: Record<string, number> }
  | { type: "failed"; error: string }

export interface MeasuredServer {
  measure(name: string, times: Periods): Promise<Measurement>
  stop(): Promise<void>
}

/** @param version another version's `main.js` */
export async function startMeasuredServer(version?: string): Promise<MeasuredServer> {
  const undo: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    const folder = await mkdtemp(join(tmpdir(), "starling-neighbours-"))
    undo.push(() => rm(folder, { recursive: true, force: true }))
    const database = await startPostgres(join(folder, "postgres"), false)
    undo.push(() => database.stop())
    const env = {
      WORKERS: String(workers),
      DATABASE_URL: database.url,
      RATE_LIMITS: "on",
      CONNECTIONS_PER_USER: "5",
      UNLIMITED_ADDRESSES: "",
      TRUSTED_PROXIES: "127.0.0.1",
    }
    const server = await startProcesses(env, version)
    undo.push(() => server.stop())
    const sql = openPool({
      url: database.url,
      connections: 2,
      statementTimeoutMs: 30_000,
      connectTimeoutMs: 5_000,
      name: "neighbours",
    })
    undo.push(() => sql.end({ timeout: 1 }))
    const scene = await plantScene(sql, server.url, await shardsOfOwners(sql))
    const stranger = await Stranger.start(server, scene)
    undo.push(async () => stranger.stop())
    const neighbour = fork(program, {
      execArgv: ["--import", "tsx"],
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    })
    undo.push(() => ended(neighbour))
    neighbour.send({ type: "scene", scene })
    return { measure: (name, times) => measure({ server, stranger, neighbour }, name, times), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill("SIGKILL")
  await once(child, "exit")
}

/** A shard of each web worker, once all shards have their owners. */
async function shardsOfOwners(sql: Sql): Promise<number[]> {
  const read = () => sql<{ owner: string | null; shard: number; count: number }[]>`
    SELECT owner, min(shard)::int AS shard, count(*)::int AS count FROM shards GROUP BY owner ORDER BY owner`
  await until(
    "every worker owns shards",
    async () => {
      const rows = await read()
      const counts = rows.map(row => row.count)
      return (
        rows.length === workers &&
        rows.every(row => row.owner !== null) &&
        2 * Math.min(...counts) > Math.max(...counts)
      )
    },
    { timeoutMs: 30_000 },
  )
  return (await read()).map(row => row.shard)
}

interface Stage {
  readonly server: Processes
  readonly stranger: Stranger
  readonly neighbour: ChildProcess
}

async function measure({ server, stranger, neighbour }: Stage, name: string, times: Periods): Promise<Measurement> {
  const web = await webWorkers(server)
  const complaints = server.stderr().length
  const prepared = reply(neighbour)
  neighbour.send({ type: "measure", name, forMs: times.duringMs })
  if ((await prepared).type !== "ready") throw new Error(`${name} did not begin`)
  const memory = watchMemory(web)
  try {
    const rest = await stranger.observe(times.restMs, memory.most)
    const before = memory.each()
    memory.forget()
    const over = reply(neighbour)
    neighbour.send({ type: "go" })
    const during = await stranger.observe(times.duringMs, memory.most)
    const last = await over
    if (last.type !== "done") throw new Error(`${name} came to no end`)
    const grown = memory.each().map((bytes, at) => bytes - before[at]!)
    const after = await stranger.observe(times.afterMs, memory.most)
    const left = await webWorkers(server)
    const deaths = [
      ...web.filter(pid => !left.includes(pid)).map(pid => `web worker ${pid} ended`),
      ...(server
        .stderr()
        .slice(complaints)
        .match(/[^"]*declared dead[^"]*|[^"]*is stuck[^"]*/g) ?? []),
    ]
    return { name, rest, during, after, grownBytes: Math.max(...grown), answers: last.answers, deaths }
  } finally {
    memory.end()
  }
}

async function reply(child: ChildProcess): Promise<Reply> {
  const over = new AbortController()
  const [message] = (await Promise.race([
    once(child, "message", { signal: over.signal }),
    once(child, "exit", { signal: over.signal }).then(() => [
      { type: "failed", error: "the neighbour's process ended" },
    ]),
  ])) as [Reply]
  over.abort()
  if (message.type === "failed") throw new Error(message.error)
  return message
}

const webWorkers = async (server: Processes): Promise<number[]> =>
  (await server.workers()).filter(({ slot }) => slot.startsWith("web")).map(({ pid }) => pid)

/** Resident bytes of processes, the most since they were forgotten. */
function watchMemory(pids: readonly number[]) {
  let most = pids.map(() => 0)
  const read = async () => {
    const now = await Promise.all(
      pids.map(async pid => {
        const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "")
        return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
      }),
    )
    most = most.map((bytes, at) => Math.max(bytes, now[at]!))
  }
  const timer = setInterval(() => void read(), 100)
  return {
    each: () => [...most],
    most: () => Math.max(...most),
    forget: () => (most = most.map(() => 0)),
    end: () => clearInterval(timer),
  }
}

interface Post {
  readonly at: number
  readonly told: Set<number>
  deliveredMs: number | undefined
}

/** Somebody with accounts, a server on each worker and sessions on all of them, who does nothing unusual. */
class Stranger {
  readonly #server: Processes
  readonly #scene: Scene
  readonly #sockets: NodeWebSocket[] = []
  readonly #posts = new Map<string, Post>()
  #heartbeat: NodeJS.Timeout | undefined
  #posted = 0

  private constructor(server: Processes, scene: Scene) {
    this.#server = server
    this.#scene = scene
  }

  static async start(server: Processes, scene: Scene): Promise<Stranger> {
    const stranger = new Stranger(server, scene)
    const isEverywhere = async () => {
      const live = [...(await server.metrics())].filter(
        ([name, value]) => name.startsWith("starling_gateway_sessions{") && name.includes('"live"') && value > 0,
      )
      return live.length === workers
    }
    // The kernel gives a connection to any worker.
    while (stranger.#sockets.length < sessions || !(await isEverywhere())) {
      if (stranger.#sockets.length >= scene.strangers.length) throw new Error("no session on one of the workers")
      await stranger.#listen(scene.strangers[stranger.#sockets.length]!)
    }
    stranger.#heartbeat = setInterval(() => {
      for (const socket of stranger.#sockets) socket.send('{"op":1,"d":null}')
    }, 20_000)
    await stranger.observe(1_000, () => 0) // what is made once is there before it is measured
    return stranger
  }

  stop(): void {
    clearInterval(this.#heartbeat)
    for (const socket of this.#sockets) socket.terminate()
  }

  async #listen({ token, address }: Account): Promise<void> {
    const socket = new NodeWebSocket(`${this.#scene.url.replace("http", "ws")}/gateway`, undefined, {
      headers: { "X-Forwarded-For": address },
    })
    const at = this.#sockets.push(socket) - 1
    let isReady = false
    /* oxlint-disable unicorn/prefer-add-event-listener */
    socket.onopen = () => socket.send(JSON.stringify({ op: 2, d: { token } }))
    socket.onmessage = ({ data }) => {
      const text = String(data)
      if (text.includes('"READY"')) isReady = true
      if (!text.includes('"MESSAGE_CREATE"')) return
      const post = this.#posts.get((JSON.parse(text) as { d: { content: string } }).d.content)
      post?.told.add(at)
      if (post?.told.size === this.#sockets.length) post.deliveredMs ??= performance.now() - post.at
    }
    /* oxlint-enable unicorn/prefer-add-event-listener */
    await until("a stranger's session is ready", () => isReady, { timeoutMs: 20_000 })
  }

  /** Posts and asks all the time, and waits in the end until all of it was answered and delivered. */
  async observe(forMs: number, residentBytes: () => number): Promise<Observation> {
    const looksBefore = await this.#lateLooks()
    const own = monitorEventLoopDelay({ resolution: 10 })
    own.enable()
    const failures: string[] = []
    const answered: number[] = []
    const livez: number[] = []
    const posts: Post[] = []
    const pending: Promise<void>[] = []
    const from = performance.now()
    for (let n = 0; n * everyMs < forMs; n++) {
      await sleep(Math.max(0, from + n * everyMs - performance.now()))
      pending.push(this.#post(answered, failures, posts), this.#askLivez(livez, failures))
    }
    await Promise.all(pending)
    const isDelivered = () => posts.every(post => post.deliveredMs !== undefined)
    await until("everything is delivered", isDelivered, { timeoutMs: patienceMs, everyMs: 10 }).catch(() => {})
    for (const post of posts)
      if (post.deliveredMs === undefined)
        failures.push(`${this.#sockets.length - post.told.size} sessions were not told of a post`)
    this.#posts.clear()
    own.disable()
    return {
      posts: timesOf(answered),
      deliveries: timesOf(posts.flatMap(({ deliveredMs }) => deliveredMs ?? [])),
      livez: timesOf(livez),
      failures,
      stallMs: longestStallMs(looksBefore, await this.#lateLooks()),
      ownStallMs: Math.max(0, own.max / 1e6 - 10),
      residentBytes: residentBytes(),
    }
  }

  async #post(answered: number[], failures: string[], posts: Post[]): Promise<void> {
    const { strangers, strangerChannels } = this.#scene
    const n = this.#posted++
    // Everybody in turn, and in the server of each worker: nobody comes near a limit.
    const author = strangers[n % strangers.length]!
    const channel = strangerChannels[n % strangerChannels.length]!
    const content = `post ${n}`
    const post: Post = { at: performance.now(), told: new Set(), deliveredMs: undefined }
    this.#posts.set(content, post)
    const status = await this.#ask("POST", `/api/v1/channels/${channel}/messages`, author, { content })
    answered.push(performance.now() - post.at)
    if (status === 200 || status === 201) posts.push(post)
    else failures.push(`a post was answered ${status}`)
  }

  async #askLivez(livez: number[], failures: string[]): Promise<void> {
    const at = performance.now()
    const status = await this.#ask("GET", "/livez", this.#scene.strangers[0]!)
    livez.push(performance.now() - at)
    if (status !== 200) failures.push(`/livez was answered ${status}`)
  }

  /** Over a connection of its own: to any of the workers. @returns the status, 0: no answer */
  #ask(method: string, path: string, { token, address }: Account, body?: object): Promise<number> {
    const headers = {
      authorization: `Bearer ${token}`,
      "x-forwarded-for": address,
      ...(body && { "content-type": "application/json" }),
    }
    return new Promise(resolve => {
      const asked = request(`${this.#scene.url}${path}`, { method, headers, agent: false, timeout: patienceMs })
      asked.on("response", response => {
        response.on("error", () => resolve(0)).resume()
        response.on("end", () => resolve(response.statusCode ?? 0))
      })
      asked.on("timeout", () => asked.destroy())
      asked.on("error", () => resolve(0))
      asked.end(body && JSON.stringify(body))
    })
  }

  /** How many looks at the event loops of web workers were late by no more than so many seconds. */
  async #lateLooks(): Promise<Map<number, number>> {
    const looks = new Map<number, number>()
    for (const [name, count] of await this.#server.metrics()) {
      const bound = /^starling_event_loop_delay_seconds_bucket(?=.*"web-).*\ble="([^"]+)"/.exec(name)?.[1]
      if (bound === undefined) continue
      const seconds = bound === "+Inf" ? Infinity : Number(bound)
      looks.set(seconds, (looks.get(seconds) ?? 0) + count)
    }
    return looks
  }
}

/** Milliseconds that the longest of the looks between was late at least: the bound below its bucket. */
function longestStallMs(before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>): number {
  let [longest, lower, counted] = [0, 0, 0]
  for (const bound of [...after.keys()].sort((a, b) => a - b)) {
    const count = after.get(bound)! - (before.get(bound) ?? 0)
    if (count > counted) longest = lower
    counted = count
    lower = bound
  }
  return longest * 1e3
}

function timesOf(samples: readonly number[]): Times {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
  return { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) }
}
