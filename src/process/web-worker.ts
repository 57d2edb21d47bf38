import { createHmac } from "node:crypto"
import uWebSockets, { type TemplatedApp } from "uWebSockets.js"
import { createActorParts, hostActors } from "../actors/host-actors.ts"
import { PresenceLookup } from "../actors/social/presence-lookup.ts"
import { createAdmission } from "../cluster/admission.ts"
import { FigureBoard } from "../cluster/figures.ts"
import { connector } from "../cluster/redis.ts"
import { givenEmoji } from "../domain/messages/reactions.ts"
import { figureSamples, figureSeconds } from "../domain/operators/figures.ts"
import { unixSocketsIn } from "../cluster/unix-sockets.ts"
import { backendsOf } from "../domain/communities/automod-settings.ts"
import { iceServersFor } from "../domain/voice/voice.ts"
import type { Gateway } from "../gateway/gateway.ts"
import { createTextJudge } from "../integrations/text-judge.ts"
import type { ShardHost } from "../runtime/host-shards.ts"
import { joinCluster, type Cluster, type ClusterInside } from "../runtime/join-cluster.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { countAccepted, idleConnectionMs } from "./connection-limits.ts"
import { FigureNotes } from "./figures.ts"
import { OperatorRequests } from "./operator-requests.ts"
import { ServerStatusWatch } from "./server-status-watch.ts"
import { connectWebWorker, keepSessions, tokensOf, type WebConnections } from "./web-connections.ts"
import { openGateway, type WebParts } from "./web-gateway.ts"
import { openRest } from "./web-rest.ts"
import { watchSearchIndex } from "./search-index-watch.ts"
import type { WebWorkerOptions } from "./web-worker-options.ts"

export interface WebWorker {
  readonly port: number
  readonly id: string
  readonly node: Cluster & ShardHost & { readonly presences: PresenceLookup }
  readonly gateway: Gateway
  noteDeath(id: string): void
  /** Serves as before, and says that it is not ready. */
  leave(): void
  /**
   * Sends its sessions elsewhere, hands over its shards, then ends.
   * @param replaced another serves on the same port: wait until clients that keep their connections have noticed
   */
  drain(replaced?: boolean): Promise<void>
  /** Ends at once. */
  stop(): Promise<void>
}

/** A web worker: REST and gateway on one port, the actors of its shards, its delivery log. */
export async function startWebWorker(options: WebWorkerOptions): Promise<WebWorker> {
  const { self, log } = options
  const connections = await connectWebWorker(options)
  const cluster = await join(options, connections)
  const { requests, service } = await watchService(options, connections, cluster)
  const parts = partsOf(options, connections, cluster, service)

  const app = uWebSockets.App()
  const accepted = countAccepted(app, options)
  const gateway = openGateway(app, options, parts)
  const { host, texts } = hostShards(options, parts, gateway)
  const rest = openRest(options, parts, gateway, { host, texts })
  rest.server.register(app)

  await host.start()
  const watching = watchSearchIndex(options, connections)
  const noting = noteFigures(options, parts)
  gateway.begin(cluster.streams.position)
  // The first emoji is looked up slowly, for which no client is to wait.
  givenEmoji("👍")
  const listener = await listen(app, options.listen)
  const readiness = rest.watchReadiness()

  const closeAll = async () => {
    noting.stop()
    await rest.stopDeferred()
    requests.stop()
    await service.stop()
    parts.tokens.stop()
    await host.stop()
    await texts.stop()
    watching.stop()
    await connections.close()
  }

  return {
    port: listener.port,
    id: self.id,
    node: { ...cluster, ...host, presences: parts.presences },
    gateway,
    noteDeath: id => cluster.membership.noteDeath(id),
    leave: rest.leave,
    async drain(replaced = false) {
      // Closing the socket resets what waits to be accepted: it is done right after a turn that has accepted everything.
      await new Promise(resolve => setImmediate(resolve))
      listener.close()
      readiness.stop()
      requests.stop()
      rest.server.beginDrain()
      const lastAt = clock.monotonic() + (replaced ? idleConnectionMs : 0)
      await gateway.drain()
      await host.leave().catch((error: unknown) => log.warn({ err: error }, "hand-over incomplete"))
      while (accepted() > gateway.upgrades && clock.monotonic() < lastAt) await clock.sleep(20)
      await rest.server.close()
      gateway.stop()
      app.close()
      await closeAll()
    },
    async stop() {
      listener.close()
      readiness.stop()
      gateway.stop()
      await closeAll()
      app.close()
    },
  }
}

