/**
 * The entry of every process. Started by a person it is the primary; forked by the primary it is `web` or `job`, as its
 * arguments say, so that `ps` tells them apart. What people read goes to stdout in plain lines, the log to stderr: JSON
 * for programs, one readable line each on a terminal.
 */
import cluster from "node:cluster"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import type { DestinationStream } from "pino"
import { clusterConfig } from "../cluster.config.ts"
import { ConfigError, entries, readConfig, type Config } from "./config.ts"
import { answerMetrics } from "./observability/aggregate.ts"
import { Captures } from "./observability/captures.ts"
import { answerDebug } from "./observability/debug.ts"
import { LogFile } from "./observability/log-file.ts"
import { textOf } from "./observability/log-text.ts"
import { createLog, type Log } from "./observability/log.ts"
import { createMetrics } from "./observability/metrics.ts"
import { release } from "./observability/release.ts"
import { helpText } from "./process/primary/help.ts"
import { signOfLifeEveryMs, type Order, type Report, type StartOrder } from "./process/primary/orders.ts"
import { platformProblem, thisPlatform } from "./process/primary/platform.ts"
import { systemClock } from "./std/system-clock.ts"
import { tracesOf } from "./process/traces.ts"
import { endOnBugs, logWarnings } from "./process/uncaught-errors.ts"

/** `over`: the incarnation was declared dead, or lost its log; the primary starts another in its place. */
const exitCodes = { done: 0, failed: 1, misconfigured: 2, over: 75 } as const
/** Milliseconds for a process to end in good order when nobody waits for it any longer. */
const lastMoment = 3_000
/** Milliseconds between two looks at the event loop of a process on which no client waits. */
const quietLoopMs = 250

// A reader that has gone (`npm start | head`) is no reason to end.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})

if (cluster.worker) serve(cluster.worker)
else await lead()

async function lead(): Promise<never> {
  const [argument, ...others] = process.argv.slice(2)
  if (argument !== undefined) process.exit(answer(argument, others))
  const problem = platformProblem(thisPlatform())
  if (problem !== undefined) {
    console.error(`starling: ${problem}`)
    process.exit(exitCodes.failed)
  }
  const config = configuration()
  const log = createLog({ level: config.logLevel, process: "primary" }, destination(config, "primary"))
  endOnBugs(log, exitCodes.failed)
  logWarnings(log)
  log.info({ ...release, node: process.versions.node }, "starting")
  const { runPrimary } = await import("./process/primary.ts")
  const reason = await runPrimary({
    config,
    topology: clusterConfig,
    log,
    readConfig: () => readConfig(process.env),
    metrics: createMetrics({ loopEveryMs: quietLoopMs }),
    // Password hashes take as many threads as there are cores; files and names must not wait behind them.
    environment: {
      UV_THREADPOOL_SIZE: process.env["UV_THREADPOOL_SIZE"] ?? String(Math.max(8, 2 * availableParallelism())),
    },
  })
  process.exit(reason === "told" ? exitCodes.done : exitCodes.failed)
}

/** What is asked of the program and starts nothing. @returns the exit code */
function answer(argument: string, others: readonly string[]): number {
  if (others.length === 0 && argument === "--version")
    console.log(`starling ${release.version}, commit ${release.commit}, Node.js ${process.versions.node}`)
  else if (others.length === 0 && argument === "--help") console.log(helpText(entries))
  else if (others.length === 0 && argument === "--check-config") {
    configuration()
    const given = entries.filter(({ name }) => process.env[name]?.trim())
    const names = given.length === 0 ? "none is given" : `given are ${given.map(({ name }) => name).join(", ")}`
    console.log(`starling: the settings are valid; ${names}`)
  } else {
    console.error(
      `starling: ${[argument, ...others].join(" ")} means nothing here, see --help; settings are environment variables`,
    )
    return exitCodes.misconfigured
  }
  return exitCodes.done
}

function configuration(): Config {
  try {
    return readConfig(process.env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) console.error(`starling: ${problem}`)
    process.exit(exitCodes.misconfigured)
  }
}

