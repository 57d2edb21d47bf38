/**
 * `npm start`: prepares what is missing, then is only the hand that passes signals in and the exit
 * code out.
 */
import { spawn } from "node:child_process"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { Unprepared, prepare, root } from "./prepare.mjs"

const argv = process.argv.slice(2)
// What is only asked needs no Redis.
await prepare({ redis: !process.env.REDIS_URL && argv.length === 0 }).catch(error => {
  console.error(error instanceof Unprepared ? error.message : error)
  process.exit(1)
})

const main = spawn(process.execPath, [join(root, "dist", "src", "main.js"), ...argv], {
  stdio: ["ignore", "inherit", "inherit"],
  // A group of its own: Ctrl-C comes through here once, instead of also to each process of the
  // cluster.
  detached: true,
  env: {
    NODE_ENV: "production",
    // Password hashes run in this pool, and a file read must not wait behind them.
    UV_THREADPOOL_SIZE: String(Math.max(8, 2 * availableParallelism())),
    ...process.env,
  },
})

const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR2"]
let forwarded = 0
for (const signal of signals)
  process.on(signal, () => {
    // One Ctrl-C may come twice, from the terminal and from npm; a second one of the user comes
    // later.
    if (Date.now() - forwarded < 300) return
    forwarded = Date.now()
    main.kill(signal)
  })
// npm puts a shell between itself and us; a signal to npm ends that shell, and nobody tells us.
const parent = process.ppid
const orphaned = setInterval(() => {
  if (!process.env.npm_lifecycle_event || process.ppid === parent) return
  clearInterval(orphaned)
  main.kill("SIGTERM")
}, 500)

main.on("exit", (code, signal) => {
  if (!signal) process.exit(code)
  for (const each of signals) process.removeAllListeners(each)
  process.kill(process.pid, signal)
})
