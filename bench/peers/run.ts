/**
 * `npm run bench -- peers`: the same work for Starling, a bare server and other servers in one run.
 * All are up at once and take turns; what is shown is the median of each turn's ratio to the bare
 * one.
 */
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { readParts } from "../arguments.ts"
import type { Asked, Bench } from "../bench.ts"
import { audience, everyMs, saturation } from "../fan-out.ts"
import type { Harness } from "../harness.ts"
import { collecting, grow } from "../idle.ts"
import { contentLength } from "../load/marked-posts.ts"
import type { LoadGroup } from "../load/load-group.ts"
import { cpuSince, readCpu } from "../processes.ts"
import { root } from "../record.ts"
import { caption, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import { figure, median, type Figure } from "../statistics.ts"
import { newRun, scale, sum } from "../trials.ts"
import { Unavailable, versionsOfPeers } from "./install.ts"
import { peerNames, peers, type Peer, type PeerName, type PeerServer } from "./servers.ts"

const parts = ["deliveries", "memory"] as const

/** Bytes of a message. */
const messageBytes = 400
const ways = [saturation, 1] as const

interface Extent {
  readonly runs: number
  readonly sessions: number
  readonly warmUpSeconds: number
  readonly seconds: number
  readonly idle: { readonly first: number; readonly sessions: number; readonly restSeconds: number }
}

interface Turn {
  /** Microseconds per delivery of all of a server's processes, and by part. */
  readonly cpu: number
  readonly cpuByPart: Record<string, number>
  readonly deliveriesPerSecond: number
  readonly p50: number
  /** Whether all sessions heard all messages in one order. */
  readonly isOneOrder: boolean
}

interface Deliveries {
  readonly peer: PeerName
  readonly inFlight: number
  readonly turns: readonly Turn[]
  readonly cpu: Figure
  readonly ratio: Figure
}

interface PeersResults extends About {
  extent: Extent
  readonly versionsOfPeers: Record<string, string>
  readonly messageBytes: number
  readonly frameBytes: number
  readonly skipped: { readonly peer: PeerName; readonly reason: string }[]
  readonly promises: Record<string, Omit<Peer, "start">>
  readonly deliveries: Deliveries[]
  /** KiB per connection. */
  readonly memory: { readonly peer: PeerName; readonly kib: number; readonly byPart: object }[]
}

interface Side {
  readonly peer: PeerName
  readonly server: PeerServer
  readonly loadGroup: LoadGroup
}

export const peerServers: Bench<(typeof parts)[number], PeersResults> = {
  about:
    "the same work for other servers, in the same run; they are fetched once into node_modules/.cache, and left out where they cannot be had",
  parts,
  options: { servers: `some of them, the first one is what the others are compared with: ${peerNames.join(",")}` },
  plan(asked) {
    const { only, runs, isQuick, isKept } = asked
    const chosen = [...readParts(peerNames, asked.text("servers") ?? peerNames.join(","), "--servers names them")]
    const extent: Extent = isQuick
      ? { runs, sessions: 100, warmUpSeconds: 0.5, seconds: 0.5, idle: { first: 20, sessions: 80, restSeconds: 0 } }
      : {
          runs,
          sessions: audience,
          warmUpSeconds: 3,
          seconds: 3,
          idle: { first: audience, sessions: 8_000, restSeconds: 16 },
        }
    const most = Math.max(extent.sessions, only.has("memory") ? extent.idle.first + extent.idle.sessions : 0)
    return {
      sizes: { audience: most, authors: 0, idlers: 0 },
      extent,
      measure: (harness, about) => measureAll(harness, about, asked, chosen),
      lines: linesOf,
      sided: ["bare", "each"],
      async after(results) {
        const table = tableOf(results)
        process.stdout.write(`\n${table}\n`)
        if (isKept && !isQuick && only.size === parts.length && chosen.length === peerNames.length)
          await writeFile(page, between(await readFile(page, "utf8"), `${caption(results)}\n\n${table}`))
      },
    }
  },
}

async function measureAll(
  harness: Harness,
  about: About & { extent: Extent },
  { only, mainFile, say }: Asked<(typeof parts)[number]>,
  chosen: readonly PeerName[],
): Promise<PeersResults> {
  const { extent } = about
  const frame = await sampleOf(harness)
  const results: PeersResults = {
    ...about,
    versionsOfPeers,
    messageBytes,
    frameBytes: Buffer.byteLength(frame) + messageBytes - contentLength,
    skipped: [],
    promises: Object.fromEntries(chosen.map(peer => [peer, promisesOf(peer)])),
    deliveries: [],
    memory: [],
  }
  const start = async (peer: PeerName, sessions: number, environment: Record<string, string>) => {
    say(`starting ${peers[peer].name}`)
    try {
      const main = mainFile ?? join(root, "dist", "src", "main.js")
      return await peers[peer].start({ harness, frame, sessions, mainFile: main, environment })
    } catch (cause) {
      if (!(cause instanceof Unavailable)) throw cause
      say(`left out: ${cause.message}`)
      if (!results.skipped.some(one => one.peer === peer)) results.skipped.push({ peer, reason: cause.message })
      return undefined
    }
  }
  if (only.has("deliveries")) results.deliveries.push(...(await benchDeliveries(harness, chosen, start, extent, say)))
  if (only.has("memory")) results.memory.push(...(await benchMemory(harness, chosen, start, extent, say)))
  return results
}

const page = join(root, "docs", "internals", "peers.md")
const [begin, end] = ["<!-- peers -->", "<!-- end of peers -->"]

/** The page with other text between its marks. */
export function between(text: string, inner: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${page} lacks its marks`)
  return `${text.slice(0, from + begin.length)}\n\n${inner}\n\n${text.slice(to)}`
}

const promisesOf = (peer: PeerName) => {
  const { start: _start, ...promises } = peers[peer]
  return promises
}

/** A frame as Starling sends it. */
async function sampleOf(harness: Harness): Promise<string> {
  const starling = await harness.startStarling()
  const { loadGroup, stop } = harness.startLoadGroup()
  const { tokens, posters } = harness.population.audience
  await loadGroup.ask("connect", {
    url: starling.gatewayUrl,
    tokens: tokens.slice(0, 1),
    addresses: ["127.0.0.11"],
    maxConcurrent: 1,
  })
  const { frame } = await loadGroup.ask("sample", { url: starling.url, poster: posters[0]!, run: newRun() })
  await stop()
  await starling.stop()
  return frame
}

type Start = (peer: PeerName, sessions: number, environment: Record<string, string>) => Promise<PeerServer | undefined>

async function benchDeliveries(
  harness: Harness,
  chosen: readonly PeerName[],
  start: Start,
  extent: Extent,
  say: (what: string) => void,
): Promise<Deliveries[]> {
  const sides: Side[] = []
  for (const peer of chosen) {
    const server = await start(peer, extent.sessions, {})
    if (!server) continue
    const { loadGroup } = harness.startLoadGroup()
    await loadGroup.ask("connect", {
      url: server.gatewayUrl,
      tokens: [...server.tokens],
      addresses: ["127.0.0.11", "127.0.0.12"],
      maxConcurrent: 64,
      ...(server.dialect && { dialect: server.dialect }),
    })
    sides.push({ peer, server, loadGroup })
  }
  const deliveries: Deliveries[] = []
  for (const inFlight of ways) {
    say(`messages to ${extent.sessions} sessions, ${inFlight} in flight`)
    for (const side of sides) await deliver(side, inFlight, extent.warmUpSeconds)
    const turns: Turn[][] = sides.map(() => [])
    for (let run = 0; run < extent.runs; run++) {
      const order = sides.map((_, i) => (run % 2 === 0 ? i : sides.length - 1 - i))
      for (const i of order) turns[i]!.push(await deliver(sides[i]!, inFlight, extent.seconds))
    }
    for (const [i, { peer }] of sides.entries()) {
      const ratios = turns[i]!.map((turn, run) => turn.cpu / turns[0]![run]!.cpu)
      deliveries.push({
        peer,
        inFlight,
        turns: turns[i]!,
        cpu: figure(turns[i]!.map(turn => turn.cpu)),
        ratio: figure(ratios),
      })
    }
  }
  for (const { server, loadGroup } of sides.toReversed()) {
    await loadGroup.stop()
    await server.stop()
  }
  return deliveries
}

async function deliver({ peer, server, loadGroup }: Side, inFlight: number, seconds: number): Promise<Turn> {
  const before = readCpu(server.parts)
  const asked = loadGroup.ask("fanOut", {
    ...server.posting,
    inFlight,
    everyMs: inFlight === 1 ? everyMs : 0,
    seconds,
    run: newRun(),
    padding: messageBytes - contentLength,
    mayDiffer: !peers[peer].isOneOrder,
  })
  const {
    deliveries,
    seconds: took,
    latency,
    isOneOrder,
  } = await asked.catch((cause: unknown) => {
    throw new Error(`${peers[peer].name}: ${(cause as Error).message}`, { cause })
  })
  const cpuByPart = scale(cpuSince(server.parts, before), 1 / deliveries)
  return { cpu: sum(cpuByPart), cpuByPart, deliveriesPerSecond: deliveries / took, p50: latency.p50, isOneOrder }
}

async function benchMemory(
  harness: Harness,
  chosen: readonly PeerName[],
  start: Start,
  { idle }: Extent,
  say: (what: string) => void,
): Promise<PeersResults["memory"]> {
  const { first, sessions, restSeconds } = idle
  const memory: PeersResults["memory"][number][] = []
  // Once is enough to tell 2 KiB from 50.
  for (const peer of chosen.filter(name => name !== "one-worker")) {
    const server = await start(peer, first + sessions, collecting)
    if (!server) continue
    say(`memory of ${sessions} idle connections`)
    const { gatewayUrl: url, tokens, dialect } = server
    const connecting = { url, tokens: [...tokens], first, ...(dialect && { dialect }) }
    const grown = await grow(harness, server.parts, connecting, restSeconds)
    say(`${round(grown.memory)} KiB`)
    await server.stop()
    memory.push({ peer, kib: grown.memory, byPart: grown.memoryByPart })
  }
  return memory
}

function linesOf({ deliveries, memory }: PeersResults): Line[] {
  const bare = (inFlight: number) => deliveries.find(one => one.inFlight === inFlight)!
  const microseconds = ({ median }: Figure) => `${round(median)} µs`
  return [
    ...deliveries.map(({ peer, inFlight, turns, cpu, ratio }): Line => {
      const names = Object.keys(turns[0]!.cpuByPart)
      const parts = names.map(name => `${name} ${round(median(turns.map(turn => turn.cpuByPart[name]!)))}`)
      const rate = median(turns.map(turn => turn.deliveriesPerSecond))
      return {
        work: `CPU per delivery, ${inFlight === 1 ? "one message at a time" : `${inFlight} in flight`}: ${peers[peer].name}`,
        bare: microseconds(bare(inFlight).cpu),
        starling: `${microseconds(cpu)} (${parts.join(", ")}; ${round(rate)}/s, p50 ${round(median(turns.map(turn => turn.p50)))} ms)`,
        value: ratio,
        unit: "×",
      }
    }),
    ...memory.map(({ peer, kib }): Line => ({
      work: `memory per idle connection: ${peers[peer].name}`,
      bare: `${round(memory[0]!.kib)} KiB`,
      starling: `${round(kib)} KiB`,
      value: figure([kib]),
      unit: "KiB",
    })),
  ]
}

/** As the page has it: a row for each server. */
function tableOf({ deliveries, memory, skipped, promises }: PeersResults): string {
  const ratio = (peer: string, inFlight: number) => {
    const found = deliveries.find(one => one.peer === peer && one.inFlight === inFlight)
    return found ? `${round(found.ratio.median)} × (${round(found.cpu.median)} µs)` : "–"
  }
  const kib = (peer: string) => {
    const found = memory.find(one => one.peer === peer)
    return found ? `${round(found.kib)} KiB` : "–"
  }
  const orderOf = (peer: string) => {
    const seen = deliveries.filter(one => one.peer === peer).flatMap(one => one.turns)
    const differed = seen.filter(turn => !turn.isOneOrder).length
    return differed > 0 ? `; differed in ${differed} of ${seen.length} turns here` : ""
  }
  const rows = Object.entries(promises).map(([peer, { name, durable, order, resume }]) => {
    const reason = skipped.find(one => one.peer === peer)?.reason
    const figures = reason === undefined ? [ratio(peer, 1), ratio(peer, saturation), kib(peer)] : [reason, "", ""]
    return `| ${[name, ...figures, durable, order + orderOf(peer), resume].join(" | ")} |`
  })
  return [
    `| | CPU per delivery, one message at a time | ${saturation} in flight | memory per idle connection | acknowledged means kept | order | after its server was killed, a session gets |`,
    "|---|---|---|---|---|---|---|",
    ...rows,
  ].join("\n")
}
