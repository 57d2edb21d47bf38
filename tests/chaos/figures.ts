/** The numbers of a run, out of its history. */
import { gapsOf, type Gap } from "./checks/take-over.ts"
import { faultsOf, isA, isBeside, operationsOf, type History } from "./history.ts"
import { slownessOf } from "./machine.ts"

export interface Figures {
  acked: number
  refused: number
  unknown: number
  /** Of acknowledged sends, in milliseconds. */
  p50: number
  p99: number
  slowest: number
  /** Milliseconds that /livez took, which asks for nothing. p95. */
  livez: number
  /**
   * How much slower than alone the machine made the run, as a whole and in its worst five seconds.
   */
  slowness: { mean: number; worst: number }
  events: number
  sessions: number
  resumed: number
  invalidated: number
  closes: ReadonlyMap<number, number>
  /**
   * The longest of any channel, by fault; without what goes on beside the others, whose gaps are
   * theirs.
   */
  gaps: readonly { fault: string; times: number; milliseconds: number }[]
}

export function figuresOf(history: History): Figures {
  const sends = operationsOf(history).filter(isA("send"))
  const waits = sends
    .filter(({ outcome }) => outcome === "ok")
    .map(({ from, to }) => (to - from) / 1e6)
    .sort((a, b) => a - b)
  const at = (share: number) => waits[Math.min(waits.length - 1, Math.floor(waits.length * share))] ?? 0
  const probes = operationsOf(history)
    .filter(({ action, outcome }) => action.do === "livez" && outcome === "ok")
    .map(({ from, to }) => (to - from) / 1e6)
    .sort((a, b) => a - b)
  const closes = new Map<number, number>()
  for (const entry of history) if (entry.type === "close") closes.set(entry.code, (closes.get(entry.code) ?? 0) + 1)
  const count = (type: "event" | "ready" | "resumed" | "invalid") => history.filter(entry => entry.type === type).length
  return {
    acked: waits.length,
    refused: sends.filter(({ outcome }) => outcome === "fail").length,
    unknown: sends.filter(({ outcome }) => outcome === "maybe").length,
    p50: at(0.5),
    p99: at(0.99),
    slowest: waits.at(-1) ?? 0,
    slowness: slownessFigures(history),
    livez: probes[Math.floor(probes.length * 0.95)] ?? 0,
    events: count("event"),
    sessions: count("ready"),
    resumed: count("resumed"),
    invalidated: count("invalid"),
    closes,
    gaps: longestGaps(
      gapsOf(history),
      new Set(faultsOf(history).flatMap(fault => (isBeside(fault) ? [] : [fault.name]))),
    ),
  }
}

function slownessFigures(history: History): Figures["slowness"] {
  const slowness = slownessOf(history)
  const end = history.at(-1)?.at ?? 0
  const spans = Array.from({ length: Math.ceil(end / 5e9) }, (_, i) => slowness(i * 5e9, Math.min(end, (i + 1) * 5e9)))
  return { mean: slowness(0, end), worst: Math.max(1, ...spans) }
}

function longestGaps(gaps: readonly Gap[], faults: ReadonlySet<string>): Figures["gaps"] {
  const byFault = new Map<string, { times: Set<number>; longest: number }>()
  for (const { fault, at, nanoseconds } of gaps) {
    if (!faults.has(fault)) continue
    const known = byFault.get(fault) ?? { times: new Set(), longest: 0 }
    byFault.set(fault, known)
    known.times.add(at)
    known.longest = Math.max(known.longest, nanoseconds)
  }
  return [...byFault].map(([fault, { times, longest }]) => ({ fault, times: times.size, milliseconds: longest / 1e6 }))
}
