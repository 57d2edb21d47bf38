/** Whether memory stays flat over a long run (P18): the last third of it beside the first. */

/** What one worker held at one moment. */
export interface Sample {
  atMs: number
  worker: string
  rssBytes: number
  heapBytes: number
}

export interface Growth {
  /** Medians of the two thirds. */
  firstBytes: number
  lastBytes: number
  isFlat: boolean
}

export interface Verdict {
  worker: string
  samples: number
  rss: Growth
  heap: Growth
  isFlat: boolean
}

const mebibyte = 1024 * 1024
/**
 * A median may grow by so much of itself, and by so much whatever it is: V8 gives back late what it
 * was given, and collects the more seldom the more it may use.
 */
export const mayGrow = { share: 0.1, bytes: 24 * mebibyte }
/** Fewer in a third say nothing. */
const leastSamples = 3

/**
 * @param fromMs the end of the warm-up; samples before it do not count
 * @param workers those that are to be there from the beginning to the end
 */
export function judge(samples: readonly Sample[], fromMs: number, workers: readonly string[]): Verdict[] {
  const counted = samples.filter(({ atMs }) => atMs >= fromMs)
  const endMs = Math.max(fromMs, ...counted.map(({ atMs }) => atMs))
  const third = (endMs - fromMs) / 3
  return workers.map(worker => {
    const own = counted.filter(sample => sample.worker === worker)
    const first = own.filter(({ atMs }) => atMs <= fromMs + third)
    const last = own.filter(({ atMs }) => atMs >= endMs - third)
    const growth = (of: (sample: Sample) => number): Growth => {
      const firstBytes = median(first.map(of))
      const lastBytes = median(last.map(of))
      const isFlat = lastBytes - firstBytes <= firstBytes * mayGrow.share + mayGrow.bytes
      return { firstBytes, lastBytes, isFlat }
    }
    const rss = growth(({ rssBytes }) => rssBytes)
    const heap = growth(({ heapBytes }) => heapBytes)
    const isWhole = first.length >= leastSamples && last.length >= leastSamples
    return { worker, samples: own.length, rss, heap, isFlat: isWhole && rss.isFlat && heap.isFlat }
  })
}

function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

const inMebibytes = (bytes: number) => (Number.isNaN(bytes) ? "–" : (bytes / mebibyte).toFixed(1))

/** A table for a terminal or for Markdown. */
export function tableOf(verdicts: readonly Verdict[]): string {
  const cells = ({ firstBytes, lastBytes, isFlat }: Growth) =>
    `${inMebibytes(firstBytes)} → ${inMebibytes(lastBytes)}${isFlat ? "" : " grows"}`
  return [
    "| Worker | RSS, MiB, first → last third | Heap, MiB | Samples | |",
    "|---|---|---|---|---|",
    ...verdicts.map(
      ({ worker, rss, heap, samples, isFlat }) =>
        `| ${worker} | ${cells(rss)} | ${cells(heap)} | ${samples} | ${isFlat ? "flat" : "not shown to be flat"} |`,
    ),
  ].join("\n")
}
