import { randomBytes } from "node:crypto"
import { inject } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import type { HostedActor } from "../../src/runtime/host.ts"
import { createShardParts, hostShards, type ShardHost } from "../../src/runtime/host-shards.ts"
import { joinCluster, type Cluster } from "../../src/runtime/join-cluster.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { connector } from "../../src/cluster/redis.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics, type Metrics } from "../../src/observability/metrics.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { systemClock as clock } from "../../src/std/system-clock.ts"
import type { TestDatabase } from "./database.ts"
import { until } from "./until.ts"

/** A worker that is nothing but the runtime. */
export interface Kernel extends Omit<Cluster, "stop" | "start">, Pick<ShardHost, "leave" | "stop"> {
  readonly id: string
  readonly slot: number
  readonly metrics: Metrics
}

let slots = 0

/** Starts a worker that hosts these actors, with the shards of a database and a Redis prefix of its name. */
export async function bootKernel(database: TestDatabase, actors: readonly HostedActor<unknown>[]): Promise<Kernel> {
  const slot = slots++
  const id = `k${slot}-${randomBytes(4).toString("hex")}`
  const metrics = createMetrics()
  const storage = openStorage({
    url: database.url,
    name: id,
    readConnections: 2,
    statementTimeoutMs: 20_000,
    connectTimeoutMs: 10_000,
  })
  const cluster = await joinCluster({
    self: { id, role: "web", host: "test", slot },
    connect: connector(inject("redis"), id),
    keys: redisKeys(`${database.name}:`),
    storage,
    topology: {
      ...clusterConfig,
      // A worker that is only slow, because many tests share the cores, is not to be taken for dead.
      membership: { ...clusterConfig.membership, serveForMs: 20_000, deadAfterMs: 30_000 },
      bus: { ...clusterConfig.bus, askTimeoutMs: 25_000 },
      resumeWindowMs: clusterConfig.gateway.resumeWindowMs,
    },
    clock,
    log: silentLog,
    metrics,
  })
  const parts = createShardParts(cluster, {
    actors,
    source: undefined,
    jobs: { add: () => Promise.reject(new Error("these actors have no jobs")) },
    signedPath: file => file,
    revoke: () => Promise.reject(new Error("these actors have no sessions")),
    renew: () => Promise.reject(new Error("these actors have no sessions")),
  })
  const host = hostShards(cluster, parts)
  await host.start()
  return {
    ...cluster,
    id,
    slot,
    metrics,
    leave: () => host.leave(),
    async stop() {
      await host.stop()
      await storage.close()
      metrics.close()
    },
  }
}

/** Until every shard of the database is with one of these workers, each of which has some. */
export const shared = (database: TestDatabase, workers: readonly Kernel[]): Promise<void> =>
  until("the shards are shared", async () => {
    const rows = await database.sql<{ owner: string | null }[]>`SELECT DISTINCT owner FROM shards`
    const owners = new Set(rows.map(({ owner }) => owner))
    return owners.size === workers.length && workers.every(({ id }) => owners.has(id))
  })
