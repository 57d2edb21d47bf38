import { Queue } from "bullmq"
import type { JobName } from "../contract/core/jobs.ts"
import type { JobRequest } from "../contract/core/registry.ts"
import { openRedis, type Redis, type RedisTrouble } from "./redis.ts"
import { backoffMs } from "../std/backoff.ts"

/**
 * Pictures have a queue of their own: their jobs take processor time, so few of them run at once, and
 * requests wait for some of them. So have questions to classifiers, and pushes, which wait for what is slow and not ours.
 */
export const jobQueueNames = ["jobs", "pictures", "classifiers", "pushes"] as const
export type JobQueueName = (typeof jobQueueNames)[number]
const pictureJobs: ReadonlySet<string> = new Set<JobName>(["encodePicture", "hashPicture", "makeThumbnails"])
const awaitedJob: JobName = "encodePicture"
const pushJobs: ReadonlySet<string> = new Set<JobName>(["pushMessage", "sendPush"])
const classifierJob: JobName = "classifyMessage"
function queueOf(job: string): JobQueueName {
  if (pictureJobs.has(job)) return "pictures"
  if (pushJobs.has(job)) return "pushes"
  return job === classifierJob ? "classifiers" : "jobs"
}
/** Jobs that wait at most in queues for what is not ours; what comes then is left out. */
const maxWaiting: Partial<Record<JobQueueName, number>> = { classifiers: 20_000, pushes: 20_000 }
/** Milliseconds for which it is known how many wait. */
const countedForMs = 500
export const jobPrefix = (prefix: string) => `${prefix}{jobs}`

/** Where jobs are put; the queue never holds the only copy of anything. */
export interface JobQueue {
  add(job: JobRequest): Promise<void>
  waiting(): Promise<number>
  /** Seconds that the oldest job of each queue has waited; null where none does. */
  ages(): Promise<[queue: JobQueueName, seconds: number | null][]>
  state(): Promise<{ waiting: number; active: number; failed: number; oldestSeconds: number | null }>
  close(): Promise<void>
}

/** Milliseconds before a job that failed is tried again: 0.5 s, doubling up to five minutes. */
export const jobRetryDelay = (failures: number): number => backoffMs(failures - 1, 500, 300_000)

export interface JobQueueOptions {
  readonly maxWaiting?: Partial<Record<JobQueueName, number>>
  /** A job was left out because too many wait. */
  readonly onLeftOut?: (job: string) => void
}

/** `connection` fails fast: the caller tries again. A key that is waiting already is not added twice. */
export function openJobQueue(
  connection: Redis,
  prefix: string,
  now: () => number,
  { maxWaiting: bounds = maxWaiting, onLeftOut = () => {} }: JobQueueOptions = {},
): JobQueue {
  const open = (name: JobQueueName) => {
    const queue = new Queue(name, {
      connection,
      prefix: jobPrefix(prefix),
      skipWaitingForReady: true,
      skipVersionCheck: true,
    })
    queue.on("error", () => {})
    return queue
  }
  const queues = {
    jobs: open("jobs"),
    pictures: open("pictures"),
    classifiers: open("classifiers"),
    pushes: open("pushes"),
  }
  const all = Object.values(queues)
  const counted = new Map<JobQueueName, { count: number; atMs: number }>()

  /** Asked now and then, and estimated in between. */
  async function isFull(name: JobQueueName): Promise<boolean> {
    const bound = bounds[name]
    if (bound === undefined) return false
    let known = counted.get(name)
    if (!known || now() - known.atMs > countedForMs) {
      const counts = await queues[name].getJobCounts("waiting", "delayed")
      known = { count: Object.values(counts).reduce((sum, count) => sum + count, 0), atMs: now() }
      counted.set(name, known)
    }
    return known.count++ >= bound
  }

  const ages = () =>
    Promise.all(
      jobQueueNames.map(async (name): Promise<[JobQueueName, number | null]> => {
        const oldest = await queues[name].getJobs(["waiting", "prioritized"], 0, 0, true)
        // A job that was to run later waits since then.
        const dueAt = oldest.flatMap(job => (job ? [job.timestamp + job.delay] : []))
        return [name, dueAt.length === 0 ? null : Math.max(0, (now() - Math.min(...dueAt)) / 1000)]
      }),
    )

  return {
    async add({ job, data, key, runAtMs }) {
      if (await isFull(queueOf(job))) {
        onLeftOut(job)
        return
      }
      const delay = Math.max(0, runAtMs - now())
      await queues[queueOf(job)].add(job, data, {
        // BullMQ keeps ":" for itself.
        jobId: key.replaceAll(":", "-"),
        delay,
        // What a request waits for goes before what nobody waits for.
        ...(queueOf(job) === "pictures" && job !== awaitedJob && { priority: 1 }),
        // A day of tries, so that an outage at night does not end in jobs that somebody has to look after.
        attempts: 300,
        backoff: { type: "jobRetryDelay" },
        removeOnComplete: true,
        removeOnFail: { age: 7 * 86_400 },
      })
    },
    async waiting() {
      const counts = await Promise.all(all.flatMap(queue => [queue.getWaitingCount(), queue.getPrioritizedCount()]))
      return counts.reduce((sum, count) => sum + count, 0)
    },
    ages,
    async state() {
      const [counts, oldest] = await Promise.all([
        Promise.all(all.map(queue => queue.getJobCounts("waiting", "prioritized", "active", "failed"))),
        ages(),
      ])
      const count = (state: string) => counts.reduce((sum, each) => sum + (each[state] ?? 0), 0)
      const seconds = oldest.flatMap(([, age]) => age ?? [])
      return {
        waiting: count("waiting") + count("prioritized"),
        active: count("active"),
        failed: count("failed"),
        oldestSeconds: seconds.length === 0 ? null : Math.max(...seconds),
      }
    },
    async close() {
      await Promise.all(all.map(queue => queue.close()))
    },
  }
}

/**
 * A connection for the side that takes jobs out. BullMQ copies it for its blocking reads of up to ten seconds, and wants
 * commands kept, not failed, while Redis is away.
 */
export const openJobConnection = (url: string, name: string, trouble: RedisTrouble): Redis =>
  openRedis(url, name, trouble, { maxRetriesPerRequest: null, enableOfflineQueue: true, commandTimeout: 20_000 })
