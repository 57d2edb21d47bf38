/** A Starling reduced to its embedded services, as a process of its own that a test may kill. Argument: the data folder. */
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { startEmbeddedPostgres } from "../../src/storage/core/embedded.ts"

export interface Started {
  postgres: { url: string; pid: number }
  redis: { url: string; pid: number }
}

const dataDir = process.argv[2] ?? ""
const log = { info: () => undefined, warn: console.error, error: console.error }
const postgres = await startEmbeddedPostgres({ dataDir, log })
const redis = await startEmbeddedRedis({ dataDir, log })
process.on("SIGTERM", () => {
  Promise.all([postgres.stop(), redis.stop()]).then(
    () => process.exit(0),
    () => process.exit(1),
  )
})
const started: Started = {
  postgres: { url: postgres.url, pid: postgres.pid },
  redis: { url: redis.url, pid: redis.pid },
}
console.log(JSON.stringify(started))
