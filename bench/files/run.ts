/**
 * `npm run bench -- files`: many files at once, in and out, beside a bare server that writes them to
 * the disk; the memory that it takes; and messages of strangers meanwhile.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import type { Bench } from "../bench.ts"
import type { Harness } from "../harness.ts"
import { latencyMeanwhile, type Meanwhile } from "../meanwhile.ts"
import { cpuSince, readCpu, readMemory, type Parts } from "../processes.ts"
import { pair, round, type About, type Line } from "../report.ts"
import { figure, median } from "../statistics.ts"
import { pause, sum, type Extent } from "../trials.ts"
import type { Transfers } from "./transfer-process.ts"
import { fetchFile, sendFile, type Target } from "./transfers.ts"

const megabyte = 1_048_576
const filesOfAUser = 2
const sampleMs = 100
const beside = "files go in and out through a bare server beside it"
const through = "as many go through Starling"
/** Bytes per second, at least this part of the bare server's. */
const aimedPart = 0.7
const aimedMemoryMb = 150
/** 99 % of the messages of others take at most so many times as long as beside a bare server that serves the files. */
const aimedLatency = 1.25

interface Round {
  readonly megabytesPerSecond: number
  readonly cpuMsPerMegabyte: number
  /** Above what it was before, at its peak, in MiB. */
  readonly memory: number
}
interface Side {
  readonly uploads: Round[]
  readonly downloads: Round[]
}
/** Two bare servers: one computes SHA-256 of what comes, one does not. */
const servers = ["starling", "bare", "hashing"] as const
type Sides = Record<(typeof servers)[number], Side>
interface FilesResults extends About {
  files?: { count: number; megabytes: number } & Sides
  meanwhile?: Meanwhile<number>[]
}

export const files: Bench<never, FilesResults> = {
  about: "many files at once, in and out, beside a bare server",
  options: { files: "so many at once: 100", megabytes: "of each: 50" },
  plan({ runs, isQuick, count: counted, say }) {
    const count = counted("files", isQuick ? 16 : 100, 500)
    const megabytes = counted("megabytes", isQuick ? 4 : 50, 500)
    const extent = {
      runs,
      warmUpSeconds: 1,
      seconds: isQuick ? 3 : 10,
      idleSessions: 0,
      restSeconds: 0,
      countsDeferredWork: false,
    }
    return {
      sizes: { audience: 1, authors: Math.ceil(count / filesOfAUser), idlers: 0 },
      extent,
      async measure(harness, about) {
        const folder = await mkdtemp(join(tmpdir(), "starling-bench-files-"))
        try {
          return await measureAll(harness, about, { count, megabytes, folder, extent, say })
        } finally {
          await rm(folder, { recursive: true, force: true })
        }
      },
      lines: summarize,
    }
  },
}

interface Wanted {
  readonly count: number
  readonly megabytes: number
  readonly folder: string
  readonly extent: Extent
  readonly say: (what: string) => void
}

async function measureAll(
  harness: Harness,
  about: About,
  { count, megabytes, folder, extent, say }: Wanted,
): Promise<FilesResults> {
  const { runs } = extent
  const results: FilesResults = about
  await allowLargeFiles(harness)
  const folderOf = (name: string) => join(folder, name)
  for (const name of servers) await mkdir(folderOf(name))
  const starling = await harness.startStarling({ CONNECTIONS_PER_USER: "1000", FILES_DIR: folderOf("starling") })
  const bare = await harness.startBare("files", [folderOf("bare")])
  const hashing = await harness.startBare("files", [folderOf("hashing"), "hash"])
  const { authors } = harness.population
  const own = (i: number): Target => {
    const { token, path } = authors[i % authors.length]!
    return { url: starling.url, path: path.replace(/messages$/, "attachments"), token }
  }
  const plain =
    ({ port }: { port: number }) =>
    (): Target => ({ url: `http://127.0.0.1:${port}`, path: "/", token: "x" })
  const measuredServers = {
    starling: { parts: { node: starling.parts.node }, target: own },
    bare: { parts: { node: [bare.pid] }, target: plain(bare) },
    hashing: { parts: { node: [hashing.pid] }, target: plain(hashing) },
  }
  const sides = Object.fromEntries(servers.map(name => [name, { uploads: [], downloads: [] }])) as unknown as Sides
  for (let run = 0; run < runs; run++)
    for (const name of run % 2 === 0 ? servers : servers.toReversed()) {
      const { parts, target } = measuredServers[name]
      say(`${count} files of ${megabytes} MB: ${name}`)
      const paths: string[] = []
      sides[name].uploads.push(
        await measured(parts, count, megabytes, async i => {
          paths[i] = await sendFile(target(i), megabytes * megabyte)
        }),
      )
      sides[name].downloads.push(
        await measured(parts, count, megabytes, async i => {
          await fetchFile(target(i), paths[i]!)
        }),
      )
      // What a disk still has to write is not the next one's.
      await rm(folderOf(name), { recursive: true })
      await mkdir(folderOf(name))
    }
  results.files = { count, megabytes, ...sides }
  const transferring = (name: string, target: (i: number) => Target) => ({
    name,
    async begin() {
      const clients = fork(new URL("./transfer-process.ts", import.meta.url))
      const targets = Array.from({ length: count }, (_, i) => target(i))
      clients.send({ targets, bytes: megabytes * megabyte } satisfies Transfers)
      await pause(1)
      return async () => {
        clients.send("end")
        const failed = once(clients, "exit").then(() => Promise.reject(new Error("files did not get through")))
        const [moved] = (await Promise.race([once(clients, "message"), failed])) as [number]
        return moved / megabyte
      }
    },
  })
  const nothing = { name: "nothing", begin: async () => async () => 0 }
  const disturbances = [
    nothing,
    // What the machine takes from messages, no matter which server has the files.
    transferring(beside, plain(bare)),
    transferring(through, own),
  ]
  results.meanwhile = await latencyMeanwhile(harness, starling, disturbances, extent, say)
  return results
}

