/**
 * What the program refuses to start with: one clear line on stderr, exit code not 0, and nothing
 * left behind. Through the program itself. A service that lies is a real one behind a proxy that
 * rewrites what it says, or what it is told.
 */
import { fork, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect, createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import postgres from "postgres"
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest"
import { readConfig } from "../../src/config.ts"
import { redisPrefix, type StartOrder } from "../../src/process/primary/orders.ts"
import { migrate } from "../../src/storage/core/migrate.ts"
import { ownPostgres, ownRedis, type OwnPostgres, type OwnRedis } from "../kit/services.ts"

const main = fileURLToPath(new URL("../../dist/src/main.js", import.meta.url))
/** Far above what a refusal takes: a program that does not refuse goes on for ever. */
const timeoutMs = 25_000

let server: OwnPostgres
let redis: OwnRedis
/** A database of the ordinary user's own, and that user. */
let database: { url: string; name: string; sql: postgres.Sql }

beforeAll(async () => {
  ;[server, redis] = await Promise.all([ownPostgres(), ownRedis()])
}, 60_000)
afterAll(async () => {
  await server.close()
  await redis.close()
}, 60_000)

beforeEach(async () => {
  database = await newDatabase()
})

async function newDatabase(how = ""): Promise<typeof database> {
  const name = `start_${randomBytes(5).toString("hex")}`
  await server.sql.unsafe(`CREATE DATABASE ${name} OWNER app ${how}`)
  const url = Object.assign(new URL(server.url), { pathname: `/${name}` }).href
  const sql = postgres(server.adminUrl(name), { max: 1, onnotice: () => {} })
  onTestFinished(async () => {
    await sql.end({ timeout: 1 })
    await server.sql.unsafe(`DROP DATABASE ${name} WITH (FORCE)`)
  })
  return { url, name, sql }
}

/** How a start ends. */
async function start(
  environment: Record<string, string> = {},
): Promise<{ code: number | null; said: string; out: string }> {
  const child = spawn(process.execPath, [main], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOST: "127.0.0.1",
      PORT: "0",
      METRICS_PORT: "0",
      WORKERS: "1",
      LOG_LEVEL: "info",
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      ...environment,
    },
  })
  let said = ""
  let out = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text))
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text))
  const late = setTimeout(() => child.kill("SIGTERM"), timeoutMs)
  const [code] = (await once(child, "close")) as [number | null]
  clearTimeout(late)
  return { code, said, out }
}

/** It ends by itself, with one line that says why, between lines that are all JSON. */
async function expectRefusal(why: RegExp, environment: Record<string, string> = {}): Promise<void> {
  const { code, said, out } = await start(environment)
  const lines = said
    .trimEnd()
    .split("\n")
    .map(line => JSON.parse(line) as { msg: string; why?: string })
  expect({ code, lines: lines.filter(({ msg }) => msg === "the start has failed"), out }).toEqual({
    code: 1,
    lines: [expect.objectContaining({ level: "error", why: expect.stringMatching(why) as string })],
    out: expect.not.stringContaining("Starling is ready"),
  })
  // No secret in it.
  expect(said).not.toContain(new URL(environment["DATABASE_URL"] ?? database.url).password || "no password")
}

/** A way to a service on which each side's bytes can be changed, as long as their number stays. */
async function through(
  target: string,
  rewrite: { up?: [from: string, to: string]; down?: [from: string, to: string] },
): Promise<string> {
  const change = (bytes: Buffer, pair?: [from: string, to: string]) =>
    pair ? Buffer.from(bytes.toString("latin1").replaceAll(...pair), "latin1") : bytes
  const { hostname, port } = new URL(target)
  const proxy = createServer(near => {
    const far = connect(Number(port), hostname)
    near.on("data", bytes => far.write(change(bytes, rewrite.up)))
    far.on("data", bytes => near.write(change(bytes, rewrite.down)))
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on("error", () => {})
      one.on("close", () => other.destroy())
    }
  }).listen(0, "127.0.0.1")
  await once(proxy, "listening")
  onTestFinished(async () => {
    proxy.close()
  })
  return Object.assign(new URL(target), { port: String((proxy.address() as AddressInfo).port) }).href
}

const options = { timeout: 60_000 }

test("Redis that may evict", options, async () => {
  await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
  try {
    await expectRefusal(/Redis at 127.0.0.1:\d+ has maxmemory-policy allkeys-lru.* Set it to noeviction/)
  } finally {
    await redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
  }
})

