import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { Story } from "./checks/history-of.ts"
import { figuresOf } from "./figures.ts"
import { summaryOf, writeReport } from "./report.ts"
import type { ChaosResult } from "./run.ts"

const result = (): ChaosResult => {
  const story = new Story()
    .ready()
    .send("1")
    .hear("1")
    .fault("redis < cut", "dependency", story =>
      story.send("2", { type: "maybe", status: 503, stored: false }).wait(2_000),
    )
    .resumed()
    .send("2")
    .hear("2")
    .say("end")
  return {
    seed: 7,
    seconds: 60,
    schedule: { main: [{ at: 0, fault: "redis < cut", choice: 0, hold: 1, rest: 1 }], side: [], left: ["too long"] },
    outcomes: [{ fault: "redis < cut", times: 1, count: 3 }],
    history: story.history,
    historyFile: "history.jsonl",
    findings: [{ promise: "P5", what: "a hole" }],
    counters: { takeOvers: 5 },
    missing: [],
  }
}

test("the figures are those of the history", () => {
  const { acked, unknown, events, resumed, gaps } = figuresOf(result().history)
  expect({ acked, unknown, events, resumed }).toEqual({ acked: 2, unknown: 1, events: 2, resumed: 1 })
  expect(gaps).toMatchObject([{ fault: "redis < cut", times: 1 }])
  expect(gaps[0]!.milliseconds).toBeGreaterThan(2_000)
})

test("the report says what was found, and its picture what was done", async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-report-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeReport(result(), join(folder, "run.md"))
  const words = await readFile(join(folder, "run.md"), "utf8")
  expect(words).toContain("**lost: 0 · doubled: 0 · out of order: 0 · holes in sessions: 1**")
  expect(words).toContain("![Time line](run.svg)")
  expect(words).toMatch(/\| redis < cut \| 1 \| web 0 \| 2\.0 s \|/)
  const picture = await readFile(join(folder, "run.svg"), "utf8")
  expect(picture).toMatch(/^<svg [^]*redis &lt; cut[^]*resumes \/ s[^]*<\/svg>\n$/)
  expect(summaryOf(result())).toContain("FOUND P5 a hole")
})