/** Everybody may send files of that size, as often as the bench does. */
async function allowLargeFiles({ databaseUrl }: Harness): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 })
  await sql`UPDATE users SET tier = 'staff'`
  await sql.end({ timeout: 5 })
}

async function measured(
  parts: Parts<"node">,
  count: number,
  megabytes: number,
  transfer: (i: number) => Promise<void>,
): Promise<Round> {
  await pause(1)
  const rest = readMemory(parts).node
  let peak = rest
  const sampling = setInterval(() => (peak = Math.max(peak, readMemory(parts).node)), sampleMs)
  const cpu = readCpu(parts)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: count }, (_, i) => transfer(i))).finally(() => clearInterval(sampling))
  const seconds = (performance.now() - startedAt) / 1_000
  const used = sum(cpuSince(parts, cpu)) / 1_000
  return {
    megabytesPerSecond: (count * megabytes) / seconds,
    cpuMsPerMegabyte: used / (count * megabytes),
    memory: (peak - rest) / 1_024,
  }
}

function summarize({ files, meanwhile = [] }: FilesResults): Line[] {
  const lines: Line[] = []
  for (const way of files ? (["uploads", "downloads"] as const) : []) {
    const { bare, hashing, starling, count, megabytes } = files!
    const of = (side: Side, key: keyof Round) => median(side[way].map(one => one[key]))
    const slowerThan = (side: Side) =>
      figure(starling[way].map((one, i) => side[way][i]!.megabytesPerSecond / one.megabytesPerSecond))
    const memory = figure(starling[way].map(one => one.memory))
    lines.push(
      {
        work: `${way}, ${count} of ${megabytes} MB at once`,
        bare: `${round(of(bare, "megabytesPerSecond"))} MB/s`,
        starling: `${round(of(starling, "megabytesPerSecond"))} MB/s`,
        value: slowerThan(bare),
        unit: "×",
        aim: Math.round(100 / aimedPart) / 100,
      },
      ...(way === "uploads"
        ? [
            {
              work: "… beside a bare server that computes SHA-256 as well",
              bare: `${round(of(hashing, "megabytesPerSecond"))} MB/s`,
              starling: `${round(of(starling, "megabytesPerSecond"))} MB/s`,
              value: slowerThan(hashing),
              unit: "×" as const,
            },
          ]
        : []),
      {
        work: "… CPU per MB, the server's own processes",
        bare: `${round(of(bare, "cpuMsPerMegabyte"))} ms`,
        starling: `${round(of(starling, "cpuMsPerMegabyte"))} ms`,
        value: figure(starling[way].map((one, i) => one.cpuMsPerMegabyte / bare[way][i]!.cpuMsPerMegabyte)),
        unit: "×",
      },
      {
        work: "… memory above rest, at most",
        bare: `${round(of(bare, "memory"))} MiB`,
        starling: `${round(memory.median)} MiB`,
        value: { median: memory.median * 1_024, least: memory.least * 1_024, most: memory.most * 1_024 },
        unit: "KiB",
        aim: aimedMemoryMb * 1_024,
      },
    )
  }
  const waysOf = (name: string) => meanwhile.find(one => one.meanwhile === name)?.ways ?? []
  for (const [i, { postedAtOwner, heardAtOwner, ...own }] of waysOf(through).entries()) {
    const [idle, bare] = [waysOf("nothing")[i]!, waysOf(beside)[i]!]
    const ratios = own.runs.map(({ p99 }, run) => p99 / bare.runs[run]!.p99)
    lines.push({
      work:
        `post to frame, posted at the ${postedAtOwner ? "owner" : "other"}, heard at the ${heardAtOwner ? "owner" : "other"}, ` +
        `while files go through a bare server and through Starling; with none ${pair(idle.p50, idle.p99)}`,
      bare: pair(bare.p50, bare.p99),
      starling: pair(own.p50, own.p99),
      value: { ...figure(ratios), median: own.p99.median / bare.p99.median },
      unit: "×",
      aim: aimedLatency,
    })
  }
  return lines
}
