import type { Cluster } from "node:cluster"
import { AggregatorRegistry, Registry } from "prom-client"
import { declareIn, snapshot, type MetricJson } from "./instruments.ts"
import type { ProcessRole } from "./log.ts"
import { within } from "../std/deadline.ts"

/**
 * One /metrics for all processes of a host. A worker that asks to be counted sends its metrics once
 * at the start (id 0), again whenever the primary asks, and a last time before it ends. It keeps:
 *   AGG1  A counter or histogram is the sum over all processes, ended ones included, and never
 *       decreases.
 *   AGG2  A gauge is shown per living process, under the label `worker`: the name of its place, so restarts add no series.
 *   AGG3  A process that does not respond delays a scrape by `timeoutMs`, once for all
 *       concurrent scrapes, and counts as missing.
 * What a worker counted between its last snapshot and kill -9 is lost with it.
 */
interface MetricsQuestion {
  type: "metrics"
  id: number
}

interface MetricsAnswer extends MetricsQuestion {
  worker: string
  role: ProcessRole
  metrics: MetricJson[]
}

/** What the primary adds about a scrape itself. */
export function scrapeMetrics() {
  const registry = new Registry()
  const declare = declareIn(registry)
  return {
    registry,
    missing: declare.gauge("starling_metrics_missing_workers", "Workers that did not answer this scrape in time"),
    processes: declare.gauges("starling_processes", "Processes in this scrape, by role", "role", [
      "primary",
      "web",
      "job",
    ]),
  }
}

/** What reached the primary from one worker process. */
interface Source {
  answer: MetricsAnswer
  ask(question: MetricsQuestion): void
}

class MetricsAggregate {
  readonly #own: Registry
  readonly #timeoutMs: number
  /** By `cluster.Worker.id`, which is never reused. */
  readonly #sources = new Map<number, Source>()
  readonly #waiting = new Map<number, { asked: number; answered: () => void }>()
  /** Counters and histograms of the dead, already added up (AGG1). */
  #retired: MetricJson[] = []
  #asked = 0
  #running: Promise<string> | undefined

  /** `own` is the registry of the primary itself. */
  constructor(own: Registry, { timeoutMs = 2000 }: { timeoutMs?: number } = {}) {
    this.#own = own
    this.#timeoutMs = timeoutMs
  }

  /** Any message of a worker; those that are not metrics are left to others. */
  receive(process: number, message: unknown, ask: (question: MetricsQuestion) => void) {
    if (!isAnswer(message)) return
    this.#sources.set(process, { answer: message, ask })
    const waiting = this.#waiting.get(process)
    // An answer to an older question would do for the sums, but the next scrape should not get the
    // one before it.
    if (waiting && message.id === waiting.asked) waiting.answered()
  }

  /** The process is gone and everything it sent has been received. */
  retire(process: number) {
    const source = this.#sources.get(process)
    if (!source) return
    this.#sources.delete(process)
    this.#retired = addUp([this.#retired, source.answer.metrics.filter(isTotal)])
    this.#waiting.get(process)?.answered()
  }

  /** The text of /metrics. Requests that come while a scrape is under way share it. */
  async render(): Promise<string> {
    this.#running ??= this.#render().finally(() => (this.#running = undefined))
    return this.#running
  }

  async #render(): Promise<string> {
    const missing = await this.#askAll()
    const own = await snapshot(this.#own)

    const parts = [perWorker(own, "primary"), this.#retired]
    const processes = { primary: 1, web: 0, job: 0 }
    for (const [process, { answer }] of this.#sources) {
      if (missing.has(process)) {
        parts.push(answer.metrics.filter(isTotal)) // AGG1: without its last totals the sums would fall until it answers
      } else {
        parts.push(perWorker(answer.metrics, answer.worker))
        processes[answer.role]++
      }
    }

    const scrape = scrapeMetrics()
    scrape.missing.set(missing.size)
    for (const role of ["primary", "web", "job"] as const) scrape.processes[role].set(processes[role])
    parts.push(await snapshot(scrape.registry))

    return AggregatorRegistry.aggregate(parts).metrics()
  }

  /** The processes that did not answer in time. */
  async #askAll(): Promise<Set<number>> {
    const asked = ++this.#asked
    const missing = new Set<number>()
    const answers = [...this.#sources].map(([process, source]) => {
      missing.add(process)
      return new Promise<void>(resolve => {
        const answered = () => {
          missing.delete(process)
          resolve()
        }
        this.#waiting.set(process, { asked, answered })
        source.ask({ type: "metrics", id: asked })
      })
    })
    await within(this.#timeoutMs, Promise.all(answers), () => undefined)
    this.#waiting.clear()
    return missing
  }
}

