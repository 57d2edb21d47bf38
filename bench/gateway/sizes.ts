/**
 * What a delivery costs, by how many hear it: one server's channel before more and more sessions,
 * and the same sessions over more and more servers. Clients ask for different intents and
 * encodings, as they do. The floor is a bare `publish()` of frames of the same length to as many
 * sockets of the same kinds.
 */
import type { BareServer } from "../bare/bare-server.ts"
import type { BareGatewayOptions } from "../bare/gateway.ts"
import type { Harness, Starling } from "../harness.ts"
import { everyMs, saturation } from "../fan-out.ts"
import type { FanOutCase, FanOutRun } from "../fan-out.ts"
import type { LoadGroup } from "../load/load-group.ts"
import type { Kind, Poster } from "../load/load-process.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { Parts } from "../processes.ts"
import { alternate, compare, newRun, pause, scale, sum } from "../trials.ts"

const loadGroupsOfABareServer = 2
/**
 * What clients ask for: everything; the default; nearly all but typing and content; messages only;
 * what brings none of them.
 */
const masks = [65_535, 32_509, 4_607 + 512, 512, 1]
const messages = 512
const encodings = ["json", "msgpack", "json-zlib"] as const

/** Every mask in every encoding: neighbours differ in both. */
export const mixedKinds: readonly Kind[] = Array.from({ length: masks.length * encodings.length }, (_, i) => {
  const encoding = encodings[i % encodings.length]!
  const intents = masks[i % masks.length]!
  return {
    query: `encoding=${encoding.replace("-zlib", "")}`,
    intents,
    compress: encoding.endsWith("-zlib"),
    inflates: encoding.endsWith("-zlib"),
    hears: (intents & messages) !== 0,
  }
})
const plainKinds: readonly Kind[] = [{ query: "encoding=json", hears: true }]

/** A socket of the bare server for each client. */
const bareKind = (kind: Kind): Kind => ({
  query: `class=${kind.hears ? classOf(kind) : "none"}`,
  hears: kind.hears,
})
const classOf = ({ query, compress }: Kind) => `${query.replace("encoding=", "")}${compress ? "-zlib" : ""}`

export interface SizesExtent {
  readonly runs: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** After connecting: what others are told of it is on its way. */
  readonly settleSeconds: number
  /** Sessions of one server. */
  readonly audiences: readonly number[]
  /** Of these with one encoding and one mask. */
  readonly plainAudiences: readonly number[]
  /** In one process of clients; twice as many in one of the bare server. */
  readonly sessionsOfALoadGroup: number
  /** Over how many servers the sessions of a spread are. */
  readonly servers: readonly number[]
  /** Web workers. */
  readonly workers: number
}

export interface SizeResult {
  readonly clients: "mixed" | "plain"
  readonly workers: number
  readonly sessions: number
  readonly servers: number
  /** Who hears a post, on average. */
  readonly hearers: number
  readonly frameBytes: Record<string, number>
  readonly saturated: FanOutCase
  readonly oneAtATime: FanOutCase
}

/** Clients in as many processes as they need, of which the first posts. */
class LoadGroups {
  readonly #harness: Harness
  readonly #urls: readonly string[]
  readonly #kinds: readonly Kind[]
  readonly #servers: number
  readonly #sessionsOfALoadGroup: number
  readonly #list: { loadGroup: LoadGroup; sessions: number; stop: () => Promise<void> }[] = []
  #count = 0

  /**
   * @param urls gateways; each takes as many groups of load clients as a bare server does, the last
   * one all that come after.
   */
  constructor(
    { harness, extent, servers }: Pick<Setting, "harness" | "extent" | "servers">,
    urls: readonly string[],
    kinds: readonly Kind[],
  ) {
    this.#harness = harness
    this.#sessionsOfALoadGroup = extent.sessionsOfALoadGroup
    this.#urls = urls
    this.#kinds = kinds
    this.#servers = servers
  }

  get first(): LoadGroup {
    return this.#list[0]!.loadGroup
  }

