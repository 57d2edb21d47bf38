import { setTimeout as sleep } from "node:timers/promises"
import { startEmbeddedRedis } from "../cluster/embedded.ts"
import { openRedis } from "../cluster/redis.ts"
import type { Config } from "../config.ts"
import type { Log } from "../observability/log.ts"
import { startEmbeddedPostgres } from "../storage/embedded.ts"
import type { Ending } from "./ending.ts"
import { say } from "./say.ts"

type Redis = ReturnType<typeof openRedis>

/** Milliseconds that a service which starts at the same time is given. */
const servicePatience = 30_000

/** The services that have no URL are started here; what is to be undone is put on `stops` as soon as it stands. */
export async function startServices(
  { config, log }: { config: Config; log: Log },
  ending: Ending,
  stops: (() => Promise<unknown>)[],
): Promise<[databaseUrl: string, redisUrl: string]> {
  const { dataDir } = config
  const embed = async (
    name: string,
    url: string | undefined,
    begin: () => Promise<{ url: string; exited: Promise<string>; stop(): Promise<void> }>,
  ): Promise<string> => {
    if (url !== undefined) return url
    say(`starting ${name}, data in ${dataDir}`)
    const server = await begin()
    stops.push(() => server.stop())
    server.exited.then(
      how => {
        if (ending.reason !== undefined) return
        console.error(`starling: the embedded ${name} ${how}, and nobody told it to; without it nothing can go on`)
        ending.reach("stranded")
      },
      () => {},
    )
    return server.url
  }
  // Both to their end even if one fails, so that nothing is left behind.
  const started = await Promise.allSettled([
    embed("PostgreSQL", config.databaseUrl, () => startEmbeddedPostgres({ dataDir, log })),
    embed("Redis", config.redisUrl, () => startEmbeddedRedis({ dataDir, log })),
  ])
  const [databaseUrl, redisUrl] = started.map(result => {
    if (result.status === "rejected") throw result.reason
    return result.value
  })
  return [databaseUrl!, redisUrl!]
}

export const placeOf = (url: string) => new URL(url).host

/** Not there yet, or not ready yet: of PostgreSQL, Redis, or the way to them. */
const passing =
  /^(ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|CONNECT_TIMEOUT|CONNECTION_CLOSED|CONNECTION_ENDED|57P03|53300)$/

/** Waits a while for a service that is started at the same time, as container platforms do. */
export async function patiently<T>(service: string, ending: Ending, attempt: () => Promise<T>): Promise<T> {
  let told = false
  for (const until = Date.now() + servicePatience; ; await sleep(500)) {
    ending.check()
    try {
      return await attempt()
    } catch (cause) {
      const { code = "", message } = cause as NodeJS.ErrnoException
      const isPassing = passing.test(code) || message.startsWith("LOADING")
      if (!isPassing || Date.now() > until) throw new Error(`${service}: ${message || code}`, { cause })
      if (!told) say(`waiting for ${service} (${code || message})`)
      told = true
    }
  }
}

export async function connectRedis(url: string, log: Log): Promise<Redis> {
  let reason: Error | undefined
  const redis = openRedis(url, "starling primary", error => {
    reason = error
    log.debug({ err: error, connection: "primary" }, "redis trouble")
  })
  try {
    await redis.connect()
    await redis.ping()
    return redis
  } catch (error) {
    redis.disconnect()
    // The client's own error says only that the connection is closed.
    throw reason ?? error
  }
}

/** From INFO, because hosted services often refuse CONFIG. */
export async function checkRedis(redis: Redis, name: string): Promise<void> {
  const facts = new Map((await redis.info()).split("\r\n").map(line => line.split(":", 2) as [string, string]))
  const version = facts.get("redis_version") ?? "of an unknown version"
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (!(major > 6 || (major === 6 && minor >= 2)))
    throw new Error(`${name} is ${version}; 6.2 or later is needed, for XADD NOMKSTREAM and XTRIM MINID`)
  const policy = facts.get("maxmemory_policy")
  if (policy !== undefined && policy !== "noeviction")
    throw new Error(
      `${name} has maxmemory-policy ${policy}: when memory is short it would drop jobs and delivery logs without a word. ` +
        "Set it to noeviction",
    )
}
