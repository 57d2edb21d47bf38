import { DelayedError, Worker, type Job } from "bullmq"
import { jobPrefix, jobRetryDelay, type JobQueueName, type openJobConnection } from "../cluster/job-queue.ts"
import { Failure } from "../contract/core/errors.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { runJob } from "./jobs.ts"
import { Deferral, type JobTools } from "./processor.ts"

export interface JobConsumerOptions {
  readonly queue: JobQueueName
  /** Jobs of it that run at once. */
  readonly concurrency: number
  readonly connection: ReturnType<typeof openJobConnection>
  readonly prefix: string
  readonly tools: JobTools
  readonly log: Log
  readonly metrics: Pick<Metrics, "jobs">
  readonly trouble: (error: unknown) => void
}

export interface JobConsumer {
  /** Takes no more jobs and waits for those that run. */
  close(): Promise<void>
  /** Does not wait: another process finds the jobs stalled and runs them again. */
  abandon(): Promise<void>
}

/**
 * Milliseconds after which a job is looked at again whose turn had not come: half of what it has
 * waited already.
 */
const deferredFor = (waited: number): number => Math.min(Math.max(waited / 2, 500), 30_000)

/** For how long Redis is asked for the next job of a queue in which none waits. */
const waitSeconds = 10

/** Takes jobs out of a queue and runs them. */
export function consumeJobs(options: JobConsumerOptions): JobConsumer {
  const { queue, concurrency, connection, prefix, tools, log, metrics, trouble } = options

  async function perform(job: Job, token?: string): Promise<void> {
    const { id, name, data, attemptsMade, opts } = job
    const startedAt = performance.now()
    try {
      await runJob(tools, name, data)
      metrics.jobs.done.of(name, "done").inc()
    } catch (error) {
      if (error instanceof Deferral) {
        metrics.jobs.done.of(name, "deferred").inc()
        const waitMs = error.waitMs ?? deferredFor(tools.now() - job.timestamp)
        await job.moveToDelayed(tools.now() + waitMs, token)
        throw new DelayedError()
      }
      const isLast = attemptsMade + 1 >= (opts.attempts ?? 1)
      metrics.jobs.done.of(name, isLast ? "failed" : "retried").inc()
      const about = { err: error, job: name, job_id: id, attempt: attemptsMade + 1 }
      if (isLast) log.error(about, "job failed permanently")
      else if (isTransient(error)) log.debug(about, "job deferred")
      else log.error(about, "job failed")
      throw error
    } finally {
      metrics.jobs.seconds.of(name).observe((performance.now() - startedAt) / 1000)
    }
  }

  const worker = new Worker(queue, perform, {
    connection,
    prefix: jobPrefix(prefix),
    concurrency,
    // A job that comes ends the wait; this is for a connection that has ended unnoticed.
    drainDelay: waitSeconds,
    // A process that is killed leaves its jobs stalled; that says nothing against the jobs.
    maxStalledCount: 100,
    settings: { backoffStrategy: jobRetryDelay },
  })
  worker.on("error", trouble)
  return { close: () => worker.close(), abandon: () => worker.close(true) }

  function isTransient(error: unknown): boolean {
    return tools.signal.aborted || (error instanceof Failure && error.code === "unavailable")
  }
}
