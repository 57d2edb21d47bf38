/** One PostgreSQL and one Redis for the whole run; every test file makes its own database and prefix in them. */
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TestProject } from "vitest/node"
import type { ChildLog } from "../../src/child-server.ts"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { startEmbeddedPostgres } from "../../src/storage/embedded.ts"

declare module "vitest" {
  export interface ProvidedContext {
    /** URL of a database whose user may create others. */
    postgres: string
    redis: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), "starling-test-"))
  await chmod(dataDir, 0o755) // as root, PostgreSQL runs as another user
  const stops: (() => Promise<void>)[] = [() => rm(dataDir, { recursive: true, force: true })]
  const teardown = async () => {
    for (const stop of stops.reverse()) await stop()
  }
  try {
    const { TEST_DATABASE_URL, TEST_REDIS_URL } = process.env
    if (TEST_DATABASE_URL) project.provide("postgres", TEST_DATABASE_URL)
    else {
      // What a test wrote may be lost with the machine.
      const extraSettings = { fsync: "off", full_page_writes: "off", max_connections: "400" }
      const postgres = await startEmbeddedPostgres({ dataDir, log, extraSettings })
      stops.push(() => postgres.stop())
      project.provide("postgres", postgres.url)
    }
    if (TEST_REDIS_URL) project.provide("redis", TEST_REDIS_URL)
    else {
      const redis = await startEmbeddedRedis({ dataDir, log, appendonly: false })
      stops.push(() => redis.stop())
      project.provide("redis", redis.url)
    }
    return teardown
  } catch (error) {
    await teardown()
    throw error
  }
}

const log: ChildLog = {
  info: () => undefined,
  warn: (fields, message) => console.warn(message, fields),
  error: (fields, message) => console.error(message, fields),
}