test("Redis that is too old", options, async () => {
  const [, version] = /redis_version:(\S+)/.exec(String(await redis.command("INFO", "server")))!
  const old = "6.0.9".padEnd(version!.length, "9")
  const url = await through(redis.url, { down: [`redis_version:${version}`, `redis_version:${old}`] })
  await expectRefusal(/Redis at \S+ is 6\.0\.9+; 6\.2 or later is needed/, { REDIS_URL: url })
})

test("Redis that is older than it says: what is needed is tried out", options, async () => {
  const url = await through(redis.url, { up: ["NOMKSTREAM", "NOSUCHTHNG"] })
  await expectRefusal(/Redis at \S+ does not do what is needed: ERR/, { REDIS_URL: url })
})

test("Redis that is a replica", options, async () => {
  await redis.command("REPLICAOF", "127.0.0.1", "1")
  try {
    await expectRefusal(/Redis at \S+: this is a replica, which takes no writes; REDIS_URL must name the master/)
  } finally {
    await redis.command("REPLICAOF", "NO", "ONE")
  }
})

test("Redis that wants another password, or one at all", options, async () => {
  await redis.command("ACL", "SETUSER", "ada", "on", ">right", "~*", "+@all")
  await redis.command("ACL", "SETUSER", "shut", "on", ">right", "~*", "+@all", "-xadd")
  const as = (user: string, password: string) => Object.assign(new URL(redis.url), { username: user, password }).href
  await expectRefusal(/Redis at \S+: WRONGPASS/, { REDIS_URL: as("ada", "wrong") })
  await expectRefusal(/Redis at \S+ does not do what is needed: NOPERM .*xadd/, { REDIS_URL: as("shut", "right") })
})

test("a Redis that is full", options, async () => {
  await redis.command("CONFIG", "SET", "maxmemory", "1")
  try {
    await expectRefusal(/Redis at \S+ does not do what is needed: OOM/)
  } finally {
    await redis.command("CONFIG", "SET", "maxmemory", "0")
  }
})

test("URLs that are swapped: by their words, and by what listens there", options, async () => {
  const { code, said } = await start({ DATABASE_URL: redis.url, REDIS_URL: database.url })
  expect(code).toBe(2)
  expect(said).toMatch(/DATABASE_URL: expected a postgres:\/\/ URL\n/)
  expect(said).toMatch(/REDIS_URL: expected a redis:\/\/ or rediss:\/\/ URL, or redis\+sentinel:\S+\n/)
  const portOf = (url: string) => new URL(url).port
  await expectRefusal(/PostgreSQL at \S+ is not PostgreSQL: Redis listens there; are the URLs swapped\?/, {
    DATABASE_URL: Object.assign(new URL(database.url), { port: portOf(redis.url) }).href,
  })
  await expectRefusal(/Redis at \S+ is not Redis: PostgreSQL listens there; are the URLs swapped\?/, {
    REDIS_URL: Object.assign(new URL(redis.url), { port: portOf(database.url) }).href,
  })
})

test("PostgreSQL that is too old", options, async () => {
  const [row] = await server.sql<{ number: string }[]>`SELECT current_setting('server_version_num') AS number`
  const url = await through(database.url, { down: [row!.number, "130009"] })
  await expectRefusal(/PostgreSQL at \S+: this is PostgreSQL \S+; 14 or later is needed/, { DATABASE_URL: url })
})

test("a database that says it is PostgreSQL, but whose locks do not hold", options, async () => {
  const url = await through(database.url, { up: ["FOR SHARE", "         "] })
  await expectRefusal(/PostgreSQL at \S+: it does not keep row locks/, { DATABASE_URL: url })
})

test("a database that says it is PostgreSQL, but lacks what a migration uses", options, async () => {
  const url = await through(database.url, { up: ["PARTITION BY HASH", "PARTITION BY HUSH"] })
  await expectRefusal(/PostgreSQL at \S+: migration 0001_baseline\.sql is refused by what says it is PostgreSQL \d/, {
    DATABASE_URL: url,
  })
})

test("something in between that drops the settings of a connection", options, async () => {
  const url = await through(database.url, { up: ["synchronous_commit\0", "enable_gathermerge\0"] })
  await server.sql.unsafe(`ALTER DATABASE ${database.name} SET synchronous_commit = off`)
  await expectRefusal(/PostgreSQL at \S+: synchronous_commit is off though it was asked to be on/, {
    DATABASE_URL: url,
  })
})

