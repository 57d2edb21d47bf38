import { Queue } from "bullmq"
import type { Redis } from "ioredis"
import type { JobRequest } from "../contract/registry.ts"

export const jobQueueName = "jobs"
export const jobPrefix = (prefix: string) => `${prefix}{jobs}`

/** Where jobs are put; the queue never holds the only copy of anything. */
export interface JobQueue {
  add(job: JobRequest): Promise<void>
  waiting(): Promise<number>
  close(): Promise<void>
}

/** `connection` fails fast: whoever adds tries again. A key that is waiting already is not added twice. */
export function openJobQueue(connection: Redis, prefix: string, now: () => number): JobQueue {
  const queue = new Queue(jobQueueName, { connection: connection as never, prefix: jobPrefix(prefix), skipWaitingForReady: true, skipVersionCheck: true })
  queue.on("error", () => {})
  return {
    async add({ job, data, key, runAtMs }) {
      const delay = Math.max(0, runAtMs - now())
      await queue.add(job, data, {
        // BullMQ keeps ":" for itself.
        jobId: key.replaceAll(":", "-"),
        delay,
        attempts: 20,
        backoff: { type: "exponential", delay: 500 },
        removeOnComplete: true,
        removeOnFail: { age: 7 * 86_400 },
      })
    },
    waiting: () => queue.getWaitingCount(),
    close: () => queue.close(),
  }
}
