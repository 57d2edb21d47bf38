/**
 * Where tests put their files: in memory, where there is enough of it. They make and drop hundreds of databases of many
 * hundred files each, and a disk is slow at that: one of ext4 without a journal looks, for each new file, through all that
 * were deleted in the last minutes, which cost a third of what some tests compute.
 */
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, statfsSync } from "node:fs"
import { join } from "node:path"

const memory = "/dev/shm"
const prefix = "starling-"
/** A whole run keeps half a gigabyte there at once. */
const neededBytes = 3 * 1024 ** 3
/** Of which the tests themselves, browsers too, take half. */
const neededMemoryBytes = 6 * 1024 ** 3

/** @returns a new folder; undefined where files stay where they are: TMPDIR is given, or there is not enough of it */
export function openScratch() {
  if (process.env.TMPDIR !== undefined || !hasCapacity()) return undefined
  removeLeftBehind()
  const path = join(memory, prefix + process.pid) // short, as paths of sockets are bounded
  const remove = () => {
    try {
      rmSync(path, { recursive: true, force: true })
    } catch {} // a test that was broken off has left a file system there
  }
  remove()
  mkdirSync(path)
  chmodSync(path, 0o1777) // some run programs as another user
  return { path, remove }
}

function hasCapacity() {
  try {
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map(line => line.split(" "))
      .findLast(([, at]) => at === memory)
    const [, , kind, options] = mount ?? []
    // Tests also run programs there.
    if (kind !== "tmpfs" || /\b(noexec|ro)\b/.test(options)) return false
    const { bavail, bsize } = statfsSync(memory)
    return bavail * bsize >= neededBytes && process.availableMemory() >= neededMemoryBytes
  } catch {
    return false
  }
}

/** Memory that a run which was killed has not given back. */
function removeLeftBehind() {
  for (const name of readdirSync(memory)) {
    const pid = new RegExp(`^${prefix}(\\d+)$`).exec(name)?.[1]
    if (pid === undefined || isAlive(Number(pid))) continue
    try {
      rmSync(join(memory, name), { recursive: true, force: true })
    } catch {} // another user's
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === "EPERM"
  }
}
