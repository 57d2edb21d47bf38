import { inTurns } from "../std/batches.ts"
import { LineageNotes } from "../cluster/lineage-notes.ts"
import { openJobQueue } from "../cluster/job-queue.ts"
import { redisKeys } from "../cluster/keys.ts"
import type { Member } from "../cluster/members.ts"
import { RecentWrites } from "../cluster/recent-writes.ts"
import { openRedis, tripsOf } from "../cluster/redis.ts"
import { Replica } from "../storage/replica.ts"
import { homeReplicationId } from "../cluster/replication.ts"
import { KeptSessions } from "../cluster/kept-sessions.ts"
import { SessionDrops } from "../cluster/session-drops.ts"
import { createTokens, type AccessSession, type Keeping } from "../cluster/tokens.ts"
import { signedAttachmentPath } from "../domain/messages/attachments.ts"
import type { ServiceView } from "../domain/service/server-status.ts"
import type { ClusterInside } from "../runtime/join-cluster.ts"
import { beginLineage } from "../runtime/lineage-watch.ts"
import { createSecrets } from "../integrations/secrets.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { openBlobs } from "../storage/core/open-blobs.ts"
import { openStorage } from "../storage/storage.ts"
import type { WebWorkerOptions } from "./web-worker-options.ts"

export type WebConnections = Awaited<ReturnType<typeof connectWebWorker>>

/** What a web worker has open beside the cluster's own connections: PostgreSQL, Redis, its files. */
export async function connectWebWorker({ self, config, topology, log, metrics, ...options }: WebWorkerOptions) {
  const trouble = (name: string) => (error: unknown) => {
    metrics.pools.redisErrors.of(name).inc()
    log.debug({ err: error, connection: name }, "Redis error")
  }
  const storage = openStorage({ ...topology.storage, url: options.databaseUrl, name: self.id, metrics })
  await storage.migrations.require()
  const open = (purpose: "admission" | "sessions" | "jobs", enableOfflineQueue: boolean) =>
    openRedis(options.redisUrl, `${self.id} ${purpose}`, trouble(purpose), {
      trips: tripsOf(metrics, purpose),
      enableOfflineQueue,
    })
  const admission = open("admission", false)
  const sessions = open("sessions", false)
  const queueing = open("jobs", true)
  const redis = [admission, sessions, queueing]
  await Promise.all(redis.map(connection => connection.connect()))
  const lineage = await beginLineage(new LineageNotes(admission, options.redisPrefix), storage, log)
  const origin = await homeReplicationId(admission, storage.placement.redisOrigin)
  const keys = redisKeys(options.redisPrefix, origin, lineage.name)
  const jobs = openJobQueue(queueing, options.redisPrefix, () => clock.now(), {
    onLeftOut: job => {
      if (job === "classifyMessage") metrics.automod.unclassified.overloaded.inc()
      else metrics.pushes.overloaded.inc()
    },
  })
  const recentWrites = new RecentWrites(admission, keys, topology.replica.maxLagMs, () => clock.monotonic())
  const replica =
    config.replicaUrl === undefined
      ? undefined
      : new Replica({
          ...topology.replica,
          pool: { ...topology.storage, url: config.replicaUrl, name: self.id },
          primary: storage,
          mayLag: async user => !(await recentWrites.has(user)),
          count: by => metrics.pools.replicaReads[by].inc(),
          clock,
          log,
        })
  metrics.pools.replicaLag.from(() => (replica ? Math.min(replica.lagMs / 1000, 1e9) : 0))
  const secrets = createSecrets(options.secretKey)
  const blobs = openBlobs(config.files, { log, metrics })
  return {
    storage,
    admission,
    sessions,
    keys,
    lineage,
    jobs,
    blobs,
    secrets,
    replica,
    noteWrite: replica && ((user: string) => recentWrites.note(user)),
    signedPath: (file: string, now: number) =>
      signedAttachmentPath(file, now, text => secrets.digest(text, "attachments")),
    /** Once nothing uses them any more. */
    async close() {
      await jobs.close().catch(() => {})
      blobs.close()
      for (const connection of redis) connection.disconnect()
      await replica?.close().catch(() => {})
      await storage.close().catch(() => {})
    },
  }
}

/** The tokens of sessions, which end as soon as an operator ends all of them. */
export const tokensOf = (
  { admission, keys, storage }: WebConnections,
  service: Pick<ServiceView, "isOver">,
  keeping: Keeping,
) =>
  createTokens({
    redis: admission,
    keys,
    load: inTurns(async ids => {
      const found = new Map((await storage.sessions.find(ids)).map(session => [session.session_id, session]))
      return ids.map(id => found.get(id))
    }, clock),
    holderOf: inTurns(async ids => {
      const found = new Map((await storage.sessions.holders(ids)).map(holder => [holder.session_id, holder]))
      return ids.map(id => found.get(id))
    }, clock),
    isOver: session => service.isOver(session),
    clock: () => clock.now(),
    keeping,
  })

/** What this worker keeps of sessions, and how all drop them. Before the cluster is started: it has to hear of each drop. */
export function keepSessions({ topology, metrics, log }: WebWorkerOptions, cluster: ClusterInside): Keeping {
  const { membership, bus, connections, options } = cluster
  const { kept: sessions, keptBytes, keptMs } = topology.sessions
  const kept = new KeptSessions<AccessSession>({
    bounds: { sessions, bytes: keptBytes, forMs: keptMs },
    term: () => membership.term,
    clock,
  })
  metrics.sessions.kept.from(() => kept.size)
  const drops = new SessionDrops({
    bus,
    membership,
    living: () => options.storage.placement.living() as Promise<Member[]>,
    redis: connections.bus,
    keys: options.keys,
    kept,
    serveForMs: topology.membership.serveForMs,
    clock,
    log,
    metrics,
  })
  return { kept, forSeconds: keptMs / 1000, drop: ended => drops.everywhere(ended), metrics: metrics.sessions }
}
