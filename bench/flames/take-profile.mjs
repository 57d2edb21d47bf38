/**
 * Loaded into a server before its own code. On SIGWINCH a web worker begins to sample its stacks,
 * on the next it ends and writes what it has to PROFILE_FOLDER.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs"
import { Session } from "node:inspector/promises"
import { join } from "node:path"

const intervalUs = 250
const [role, slot] = process.argv.slice(-2)
const usPerTick = 10_000
let session
let cpuBeforeUs = 0

/** Microseconds of the thread that runs JavaScript, user and system. */
function cpuUs() {
  const line = readFileSync(`/proc/self/task/${process.pid}/stat`, "latin1")
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * usPerTick
}

async function toggle() {
  if (!session) {
    session = new Session()
    session.connect()
    await session.post("Profiler.enable")
    await session.post("Profiler.setSamplingInterval", { interval: intervalUs })
    await session.post("Profiler.start")
    cpuBeforeUs = cpuUs()
    return
  }
  const usedUs = cpuUs() - cpuBeforeUs
  const { profile } = await session.post("Profiler.stop")
  session.disconnect()
  session = undefined
  const file = join(process.env.PROFILE_FOLDER, `web-${slot}.cpuprofile`)
  writeFileSync(`${file}.new`, JSON.stringify({ ...profile, cpuUs: usedUs }))
  renameSync(`${file}.new`, file)
}

if (role === "web")
  process.on("SIGWINCH", () => {
    toggle().catch(cause => {
      throw cause
    })
  })
