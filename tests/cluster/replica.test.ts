/** A streaming replica of PostgreSQL that takes searches and old pages, stops replaying, and goes away. */
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import { onTestFinished } from "vitest"
import { firstIdAt } from "../../src/domain/core/snowflake.ts"
import { startEmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import { refusal } from "../kit/conformance.ts"
import { Person } from "../kit/person.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const quiet = { info() {}, warn() {}, error() {} }
const fast = { fsync: "off", full_page_writes: "off", shared_buffers: "32MB" }

/** A PostgreSQL and a hot standby of it, both real. */
async function pair() {
  const folders = await Promise.all(
    ["primary", "standby"].map(async name => {
      const path = await mkdtemp(join(tmpdir(), `starling-${name}-`))
      await chmod(path, 0o755)
      onTestFinished(() => rm(path, { recursive: true, force: true }))
      return path
    }),
  )
  const [own, copy] = folders as [string, string]
  const first = await startEmbeddedPostgres({ dataDir: own, log: quiet, extraSettings: fast })
  await first.stop()
  await mkdir(join(copy, "postgres"))
  await cp(join(own, "postgres"), join(copy, "postgres"), { recursive: true, preserveTimestamps: true })
  const owner = await stat(join(own, "postgres", "data"))
  const primary = await startEmbeddedPostgres({ dataDir: own, log: quiet, extraSettings: fast })
  onTestFinished(() => primary.stop())
  const { port, username } = new URL(primary.url)
  const password = await readFile(join(own, "postgres", "password"), "utf8")
  await writeFile(join(copy, "postgres", "data", "standby.signal"), "")
  if (process.getuid?.() === 0) {
    for (const name of await readdir(copy, { recursive: true })) await chown(join(copy, name), owner.uid, owner.gid)
    await chmod(join(copy, "postgres", "data"), 0o700)
  }
  const standby = await startEmbeddedPostgres({
    dataDir: copy,
    log: quiet,
    extraSettings: {
      ...fast,
      primary_conninfo: `host=127.0.0.1 port=${port} user=${username} password=${password}`,
      hot_standby: "on",
    },
  })
  let isStopped = false
  const stop = async () => {
    if (isStopped) return
    isStopped = true
    await standby.stop()
  }
  onTestFinished(stop)
  const sql = postgres(standby.url, { max: 1, onnotice: () => {} })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return { primary, standby: { url: standby.url, sql, stop } }
}

/** Reads so far, by who answered. */
async function reads(program: Processes) {
  const metrics = await program.metrics()
  const of = (by: string) =>
    [...metrics].reduce(
      (sum, [name, value]) =>
        name.startsWith("starling_postgres_replica_reads_total") && name.includes(`by="${by}"`) ? sum + value : sum,
      0,
    )
  return { replica: of("replica"), primary: of("primary") }
}

test(
  "REPL1, REPL2: searches and old pages are read from a replica while it keeps up; what somebody has just done, and all while it stands still or is gone, from PostgreSQL itself",
  { timeout: 240_000 },
  async () => {
    const { primary, standby } = await pair()
    const program = await startProcesses({ DATABASE_URL: primary.url, DATABASE_REPLICA_URL: standby.url, WORKERS: "1" })
    onTestFinished(() => program.stop())
    const [ada, lin] = [await Person.register(program, "ada"), await Person.register(program, "lin")]
    const server = await ada.on(program).createServer({ name: "Birds" })
    const [channel] = await ada.on(program).listChannels({ server_id: server.id })
    const channel_id = channel!.id
    const { code } = await ada.on(program).createInvite({ channel_id })
    await lin.on(program).joinByInvite({ invite_code: code })
    const post = (content: string) => ada.on(program).createMessage({ channel_id, content })
    const find = async (who: Person, content: string) =>
      (await who.on(program).searchChannel({ channel_id, content })).map(message => message.content)
    await post("the first starling")

    // Lin has changed nothing for a while, and the copy keeps up.
    await until("the replica answers a search", async () => {
      const before = await reads(program)
      expect(await find(lin, "starling")).toEqual(["the first starling"])
      return (await reads(program)).replica > before.replica
    })
    const old = { channel_id, before: firstIdAt(Date.now() - 3_600_000), limit: "10" }
    const before = await reads(program)
    expect(await lin.on(program).listMessages(old)).toEqual([])
    expect((await reads(program)).replica).toBe(before.replica + 1)
    // A new page is nothing for a copy.
    await lin.on(program).listMessages({ channel_id, limit: "10" })
    expect((await reads(program)).replica).toBe(before.replica + 1)

    // Ada is shown what she did a moment ago.
    await post("a second starling")
    const asked = await reads(program)
    expect(await find(ada, "starling")).toEqual(["a second starling", "the first starling"])
    expect((await reads(program)).replica).toBe(asked.replica)

    // It stands still: soon nobody is sent there, and everybody sees everything.
    await standby.sql`SELECT pg_wal_replay_pause()`
    await post("a third starling")
    await until("everything is read from the primary", async () => (await find(lin, "starling")).length === 3)
    const paused = await reads(program)
    expect(await find(lin, "third")).toEqual(["a third starling"])
    expect((await reads(program)).replica).toBe(paused.replica)
    await standby.sql`SELECT pg_wal_replay_resume()`
    await until("the replica is asked again", async () => {
      expect(await find(lin, "starling")).toHaveLength(3)
      return (await reads(program)).replica > paused.replica
    })

    // Behind for less than that, it is asked still: not where Lin may search, nor what a message says.
    const words = async () =>
      (await lin.on(program).searchMessages({ query: "starling", server_id: server.id })).results.map(
        ({ content }) => content,
      )
    await until("words are indexed, and the replica has them", async () => {
      const before = await reads(program)
      return (await words()).length === 3 && (await reads(program)).replica > before.replica
    })
    const [, , first] = await lin.on(program).searchChannel({ channel_id, content: "starling" })
    await standby.sql`SELECT pg_wal_replay_pause()`
    await ada.on(program).editMessage({ channel_id, message_id: first!.id, content: "a blackbird" })
    expect(await words()).not.toContain("the first starling")
    await ada.on(program).banUser({ server_id: server.id, user_id: lin.id })
    expect(await refusal(words())).toBe("access_denied")
    await ada.on(program).unbanUser({ server_id: server.id, user_id: lin.id })
    const { code: again } = await ada.on(program).createInvite({ channel_id })
    await lin.on(program).joinByInvite({ invite_code: again })
    await standby.sql`SELECT pg_wal_replay_resume()`
    await until("the replica is asked once more", async () => {
      const before = await reads(program)
      expect(await find(lin, "starling")).toHaveLength(2)
      return (await reads(program)).replica > before.replica
    })

    // It goes away: nobody notices.
    await standby.stop()
    for (let i = 0; i < 5; i++) expect(await find(lin, "starling")).toHaveLength(2)
    expect((await fetch(`${program.url}/readyz`)).status).toBe(200)
  },
)
