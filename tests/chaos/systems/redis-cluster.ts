/**
 * One program with a Redis Cluster of three masters, each behind a proxy that clients are told of.
 */
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { startProcesses } from "../../kit/processes.ts"
import { startRedisCluster, type ClusterMaster } from "../../kit/redis-cluster.ts"
import { startPostgres, through } from "../local.ts"
import { openLink, type Link } from "../proxy.ts"
import type { RedisService, StartSystem } from "../system.ts"
import { hostOf, noClocks, undoing } from "./parts.ts"

export const startOnRedisCluster: StartSystem = ({ folder, workers, heapMegabytes, environment }) =>
  undoing(async (undo, stop) => {
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
    const database = await startPostgres(join(folder, "postgres"), false)
    undo.push(() => database.stop())
    const toPostgres = await openLink("postgres", () => ({ host: "127.0.0.1", port: database.port }))
    undo.push(() => toPostgres.close())

    const toRedis: Link[] = []
    const redis = await startRedisCluster({
      folder: join(folder, "redis"),
      announce: async port => {
        const link = await openLink(`redis ${toRedis.length}`, () => ({ host: "127.0.0.1", port }))
        undo.push(() => link.close())
        toRedis.push(link)
        return link.port
      },
    })
    undo.push(() => redis.stop())

    const program = await startProcesses({
      ...environment,
      WORKERS: String(workers),
      DATABASE_URL: through(database.url, toPostgres.port),
      REDIS_URL: redis.url,
      ...(heapMegabytes !== undefined && { NODE_OPTIONS: `--max-old-space-size=${heapMegabytes}` }),
    })
    undo.push(() => program.stop())
    const toProgram = await openLink("public", () => ({ host: "127.0.0.1", port: Number(new URL(program.url).port) }))
    undo.push(() => toProgram.close())
    return {
      urls: [`http://127.0.0.1:${toProgram.port}`],
      hosts: [hostOf("host", program)],
      postgres: database,
      redis: redis.masters.map(serviceOf),
      links: { public: [toProgram], postgres: [toPostgres], redis: toRedis },
      impossible: new Map([["postgres disk full", "the disk is not a small one"], ...noClocks]),
      stop,
    }
  })

const serviceOf = (master: ClusterMaster): RedisService => ({
  name: `Redis ${master.name}`,
  pause: () => master.pause(),
  resume: () => master.resume(),
  kill: () => master.kill(),
  start: () => master.start(),
  startEmpty: () => master.startEmpty(),
  configure: async (name, value) => void (await master.command("CONFIG", "SET", name, value)),
})
