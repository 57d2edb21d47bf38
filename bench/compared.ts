/** What two commits are compared in: everything that has a bare side, and what has none but is paid all the time. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { maxConcurrentHashes } from "./accounts/logins.ts"
import { timesEach } from "./accounts/me.ts"
import { loginPath, mePath, password, peopleFor } from "./accounts/people.ts"
import { audience, everyMs, saturation } from "./fan-out.ts"
import { sendFile, type Target } from "./files/transfers.ts"
import { threadPoolSize, type Harness, type Starling } from "./harness.ts"
import { plant } from "./history/pages.ts"
import { openBareQuiet, openQuiet } from "./latency.ts"
import type { LoadGroup } from "./load/load-group.ts"
import type { Poster, Wanted } from "./load/load-process.ts"
import { scenery } from "./pictures/run.ts"
import { postsInFlight } from "./posts.ts"
import { webWorkersOf, type Parts } from "./processes.ts"
import { quantile } from "./statistics.ts"
import { Stop } from "./stop.ts"
import { newRun, pause } from "./trials.ts"

/** A server with its clients. What its parts share, such as sessions that listen, is made once. */
export class Served {
  readonly harness: Harness
  readonly starling: Starling
  readonly clients: LoadGroup
  #listening: Promise<unknown> | undefined

  constructor(harness: Harness, starling: Starling) {
    this.harness = harness
    this.starling = starling
    this.clients = harness.startLoadGroup().loadGroup
  }

