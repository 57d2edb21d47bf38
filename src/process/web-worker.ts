import { createHmac } from "node:crypto"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import uWebSockets, { type us_listen_socket } from "uWebSockets.js"
import type { ClusterConfig } from "../../cluster.config.ts"
import { hostActors } from "../actors/host-actors.ts"
import type { ShardHost } from "../runtime/host-shards.ts"
import { joinCluster, type Cluster } from "../runtime/join-cluster.ts"
import { PresenceLookup } from "../actors/social/presence-lookup.ts"
import { SearchIndex } from "../actors/messages/search-index.ts"
import { createAdmission } from "../cluster/admission.ts"
import { inTurns } from "../cluster/batches.ts"
import { GatewaySessions } from "../cluster/gateway-sessions.ts"
import { openJobQueue } from "../cluster/job-queue.ts"
import { redisKeys } from "../cluster/keys.ts"
import type { Member } from "../cluster/members.ts"
import { connector, openRedis } from "../cluster/redis.ts"
import { homeReplicationId } from "../cluster/replication.ts"
import { createTokens } from "../cluster/tokens.ts"
import { webWorkersOf, type Config } from "../config.ts"
import { asyncapiDocument } from "../apidocs/asyncapi.ts"
import { fail, Failure } from "../contract/core/errors.ts"
import { openapiInSteps } from "../apidocs/openapi.ts"
import { gatewayPath } from "../contract/pages.ts"
import { wireVersion } from "../contract/service/system.ts"
import { signedAttachmentPath } from "../domain/messages/attachments.ts"
import { addressOf, clientAddress, formatAddress, parseAddress, trustedProxies } from "../domain/core/client-address.ts"
import type { Timer } from "../std/clock.ts"
import { messageOf, shownStatus, waitFor } from "../domain/service/server-status.ts"
import { iceServersFor } from "../domain/voice/voice.ts"
import { Gateway } from "../gateway/gateway.ts"
import { createClassifiers } from "../integrations/classifiers.ts"
import { createRestServer } from "../http/rest-server.ts"
import { createHashing } from "../integrations/password-hashing.ts"
import { createSecrets } from "../integrations/secrets.ts"
import { documentationPages } from "../web/documentation-pages.ts"
import { personPages } from "../web/person-pages.ts"
import { createHealth } from "../observability/health.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { OperatorRequests } from "./operator-requests.ts"
import { ServerStatusWatch } from "./server-status-watch.ts"
import { openLocalBlobs } from "../storage/core/blobs.ts"
import { openStorage } from "../storage/storage.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { DeliveryCounts } from "../views/delivery-counts.ts"

export interface WebWorkerOptions {
  self: Member
  /** The incarnation in the same place that serves until this one does. */
  predecessor?: string | undefined
  config: Config
  topology: ClusterConfig
  databaseUrl: string
  redisUrl: string
  redisPrefix: string
  /** 32 bytes in hex. */
  secretKey: string
  host: string
  port: number
  /** Other workers listen on the same port. */
  shared: boolean
  log: Log
  metrics: Metrics
  /** The incarnation is over: declared dead, or its log is gone. */
  onOver: (why: string) => void
}

export interface WebWorker {
  readonly port: number
  readonly id: string
  readonly node: Cluster & ShardHost & { readonly presences: PresenceLookup }
  readonly gateway: Gateway
  noteDeath(id: string): void
  /**
   * Sends its sessions elsewhere, hands over its shards, then ends.
   * @param replaced another serves on the same port: wait until clients that keep their connections have noticed
   */
  drain(replaced?: boolean): Promise<void>
  /** Ends at once. */
  stop(): Promise<void>
}

/** uWebSockets.js ends a connection on which nothing came for so many milliseconds, at the latest. */
const idleConnections = 12_000

