/**
 * P1, P2, P3, P4, P5, P6, P7, P8, P11, P12, P13, P14, P15 while everything breaks: a minute of the chaos run, with
 * one of every fault that is quick enough. `npm run chaos` is the long one.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { figuresOf } from "./figures.ts"
import { startLocalSystem } from "./local.ts"
import { summaryOf } from "./report.ts"
import { runChaos } from "./run.ts"

/** Another one makes another minute: `CHAOS_SEED=7 npm test -- tests/chaos/chaos.test.ts`. */
const seed = Number(process.env["CHAOS_SEED"] ?? 1)

test(
  "P1 to P8, P11 to P15: a minute of kills, pauses, cuts and full disks loses, doubles and reorders nothing",
  { timeout: 400_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "starling-chaos-"))
    const result = await runChaos({ start: startLocalSystem, seed, seconds: 60, folder })
    const summary = summaryOf(result)
    // Kept where something was found: the history tells what happened.
    const isClean = result.findings.length + result.missing.length === 0
    if (isClean) await rm(folder, { recursive: true, force: true })
    expect(result.findings, summary).toEqual([])
    expect(result.missing, summary).toEqual([])
    const { acked, resumed } = figuresOf(result.history)
    expect(acked, summary).toBeGreaterThan(500)
    expect(result.counters["barriers"], summary).toBeGreaterThan(0)
    expect(resumed, summary).toBeGreaterThan(0)
  },
)
