/**
 * What processes cost, as the kernel counts it. Everything is read from /proc, so Linux only, and
 * nothing is asked of the processes themselves: a bare server and Starling are measured by the same
 * rule.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"

/** /proc counts in USER_HZ, which is 100 on every Linux that Node runs on. */
const microsecondsPerTick = 10_000

interface Stat {
  pid: number
  parent: number
  /** Own user and system time, and that of children that have ended. */
  ticks: number
}

function readStat(pid: number): Stat | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "latin1")
    // After the name, which may hold anything: state, parent, …; utime to cstime are the 12th to
    // 15th.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ")
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
    return { pid, parent: Number(fields[1]), ticks: utime! + stime! + cutime! + cstime! }
  } catch {
    return undefined // it has just ended
  }
}

function trees(roots: readonly number[]): Stat[] {
  const all = readdirSync("/proc").flatMap(name => (/^\d+$/.test(name) ? (readStat(Number(name)) ?? []) : []))
  const children = new Map<number, Stat[]>()
  for (const stat of all) {
    const siblings = children.get(stat.parent)
    if (siblings) siblings.push(stat)
    else children.set(stat.parent, [stat])
  }
  const found = all.filter(stat => roots.includes(stat.pid))
  for (const stat of found) found.push(...(children.get(stat.pid) ?? [])) // grows while it is walked
  return found
}

/** The processes below `roots`, the roots included. */
export const processesOf = (roots: readonly number[]): number[] => trees(roots).map(({ pid }) => pid)

/** Those of them that serve REST and gateway: they name themselves. */
export const webWorkersOf = (roots: readonly number[]): number[] =>
  processesOf(roots).filter(pid => / web \d+\s*$/.test(titleOf(pid)))

function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")
  } catch {
    return "" // it has just ended
  }
}

/** A server's processes by part, each part by the roots of its process trees. */
export type Parts<P extends string = string> = Readonly<Record<P, readonly number[]>>

const each = <P extends string, T>(parts: Parts<P>, of: (stats: Stat[]) => T): Record<P, T> =>
  Object.fromEntries(
    Object.entries<readonly number[]>(parts).map(([name, roots]) => [name, of(trees(roots))]),
  ) as Record<P, T>

/**
 * CPU microseconds, user and system, by part. What a child used stays counted when it has ended.
 */
export function readCpu<P extends string>(parts: Parts<P>): Record<P, number> {
  return each(parts, stats => stats.reduce((sum, { ticks }) => sum + ticks, 0) * microsecondsPerTick)
}

/** CPU microseconds by part since `before`. */
export function cpuSince<P extends string>(parts: Parts<P>, before: Record<P, number>): Record<P, number> {
  const now = readCpu(parts)
  for (const name of Object.keys(now) as P[]) now[name] -= before[name]
  return now
}

/**
 * KiB in memory by part. Pages that several processes share count in parts (PSS): PostgreSQL's
 * buffers would else count once per connection.
 */
export function readMemory<P extends string>(parts: Parts<P>): Record<P, number> {
  return each(parts, stats => stats.reduce((sum, { pid }) => sum + memoryOf(pid, all), 0))
}

/**
 * KiB of it that processes share on purpose: of PostgreSQL, the pages of its files that it keeps,
 * which are as many as it was told to keep, sooner or later.
 */
export function readShared<P extends string>(parts: Parts<P>): Record<P, number> {
  return each(parts, stats => stats.reduce((sum, { pid }) => sum + memoryOf(pid, shared), 0))
}

type Field = readonly [file: string, name: string]
// Another user's process does not show the first.
const all: readonly Field[] = [
  ["smaps_rollup", "Pss"],
  ["status", "VmRSS"],
]
const shared: readonly Field[] = [
  ["smaps_rollup", "Pss_Shmem"],
  ["status", "RssShmem"],
]

function memoryOf(pid: number, fields: readonly Field[]): number {
  for (const [file, name] of fields) {
    try {
      const found = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/${file}`, "latin1"))
      if (found) return Number(found[1])
    } catch {
      // the next file, or it has ended
    }
  }
  return 0
}

/** Of each process below `roots`, which remote addresses it serves on a port. */
export function servedAddresses(roots: readonly number[], port: number): Map<string, number> {
  const byInode = new Map<string, string>()
  for (const file of ["tcp", "tcp6"]) {
    for (const line of readFileSync(`/proc/net/${file}`, "latin1").split("\n").slice(1)) {
      const [, local = "", remote = "", , , , , , , inode = ""] = line.trim().split(/\s+/)
      if (Number.parseInt(local.split(":")[1] ?? "", 16) === port) byInode.set(inode, ipv4(remote))
    }
  }
  const served = new Map<string, number>()
  for (const { pid } of trees(roots)) {
    for (const link of links(`/proc/${pid}/fd`)) {
      const address = byInode.get(/^socket:\[(\d+)\]$/.exec(link)?.[1] ?? "")
      if (address !== undefined) served.set(address, pid)
    }
  }
  return served
}

/**
 * The kernel writes the four bytes in its own order, which is the little-endian one; an IPv4-mapped
 * address ends in them.
 */
function ipv4(hex: string): string {
  const bytes = hex.split(":")[0]!.slice(-8).match(/../g) ?? []
  return bytes
    .toReversed()
    .map(byte => Number.parseInt(byte, 16))
    .join(".")
}

function links(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap(name => {
      try {
        return readlinkSync(`${folder}/${name}`)
      } catch {
        return []
      }
    })
  } catch {
    return []
  }
}
