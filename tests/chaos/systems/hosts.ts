/**
 * Three hosts, each the whole program on an address of its own, with one PostgreSQL and one Redis
 * behind proxies.
 */
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { startProcesses } from "../../kit/processes.ts"
import { startPostgres, startRedis, through } from "../local.ts"
import { openLink } from "../proxy.ts"
import type { StartSystem } from "../system.ts"
import { hostOf, noClocks, undoing } from "./parts.ts"

const hosts = 3

export const startHosts: StartSystem = ({ folder, workers, heapMegabytes, environment }) =>
  undoing(async (undo, stop) => {
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
    const database = await startPostgres(join(folder, "postgres"), false)
    undo.push(() => database.stop())
    const memory = await startRedis(join(folder, "redis"))
    undo.push(() => memory.stop())
    const toPostgres = await openLink("postgres", () => ({ host: "127.0.0.1", port: database.port }))
    undo.push(() => toPostgres.close())
    const toRedis = await openLink("redis", () => ({ host: "127.0.0.1", port: memory.port }))
    undo.push(() => toRedis.close())

    const started = []
    // The first one makes the tables.
    for (let n = 1; n <= hosts; n++) {
      const program = await startProcesses({
        ...environment,
        HOST: `127.0.0.${n}`,
        WORKERS: String(workers),
        DATABASE_URL: through(database.url, toPostgres.port),
        REDIS_URL: through(memory.url, toRedis.port),
        ...(heapMegabytes !== undefined && { NODE_OPTIONS: `--max-old-space-size=${heapMegabytes}` }),
      })
      undo.push(() => program.stop())
      const link = await openLink(`public ${n}`, () => ({
        host: `127.0.0.${n}`,
        port: Number(new URL(program.url).port),
      }))
      undo.push(() => link.close())
      started.push({ program, link })
    }
    return {
      urls: started.map(({ link }) => `http://127.0.0.1:${link.port}`),
      hosts: started.map(({ program }, i) => hostOf(`host ${i + 1}`, program)),
      postgres: database,
      redis: [memory],
      links: { public: started.map(({ link }) => link), postgres: [toPostgres], redis: [toRedis] },
      impossible: new Map([["postgres disk full", "the disk is not a small one"], ...noClocks]),
      stop,
    }
  })
