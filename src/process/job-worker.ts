import type { ClusterConfig } from "../../cluster.config.ts"
import { beginLineage } from "../runtime/lineage-watch.ts"
import { joinCluster } from "../runtime/join-cluster.ts"
import { PresenceLookup } from "../actors/social/presence-lookup.ts"
import { LineageNotes } from "../cluster/lineage-notes.ts"
import { FigureBoard } from "../cluster/figures.ts"
import { figureSamples, figureSeconds } from "../domain/operators/figures.ts"
import { FigureNotes } from "./figures.ts"
import { openJobConnection, openJobQueue, type JobQueue } from "../cluster/job-queue.ts"
import { redisKeys } from "../cluster/keys.ts"
import type { Member } from "../cluster/members.ts"
import { connector, openRedis, tripsOf } from "../cluster/redis.ts"
import type { Config } from "../config.ts"
import { pictureAnswered, type PictureAnswer } from "../cluster/picture-requests.ts"
import { createBudgets } from "../cluster/budgets.ts"
import { createClassifiers, maxConcurrentQuestions } from "../integrations/classifiers.ts"
import { ClassifierSettingsStore } from "../integrations/classifier-settings.ts"
import { createSecrets } from "../integrations/secrets.ts"
import { createPictures } from "../integrations/pictures.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { homeReplicationId } from "../cluster/replication.ts"
import { openBlobs } from "../storage/core/open-blobs.ts"
import { OutlineLoads } from "../storage/communities/outline-loads.ts"
import { unixSocketsIn } from "../cluster/unix-sockets.ts"
import { openStorage, type Storage } from "../storage/storage.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { FairPlaces } from "../std/fair-places.ts"
import { consumeJobs } from "../workers/consumer.ts"
import { PushKeys, WebPush } from "../integrations/web-push.ts"
import type { ClassifierTools, PushTools } from "../workers/processor.ts"
import { SearchIndex } from "../workers/search-index.ts"
import { createMailer } from "../workers/mail.ts"
import { sweeps } from "../workers/jobs.ts"
import { startSweeps } from "../workers/sweep.ts"

export interface JobWorkerOptions {
  self: Member
  config: Config
  /** The incarnation in the same place that works until this one does. */
  predecessor?: string | undefined
  topology: ClusterConfig
  databaseUrl: string
  redisUrl: string
  redisPrefix: string
  secretKey: string
  socketFolder?: string | undefined
  log: Log
  metrics: Metrics
  /** This incarnation is over: it must be stopped. */
  onOver: (why: string) => void
}

export interface JobWorker {
  readonly id: string
  /** The primary saw a worker of this host end. */
  noteDeath(id: string): void
  /** Finishes the jobs that run, takes no more, then stops. */
  drain(): Promise<void>
  /** At once; what ran is run again by others. */
  stop(): Promise<void>
}

/** Statements that load servers for jobs at a time: one large server is about a megabyte. */
const maxOutlineLoads = 2

/** Most jobs wait for actors and statements, not for this process's CPU. */
const maxConcurrentJobs = 32

/** Pictures that are taken out of the queue so that users have turns among them, and those of one user. */
const maxPicturesTaken = 256
const maxPicturesOfOne = 64

function thumbnailBudget({ policy }: Config) {
  const { requests, seconds, burst } = policy.rate_limits.routes.get("THUMBNAIL_GEN")!
  return { capacity: requests + burst, perSecond: requests / seconds }
}

/** Milliseconds for which what operators have set of classifiers is taken to be so. */
const settingsKeptMs = 500

function openClassifiers({ config, secretKey, log, metrics }: JobWorkerOptions, storage: Storage) {
  const mayBePrivate = config.privateClassifiers
  const store = new ClassifierSettingsStore({
    storage,
    secrets: createSecrets(secretKey),
    configured: config.classifiers,
    mayBePrivate,
  })
  const asking = createClassifiers({ mayBePrivate, log, metrics, now: () => performance.now() })
  const settings = keptFor(settingsKeptMs, () => store.inForce())
  const tools: ClassifierTools = {
    inForce: settings,
    async ask(backend, content, payers) {
      const answer = await asking.ask(backend, await settings(), content, payers)
      return typeof answer === "object" || answer === "refused" ? answer : undefined
    },
    count: reason => metrics.automod.unclassified[reason].inc(),
  }
  return { tools, close: () => asking.close() }
}

