/**
 * The chaos run on other systems than one host: short, with a few of the faults. `npm run chaos --
 * --system hosts` is the long one.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { figuresOf } from "./figures.ts"
import { summaryOf } from "./report.ts"
import { runChaos } from "./run.ts"
import { startHosts } from "./systems/hosts.ts"
import { startOnRedisCluster } from "./systems/redis-cluster.ts"

const seed = Number(process.env["CHAOS_SEED"] ?? 3)

test.each([
  ["three hosts with one PostgreSQL and one Redis", startHosts, 1],
  ["a Redis Cluster of three masters", startOnRedisCluster, 2],
] as const)(
  "P1 to P8, P11 to P15: chaos on %s loses, doubles and reorders nothing",
  { timeout: 400_000 },
  async (_, start, workers) => {
    const folder = await mkdtemp(join(tmpdir(), "starling-chaos-"))
    const result = await runChaos({ start, seed, seconds: 9, folder, workers })
    const summary = summaryOf(result)
    if (result.findings.length === 0) await rm(folder, { recursive: true, force: true })
    expect(result.findings, summary).toEqual([])
    expect(result.missing, summary).toEqual([])
    const { acked, resumed } = figuresOf(result.history)
    expect(acked, summary).toBeGreaterThan(100)
    expect(resumed, summary).toBeGreaterThan(0)
  },
)