test("a database whose encoding cannot hold every text", options, async () => {
  const latin = await newDatabase("ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
  await expectRefusal(/the database has the encoding LATIN1, .* ENCODING 'UTF8'/, { DATABASE_URL: latin.url })
})

test("a user who may not make tables, and one who may not write to them", options, async () => {
  await server.sql.unsafe(`ALTER DATABASE ${database.name} OWNER TO CURRENT_USER`)
  await expectRefusal(/the user app may not make tables in the schema public; GRANT CREATE ON SCHEMA public TO app/)
  await database.sql`GRANT CREATE ON SCHEMA public TO app`
  await expectRefusal(/the user app may not make the extension pg_trgm; GRANT CREATE ON DATABASE \S+ TO app/)
  await database.sql`CREATE EXTENSION pg_trgm`
  await migrate(database.url)
  await database.sql`REVOKE CREATE ON SCHEMA public FROM app`
  await database.sql`ALTER TABLE bans OWNER TO CURRENT_USER`
  await expectRefusal(/the user app may not read and write: the table bans is closed to it/)
})

test("a database that takes no writes", options, async () => {
  await server.sql.unsafe(`ALTER DATABASE ${database.name} SET default_transaction_read_only = on`)
  await expectRefusal(/PostgreSQL at \S+: it takes no writes/)
})

test("a standby", options, async () => {
  // The answer to pg_is_in_recovery() of a real one.
  const url = await through(database.url, { up: ["pg_is_in_recovery()", "              true "] })
  await expectRefusal(
    /PostgreSQL at \S+: this is a standby, which takes no writes; DATABASE_URL must name the primary/,
    {
      DATABASE_URL: url,
    },
  )
})

test("a password that is wrong, a database that is not there", options, async () => {
  await expectRefusal(/PostgreSQL at \S+: password authentication failed for user "app"/, {
    DATABASE_URL: Object.assign(new URL(database.url), { password: "wrong" }).href,
  })
  await expectRefusal(/PostgreSQL at \S+: database "nowhere" does not exist/, {
    DATABASE_URL: Object.assign(new URL(database.url), { pathname: "/nowhere" }).href,
  })
})

test("a migration that has changed since it ran", options, async () => {
  await migrate(database.url)
  await database.sql`UPDATE migrations SET digest = 'another' WHERE name = '0001_baseline.sql'`
  await expectRefusal(/migration 0001_baseline\.sql has changed since it ran/)
})

test("a database that was made before there was one baseline", options, async () => {
  await migrate(database.url)
  await database.sql`UPDATE migrations SET name = '0001_foundation.sql' WHERE name = '0001_baseline.sql'`
  await expectRefusal(
    /the database was made by a version from before 0001_baseline\.sql, which cannot be upgraded; begin with an empty database/,
  )
})

test("a migration of a newer version, unless that is compatible with this one", options, async () => {
  await migrate(database.url)
  await database.sql`INSERT INTO migrations (name, digest) VALUES ('9999_contract.sql', 'x')`
  await expectRefusal(/the database has the migration 9999_contract\.sql, which this version does not know/)
  await database.sql`UPDATE migrations SET expands = true WHERE name = '9999_contract.sql'`
  expect(await migrate(database.url)).toEqual([])
})

test("a table that is held while it is migrated: those who come later have their turn", options, async () => {
  await migrate(database.url)
  const folder = await mkdtemp(join(tmpdir(), "starling-migrations-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await cp(new URL("../../src/storage/migrations/", import.meta.url), folder, { recursive: true })
  await writeFile(join(folder, "9999_wider.sql"), "-- Expands\nALTER TABLE messages ADD COLUMN trial text;\n")
  const files = pathToFileURL(`${folder}/`)
  const outcome = { isOver: false }
  let waited = 0
  await database.sql
    .begin(async reading => {
      await reading`SELECT FROM messages LIMIT 1`
      const migrating = migrate(database.url, files, { lockWaitMs: 100, lockPauseMs: 10 })
      migrating.finally(() => (outcome.isOver = true)).catch(() => {})
      // It comes, gives up, and comes again.
      for (let wasWaiting = false; waited < 2 && !outcome.isOver;) {
        const [row] = await reading<{ waits: boolean }[]>`
          SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'messages'::regclass AND NOT granted) AS waits`
        if (row!.waits && !wasWaiting) waited++
        wasWaiting = row!.waits
      }
      expect(outcome.isOver).toBe(false)
      return { migrating }
    })
    .then(({ migrating }) => migrating)
  expect(waited).toBe(2)
  expect(await migrate(database.url)).toEqual([])
})

test("a migration that PostgreSQL takes back in favour of another transaction is tried again", options, async () => {
  await migrate(database.url)
  const folder = await mkdtemp(join(tmpdir(), "starling-migrations-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await cp(new URL("../../src/storage/migrations/", import.meta.url), folder, { recursive: true })
  // As a deadlock ends for the one of two that PostgreSQL chooses. A sequence alone is not taken back.
  await database.sql.unsafe("CREATE SEQUENCE tries; GRANT USAGE ON SEQUENCE tries TO PUBLIC")
  const taken =
    "IF nextval('tries') < 3 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END IF;"
  await writeFile(join(folder, "9999_wider.sql"), `-- Expands\nDO $$ BEGIN ${taken} END $$;\n`)
  const files = pathToFileURL(`${folder}/`)
  expect(await migrate(database.url, files, { lockWaitMs: 100, lockPauseMs: 10 })).toEqual(["9999_wider.sql"])
  expect(await database.sql`SELECT last_value::int AS tries FROM tries`).toEqual([{ tries: 3 }])
})

test("tables that are missing though the migrations have run", options, async () => {
  await migrate(database.url)
  await database.sql`DROP TABLE bans, invites`
  await expectRefusal(/the migrations have run, but the tables bans, invites are missing; restore the database/)
})

test("a secret key that is not that of the database, and a file that holds none", options, async () => {
  await migrate(database.url)
  await database.sql`UPDATE service SET secret_key_id = 'another'`
  await expectRefusal(
    /another secret key is in use with this database than SECRET_KEY: give every host the one of before/,
    {
      SECRET_KEY: "a key that nobody has seen here before",
    },
  )
  const folder = await mkdtemp(join(tmpdir(), "starling-start-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, "secret.key"), "")
  await expectRefusal(/secret\.key is empty, so it is no secret key: restore it, or remove it if it is lost/, {
    DATA_DIR: folder,
  })
})

test("a process whose primary has not migrated: it says so and ends", options, async () => {
  for (const role of ["web", "job"] as const) {
    const child = fork(main, [role, "0"], { env: { NODE_UNIQUE_ID: "1" }, stdio: ["ignore", "pipe", "pipe", "ipc"] })
    let said = ""
    child.stderr!.setEncoding("utf8").on("data", (text: string) => (said += text))
    const late = setTimeout(() => child.kill("SIGKILL"), timeoutMs)
    await once(child, "message")
    const order: StartOrder = {
      type: "start",
      self: { id: `${role}-test`, role, host: "test", slot: 0 },
      predecessor: undefined,
      config: readConfig({ HOST: "127.0.0.1", PORT: "0" }),
      databaseUrl: database.url,
      redisUrl: redis.url,
      redisPrefix,
      secretKey: "",
      socketFolder: undefined,
      port: 0,
    }
    child.send(order)
    const [code] = (await once(child, "close")) as [number | null]
    clearTimeout(late)
    expect({ code, said }).toEqual({
      code: 1,
      said: expect.stringMatching(/the database is not migrated: 0001_baseline\.sql has not run/),
    })
  }
})

test("a folder that cannot be written, or is a file", options, async () => {
  // Not even root makes a file there.
  await expectRefusal(/^\/sys\/redis\.lock\.held cannot be written: .*\(E(ACCES|PERM|ROFS)\).* DATA_DIR/, {
    DATA_DIR: "/sys",
    REDIS_URL: "",
  })
  await expectRefusal(/^\/sys\/secret\.key\S* cannot be written: /, { DATA_DIR: "/sys", LOG_FILES: "off" })
  await expectRefusal(/^\/etc\/passwd\/here cannot be written: a part of the path is a file/, {
    DATA_DIR: "/etc/passwd/here",
    REDIS_URL: "",
  })
})

test("a port that is taken", options, async () => {
  const taken = createServer().listen(0, "127.0.0.1")
  await once(taken, "listening")
  onTestFinished(async () => {
    taken.close()
  })
  const { port } = taken.address() as AddressInfo
  await expectRefusal(new RegExp(`Port ${port} on 127.0.0.1 is already in use`), { PORT: String(port) })
  await expectRefusal(new RegExp(`Metrics port ${port} on 127.0.0.1 is already in use`), { METRICS_PORT: String(port) })
})
