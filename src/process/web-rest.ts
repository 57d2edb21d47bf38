import { createPasskeyChallenges } from "../cluster/passkey-challenges.ts"
import { passkeyPlace } from "../domain/accounts/passkeys.ts"
import type { SignInOutcome, SignInWay } from "../observability/metrics.ts"
import { createPasskeys } from "../integrations/passkeys.ts"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { asyncapiDocument } from "../apidocs/asyncapi.ts"
import { openapiInSteps } from "../apidocs/openapi.ts"
import { webWorkersOf } from "../config.ts"
import { fail, Failure } from "../contract/core/errors.ts"
import { wireVersion } from "../contract/service/system.ts"
import { messageOf, shownStatus, waitFor, type ServiceView } from "../domain/service/server-status.ts"
import type { Gateway } from "../gateway/gateway.ts"
import { unlimitedIn } from "./connection-limits.ts"
import type { FigureSources } from "../http/operators/overview.ts"
import type { HostFigures } from "../http/operators/dashboard.ts"
import { diskOf } from "./figures.ts"
import { HostLoad } from "./host-load.ts"
import { createUsernameRules } from "../http/accounts/username-rules.ts"
import { AccessUseNotes } from "../http/service/access-use-notes.ts"
import { createRestServer } from "../http/rest-server.ts"
import { SessionUses } from "../http/accounts/session-uses.ts"
import { createClassifiers } from "../integrations/classifiers.ts"
import { ClassifierSettingsStore } from "../integrations/classifier-settings.ts"
import { PushEndpoints, PushKeys } from "../integrations/web-push.ts"
import type { TextJudge } from "../integrations/text-judge.ts"
import { PictureRequests } from "../cluster/picture-requests.ts"
import { createBudgets } from "../cluster/budgets.ts"
import { createHashing } from "../integrations/password-hashing.ts"
import { createHealth, ReadinessLog, type Health, type Readiness } from "../observability/health.ts"
import type { Log } from "../observability/log.ts"
import type { ShardHost } from "../runtime/host-shards.ts"
import type { Timer } from "../std/clock.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { DeliveryCounts } from "../views/delivery-counts.ts"
import { appPages, noAppPages } from "../web/app-pages.ts"
import { documentationPages } from "../web/documentation-pages.ts"
import { operatorPages } from "../web/operator-pages.ts"
import { personPages } from "../web/person-pages.ts"
import { Timings } from "../http/service/timings.ts"
import { routes } from "../contract/contract.ts"
import { msOf } from "../domain/core/snowflake.ts"
import { openLogFiles } from "../storage/core/log-files.ts"
import type { OldReads } from "../views/sources.ts"
import type { WebConnections } from "./web-connections.ts"
import type { WebParts } from "./web-gateway.ts"
import type { WebWorkerOptions } from "./web-worker-options.ts"

