/** CPU profiles of V8 as trees of frames that can be merged and drawn. */
import { median } from "../statistics.ts"

/** As V8's profiler writes it. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: {
      readonly functionName: string
      readonly url: string
      /** From 0. */
      readonly lineNumber: number
      readonly columnNumber: number
    }
    readonly hitCount?: number
    readonly children?: readonly number[]
  }[]
  /** Microseconds from each sample to the next. */
  readonly timeDeltas?: readonly number[]
  /** Of the thread meanwhile, which V8 does not say. */
  readonly cpuUs?: number
}

export interface Place {
  /** A path, `node:…`, or nothing for what V8 does itself. */
  readonly file: string
  readonly line: number
}

export interface Frame extends Place {
  readonly name: string
  /** Samples in it and in what it called. */
  total: number
  /** Samples in itself. */
  self: number
  readonly children: Map<string, Frame>
}

/** Where a place of a bundle was written. */
export type Locate = (url: string, line: number, column: number) => Place

export const newFrame = (name: string, { file, line }: Place): Frame => ({
  name,
  file,
  line,
  total: 0,
  self: 0,
  children: new Map(),
})

const keyOf = ({ name, file, line }: Pick<Frame, "name" | "file" | "line">) => `${name} ${file}:${line}`

const program = "(program)"

/**
 * Adds a profile to a tree, without the time in which nothing ran. V8 takes what uWebSockets.js does
 * outside of JavaScript for such time, sends above all: what of the thread's CPU is in no sample is
 * added to what runs outside.
 */
export function addProfile(root: Frame, { nodes, timeDeltas = [], cpuUs = 0 }: CpuProfile, locate: Locate): void {
  const byId = new Map(nodes.map(node => [node.id, node]))
  const called = new Set(nodes.flatMap(node => node.children ?? []))
  const visit = (id: number, parent: Frame): number => {
    const { callFrame, hitCount = 0, children = [] } = byId.get(id)!
    if (callFrame.functionName === "(idle)") return 0
    const isRoot = callFrame.functionName === "(root)"
    const frame = isRoot ? parent : childOf(parent, callFrame, locate)
    let total = hitCount
    for (const child of children) total += visit(child, frame)
    frame.self += hitCount
    if (!isRoot) frame.total += total
    return total
  }
  let ran = 0
  for (const { id } of nodes) if (!called.has(id)) ran += visit(id, root)
  // Not the mean: while others have the core there are no samples.
  const unseen = timeDeltas.length === 0 ? 0 : Math.max(0, Math.round(cpuUs / median(timeDeltas)) - ran)
  root.total += ran + unseen
  if (unseen === 0) return
  const outside = childOf(root, { functionName: program, url: "", lineNumber: -1, columnNumber: -1 }, locate)
  outside.self += unseen
  outside.total += unseen
}

function childOf(parent: Frame, call: CpuProfile["nodes"][number]["callFrame"], locate: Locate): Frame {
  const place = locate(call.url, call.lineNumber, call.columnNumber)
  // The bundler numbers names that it has twice.
  const name = call.functionName.replace(/(?<=[a-z])\d+$/i, "") || "(anonymous)"
  const key = keyOf({ name, ...place })
  const known = parent.children.get(key)
  if (known) return known
  const made = newFrame(name, place)
  parent.children.set(key, made)
  return made
}

/** A function, wherever it was called. */
export interface Wide extends Place {
  readonly name: string
  /** Shares of all samples. */
  readonly total: number
  readonly self: number
}

/** A frame that spends so much of its time in one callee says nothing that the callee does not. */
const passesOn = 0.8

/** What calls whatever is due says nothing about it. */
const isLoop = ({ name, file }: Pick<Frame, "name" | "file">) =>
  name === "runMicrotasks" || file === "node:internal/process/task_queues" || file === "node:internal/timers"

/** The functions with most samples; those that only pass on to another are left out. */
export function widest(root: Frame, count: number): Wide[] {
  const found = new Map<
    string,
    { name: string; file: string; line: number; total: number; self: number; most: number }
  >()
  const visit = (frame: Frame, above: ReadonlySet<string>) => {
    const key = keyOf(frame)
    const { name, file, line } = frame
    const seen = found.get(key) ?? { name, file, line, total: 0, self: 0, most: 0 }
    found.set(key, seen)
    seen.self += frame.self
    // One that calls itself is counted once.
    if (!above.has(key)) {
      seen.total += frame.total
      seen.most += Math.max(0, ...[...frame.children.values()].map(child => child.total))
    }
    const within = new Set(above).add(key)
    for (const child of frame.children.values()) visit(child, within)
  }
  for (const child of root.children.values()) visit(child, new Set())
  return [...found.values()]
    .filter(one => one.most < passesOn * one.total && !isLoop(one))
    .toSorted((a, b) => b.total - a.total)
    .slice(0, count)
    .map(({ name, file, line, total, self }) => ({
      name,
      file,
      line,
      total: total / root.total,
      self: self / root.total,
    }))
}