  async listen(): Promise<void> {
    const { tokens } = this.harness.population.audience
    await (this.#listening ??= connect(this.clients, this.starling.gatewayUrl, tokens))
  }
}

/** Does it for so many seconds. @returns how many operations were done, or the figure itself */
type Work = (seconds: number) => Promise<number>

export interface Bare {
  readonly parts: Parts
  readonly work: Work
}

interface Compared {
  readonly about: string
  /** Of what is shown: CPU of all processes of a server per operation, if `isFigure` does not say otherwise. */
  readonly unit: string
  readonly isFigure?: true
  /** Limits are on; otherwise they are off. */
  readonly isLimited?: true
  /** Of which of a server's processes; usually all. */
  readonly counted?: (starling: Starling) => Parts
  readonly open: (served: Served) => Promise<Work>
  /** As little as does the same work; what it has to know it learns from a server. */
  readonly openBare?: (served: Served) => Promise<Bare>
}

const connect = (clients: LoadGroup, url: string, tokens: (string | null)[]) =>
  clients.ask("connect", { url, tokens, addresses: ["127.0.0.11", "127.0.0.12"], maxConcurrent: 64 })

const urlOf = ({ port }: { port: number }) => `http://127.0.0.1:${port}`

function posting(clients: LoadGroup, url: string, posters: Poster[]): Work {
  return async seconds => {
    const asked = { url, posters, inFlight: postsInFlight, everyMs: 0, seconds, run: newRun() }
    return (await clients.ask("posts", asked)).posts
  }
}

const openPosts = async ({ clients, starling, harness }: Served): Promise<Work> =>
  posting(clients, starling.url, harness.population.authors)

function fanOut(clients: LoadGroup, url: string, posters: readonly Poster[], inFlight: number): Work {
  return async seconds => {
    const pace = { inFlight, everyMs: inFlight === 1 ? everyMs : 0 }
    const asked = { url, posters: posters.slice(0, inFlight), ...pace, seconds, run: newRun() }
    return (await clients.ask("fanOut", asked)).deliveries
  }
}

const delivering = (about: string, unit: string, inFlight: number): Compared => ({
  about,
  unit,
  async open(served) {
    await served.listen()
    return fanOut(served.clients, served.starling.url, served.harness.population.audience.posters, inFlight)
  },
  async openBare({ harness, starling }) {
    const { tokens, posters } = harness.population.audience
    const listener = harness.startLoadGroup()
    await connect(listener.loadGroup, starling.gatewayUrl, tokens.slice(0, 1))
    const sample = await listener.loadGroup.ask("sample", { url: starling.url, poster: posters[0]!, run: newRun() })
    await listener.stop()
    const bare = await harness.startBare("publish", [sample.frame])
    const { loadGroup } = harness.startLoadGroup()
    const nobody = Array.from({ length: audience }, () => null)
    await connect(loadGroup, `ws://127.0.0.1:${bare.port}/gateway`, nobody)
    const bareposters = posters.map(({ token }): Poster => ({ path: "/messages", token }))
    return { parts: { node: [bare.pid] }, work: fanOut(loadGroup, urlOf(bare), bareposters, inFlight) }
  },
})

const pingingIn =
  ({ clients, pinging }: Awaited<ReturnType<typeof openQuiet>>): Work =>
  async seconds => {
    const { latencies } = await clients.loadGroup.ask("ping", { ...pinging, seconds, run: newRun() })
    return quantile(latencies.flat(2), 0.5)
  }

function asking(clients: LoadGroup, url: string, path: string, tokens: string[]): Work {
  const turns = { atATime: 50, timesEach: 100, first: 0, connections: 64, inFlight: 32 }
  return async seconds =>
    (await clients.ask("gets", { url, path, tokens, ...turns, seconds, most: Number.MAX_SAFE_INTEGER })).gets
}

const askersInATurn = 500
const atATime = 50
/** What turns take, and one before them. */
export const askersIn = (turns: number): number => (turns + 2) * askersInATurn

/** Others in each turn, as often as limits allow: see accounts/me.ts. Everybody is looked at once before. */
async function askingOnce(clients: LoadGroup, url: string, path: string, tokens: string[]): Promise<Work> {
  let first = 0
  const asking = { url, path, tokens, atATime, connections: 64, inFlight: 32, seconds: 120 }
  await clients.ask("gets", { ...asking, timesEach: 1, first, most: tokens.length })
  const most = askersInATurn * timesEach
  return async () => {
    const { gets } = await clients.ask("gets", { ...asking, timesEach, first, most })
    first += gets
    return gets
  }
}

const pagedMessages = 10_000
/** In one call of the load clients: a fraction of a second. */
const pagesPerCall = 500

async function paging({ harness }: Served, clients: LoadGroup, url: string, root: string): Promise<Work> {
  const readers = harness.population.authors.slice(0, 4)
  const channel = readers[0]!.path.split("/")[4]!
  const ids = await plantedIn(harness, channel)
  const wanted = (i: number): Wanted => {
    const before = ids[Math.floor(Math.random() * ids.length)]!
    const path = `${root}/channels/${channel}/messages?limit=50&before=${before}`
    return { method: "GET", path, token: readers[i % readers.length]!.token }
  }
  return async seconds => {
    let pages = 0
    for (const until = performance.now() + seconds * 1_000; performance.now() < until;) {
      const requests = Array.from({ length: pagesPerCall }, (_, i) => wanted(i))
      pages += (await clients.ask("requests", { url, requests, inFlight: 32 })).count
    }
    return pages
  }
}

const planted = new WeakMap<Harness, Promise<string[]>>()
function plantedIn(harness: Harness, channel: string): Promise<string[]> {
  const ids = planted.get(harness) ?? plant(harness.databaseUrl, channel, pagedMessages)
  planted.set(harness, ids)
  return ids
}

/** People at the limit of sessions: each sign-in ends one. */
function signingIn({ harness }: Served, clients: LoadGroup, url: string, path: string): Work {
  const { usernames } = harness.population.registered[1]!
  let first = 0
  return async seconds => {
    const asked = { url, path, usernames, password, first, inFlight: 4 * maxConcurrentHashes, everyMs: 0, seconds }
    const { count } = (await clients.ask("signIn", asked)).latency
    first += count
    return count
  }
}

/** Pieces of work, so many in flight, until the time is over. */
async function inLanes(lanes: number, seconds: number, piece: () => Promise<void>): Promise<number> {
  let done = 0
  const until = performance.now() + seconds * 1_000
  const lane = async () => {
    for (; performance.now() < until; done++) await piece()
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}

/** Of the other benches' sizes: turns are short. */
const pictureSide = 512
const filesInATurn = 16
const megabytesOfAFile = 4

async function picturing({ harness }: Served, url: string, isForm: boolean): Promise<Work> {
  const bytes = new Uint8Array(await scenery(pictureSide, pictureSide).jpeg({ quality: 85 }).toBuffer())
  const tokens = harness.population.authors.map(({ token }) => token)
  let sent = 0
  return seconds =>
    inLanes(2, seconds, async () => {
      const form = new FormData()
      form.append("file", new Blob([bytes]), "picture")
      const headers = { Authorization: `Bearer ${tokens[sent++ % tokens.length]}` }
      const answer = await fetch(url, { method: "POST", headers, body: isForm ? form : bytes })
      if (!answer.ok) throw new Error(`a picture was answered with ${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
    })
}

/** As many in each turn, so that the disk can hold all. @returns megabytes */
const uploading =
  (target: (i: number) => Target): Work =>
  async () => {
    const bytes = megabytesOfAFile * 1_048_576
    await Promise.all(Array.from({ length: filesInATurn }, (_, i) => sendFile(target(i), bytes)))
    return filesInATurn * megabytesOfAFile
  }

export const compared = {
  posts: {
    about: `${postsInFlight} in flight, nobody listens`,
    unit: "µs of CPU per post",
    open: openPosts,
    async openBare({ clients, starling, harness }) {
      const { authors } = harness.population
      const { body } = await clients.ask("answer", { url: starling.url, poster: authors[0]!, run: newRun() })
      const bare = await harness.startBare("posts", [harness.bareDatabaseUrl, body])
      const posters = authors.map(({ path, token }): Poster => ({ path: path.replace("/api/v1", ""), token }))
      const parts = { node: [bare.pid], postgres: [harness.barePostgres] }
      return { parts, work: posting(harness.startLoadGroup().loadGroup, urlOf(bare), posters) }
    },
  },
  "posts-web": {
    about: "the same, and of it what web workers take, which answer them",
    unit: "µs of CPU of web workers per post",
    counted({ parts }) {
      const web = webWorkersOf(parts.node)
      if (web.length === 0) throw new Stop("no web worker is seen among the processes of a server")
      return { web }
    },
    open: openPosts,
  },
  deliveries: delivering(`to ${audience} sessions`, `µs of CPU per delivery, ${saturation} in flight`, saturation),
  lone: delivering("the same, one at a time", "µs of CPU per delivery, one message at a time", 1),
  latency: {
    about: "from a post to its frame, every 15 ms or so and nothing else, whichever workers they are on",
    unit: "ms from a post to its frame, p50",
    isFigure: true,
    open: async ({ harness, starling }) => pingingIn(await openQuiet(harness, starling)),
    async openBare({ harness, starling }) {
      const quiet = await openBareQuiet(harness, starling)
      return { parts: { node: [quiet.pid] }, work: pingingIn(quiet) }
    },
  },
  idle: {
    about: `${audience} sessions and nothing to do`,
    unit: "µs of CPU per second",
    async open(served) {
      await served.listen()
      return async seconds => {
        await pause(seconds)
        return seconds
      }
    },
  },
  me: {
    about: "GET /users/@me, 32 in flight, limits off",
    unit: "µs of CPU per GET /users/@me",
    open: async ({ clients, starling, harness }) =>
      asking(clients, starling.url, mePath, harness.population.audience.tokens),
    async openBare({ starling, harness }) {
      const { tokens } = harness.population.audience
      const sample = await fetch(`${starling.url}${mePath}`, { headers: { Authorization: `Bearer ${tokens[0]!}` } })
      const bare = await harness.startBare("me", [await sample.text()])
      const { loadGroup } = harness.startLoadGroup()
      return { parts: { node: [bare.pid] }, work: asking(loadGroup, urlOf(bare), "/users/@me", tokens) }
    },
  },
  limited: {
    about: `the same with limits on: ${askersInATurn} others in each turn, ${timesEach} times each, whatever --seconds says`,
    unit: "µs of CPU per GET /users/@me with limits on",
    isLimited: true,
    open: async ({ clients, starling, harness }) =>
      askingOnce(clients, starling.url, mePath, harness.population.registered[2]!.tokens),
    async openBare({ starling, harness }) {
      const { tokens } = harness.population.registered[2]!
      // Somebody who asks in no turn.
      const Authorization = `Bearer ${tokens.at(-1)!}`
      const sample = await fetch(`${starling.url}${mePath}`, { headers: { Authorization } })
      const bare = await harness.startBare("me", [await sample.text()])
      const { loadGroup } = harness.startLoadGroup()
      return { parts: { node: [bare.pid] }, work: await askingOnce(loadGroup, urlOf(bare), "/users/@me", tokens) }
    },
  },
  pages: {
    about: `50 messages from anywhere among ${pagedMessages.toLocaleString("en")}, 32 in flight`,
    unit: "µs of CPU per page of 50 messages",
    open: served => paging(served, served.clients, served.starling.url, "/api/v1"),
    async openBare(served) {
      const { harness, starling } = served
      const bare = await harness.startBare("history", [harness.databaseUrl])
      const work = await paging(served, harness.startLoadGroup().loadGroup, urlOf(bare), "")
      return { parts: { node: [bare.pid], postgres: starling.parts.postgres }, work }
    },
  },
  logins: {
    about: `sign-ins, ${4 * maxConcurrentHashes} in flight`,
    unit: "µs of CPU per sign-in",
    open: async served => signingIn(served, served.clients, served.starling.url, loginPath),
    async openBare(served) {
      const { harness, starling } = served
      const body = JSON.stringify({ username: harness.population.registered[0]!.usernames[0], password })
      const headers = { "Content-Type": "application/json" }
      const answer = await fetch(`${starling.url}${loginPath}`, { method: "POST", headers, body })
      const { passwordHash } = await peopleFor({ signInSeconds: 0, asking: 0 })
      const bare = await harness.startBare("logins", [passwordHash, String(maxConcurrentHashes), await answer.text()], {
        UV_THREADPOOL_SIZE: threadPoolSize,
      })
      const { loadGroup } = harness.startLoadGroup()
      return { parts: { node: [bare.pid] }, work: signingIn(served, loadGroup, urlOf(bare), "/auth/login") }
    },
  },
  pictures: {
    about: `avatars of ${pictureSide} × ${pictureSide}, 2 in flight`,
    unit: "µs of CPU per picture",
    open: served => picturing(served, `${served.starling.url}/api/v1/avatars/users/@me`, true),
    async openBare(served) {
      const bare = await served.harness.startBare("pictures", [])
      return { parts: { node: [bare.pid] }, work: await picturing(served, `${urlOf(bare)}/pictures`, false) }
    },
  },
  files: {
    about: `uploads, ${filesInATurn} of ${megabytesOfAFile} MB at once; a turn is as long as they take`,
    unit: "µs of CPU per MB that is uploaded",
    async open({ starling, harness }) {
      const { authors } = harness.population
      return uploading(i => {
        const { token, path } = authors[i % authors.length]!
        return { url: starling.url, path: path.replace(/messages$/, "attachments"), token }
      })
    },
    async openBare({ harness }) {
      const folder = await mkdtemp(join(tmpdir(), "starling-compared-"))
      harness.owned(() => rm(folder, { recursive: true, force: true }))
      const bare = await harness.startBare("files", [folder])
      return { parts: { node: [bare.pid] }, work: uploading(() => ({ url: urlOf(bare), path: "/", token: "x" })) }
    },
  },
} satisfies Record<string, Compared>

export type Part = keyof typeof compared
export const partNames = Object.keys(compared) as Part[]
/** As what all are alike in. */
export const comparedIn = (part: Part): Compared => compared[part]