const join = (options: WebWorkerOptions, { admission, sessions, keys, lineage, storage }: WebConnections) =>
  joinCluster({
    self: options.self,
    predecessor: options.predecessor,
    connect: connector(options.redisUrl, options.self.id, options.metrics),
    sockets: unixSocketsIn(options.listen.socketFolder, options.self.id, options.topology.bus.sockets.maxUntaken),
    otherConnections: [admission, sessions],
    keys,
    storage,
    lineage,
    topology: { ...options.topology, resumeWindowMs: options.topology.gateway.resumeWindowMs },
    clock,
    log: options.log,
    metrics: options.metrics,
  })

/** What operators say of the service, and what they ask of it. */
async function watchService(
  { self, config, topology, log }: WebWorkerOptions,
  { storage }: WebConnections,
  { ask, create }: Cluster,
) {
  const { lookEveryMs, restMs } = topology.service
  const requests = new OperatorRequests({ ask, create, storage, self: self.id, lookEveryMs, clock, log })
  const service = await ServerStatusWatch.start({
    storage,
    everyMs: lookEveryMs,
    restMs,
    classifiers: backendsOf(config.classifiers),
    onAsked: () => requests.begin(),
    clock,
    log,
  })
  return { requests, service }
}

function partsOf(
  options: WebWorkerOptions,
  connections: WebConnections,
  cluster: ClusterInside,
  service: ServerStatusWatch,
): WebParts {
  const { config, topology, metrics } = options
  const { policy, rateLimits } = config
  const tokens = tokensOf(connections, service, keepSessions(options, cluster))
  const hmac = (secret: string, text: string) => createHmac("sha1", secret).update(text).digest("base64")
  return {
    connections,
    cluster,
    presences: new PresenceLookup({ ...cluster, timing: topology.presence, clock }),
    service,
    board: new FigureBoard({
      redis: connections.admission,
      keys: connections.keys,
      spans: figureSamples,
      spanSeconds: figureSeconds,
    }),
    tokens,
    admission: createAdmission({
      redis: connections.admission,
      keys: connections.keys,
      tokens,
      enabled: rateLimits,
      limits: policy.rate_limits,
      bypassSecret: policy.rate_limit_bypass_secret,
      leases: {
        ...topology.http.limits,
        clock,
        isServing: () => cluster.membership.serving,
        workers: () => cluster.membership.members().filter(({ role }) => role === "web").length,
      },
      metrics,
    }),
    iceServers: (user, use) => iceServersFor(policy, { user, isInCall: use === "call", nowMs: clock.now() }, hmac),
  }
}

const noteFigures = ({ self, config, metrics, log }: WebWorkerOptions, { board, connections }: WebParts) =>
  new FigureNotes({
    board,
    self,
    metrics,
    folder: config.dataDir,
    pings: { postgres: () => connections.storage.placement.ping(), redis: () => connections.admission.ping() },
    spanSeconds: figureSeconds,
    clock,
    log,
  })

/** Hosts the actors of this worker's shards; what they publish and what becomes of the cluster reaches the gateway. */
function hostShards(
  { topology, log, metrics, onOver }: WebWorkerOptions,
  { connections, cluster, tokens }: WebParts,
  gateway: Gateway,
) {
  cluster.signals.on("logItems", items => gateway.takeItems(items))
  cluster.signals.on("logMoved", position => gateway.noteLogMoved(position))
  cluster.streams.holdWhile(() => gateway.isFull)
  const texts = createTextJudge({ log, metrics })
  const parts = createActorParts(cluster, {
    storage: connections.storage,
    texts,
    jobs: connections.jobs,
    signedPath: connections.signedPath,
    revoke: sessions => tokens.revoke(sessions),
    renew: sessions => tokens.invalidate(sessions),
    homeSubscriptions: shards => gateway.homeSubscriptions(shards),
    onPresences: changes => gateway.takePresences(changes),
    presence: topology.presence,
  })
  const host = hostActors(cluster, parts)
  cluster.signals.on("death", () => gateway.noteDeath())
  let isOver = false
  cluster.signals.on("over", why => {
    if (isOver) return
    isOver = true
    onOver(why)
  })
  return { host, texts }
}

const listen = (app: TemplatedApp, { host, port }: WebWorkerOptions["listen"]) =>
  new Promise<{ port: number; close(): void }>((resolve, reject) => {
    app.listen(host, port, socket => {
      if (!socket) return reject(new Error(`port ${port} cannot be listened on`))
      let isOpen = true
      resolve({
        port: uWebSockets.us_socket_local_port(socket),
        close() {
          if (isOpen) uWebSockets.us_listen_socket_close(socket)
          isOpen = false
        },
      })
    })
  })
