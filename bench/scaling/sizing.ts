/**
 * How much a number of people needs, from what an operation costs: the costs are the latest kept
 * results of the other benches, and how people behave is assumed here.
 */
import type { Kept } from "../readme.ts"

export const processes = ["node", "postgres", "redis"] as const
export type ByProcess = Readonly<Record<(typeof processes)[number], number>>
export const byProcess = (of: (name: keyof ByProcess) => number): ByProcess => ({
  node: of("node"),
  postgres: of("postgres"),
  redis: of("redis"),
})

/** Microseconds of CPU each. */
export interface Costs {
  readonly post: ByProcess
  readonly delivery: ByProcess
  readonly page: ByProcess
  readonly connect: ByProcess
}

/** Which line of which results each cost is; its figures by process stand in the line. */
const sources = {
  // Search index and sweep of the outbox included.
  post: { kind: "main", line: "CPU per accepted post" },
  // What a message costs by itself is in it, too, shared by a thousand sessions.
  delivery: { kind: "main", line: "CPU per delivery, one message at a time" },
  page: { kind: "history", line: "CPU per page of 50, cold" },
  connect: { kind: "gateway", line: "CPU per IDENTIFY" },
} as const

export function costsOf(kept: ReadonlyMap<string, Pick<Kept, "summary">>): Costs {
  const cost = (name: keyof Costs): ByProcess => {
    const { kind, line } = sources[name]
    const found = kept.get(kind)?.summary.find(({ work }) => work.startsWith(line))
    if (!found) throw new Error(`no results are kept of ${line}: npm run bench -- readme`)
    return byProcess(process => {
      const figure = new RegExp(`${process} (-?[\\d.,]+)`).exec(found.starling)
      if (!figure) throw new Error(`${line} does not say what ${process} takes: ${found.starling}`)
      // Beyond what an idle server takes: it may be a little less than nothing.
      return Math.max(0, Number(figure[1]!.replaceAll(",", "")))
    })
  }
  return { post: cost("post"), delivery: cost("delivery"), page: cost("page"), connect: cost("connect") }
}

/** Of somebody who is online, each second. */
export const people = {
  shareOnline: 0.1,
  posts: 1 / 60,
  /** Opens a channel and reads what is there. */
  pages: 2 / 60,
  /** A session lasts an hour. */
  connects: 1 / 3_600,
  /** Online members who get a message. */
  heardBy: 50,
} as const

/** In a second. */
export interface Rates {
  readonly posts: number
  readonly pages: number
  readonly connects: number
}

export const ratesOf = (online: number): Rates => ({
  posts: online * people.posts,
  pages: online * people.pages,
  connects: online * people.connects,
})

/** Cores in use. */
export function coresOf(costs: Costs, idle: ByProcess, { posts, pages, connects }: Rates): ByProcess {
  return byProcess(process => {
    const { post, delivery, page, connect } = costs
    const used =
      posts * (post[process] + people.heardBy * delivery[process]) + pages * page[process] + connects * connect[process]
    return (idle[process] + used) / 1e6
  })
}

/** A part is not to be busy for a larger share of the time: queues grow fast above it. */
export const aim = 0.6
/** Of a day, as if everybody had come at the peak: people are not awake all day. */
const busyHours = 8
/** KiB of a session that came an hour ago, garbage of connecting included; see docs/operate/scaling.md. */
export const sessionKiB = 20
/** Sessions of a web worker: its memory, and the time until those of a lost one are back. */
const sessionsOfAWorker = 10_000

export interface Need {
  readonly registered: number
  readonly online: number
  readonly postsPerSecond: number
  readonly deliveriesPerSecond: number
  readonly cores: ByProcess
  readonly workers: number
  readonly redisMasters: number
  readonly postgresCores: number
  /** Of the web and job workers together, GiB. */
  readonly nodeGiB: number
  readonly redisGiB: number
  readonly storedGiBPerYear: number
  readonly connections: number
}

export interface Measured {
  readonly idle: ByProcess
  /** What the point took, in parts of what the costs make one expect. */
  readonly factor: ByProcess
  /** KiB of a server with so many web workers and nobody there. */
  readonly rest: { readonly workers: number; readonly memory: ByProcess }
  /** KiB more for each web worker. */
  readonly workerKiB: number
  readonly storedBytesPerPost: number
  readonly redisBytesPerSession: number
  /** To PostgreSQL: of each web worker, and of the others together. */
  readonly connections: { readonly worker: number; readonly others: number }
}

export function needOf(costs: Costs, measured: Measured, registered: number): Need {
  const online = registered * people.shareOnline
  const expected = coresOf(costs, measured.idle, ratesOf(online))
  const cores = byProcess(process => expected[process] * measured.factor[process])
  const workers = Math.max(1, Math.ceil(cores.node / aim), Math.ceil(online / sessionsOfAWorker))
  const posts = online * people.posts
  const { rest, workerKiB, connections } = measured
  const nodeKiB = rest.memory.node + (workers - rest.workers) * workerKiB + online * sessionKiB
  return {
    registered,
    online,
    postsPerSecond: posts,
    deliveriesPerSecond: posts * people.heardBy,
    cores,
    workers,
    redisMasters: Math.max(1, Math.ceil(cores.redis / aim)),
    postgresCores: Math.max(1, Math.ceil(cores.postgres / aim)),
    nodeGiB: nodeKiB / 1_048_576,
    redisGiB: (rest.memory.redis * 1_024 + online * measured.redisBytesPerSession) / 1_073_741_824,
    storedGiBPerYear: (posts * busyHours * 3_600 * 365 * measured.storedBytesPerPost) / 1_073_741_824,
    connections: connections.others + workers * connections.worker,
  }
}
