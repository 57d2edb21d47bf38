import cluster, { type Worker } from "node:cluster"
import { EventEmitter } from "node:events"
import { afterEach, expect, test, vi } from "vitest"
import { clusterConfig } from "../../../cluster.config.ts"
import { readConfig } from "../../config.ts"
import { createLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import { Ending } from "./ending.ts"
import type { DeadWorkers } from "./dead-workers.ts"
import { Processes } from "./processes.ts"

afterEach(() => vi.restoreAllMocks())

/** A process that nothing runs in; without a pid the system has refused it. */
function forked(pid?: number): Worker {
  const worker = new EventEmitter() as Worker
  const kill = () => {
    worker.emit("exit", null, "SIGKILL")
    return true
  }
  worker.process = Object.assign(new EventEmitter(), { pid, killed: false, kill }) as never
  worker.send = () => true
  return worker
}

function processes(fork: (attempt: number) => Worker) {
  const lines: string[] = []
  const metrics = createMetrics()
  let attempts = 0
  vi.spyOn(cluster, "setupPrimary").mockImplementation(() => {})
  vi.spyOn(cluster, "fork").mockImplementation(() => fork(++attempts))
  const places = new Processes({
    config: readConfig({ WORKERS: "1" }),
    topology: {
      ...clusterConfig,
      processes: {
        ...clusterConfig.processes,
        job: 0,
        restart: { firstMs: 1, factor: 1, maxMs: 1, maxOnceReadyMs: 1, forgiveAfterMs: 1 },
      },
    },
    log: createLog({ level: "warn", process: "primary" }, { write: line => void lines.push(line) }),
    metrics,
    environment: {},
    databaseUrl: "",
    redisUrl: "",
    secretKey: "",
    host: "here",
    listen: { port: 0, socketFolder: undefined },
    deadWorkers: { declareDead: async () => true } as unknown as DeadWorkers,
    ending: new Ending(),
  })
  return { places, lines, attempts: () => attempts, close: () => metrics.close() }
}

const refusals: [what: string, refuse: () => Worker][] = [
  [
    "says that it could not begin",
    () => {
      const worker = forked()
      process.nextTick(() => worker.emit("error", new Error("spawn node EAGAIN")))
      return worker
    },
  ],
  [
    "is not even made",
    () => {
      throw new Error("spawn ENOMEM")
    },
  ],
]

test.for(refusals)("a process that %s is tried again, and is waited for by nobody", async ([, refuse]) => {
  const { places, lines, attempts, close } = processes(attempt => (attempt <= 2 ? refuse() : forked(42)))
  const started = places.start()
  await vi.waitFor(() => expect(attempts()).toBe(3), { interval: 1 })
  expect(lines.filter(line => line.includes("another takes its place"))).toHaveLength(2)
  await places.end()
  close()
  await expect(Promise.race([started, Promise.resolve("not ready")])).resolves.toBe("not ready")
})

test("a start-up where no process can be made fails", async () => {
  const { places, attempts, close } = processes(refusals[1]![1])
  await expect(places.start()).rejects.toThrow("ended 5 times before it was ready")
  expect(attempts()).toBe(5)
  await places.end()
  close()
})
