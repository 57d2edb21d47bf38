/**
 * One PostgreSQL and one Redis for the whole run, of all projects; every test file makes its own database and prefix in them. When
 * every file has run, what the contract declares and no test provoked is a failure.
 */
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import type { ProvidedContext } from "vitest"
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

/** What the projects of a run have in common, which vitest sets up one after the other. */
interface Services {
  readonly provided: ProvidedContext
  /** Those that use it. */
  readonly projects: Set<TestProject>
  stop(): Promise<void>
}
/** Each project loads this file for itself. */
const place = globalThis as { starlingTestServices?: Promise<Services> | undefined }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { provided, projects, stop } = await (place.starlingTestServices ??= startServices())
  projects.add(project)
  for (const [name, value] of Object.entries(provided)) project.provide(name as keyof ProvidedContext, value as string)
  return async () => {
    projects.delete(project)
    if (projects.size > 0) return
    place.starlingTestServices = undefined
    if (await ranEverything(project.vitest.projects)) reportMissing(provided.sightings)
    await stop()
  }
}

async function startServices(): Promise<Services> {
  const dataDir = await mkdtemp(join(tmpdir(), "starling-test-"))
  await chmod(dataDir, 0o755) // as root, PostgreSQL runs as another user
  const stops: (() => Promise<void>)[] = [() => rm(dataDir, { recursive: true, force: true })]
  const stop = async () => {
    for (const step of stops.reverse()) await step()
  }
  try {
    const sightings = join(dataDir, "sightings")
    await mkdir(sightings)
    const { TEST_DATABASE_URL, TEST_REDIS_URL } = process.env
    let url = TEST_DATABASE_URL
    if (!url) {
      // What a test wrote may be lost with the machine.
      const extraSettings = { fsync: "off", full_page_writes: "off", autovacuum: "off", max_connections: "400" }
      const postgres = await startEmbeddedPostgres({ dataDir, log, extraSettings })
      stops.push(() => postgres.stop())
      ;({ url } = postgres)
    }
    const template = await makeTemplate(url)
    stops.push(template.drop)
    let redisUrl = TEST_REDIS_URL
    if (!redisUrl) {
      const redis = await startEmbeddedRedis({ dataDir, log, appendonly: false })
      stops.push(() => redis.stop())
      redisUrl = redis.url
    }
    const provided = { postgres: url, redis: redisUrl, template: template.name, sightings }
    return { provided, projects: new Set(), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function makeTemplate(url: string): Promise<{ name: string; drop: () => Promise<void> }> {
  const template = `template_${process.pid}_${Date.now().toString(36)}`
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  await admin.unsafe(`CREATE DATABASE ${template}`)
  const there = new URL(url)
  there.pathname = `/${template}`
  await migrate(there.href)
  const made = postgres(there.href, { max: 1 })
  await made`DELETE FROM shards WHERE shard <> ALL(${[...testShards]}::smallint[])`
  await made.end()
  const drop = async () => {
    await admin.unsafe(`DROP DATABASE ${template} WITH (FORCE)`)
    await admin.end()
  }
  return { name: template, drop }
}

/** Only a run of every file, with no test left out, can say that something is missing. */
async function ranEverything(projects: readonly TestProject[]): Promise<boolean> {
  for (const project of projects) {
    if (project.config.testNamePattern || project.config.watch || project.vitest.config.project.length > 0) return false
    const { testFiles } = await project.globTestFiles()
    const ran = new Set(project.vitest.state.getTestModules().map(module => module.moduleId))
    if (!testFiles.every(file => ran.has(file))) return false
  }
  return true
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
