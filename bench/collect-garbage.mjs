/**
 * Loaded into a server before its own code where memory is measured: on SIGWINCH it collects its
 * garbage. When V8 does so by itself is chance, and what lies about meanwhile may be more than what
 * some thousand sessions take.
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc")
// The last resort also gives pages back that V8 would keep for later.
process.on("SIGWINCH", () => collect({ type: "major", execution: "sync", flavor: "last-resort" }))