/** The REST server of a web worker, and what it does later. */
export function openRest(
  options: WebWorkerOptions,
  parts: WebParts,
  gateway: Gateway,
  { host, texts }: { host: Pick<ShardHost, "checkPublication" | "checkOwners">; texts: TextJudge },
) {
  const { self, config, topology, log, metrics } = options
  const { connections, cluster, presences, service, tokens, admission, iceServers } = parts
  const { storage, jobs, blobs, secrets, signedPath } = connections
  const { policy, publicUrl } = config
  const deferred = deferredWork(log)
  const accessUses = new AccessUseNotes({ storage, clock, log })
  const sessionUses = new SessionUses({ storage, clock, log })
  const timings = new Timings({
    ...topology.telemetry,
    storage,
    routes: Object.values(routes),
    writer: self.id,
    isEnabled: policy.telemetry_enabled,
    clock,
    log,
    metrics,
  })
  const classifiers = classifiersOf(options, connections)
  let leaving = false
  const readiness = healthOf(parts, host, log, () => leaving)
  const server = createRestServer(
    {
      ask: cluster.ask,
      create: cluster.create,
      storage,
      policy,
      usernames: createUsernameRules(policy, storage.bannedUsernames),
      tokens,
      jobs: { add: job => jobs.add(job), later: deferred.later },
      live: {
        presences,
        workersOf: user => cluster.router.workersOf(user),
        noteTyping: (user, channel) => gateway.noteTyping(user, channel),
      },
      integrations: {
        blobs,
        pictures: requestsOfPictures(options, parts),
        budgets: createBudgets({
          redis: connections.admission,
          keys: connections.keys,
          enabled: config.rateLimits,
          metrics,
        }),
        secrets,
        ...passkeysOf(options, connections),
        logFiles: openLogFiles({ folder: join(config.dataDir, "logs"), ...topology.logs.reads }),
        iceServers,
        texts,
        classifiers: classifiers.asking,
        ...pushesOf(options, connections),
        classifierSettings: classifiers.settings,
        hashing: createHashing({
          memoryKib: policy.password_hash_memory,
          passes: policy.password_hash_passes,
          // Half of the cores, for all workers together.
          maxConcurrent: Math.max(1, Math.floor(availableParallelism() / 2 / webWorkersOf(config, topology))),
          timeoutMs: topology.http.hashTimeoutMs,
        }),
      },
      service: {
        health: readiness.health,
        lookEveryMs: topology.service.lookEveryMs,
        status: () => shownStatus(service.facts),
        accessTokens: () => service.accessTokens,
        noteAccessUse: use => accessUses.note(use),
        noteSessionUse: session => sessionUses.note(session),
        publicUrl,
        hasDocs: policy.docs_enabled,
        moderation: () => service.moderation,
      },
      telemetry: { timings, ...notesOf(options) },
      views: {
        ask: cluster.ask,
        storage,
        clock: () => clock.now(),
        linkTo: file => signedPath(file, clock.now()),
        delivered: new DeliveryCounts({ storage, clock }),
        searchReach: topology.search,
        oldReads: oldReadsOf(options, connections),
      },
      figures: figuresOf(options, parts),
      clock: () => clock.now(),
      log,
    },
    {
      access: {
        admission,
        tokens,
        tokenBinding: policy.token_binding,
        trustedProxies: config.trustedProxies,
        blocked: { any: () => service.hasBlocked, has: address => service.isBlocked(address) },
        isLimiting: config.rateLimits,
        isUnlimited: unlimitedIn(config),
        maintenance: () => maintenanceOf(service),
        hold: () => cluster.view.untilWhole(),
      },
      pages: pagesOf(options),
      limits: config.rateLimits ? topology.http : { ...topology.http, pages: { requestsPerMinute: Infinity } },
      corsAllowedOrigins: policy.cors_allowed_origins,
      metrics,
      noteWrite: connections.noteWrite,
    },
  )
  return {
    server,
    watchReadiness: readiness.watch,
    leave: () => void (leaving = true),
    async stopDeferred() {
      deferred.stop()
      classifiers.asking.close()
      await Promise.all([accessUses.stop(), sessionUses.stop(), timings.stop()])
    },
  }
}

/** What requests count beside themselves. */
const notesOf = ({ metrics }: WebWorkerOptions) => ({
  noteCspReport: () => metrics.telemetry.cspReports.inc(),
  noteSignIn: (way: SignInWay, outcome: SignInOutcome) => metrics.signIns.done.of(way, outcome).inc(),
})

/** Passkeys, if the address of this server can have any, and what they are asked to sign. */
function passkeysOf({ config: { publicUrl, policy } }: WebWorkerOptions, { admission, keys }: WebConnections) {
  const place = passkeyPlace(publicUrl, policy)
  return {
    passkeys: place && createPasskeys(place, policy.server_name),
    passkeyChallenges: createPasskeyChallenges(admission, keys),
  }
}

/** What may be read from the replica of PostgreSQL, if there is one. */
const oldReadsOf = ({ topology }: WebWorkerOptions, { replica }: WebConnections): OldReads | undefined =>
  replica && {
    for: user => replica.readsFor(user),
    isOld: id => msOf(id) < clock.now() - topology.replica.oldMs,
  }

/** What operators are told of the whole service. */
function figuresOf(
  { config }: WebWorkerOptions,
  { connections, service, board }: WebParts,
): FigureSources & HostFigures {
  const load = new HostLoad(config.dataDir)
  const { admission: redis, jobs } = connections
  return {
    spans: after => board.spans(after, clock.now()),
    processes: () => board.processes(clock.now()),
    redis: async () => {
      const startedAt = performance.now()
      await redis.ping()
      const latencyMs = performance.now() - startedAt
      const facts = await redis.info("memory")
      const fact = (name: string) => Number(new RegExp(`^${name}:(\\d+)\\r?$`, "m").exec(facts)?.[1] ?? NaN)
      const [used, most] = [fact("used_memory"), fact("maxmemory")]
      return {
        latencyMs,
        memoryBytes: Number.isNaN(used) ? null : used,
        maxMemoryBytes: Number.isNaN(most) || most === 0 ? null : most,
      }
    },
    disk: () => diskOf(config.dataDir),
    system: () => load.now(),
    jobs: () => jobs.state(),
    lookAtState: () => service.lookNow(),
  }
}

