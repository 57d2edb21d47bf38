/**
 * Loaded into a server before its own code where memory is measured: on SIGWINCH it collects its
 * garbage. When V8 does so by itself is chance, and what lies about meanwhile may be more than what
 * some thousand sessions take.
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc")
// Without an argument everything is collected; what Node 20 is given one for is new space alone.
process.on("SIGWINCH", () => {
  // While it says so, pages that hold little are emptied, too.
  setFlagsFromString("--optimize-for-size")
  collect()
  setFlagsFromString("--no-optimize-for-size")
})
