import { readFileSync } from "node:fs"
import { failedTokenLimit, widerPrefixes, type RateLimit, type RateLimits } from "../contract/core/limits.ts"
import { prefix48 } from "../domain/core/client-address.ts"
import { inBatches } from "../std/batches.ts"
import type { Redis } from "./redis.ts"
import { orUnavailable } from "./tokens.ts"

type Limits = RateLimits["common"]

/** What admit.lua is asked about one request, or told of one lease. */
export interface BucketQuestion {
  readonly kind: string
  /** "u:<id>" or "ip:<address>". */
  readonly caller: string
  readonly percent: number
  readonly address: string
  /** The route's own bucket as the script reads it, and the rest of its name; both "" without one. */
  readonly bucket: string
  readonly name: string
  /** How many more to lend at most, and one part in how many of what remains. */
  readonly more: number
  readonly share: number
  /** The lease that ends before, as the script reads it; "": none. */
  readonly ended: string
}

export interface BucketAnswer {
  readonly verdict: string
  /** 0 global, 1 the user's or address's, 2 the route's. */
  readonly bucket: number
  readonly limit: number
  readonly remaining: number
  readonly waitMs: number
  /** Of the clock of Redis. */
  readonly nowMs: number
  /** How many more are lent, and for how long. */
  readonly lent: number
  readonly lentForMs: number
}

/** Looks into the database for tokens of an address from which too many failed. */
const looksWhenFailed = { requests: 10, seconds: 1 }

/** Requests in one call of the script: few enough that Redis serves others soon. */
const most = 64

export const windowOf = ({ seconds }: { readonly seconds: number }) => Math.round(seconds * 1000)
export const capsOf = ({ caps = [] }: RateLimit) => caps.map(cap => `${cap.requests}:${windowOf(cap)}`)

/**
 * The buckets in Redis. One call of a script answers the requests of one turn of the event loop; on a Redis Cluster those of
 * one caller, whose buckets are in one slot.
 */
export function openBuckets(redis: Redis, prefix: string, limits: Limits, leaseMs: number) {
  const names = ["admit", "count-failed"] as const
  for (const name of names)
    redis.defineCommand(name, { lua: scriptText(name, limits, redis.isCluster), numberOfKeys: 1 })
  const scripts = redis as unknown as {
    admit(key: string, ...args: (string | number)[]): Promise<string[]>
    "count-failed"(key: string, ...args: string[]): Promise<number>
  }

  async function askAbout(caller: string, questions: readonly BucketQuestion[]): Promise<BucketAnswer[]> {
    const args: (string | number)[] = [prefix, leaseMs]
    for (const one of questions)
      args.push(one.kind, one.caller, one.percent, one.address, one.bucket, one.name, one.more, one.share, one.ended)
    const answers = await orUnavailable(scripts.admit(`${prefix}caller:{${slotOf(caller)}}`, ...args))
    return answers.map(parseAnswer)
  }

  async function askEach(questions: readonly BucketQuestion[]): Promise<BucketAnswer[]> {
    const byCaller = new Map<string, number[]>()
    for (const [i, { caller }] of questions.entries()) {
      const places = byCaller.get(caller)
      if (places) places.push(i)
      else byCaller.set(caller, [i])
    }
    const answers: BucketAnswer[] = []
    const asked = [...byCaller].map(async ([caller, places]) => {
      const told = await askAbout(caller, places.map(i => questions[i]!)) // prettier-ignore
      for (const [n, i] of places.entries()) answers[i] = told[n]!
    })
    await Promise.all(asked)
    return answers
  }

  return {
    ask: inBatches<BucketQuestion, BucketAnswer>(redis.isCluster ? askEach : all => askAbout("", all), most),

    /** Counts a token that failed; 1: there were too many from that address already. */
    countFailed: (address: string): Promise<number> =>
      orUnavailable(scripts["count-failed"](`${prefix}failed:{${slotOf(`ip:${address}`)}}`, prefix, address)),
  }
}

/** On a Redis Cluster the buckets of a whole IPv6 /48 are in one slot, so that one script can look at those of the /48, too. */
const slotOf = (caller: string): string =>
  caller.startsWith("ip:") ? `ip:${prefix48(caller.slice(3)) ?? caller.slice(3)}` : caller

function parseAnswer(text: string): BucketAnswer {
  const parts = text.split(" ")
  return {
    verdict: parts[0]!,
    bucket: Number(parts[1]),
    limit: Number(parts[2]),
    remaining: Number(parts[3]),
    waitMs: Number(parts[4]),
    nowMs: Number(parts[5]),
    lent: parts.length > 6 ? Number(parts[6]) : 0,
    lentForMs: parts.length > 6 ? Number(parts[7]) : 0,
  }
}

/** The script beside this file, behind what it has in common with the other one and the limits that every request meets. */
function scriptText(name: string, limits: Limits, isCluster: boolean): string {
  const [shared, own] = ["buckets", name].map(file =>
    readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8"),
  )
  return [constants(limits), `local is_cluster = ${isCluster}`, shared, own].join("\n")
}

/** The limits that every request meets, as the script's first lines. */
function constants(limits: Limits): string {
  const lines = Object.entries(limits).map(
    ([name, limit]) =>
      `local ${name}_limit = {'${limit.algorithm}', ${limit.requests}, ${limit.burst}, ${windowOf(limit)}, '${capsOf(limit).join(" ")}'}`,
  )
  const { requests, seconds } = failedTokenLimit
  return [
    ...lines,
    `local failed_requests, failed_window = ${requests}, ${seconds * 1000}`,
    `local times_56, times_48 = ${widerPrefixes.times56}, ${widerPrefixes.times48}`,
    `local looks_requests, looks_window = ${looksWhenFailed.requests}, ${windowOf(looksWhenFailed)}`,
  ].join("\n")
}