  async grow(tokens: readonly string[], to: number): Promise<void> {
    while (this.#count < to) {
      let last = this.#list.at(-1)
      if (!last || last.sessions === this.#sessionsOfALoadGroup) {
        last = { ...this.#harness.startLoadGroup(), sessions: 0 }
        this.#list.push(last)
      }
      const more = Math.min(to - this.#count, this.#sessionsOfALoadGroup - last.sessions)
      const at = this.#list.length - 1
      const gateway = Math.min(Math.floor(at / loadGroupsOfABareServer), this.#urls.length - 1)
      await last.loadGroup.ask("connect", {
        url: this.#urls[gateway]!,
        tokens: tokens.slice(this.#count, this.#count + more),
        addresses: [`127.0.0.${40 + at}`, `127.0.0.${60 + at}`],
        maxConcurrent: 64,
        kinds: [...this.#kinds],
        servers: this.#servers,
        first: this.#count,
      })
      last.sessions += more
      this.#count += more
    }
  }

  /** A post is in flight until every session of all groups of load clients has it. */
  async fanOut(load: { url: string; mirrors: string[]; posters: Poster[]; inFlight: number; seconds: number }) {
    const others = this.#list.slice(1)
    const elsewhere = Array.from({ length: this.#servers }, () => ({ loadGroups: 0, sessions: 0 }))
    for (const { loadGroup } of others) {
      const { hearing } = await loadGroup.ask("listen", null)
      loadGroup.onHeard = number => this.first.heardElsewhere(number)
      for (const [server, sessions] of hearing.entries()) {
        elsewhere[server]!.loadGroups += sessions > 0 ? 1 : 0
        elsewhere[server]!.sessions += sessions
      }
    }
    const pace = load.inFlight === 1 ? everyMs : 0
    return this.first.ask("fanOut", { ...load, everyMs: pace, run: newRun(), elsewhere })
  }

  async stop(): Promise<void> {
    for (const { stop } of this.#list) await stop()
  }
}

export async function benchSizes(
  harness: Harness,
  extent: SizesExtent,
  say: (what: string) => void,
): Promise<SizeResult[]> {
  const { workers } = extent
  const starling = await harness.startStarling({ WORKERS: String(workers) })
  const results: SizeResult[] = []
  try {
    const { audience, spreads } = harness.population
    const hall = { tokens: audience.tokens, posters: audience.posters.slice(0, saturation), servers: 1 }
    const measure = async (
      clients: SizeResult["clients"],
      audiences: readonly number[],
      place: { tokens: string[]; posters: Poster[]; servers: number },
    ) => {
      const setting = { harness, starling, extent, say, ...place }
      if (audiences.length > 0) results.push(...(await measureGrowing(setting, clients, audiences)))
    }
    await measure("mixed", extent.audiences, hall)
    await measure("plain", extent.plainAudiences, hall)
    for (const spread of spreads)
      if (extent.servers.includes(spread.servers)) await measure("mixed", [spread.tokens.length], spread)
  } finally {
    await starling.stop()
  }
  return results
}

interface Setting {
  readonly harness: Harness
  readonly starling: Starling
  readonly extent: SizesExtent
  readonly say: (what: string) => void
  readonly tokens: readonly string[]
  readonly posters: Poster[]
  readonly servers: number
}

async function measureGrowing(
  setting: Setting,
  clients: SizeResult["clients"],
  audiences: readonly number[],
): Promise<SizeResult[]> {
  const { starling, extent, say, tokens, posters, servers } = setting
  const kinds = clients === "mixed" ? mixedKinds : plainKinds
  const url = starling.gatewayUrl.replace(/\?.*/, "?")
  const real = new LoadGroups(setting, [url], kinds)
  let bare: { loadGroups: LoadGroups; servers: BareServer[] } | undefined
  const results: SizeResult[] = []
  try {
    for (const sessions of audiences) {
      const how = `${sessions.toLocaleString("en")} ${clients} sessions in ${servers} server${servers > 1 ? "s" : ""}`
      say(`${how}: connecting`)
      await real.grow(tokens, sessions)
      await pause(extent.settleSeconds)
      const { bytes } = await real.first.ask("sample", { url: starling.url, poster: posters[0]!, run: newRun() })
      bare ??= await startBare(setting, kinds, Math.max(...audiences), bytes)
      await bare.loadGroups.grow(tokens, sessions)

      const [url, ...mirrors] = bare.servers.map(({ port }) => `http://127.0.0.1:${port}`)
      const mirrored = sessions > loadGroupsOfABareServer * extent.sessionsOfALoadGroup ? mirrors : []
      const barePosters = posters.map(({ token }, i): Poster => ({ path: `/servers/${i % servers}`, token }))
      const sides = {
        bare: {
          loadGroups: bare.loadGroups,
          parts: { node: bare.servers.map(({ pid }) => pid) } as Parts,
          load: { url: url!, mirrors: mirrored, posters: barePosters },
        },
        starling: {
          loadGroups: real,
          parts: starling.parts as Parts,
          load: { url: starling.url, mirrors: [], posters },
        },
      }
      const measure = async (side: typeof sides.bare, inFlight: number): Promise<FanOutRun> => {
        const before = readCpu(side.parts)
        const told = await side.loadGroups.fanOut({ ...side.load, inFlight, seconds: extent.seconds })
        const cpuByPart = scale(cpuSince(side.parts, before), 1 / told.deliveries)
        const { posts, deliveries, latency } = told
        return {
          posts,
          deliveries,
          deliveriesPerSecond: deliveries / told.seconds,
          cpu: sum(cpuByPart),
          cpuByPart,
          latency,
        }
      }
      const measureBoth = async (inFlight: number): Promise<FanOutCase> => {
        say(`${how}: ${inFlight === 1 ? "one message at a time" : `${inFlight} in flight`}`)
        for (const side of [sides.bare, sides.starling])
          await side.loadGroups.fanOut({ ...side.load, inFlight, seconds: extent.warmUpSeconds })
        const runs = await alternate(extent.runs, {
          bare: () => measure(sides.bare, inFlight),
          starling: () => measure(sides.starling, inFlight),
        })
        const of = (value: (run: FanOutRun) => number) => compare(runs, value, value)
        return {
          inFlight,
          runs,
          cpu: of(run => run.cpu),
          cpuOfNode: of(run => run.cpuByPart["node"]!),
          deliveriesPerSecond: of(run => run.deliveriesPerSecond),
          p50: of(run => run.latency.p50),
          p99: of(run => run.latency.p99),
        }
      }
      const saturated = await measureBoth(saturation)
      const oneAtATime = await measureBoth(1)
      const [run] = saturated.runs.starling
      const frameBytes = lengths(kinds, bytes)
      const hearers = run!.deliveries / run!.posts
      results.push({ clients, workers: extent.workers, sessions, servers, hearers, frameBytes, saturated, oneAtATime })
    }
  } finally {
    await real.stop()
    await bare?.loadGroups.stop()
    for (const server of bare?.servers ?? []) await server.stop()
  }
  return results
}

/** How long a frame is in each class. */
function lengths(kinds: readonly Kind[], bytes: readonly (number | null | undefined)[]): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [i, kind] of kinds.entries()) {
    const length = bytes[i]
    if (typeof length === "number") found[classOf(kind)] ??= length
  }
  return found
}

async function startBare(setting: Setting, kinds: readonly Kind[], most: number, bytes: readonly number[]) {
  const { harness, starling, posters, extent } = setting
  // One session alone, in JSON, shows the event itself.
  const clients = harness.startLoadGroup()
  const url = starling.gatewayUrl
  const [poster] = posters
  await clients.loadGroup.ask("connect", { url, tokens: [poster!.token], addresses: ["127.0.0.39"], maxConcurrent: 1 })
  const { frame } = await clients.loadGroup.ask("sample", { url: starling.url, poster: poster!, run: newRun() })
  await clients.stop()

  const { json: _, ...binary } = lengths(kinds, bytes)
  const options: BareGatewayOptions = { frame, bytes: binary }
  const count = Math.ceil(most / (loadGroupsOfABareServer * extent.sessionsOfALoadGroup))
  const started: BareServer[] = []
  for (let i = 0; i < count; i++) started.push(await harness.startBare("gateway", [JSON.stringify(options)]))
  const urls = started.map(({ port }) => `ws://127.0.0.1:${port}/gateway?`)
  return { loadGroups: new LoadGroups(setting, urls, kinds.map(bareKind)), servers: started }
}