/** A web worker: REST and gateway on one port, the actors of its shards, its delivery log. */
export async function startWebWorker(options: WebWorkerOptions): Promise<WebWorker> {
  const { self, config, topology, log, metrics } = options
  const trouble = (name: string) => (error: unknown) => {
    metrics.pools.redisErrors.of(name).inc()
    log.debug({ err: error, connection: name }, "Redis error")
  }
  const storage = openStorage({ ...topology.storage, url: options.databaseUrl, name: self.id, metrics })
  await storage.migrations.require()
  const admitting = openRedis(options.redisUrl, `${self.id} admission`, trouble("admission"))
  const remembering = openRedis(options.redisUrl, `${self.id} sessions`, trouble("sessions"))
  const queueing = openRedis(options.redisUrl, `${self.id} jobs`, trouble("jobs"), { enableOfflineQueue: true })
  const connections = [admitting, remembering, queueing]
  await Promise.all(connections.map(connection => connection.connect()))
  const keys = redisKeys(options.redisPrefix, await homeReplicationId(admitting, storage.placement.redisOrigin))

  const blobs = openLocalBlobs(join(config.dataDir, "files"))
  const jobs = openJobQueue(queueing, options.redisPrefix, () => clock.now())
  const tokens = createTokens({
    redis: admitting,
    keys,
    load: inTurns(async ids => {
      const found = new Map((await storage.sessions.find(ids)).map(session => [session.session_id, session]))
      return ids.map(id => found.get(id))
    }, clock),
    isOver: session => service.isOver(session),
    clock: () => clock.now(),
  })
  const secrets = createSecrets(options.secretKey)
  const signedPath = (file: string, now: number) =>
    signedAttachmentPath(file, now, text => secrets.digest(text, "attachments"))
  const indexing = storage.openSearchIndex()
  const searchIndex = new SearchIndex({
    storage: indexing,
    bounds: topology.search,
    languages: config.policy.search_languages,
    adds: config.policy.search_enabled,
    clock,
    log,
  })
  const records = new GatewaySessions(remembering, keys)

  const app = uWebSockets.App()
  let accepted = 0
  // 1 for a connection that comes, -1 for one that goes and has not become a WebSocket.
  app.filter((_, change) => {
    accepted += Math.sign(Number(change))
  })
  let listening: us_listen_socket | undefined
  const cluster = await joinCluster({
    self,
    predecessor: options.predecessor,
    connect: connector(options.redisUrl, self.id),
    keys,
    storage,
    topology: { ...topology, resumeWindow: topology.gateway.resumeWindow },
    clock,
    log,
    metrics,
  })
  const presences = new PresenceLookup({ ...cluster, timing: topology.presence, clock })

  const { lookEvery } = topology.service
  const requests = new OperatorRequests({
    ask: cluster.ask,
    create: cluster.create,
    storage,
    self: self.id,
    lookEvery,
    clock,
    log,
  })
  const service = await ServerStatusWatch.start({
    storage,
    every: lookEvery,
    onAsked: () => requests.begin(),
    clock,
    log,
  })
  const proxies = trustedProxies(config.trustedProxies)
  const gatewayUrl = `${config.publicUrl.replace(/^http/, "ws").replace(/\/$/, "")}${gatewayPath}`
  const hmac = (secret: string, text: string) => createHmac("sha1", secret).update(text).digest("base64")
  const iceServers = (user: string) => iceServersFor(config.policy, user, clock.now(), hmac)
  const admission = createAdmission({
    redis: admitting,
    keys,
    tokens,
    enabled: config.rateLimits,
    limits: config.policy.rate_limits,
    bypassSecret: config.policy.rate_limit_bypass_secret,
  })
  const gateway = new Gateway({
    app,
    node: { ...cluster, presences },
    records,
    storage,
    tokens: {
      verify: token => tokens.verify(token),
      known: session => tokens.known(session),
      isFailedTooOften: admission.isFailedTooOften,
    },
    topology: topology.gateway,
    presence: topology.presence,
    policy: {
      limited: config.rateLimits,
      gatewayUrl,
      voice: config.policy,
      iceServers,
      allowedOrigins: config.policy.gateway_allowed_origins,
      compression: config.policy.gateway_compression_enabled,
      minClientVersion: config.policy.min_client_version,
      tokenBinding: config.policy.token_binding,
      clientAddress: (peer, forwardedFor) =>
        formatAddress(clientAddress(parseAddress(peer) ?? addressOf(new Uint8Array(4)), forwardedFor, proxies)),
    },
    service,
    clock,
    log,
    metrics,
  })
  cluster.signals.on("logItems", items => gateway.takeItems(items))
  const host = hostActors(cluster, {
    jobs,
    signedPath,
    revoke: sessions => tokens.revoke(sessions),
    renew: sessions => tokens.invalidate(sessions),
    subscribers: [searchIndex.subscriber],
    homeSubscriptions: shards => gateway.homeSubscriptions(shards),
    onPresences: changes => gateway.takePresences(changes),
    presence: topology.presence,
  })
  cluster.signals.on("death", () => gateway.noteDeath())
  let isOver = false
  cluster.signals.on("over", why => {
    if (isOver) return
    isOver = true
    options.onOver(why)
  })
  const health = createHealth(
    {
      postgres: () => storage.placement.ping(),
      redis: () => admitting.ping().then(() => {}),
      membership: () => cluster.check(),
    },
    { timeoutMs: 1_000, cacheMs: 500 },
  )
  const title = config.policy.server_name
  const due = new Set<Timer>()
  const rest = createRestServer(
    {
      ask: cluster.ask,
      create: cluster.create,
      storage,
      policy: config.policy,
      tokens,
      jobs: {
        add: job => jobs.add(job),
        later(delayMs, work) {
          const timer = clock.after(delayMs, () => {
            due.delete(timer)
            work().catch((error: unknown) => {
              if (!(error instanceof Failure)) log.warn({ err: error }, "deferred work failed")
            })
          })
          due.add(timer)
        },
      },
      live: {
        presences,
        workersOf: user => cluster.router.workersOf(user),
        noteTyping: (user, channel) => gateway.noteTyping(user, channel),
      },
      integrations: {
        blobs,
        secrets,
        iceServers,
        classifiers: createClassifiers(config.classifiers, { log, metrics }),
        hashing: createHashing({
          memoryKib: config.policy.password_hash_memory,
          passes: config.policy.password_hash_passes,
          // Half of the cores, for all workers together.
          maxConcurrent: Math.max(1, Math.floor(availableParallelism() / 2 / webWorkersOf(config, topology))),
          timeoutMs: topology.http.hashTimeoutMs,
        }),
      },
      service: {
        health,
        status: () => shownStatus(service.facts),
        accessTokens: () => service.accessTokens,
        publicUrl: config.publicUrl,
        hasDocs: config.policy.docs_enabled,
      },
      views: {
        ask: cluster.ask,
        storage,
        clock: () => clock.now(),
        linkTo: file => signedPath(file, clock.now()),
        delivered: new DeliveryCounts({ storage, clock }),
        searchReach: topology.search,
      },
      clock: () => clock.now(),
      log,
    },
    {
      access: {
        admission,
        tokens,
        tokenBinding: config.policy.token_binding,
        trustedProxies: config.trustedProxies,
        isBlocked: address => service.isBlocked(address),
        maintenance() {
          const { facts } = service
          if (facts.state !== "maintenance") return undefined
          const wait = waitFor(facts, Math.floor(clock.now() / 1000))
          return fail("maintenance", { message: messageOf(facts)!, retry_after: wait, extra: { state: facts.state } })
        },
      },
      pages: {
        ...documentationPages({
          openapi: () =>
            openapiInSteps({
              title,
              publicUrl: config.publicUrl,
              version: wireVersion,
              limits: config.policy.rate_limits,
            }),
          asyncapi: () => asyncapiDocument({ title, publicUrl: config.publicUrl, version: wireVersion }),
          title,
          docs: config.policy.docs_enabled,
          redoc: config.policy.redoc_enabled,
        }),
        ...personPages({ serverName: title }),
      },
      limits: topology.http,
      corsAllowedOrigins: config.policy.cors_allowed_origins,
      metrics,
    },
  )
  rest.register(app)

  await host.start()
  searchIndex.start()
  gateway.begin(cluster.streams.position)
  const port = await new Promise<number>((resolve, reject) => {
    app.listen(options.host, options.port, socket => {
      if (!socket) return reject(new Error(`port ${options.port} cannot be listened on`))
      listening = socket
      resolve(uWebSockets.us_socket_local_port(socket))
    })
  })

  const closeAll = async () => {
    for (const timer of due) timer.stop()
    service.stop()
    requests.stop()
    await host.stop()
    await jobs.close().catch(() => {})
    for (const connection of connections) connection.disconnect()
    searchIndex.stop()
    await indexing.close().catch(() => {})
    await storage.close().catch(() => {})
  }
  const stopListening = () => {
    if (listening) uWebSockets.us_listen_socket_close(listening)
    listening = undefined
  }

  return {
    port,
    id: self.id,
    node: { ...cluster, ...host, presences },
    gateway,
    noteDeath: id => cluster.membership.noteDeath(id),
    async drain(replaced = false) {
      // Closing the socket resets what waits to be accepted: it is done right after a turn that has accepted everything.
      await new Promise(resolve => setImmediate(resolve))
      stopListening()
      requests.stop()
      rest.beginDrain()
      const lastAt = clock.monotonic() + (replaced ? idleConnections : 0)
      await gateway.drain()
      await host.leave().catch((error: unknown) => log.warn({ err: error }, "hand-over incomplete"))
      while (accepted > gateway.upgrades && clock.monotonic() < lastAt) await clock.sleep(20)
      await rest.close()
      gateway.stop()
      app.close()
      await closeAll()
    },
    async stop() {
      stopListening()
      gateway.stop()
      await closeAll()
      app.close()
    },
  }
}