/** Reads something again when what was read is older than that; a failure is not kept. */
function keptFor<T>(keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let known: { readonly value: Promise<T>; readonly since: number } | undefined
  return () => {
    if (known && performance.now() - known.since < keptMs) return known.value
    const value = read()
    known = { value, since: performance.now() }
    value.catch(() => {
      known = undefined
    })
    return value
  }
}

/** Jobs that push at a time, each to a few browsers: they wait for push services. */
const maxConcurrentPushes = 16

/** Push services take nothing else. */
const subjectOf = (publicUrl: string, mailFrom = `postmaster@${new URL(publicUrl).hostname}`): string =>
  publicUrl.startsWith("https:") ? publicUrl : `mailto:${mailFrom}`

const consumed = [
  { queue: "jobs", concurrency: maxConcurrentJobs },
  { queue: "pictures", concurrency: maxPicturesTaken },
  { queue: "classifiers", concurrency: maxConcurrentQuestions },
  { queue: "pushes", concurrency: maxConcurrentPushes },
] as const

function openPushes({ config, secretKey, log, metrics }: JobWorkerOptions, storage: Storage, queue: JobQueue) {
  const { policy, publicUrl, privatePushes: mayBePrivate } = config
  const web = new WebPush({
    keys: new PushKeys({ storage, secrets: createSecrets(secretKey) }),
    subject: subjectOf(publicUrl, policy.mail_from),
    mayBePrivate,
    now: clock.now,
  })
  const tools: PushTools = {
    send: (browser, push) => web.send(browser, push),
    add: job => queue.add(job),
    serverName: policy.server_name,
    count: outcome => metrics.pushes[outcome].inc(),
    // Its path is the browser's secret.
    noteRefusal: (endpoint, why) => log.warn({ push_service: new URL(endpoint).host, why }, "push refused"),
  }
  return { tools, close: () => web.close() }
}

const ended = async (all: readonly Promise<void>[]): Promise<void> => {
  await Promise.all(all)
}

