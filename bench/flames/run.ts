/**
 * `npm run bench -- flames`: where web workers spend their time, by V8's own profiler, as flame
 * graphs and a page about the widest frames of each.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Bench } from "../bench.ts"
import { audience, saturation } from "../fan-out.ts"
import type { Harness, Starling } from "../harness.ts"
import { plant } from "../history/pages.ts"
import { isWorker } from "../latency.ts"
import type { LoadGroup } from "../load/load-group.ts"
import type { Wanted } from "../load/load-process.ts"
import { authors, postsInFlight } from "../posts.ts"
import { processesOf } from "../processes.ts"
import { root as checkout } from "../record.ts"
import { subtitleOf, type About } from "../report.ts"
import { Stop } from "../stop.ts"
import { newRun, pause } from "../trials.ts"
import { flameGraph } from "./flame-graph.ts"
import { locateIn } from "./locate.ts"
import { pageOf, widestShown, type Flame } from "./page.ts"
import { addProfile, newFrame, widest, type CpuProfile } from "./profile.ts"

const operations = ["post", "delivery", "get-me", "identify", "page"] as const
type Operation = (typeof operations)[number]

const titles: Readonly<Record<Operation, string>> = {
  post: `Posts, ${postsInFlight} in flight, nobody listens`,
  delivery: `Messages to 1,000 sessions, ${saturation} in flight`,
  "get-me": "GET /users/@me, 32 in flight, limits off",
  identify: "IDENTIFY, all at once, their servers known",
  page: "Pages of 50 messages from anywhere in a channel of 10,000, 32 in flight",
}

const sampler = new URL("./take-profile.mjs", import.meta.url).href
const workers = 2
const writtenWithinMs = 20_000

/** Of the channel that pages are read from. */
const plantedMessages = 10_000
/** In one call of the load clients: a fraction of a second. */
const pagesPerCall = 500

interface Loading {
  readonly harness: Harness
  readonly starling: Starling
  readonly loadGroup: LoadGroup
}

/** Gets ready for an operation. @returns what does it for so many seconds, again and again */
const loads: Readonly<Record<Operation, (loading: Loading) => Promise<(seconds: number) => Promise<unknown>>>> = {
  async post({ harness, starling: { url }, loadGroup }) {
    const { authors: posters } = harness.population
    return seconds =>
      loadGroup.ask("posts", { url, posters, inFlight: postsInFlight, everyMs: 0, seconds, run: newRun() })
  },
  async delivery({ harness, starling: { url, gatewayUrl }, loadGroup }) {
    const { tokens, posters } = harness.population.audience
    const addresses = ["127.0.0.11", "127.0.0.12"]
    await loadGroup.ask("connect", { url: gatewayUrl, tokens, addresses, maxConcurrent: 64 })
    const some = posters.slice(0, saturation)
    return seconds =>
      loadGroup.ask("fanOut", { url, posters: some, inFlight: saturation, everyMs: 0, seconds, run: newRun() })
  },
  async "get-me"({ harness, starling: { url }, loadGroup }) {
    const { tokens } = harness.population.audience
    const asking = { url, path: "/api/v1/users/@me", tokens, atATime: 50, timesEach: 100, first: 0 }
    return seconds =>
      loadGroup.ask("gets", { ...asking, connections: 64, inFlight: 32, seconds, most: Number.MAX_SAFE_INTEGER })
  },
  async identify({ harness, starling: { gatewayUrl: url }, loadGroup }) {
    const { tokens } = harness.population.idlers
    const addresses = ["127.0.0.13", "127.0.0.14"]
    return async seconds => {
      for (const until = performance.now() + seconds * 1_000; performance.now() < until;) {
        await loadGroup.ask("open", { url, tokens, addresses, maxConcurrent: 64 })
        await loadGroup.ask("identify", null)
        await loadGroup.ask("disconnect", null)
      }
    }
  },
  async page({ harness, starling: { url }, loadGroup }) {
    const readers = harness.population.authors.slice(0, 4)
    const channel = readers[0]!.path.split("/")[4]!
    const ids = await plant(harness.databaseUrl, channel, plantedMessages)
    const wanted = (i: number): Wanted => {
      const before = ids[Math.floor(Math.random() * ids.length)]!
      const path = `/api/v1/channels/${channel}/messages?limit=50&before=${before}`
      return { method: "GET", path, token: readers[i % readers.length]!.token }
    }
    return async seconds => {
      for (const until = performance.now() + seconds * 1_000; performance.now() < until;) {
        const requests = Array.from({ length: pagesPerCall }, (_, i) => wanted(i))
        await loadGroup.ask("requests", { url, requests, inFlight: 32 })
      }
    }
  },
}

