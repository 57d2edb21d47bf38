/**
 * Loaded into a server before its own code where pauses are measured: on SIGWINCH it says how long
 * its event loop stood still at most since the last time, in milliseconds, in a file of the folder
 * LOOP_WATCH that is named for the process.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"

const resolution = 1
const loop = monitorEventLoopDelay({ resolution })
loop.enable()
process.on("SIGWINCH", () => {
  // What is said now is no part of the next.
  const longest = Math.max(0, loop.max / 1e6 - resolution)
  loop.reset()
  const text = JSON.stringify({ role: process.argv.slice(2).join(" "), longest })
  writeFileSync(join(process.env.LOOP_WATCH, String(process.pid)), text)
})