/** In the primary: counts every worker that announces itself. */
export function aggregateCluster(own: Registry, cluster: Cluster, options?: { timeoutMs?: number }): MetricsAggregate {
  const aggregate = new MetricsAggregate(own, options)
  cluster.on("message", (worker, message: unknown) =>
    // A send that fails shows as a missing worker, or as its end.
    aggregate.receive(worker.id, message, question => worker.send(question, () => {})),
  )
  // Not "exit", which may come before the worker's last messages.
  cluster.on("disconnect", worker => aggregate.retire(worker.id))
  return aggregate
}

/** The worker's end of the channel; `process` in a forked worker. */
export type Channel = Pick<NodeJS.Process, "on" | "off" | "connected"> & {
  send?: ((message: unknown, done: (error: Error | null) => void) => boolean) | undefined
}

export interface AnsweringProcess {
  registry: Registry
  /** The name of the worker's place, such as "web-0"; the same after a restart (AGG2). */
  worker: string
  role: ProcessRole
}

/**
 * In a worker that is a process of its own: announces it to the primary and answers its questions.
 * Workers that share a process with a test must not call it: vitest forks its processes too, and
 * would be sent what it did not ask for.
 */
export function answerMetrics({ registry, worker, role }: AnsweringProcess, channel: Channel = process) {
  let newest = 0
  let answering: Promise<void> | undefined

  async function answer() {
    // A process that stood still finds a question for every scrape it missed; one answer does for
    // all of them.
    await new Promise(resolve => setImmediate(resolve))
    answering = undefined
    const id = newest
    const metrics = await snapshot(registry)
    await new Promise<void>(resolve => {
      if (!channel.send || !channel.connected) return resolve()
      const message: MetricsAnswer = { type: "metrics", id, worker, role, metrics }
      channel.send(message, () => resolve()) // an error means that the primary is gone, and nobody is left to count
    })
  }
  const tell = () => (answering ??= answer())

  function onMessage(message: unknown) {
    if (!isQuestion(message)) return
    newest = message.id
    tell().catch(onFailure)
  }
  // A metric that cannot be read is a bug; as an unhandled error it reaches the log of main.
  function onFailure(error: unknown) {
    queueMicrotask(() => {
      throw error
    })
  }

  channel.on("message", onMessage)
  tell().catch(onFailure)

  return {
    /**
     * The last word of a worker that ends in good order, right before it exits: resolves when its
     * totals are on their way.
     */
    async finish() {
      channel.off("message", onMessage)
      await tell()
    },
  }
}

const isQuestion = (message: unknown): message is MetricsQuestion =>
  typeof message === "object" && message !== null && "type" in message && message.type === "metrics" && "id" in message

const isAnswer = (message: unknown): message is MetricsAnswer =>
  isQuestion(message) && "metrics" in message && Array.isArray(message.metrics)

const isTotal = ({ type }: MetricJson) => type !== "gauge"

/** Sums what has equal names and labels. */
const addUp = (parts: MetricJson[][]) =>
  (AggregatorRegistry.aggregate(parts).getMetricsAsArray() as unknown as MetricJson[]).map(
    ({ name, help, type, aggregator, values }): MetricJson => ({ name, help, type, aggregator, values }),
  )

/** Gauges under the process's name, so that adding up leaves them alone (AGG2). */
const perWorker = (metrics: MetricJson[], worker: string) =>
  metrics.map(metric =>
    isTotal(metric)
      ? metric
      : { ...metric, values: metric.values.map(sample => ({ ...sample, labels: { ...sample.labels, worker } })) },
  )
