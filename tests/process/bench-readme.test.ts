import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { docsRows, keptResults, readmeRow } from "../../bench/readme.ts"
import type { Line } from "../../bench/report.ts"

const line = (
  work: string,
  bare: string,
  starling: string,
  median: number,
  unit: Line["unit"],
  aim?: number,
): Line => ({
  work,
  bare,
  starling,
  value: { median, least: median, most: median },
  ...(unit !== undefined && { unit }),
  ...(aim !== undefined && { aim }),
})

const summary = [
  line("CPU per delivery, one web worker, 32", "0.77 µs", "1.06 µs (node 0.9, redis 0.1 µs)", 1.376, "×", 1.25),
  line("… deliveries", "9/s", "8/s", 0.9, "×"),
  line("CPU per delivery, 32", "0.77 µs", "1.65 µs (node 1.4, redis 0.2 µs)", 2.14, "×"),
  line("memory per idle session in 10 servers", "2.1 KiB", "5.4 KiB (node 4, redis 1 KiB)", 5.4, "KiB", 5),
]
const about = { commit: "abcdef0", isQuick: false }

test("rows are made of the newest kept results that are not quick", async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-rows-"))
  try {
    const keep = (name: string, at: string, isQuick: boolean, lines: readonly Line[]) =>
      writeFile(join(folder, name), JSON.stringify({ ...about, at, isQuick, summary: lines }))
    await keep("2026-01-02-abcdef0.json", "2026-01-02T10:00:00Z", false, summary)
    await keep("2026-01-02-fffffff.json", "2026-01-02T09:00:00Z", false, [])
    await keep("2026-01-03-abcdef0-quick.json", "2026-01-03T10:00:00Z", true, [])
    await keep("2026-01-04-abcdef0-peers.json", "2026-01-04T10:00:00Z", false, [])
    const kept = await keptResults(folder)
    expect([...kept.keys()]).toEqual(["main"])

    const row = (work: string, lines: string[]) => readmeRow({ work, kind: "main", lines, aim: "1 ×" }, kept)
    expect(row("delivery, one / two", ["CPU per delivery, one web", "CPU per delivery, 32"])).toBe(
      "| delivery, one / two | 0.77 µs | 1.06 µs / 1.65 µs | 1.38 × / 2.14 × | 1 × |",
    )
    expect(row("memory", ["memory per idle"])).toBe("| memory | 2.1 KiB | 5.40 KiB |  | 1 × |")
    expect(row("nothing", ["CPU per accepted post"])).toBe("| nothing | | not measured | | 1 × |")
    expect(docsRows(kept)).toEqual([
      "| CPU per delivery, one web worker, 32 | 0.77 µs | 1.06 µs | 1.38 × | 1.25 × |",
      "| CPU per delivery, 32 | 0.77 µs | 1.65 µs | 2.14 × |  |",
      "| memory per idle session in 10 servers | 2.1 KiB | 5.4 KiB | 5.40 KiB | 5 KiB |",
    ])
  } finally {
    await rm(folder, { recursive: true })
  }
})