/** Milliseconds in which an operator who tries out a rule has an answer. */
const triedWithinMs = 3_000

/** Classifiers as operators set them up and try them out: messages are judged by job workers. */
function classifiersOf({ config, log, metrics }: WebWorkerOptions, { storage, secrets }: WebConnections) {
  const { classifiers: configured, privateClassifiers: mayBePrivate } = config
  return {
    settings: new ClassifierSettingsStore({ storage, secrets, configured, mayBePrivate }),
    asking: createClassifiers({
      mayBePrivate,
      log,
      metrics,
      now: () => performance.now(),
      maxTimeoutMs: triedWithinMs,
    }),
  }
}

const pushesOf = ({ config }: WebWorkerOptions, { storage, secrets }: WebConnections) => ({
  pushKeys: new PushKeys({ storage, secrets }),
  pushEndpoints: new PushEndpoints({ mayBePrivate: config.privatePushes }),
})

const requestsOfPictures = ({ self, topology, metrics }: WebWorkerOptions, { connections, cluster }: WebParts) =>
  new PictureRequests({
    ...topology.pictures,
    bus: cluster.bus,
    jobs: connections.jobs,
    self: self.id,
    clock,
    metrics,
  })

/** Work of this process for later; what waits when it ends is left undone. */
function deferredWork(log: Log) {
  const due = new Set<Timer>()
  return {
    later(delayMs: number, work: () => Promise<unknown>) {
      const timer = clock.after(delayMs, () => {
        due.delete(timer)
        work().catch((error: unknown) => {
          if (!(error instanceof Failure)) log.warn({ err: error }, "deferred work failed")
        })
      })
      due.add(timer)
    },
    stop() {
      for (const timer of due) timer.stop()
    },
  }
}

/** Milliseconds between two looks at readiness, so that a change is in the log although nobody asks. */
const readinessEveryMs = 5_000

function healthOf(
  { connections, cluster }: WebParts,
  host: Pick<ShardHost, "checkPublication" | "checkOwners">,
  log: Log,
  isLeaving: () => boolean,
): { readonly health: Health; watch(): Timer } {
  const lines = new ReadinessLog(log)
  const deciding = {
    ending: () => {
      if (isLeaving()) throw new Error("this host is about to end")
    },
    postgres: () => connections.storage.placement.ping(),
    redis: () => connections.admission.ping().then(() => {}),
    membership: () => cluster.check(),
    lineage: () => cluster.checkLineage(),
    publication: () => host.checkPublication(),
    shards: () => host.checkOwners(),
  }
  const options = { timeoutMs: 1_000, cacheMs: 500, onAnswer: (answer: Readiness) => lines.note(answer) }
  // Nobody has asked, so an object store is not: each look at one costs a request.
  const looked = createHealth(deciding, options)
  return {
    // Without files nearly everything can be served still: a balancer that took out every worker would
    // end that, too.
    health: createHealth(
      { ...deciding, files: () => connections.blobs.check() },
      { ...options, advisory: new Set(["files"]) },
    ),
    watch() {
      const timer = clock.every(readinessEveryMs, () => void looked.ready())
      return {
        stop() {
          lines.stop()
          timer.stop()
        },
      }
    },
  }
}

/** The refusal of every request while the service is in maintenance. */
function maintenanceOf({ facts }: ServiceView): Failure | undefined {
  if (facts.state !== "maintenance") return undefined
  const wait = waitFor(facts, Math.floor(clock.now() / 1000))
  return fail("maintenance", { message: messageOf(facts)!, retry_after: wait, extra: { state: facts.state } })
}

function pagesOf({ config: { policy, publicUrl, hasPublicUrl }, listen: { port } }: WebWorkerOptions) {
  const title = policy.server_name
  const about = { title, version: wireVersion, ...(hasPublicUrl ? { publicUrl } : { host: `localhost:${port}` }) }
  return {
    ...documentationPages({
      openapi: () => openapiInSteps({ ...about, limits: policy.rate_limits }),
      asyncapi: () => asyncapiDocument(about),
      title,
      docs: policy.docs_enabled,
      redoc: policy.redoc_enabled,
    }),
    ...personPages({ serverName: title }),
    ...(policy.app_enabled ? appPages({ serverName: title, isOffline: policy.app_offline_enabled }) : noAppPages),
    ...operatorPages({ serverName: title }),
  }
}
