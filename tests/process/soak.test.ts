/** P18: what `npm run soak` says of memory. The run itself takes too long for a test. */
import { expect, test } from "vitest"
import { judge, tableOf, type Sample } from "../../bench/soak/judge.ts"

const mebibyte = 1024 * 1024
const secondsOf = (count: number) => Array.from({ length: count }, (_, second) => second)
/** A sample a second for ten minutes; V8's saw tooth included. */
const samplesOf = (
  worker: string,
  { rss = () => 200, heap = () => 60 }: { rss?: (second: number) => number; heap?: (second: number) => number },
): Sample[] =>
  secondsOf(600).map(second => ({
    atMs: second * 1_000,
    worker,
    rssBytes: rss(second) * mebibyte,
    heapBytes: (heap(second) + (second % 7) * 5) * mebibyte,
  }))
const verdict = (samples: readonly Sample[], fromMs = 60_000) => judge(samples, fromMs, ["web-0"])[0]!

test("P18: memory that goes up and down and comes back is flat", () => {
  const found = verdict(samplesOf("web-0", { rss: second => 200 + 30 * Math.sin(second / 20) }))
  expect(found).toMatchObject({ isFlat: true, rss: { isFlat: true }, heap: { isFlat: true } })
})

test("P18: what grows in the warm-up alone does not count", () => {
  const warm = { rss: (second: number) => Math.min(50 + 5 * second, 300) }
  expect(verdict(samplesOf("web-0", warm)).isFlat).toBe(true)
  expect(verdict(samplesOf("web-0", warm), 0).isFlat).toBe(true) // and is over in the first third
})

test("P18: a leak is found, in the heap and beside it", () => {
  const leak = (from: number) => (second: number) => from + second / 5
  expect(verdict(samplesOf("web-0", { heap: leak(60) }))).toMatchObject({ isFlat: false, heap: { isFlat: false } })
  const beside = verdict(samplesOf("web-0", { rss: leak(200) }))
  expect(beside).toMatchObject({ isFlat: false, rss: { isFlat: false }, heap: { isFlat: true } })
  expect(tableOf([beside])).toMatch(/\| web-0 \| 2\d\d\.\d → 3\d\d\.\d grows \| .* \| not shown to be flat \|/)
})

test("P18: a worker that was not there all the time is not shown to be flat", () => {
  const late = samplesOf("web-0", {}).filter(({ atMs }) => atMs > 400_000)
  expect(verdict([...late, ...samplesOf("web-1", {})]).isFlat).toBe(false)
  expect(verdict(samplesOf("web-1", {})).isFlat).toBe(false)
})