/** The process for what may happen later. It owns no shards: jobs ask the actors wherever they live. */
export async function startJobWorker(options: JobWorkerOptions): Promise<JobWorker> {
  const { self, config, topology, databaseUrl, redisUrl, redisPrefix, log, metrics } = options
  const trouble = (error: unknown) => {
    metrics.pools.redisErrors.of("jobs").inc()
    log.debug({ err: error, connection: "jobs" }, "Redis error")
  }
  const storage = openStorage({ ...topology.storage, url: databaseUrl, name: `starling ${self.id}`, metrics })
  await storage.migrations.require()
  const adding = openRedis(redisUrl, `${self.id} jobs`, trouble, { trips: tripsOf(metrics, "jobs") })
  const taking = openJobConnection(redisUrl, `${self.id} jobs taken`, trouble)
  await Promise.all([adding.connect(), taking.connect()])
  const queue = openJobQueue(adding, redisPrefix, clock.now, { onLeftOut: () => metrics.pushes.overloaded.inc() })

  const lineage = await beginLineage(new LineageNotes(adding, redisPrefix), storage, log)
  const origin = await homeReplicationId(adding, storage.placement.redisOrigin)
  const keys = redisKeys(redisPrefix, origin, lineage.name)
  const budgets = createBudgets({ redis: adding, keys, enabled: config.rateLimits, metrics })
  const cluster = await joinCluster({
    self,
    predecessor: options.predecessor,
    connect: connector(redisUrl, self.id, metrics),
    sockets: unixSocketsIn(options.socketFolder, self.id, topology.bus.sockets.maxUntaken),
    keys,
    storage,
    lineage,
    topology: { ...topology, resumeWindowMs: topology.gateway.resumeWindowMs },
    clock,
    log,
    metrics,
  })
  cluster.signals.on("over", options.onOver)
  await cluster.start()

  const ending = new AbortController()
  const blobs = openBlobs(config.files, { log, metrics })
  const classifiers = openClassifiers(options, storage)
  const pushes = openPushes(options, storage, queue)
  const tools = {
    ask: cluster.ask,
    storage,
    presences: new PresenceLookup({ ...cluster, timing: topology.presence, clock }),
    running: { massNotifications: new Set<string>(), assemblies: new Set<string>() },
    outlines: new OutlineLoads({ source: storage.servers, maxConcurrent: maxOutlineLoads, clock }),
    blobs,
    mailer: mailerOf(options),
    pictures: {
      ...createPictures(),
      places: new FairPlaces(topology.pictures.maxConcurrent, maxPicturesOfOne),
      count: (use: string, outcome: string) => metrics.pictures.encoded.of(use, outcome).inc(),
      spend: (user: string, amount: number) =>
        budgets.spend([`user:${user}`], [{ name: "thumbnails", amount, budget: thumbnailBudget(config) }]),
      answer: (worker: string, answer: PictureAnswer) => cluster.bus.notify(worker, pictureAnswered, answer),
    },
    classifiers: classifiers.tools,
    push: pushes.tools,
    now: clock.now,
    signal: ending.signal,
  }
  const consumers = consumed.map(queue =>
    consumeJobs({ ...queue, connection: taking, prefix: redisPrefix, tools, log, metrics, trouble }),
  )
  const searchRows = storage.openSearchIndex()
  const searchIndex = new SearchIndex({
    storage: searchRows,
    bounds: topology.search,
    languages: config.policy.search_languages,
    adds: config.policy.search_enabled,
    clock,
    log,
  })
  cluster.signals.on("committed", () => searchIndex.look())
  // What nobody has told of: the word of it was lost with Redis, or with the worker that had it.
  const lookingAgain = () => async () => searchIndex.look()
  const sweeping = startSweeps({ sweeps: [lookingAgain, ...sweeps], tools, log, now: clock.now })
  searchIndex.look()

  let waiting = 0
  metrics.jobs.waiting.from(() => waiting)
  const counting = clock.every(5_000, () => {
    queue.waiting().then(count => (waiting = count), trouble)
    queue.ages().then(ages => {
      for (const [name, seconds] of ages) metrics.jobs.oldestSeconds[name].set(seconds ?? 0)
    }, trouble)
  })

  const noting = new FigureNotes({
    board: new FigureBoard({ redis: adding, keys, spans: figureSamples, spanSeconds: figureSeconds }),
    self,
    metrics,
    folder: config.dataDir,
    pings: { postgres: () => storage.placement.ping(), redis: () => adding.ping() },
    oldestJob: async () => (await queue.state()).oldestSeconds,
    spanSeconds: figureSeconds,
    clock,
    log,
  })

  async function close(finish: () => Promise<void>): Promise<void> {
    ending.abort(new Error("the process ends"))
    // Nobody waits for them; their messages are asked about by another.
    classifiers.close()
    pushes.close()
    counting.stop()
    noting.stop()
    await finish()
    await sweeping.stop()
    await searchIndex.stop()
    await searchRows.close().catch(() => {})
    await cluster.stop()
    await queue.close().catch(trouble)
    blobs.close()
    adding.disconnect()
    taking.disconnect()
    await storage.close()
  }

  return {
    id: self.id,
    noteDeath(id) {
      // No primary of another host saw this; a notice spares them the wait for a sign of life.
      for (const member of cluster.membership.members())
        if (member.host !== self.host) cluster.bus.notify(member.id, "death", id)
      cluster.membership.noteDeath(id)
    },
    drain: () => close(() => ended(consumers.map(consumer => consumer.close()))),
    stop: () => close(() => ended(consumers.map(consumer => consumer.abandon()))),
  }
}

const mailerOf = ({ config: { smtpUrl, policy, publicUrl }, log }: JobWorkerOptions) =>
  createMailer({ smtpUrl, from: policy.mail_from, serverName: policy.server_name, publicUrl, log })