/** A forked process: asks for its orders, does its work, and ends on order, alone, or when it is over. */
function serve(us: NonNullable<typeof cluster.worker>): void {
  const place = process.argv.slice(2).join("-")
  let log: Log | undefined
  let running:
    | { noteDeath(id: string): void; leave?(): void; drain(replaced: boolean): Promise<void>; stop(): Promise<void> }
    | undefined
  /** Deaths that were told before there was anybody here to hear of them. */
  const deaths: string[] = []
  let counted: ReturnType<typeof answerMetrics> | undefined
  let finishTraces: (() => Promise<void>) | undefined
  let ending = false
  let leaving = false
  let graceMs = 0

  async function start({ self, predecessor, config, port, ...places }: StartOrder): Promise<void> {
    graceMs = config.drainGraceMs
    log = createLog({ level: config.logLevel, process: self.role, worker: place }, destination(config, place))
    endOnBugs(log, exitCodes.failed)
    logWarnings(log)
    const metrics = createMetrics({
      worker: place,
      ...(self.role !== "web" && { loopEveryMs: quietLoopMs }),
      ...tracesOf(config, self),
    })
    finishTraces = metrics.finishTraces
    counted = answerMetrics({ registry: metrics.registry, worker: place, role: self.role })
    const captures = config.debugCaptures ? new Captures(join(config.dataDir, "captures"), place) : undefined
    answerDebug({ worker: place, holdings: metrics.holdings, captures })
    const onOver = (why: string) => {
      log?.error({ member: self.id, why }, "incarnation ended")
      end(exitCodes.over, () => running?.stop(), lastMoment)
    }
    const options = { self, predecessor, config, ...places, topology: clusterConfig, log, metrics, onOver }
    if (self.role === "web") {
      const { startWebWorker } = await import("./process/web-worker.ts")
      running = await startWebWorker({
        ...options,
        listen: { host: config.host, port, socketFolder: places.socketFolder },
      })
    } else {
      const { startJobWorker } = await import("./process/job-worker.ts")
      running = await startJobWorker(options)
    }
    for (const id of deaths.splice(0)) running.noteDeath(id)
    if (leaving) running.leave?.()
    report({ type: "ready" })
  }

  /** Once; the primary declares dead what could not say so itself. */
  function end(code: number, finish: () => Promise<void> | undefined, timeoutMs: number): void {
    if (ending) return
    ending = true
    setTimeout(() => process.exit(exitCodes.failed), timeoutMs)
    Promise.resolve(finish())
      .catch((error: unknown) => log?.warn({ err: error }, "shutdown incomplete"))
      .then(() => finishTraces?.())
      .then(() => counted?.finish())
      .then(
        () => process.exit(code),
        () => process.exit(code),
      )
  }
  const drain = (timeoutMs: number, replaced = false) => end(exitCodes.done, () => running?.drain(replaced), timeoutMs)
  const leave = () => {
    leaving = true
    running?.leave?.()
  }
  const report = (report: Report) => process.send?.(report, () => {}) // the end of the channel is its own event

  process.on("message", (order: Order) => {
    if (order.type === "start")
      start(order).catch((error: unknown) => {
        log?.fatal({ err: error }, "could not start")
        end(exitCodes.failed, () => running?.stop(), lastMoment)
      })
    else if (order.type === "death" && !running) deaths.push(order.id)
    else if (order.type === "death") running?.noteDeath(order.id)
    else if (order.type === "leave") leave()
    else if (order.type === "log") {
      if (log) log.level = order.level
    } else if (order.type === "end") drain(order.timeoutMs, order.replaced)
  })
  us.on("disconnect", () => {
    // Node would exit at once. Without a primary nobody would restart us or free the port, so it ends, but kindly.
    us.exitedAfterDisconnect = true
    drain(lastMoment)
  })
  // A supervisor that signals all of a service gives the workers the same grace as the primary.
  process.on("SIGTERM", () => {
    leave()
    setTimeout(() => drain(clusterConfig.processes.drainTimeoutMs), graceMs)
  })
  // Ctrl-C reaches the whole process group, and some supervisors signal all of a service; the primary decides what it means.
  for (const signal of ["SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR2"] as const) process.on(signal, () => {})
  report({ type: "here" })
  // From the event loop itself: when that is stuck, nothing comes.
  systemClock.every(signOfLifeEveryMs, () => report({ type: "alive" }))
}

/** Every line goes to stderr, and in one form for all processes to the log files of this host. */
function destination({ logFolder }: Config, place: string): DestinationStream {
  const toStderr = (line: string) => process.stderr.write(process.stderr.isTTY ? readable(line) : line)
  if (logFolder === undefined) return { write: toStderr }
  const say = (level: string, msg: string, facts: object) =>
    toStderr(`${JSON.stringify({ level, time: new Date().toISOString(), pid: process.pid, ...facts, msg })}\n`)
  const file = new LogFile({
    folder: logFolder,
    onTrouble: error =>
      say("warn", "log files are not written", { code: (error as NodeJS.ErrnoException).code, folder: logFolder }),
    onRecovery: lost => say("info", "log files are written again", { lost_lines: lost }),
  })
  process.on("exit", () => file.finish())
  return {
    write(line) {
      toStderr(line)
      file.write(textOf(line, place))
    },
  }
}

/** `12:30:01 WARN web-0 lease lost shard=12` */
function readable(line: string): string {
  const { level, time, msg, process: role, worker, pid: _, err, ...facts } = JSON.parse(line) as Record<string, unknown>
  const { stack, message, ...about } = (err ?? {}) as Record<string, unknown>
  const words = Object.entries({ ...facts, ...about }).map(([name, fact]) => `${name}=${JSON.stringify(fact)}`)
  const head = [String(time).slice(11, 19), String(level).toUpperCase(), worker ?? role, msg, ...words].join(" ")
  return stack === undefined ? `${head}\n` : `${head}\n${String(stack ?? message)}\n`
}
