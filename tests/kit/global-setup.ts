/**
 * One PostgreSQL and one Redis for the whole run; every test file makes its own database and prefix in them. When every
 * file has run, what the contract declares and no test provoked is a failure.
 */
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import type { TestProject } from "vitest/node"
import type { ChildLog } from "../../src/std/child-server.ts"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { startEmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import { migrate } from "../../src/storage/core/migrate.ts"
import { missingIn } from "./coverage.ts"
import { testShards } from "./seeds.ts"

declare module "vitest" {
  export interface ProvidedContext {
    /** URL of a database whose user may create others. */
    postgres: string
    redis: string
    /** Name of the migrated database that tests clone. */
    template: string
    /** Folder for notes of what was seen of the contract. */
    sightings: string
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
    const sightings = join(dataDir, "sightings")
    await mkdir(sightings)
    project.provide("sightings", sightings)
    const { TEST_DATABASE_URL, TEST_REDIS_URL } = process.env
    let url = TEST_DATABASE_URL
    if (!url) {
      // What a test wrote may be lost with the machine.
      const extraSettings = { fsync: "off", full_page_writes: "off", autovacuum: "off", max_connections: "400" }
      const postgres = await startEmbeddedPostgres({ dataDir, log, extraSettings })
      stops.push(() => postgres.stop())
      ;({ url } = postgres)
    }
    project.provide("postgres", url)
    stops.push(await provideTemplate(project, url))
    if (TEST_REDIS_URL) project.provide("redis", TEST_REDIS_URL)
    else {
      const redis = await startEmbeddedRedis({ dataDir, log, appendonly: false })
      stops.push(() => redis.stop())
      project.provide("redis", redis.url)
    }
    stops.push(async () => {
      if (project.name === "stories" && (await ranEverything(project))) reportMissing(sightings)
    })
    return teardown
  } catch (error) {
    await teardown()
    throw error
  }
}

async function provideTemplate(project: TestProject, url: string): Promise<() => Promise<void>> {
  const template = `template_${process.pid}_${Date.now().toString(36)}`
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  await admin.unsafe(`CREATE DATABASE ${template}`)
  const there = new URL(url)
  there.pathname = `/${template}`
  await migrate(there.href)
  const made = postgres(there.href, { max: 1 })
  await made`DELETE FROM shards WHERE shard <> ALL(${[...testShards]}::smallint[])`
  await made.end()
  project.provide("template", template)
  return async () => {
    await admin.unsafe(`DROP DATABASE ${template} WITH (FORCE)`)
    await admin.end()
  }
}

/** Only a run of every file, with no test left out, can say that something is missing. */
async function ranEverything(project: TestProject): Promise<boolean> {
  if (project.config.testNamePattern || project.config.watch) return false
  const { testFiles } = await project.globTestFiles()
  const ran = new Set(project.vitest.state.getTestModules().map(module => module.moduleId))
  return testFiles.every(file => ran.has(file))
}

function reportMissing(sightings: string): void {
  const missing = missingIn(sightings)
  if (missing.length === 0) return
  console.error(`\nThe contract declares what no test has seen:\n${missing.map(line => `  ${line}`).join("\n")}\n`)
  process.exitCode = 1
}

const log: ChildLog = {
  info: () => undefined,
  warn: (fields, message) => console.warn(message, fields),
  error: (fields, message) => console.error(message, fields),
}