export const flames: Bench<Operation, About & { flames: Flame[] }> = {
  about: "flame graphs of a post, a delivery, a GET and IDENTIFY; with --write docs/internals/flames is replaced",
  parts: operations,
  options: { seconds: "of load while stacks are sampled" },
  async plan({ only, isQuick, isKept, count, say }) {
    const seconds = count("seconds", isQuick ? 2 : 10, 60)
    const folder = isKept
      ? join(checkout, "docs", "internals", "flames")
      : await mkdtemp(join(tmpdir(), "starling-flames-"))
    await mkdir(folder, { recursive: true })
    return {
      sizes: { audience, authors, idlers: isQuick ? 500 : 2_000 },
      extent: { runs: 1 },
      async measure(harness, about) {
        const flames: Flame[] = []
        for (const operation of only) {
          say(titles[operation])
          const { root, samples } = await profileOf(harness, operation, seconds)
          const subtitle = `${subtitleOf(about)}; ${samples.toLocaleString("en")} samples of two web workers while they ran`
          await writeFile(join(folder, `${operation}.svg`), flameGraph({ title: titles[operation], subtitle, root }))
          flames.push({ operation, title: titles[operation], samples, widest: widest(root, widestShown) })
        }
        return { ...about, flames }
      },
      async after({ flames, ...about }) {
        const { text, unexplained } = pageOf(about, flames)
        await writeFile(join(folder, "README.md"), text)
        process.stdout.write(`${text}\n${folder}\n`)
        if (unexplained.length > 0 && !isQuick)
          throw new Stop(`bench/flames/page.ts says nothing about these frames:\n${unexplained.join("\n")}`)
      },
    }
  },
}

async function profileOf(harness: Harness, operation: Operation, seconds: number) {
  const folder = await mkdtemp(join(tmpdir(), "starling-profiles-"))
  const starling = await harness.startStarling({ NODE_OPTIONS: `--import ${sampler}`, PROFILE_FOLDER: folder })
  const { loadGroup, stop } = harness.startLoadGroup()
  try {
    const load = await loads[operation]({ harness, starling, loadGroup })
    await load(seconds) // code gets compiled
    const pids = processesOf(starling.parts.node)
    const toggle = () => {
      const web = pids.filter(pid =>
        Array.from({ length: workers }, (_, slot) => slot).some(slot => isWorker(pid, slot)),
      )
      if (web.length !== workers) throw new Error(`${web.length} web workers instead of ${workers}`)
      for (const pid of web) process.kill(pid, "SIGWINCH")
    }
    toggle()
    await pause(0.3)
    await load(seconds)
    toggle()
    const root = newFrame("all", { file: "", line: 0 })
    for (let slot = 0; slot < workers; slot++)
      addProfile(root, await profileIn(join(folder, `web-${slot}.cpuprofile`)), locateIn(checkout))
    if (root.total === 0) throw new Error("no stack was sampled")
    return { root, samples: root.total }
  } finally {
    await stop()
    await starling.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function profileIn(file: string): Promise<CpuProfile> {
  for (const until = performance.now() + writtenWithinMs; ; await pause(0.2)) {
    try {
      return JSON.parse(await readFile(file, "utf8")) as CpuProfile
    } catch (cause) {
      if (performance.now() > until) throw cause
    }
  }
}
