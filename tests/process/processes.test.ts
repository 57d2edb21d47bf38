/**
 * The program as a person starts it: what it says, what it starts, what it leaves behind. `npm
 * test` builds dist/ before.
 */
import { execFile, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import postgres from "postgres"
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { commandLine } from "../../src/std/child-server.ts"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { openJobQueue } from "../../src/cluster/job-queue.ts"
import { expireSession } from "../../src/contract/core/jobs.ts"

const main = fileURLToPath(new URL("../../dist/src/main.js", import.meta.url))

type Undo = (() => Promise<unknown>)[]
const undo: Undo = []
const finish = async (steps: Undo) => {
  for (const step of steps.splice(0).reverse()) await step()
}
afterEach(() => finish(undo))

async function until(what: string, isSo: () => Promise<boolean> | boolean, timeoutMs = 60_000): Promise<void> {
  for (const end = Date.now() + timeoutMs; !(await isSo()); await sleep(25))
    if (Date.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`)
}

async function folder(undo: Undo): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-processes-"))
  await chmod(path, 0o755) // as root, PostgreSQL runs as another user
  undo.push(() => rm(path, { recursive: true, force: true }))
  return path
}

/**
 * A database of its own in the PostgreSQL of this run, and one of the numbered databases of its
 * Redis.
 */
async function freshServices(undo: Undo) {
  const name = `processes_${randomBytes(6).toString("hex")}`
  const admin = postgres(inject("postgres"), { max: 1, onnotice: () => {} })
  await admin.unsafe(`CREATE DATABASE ${name}`)
  undo.push(async () => {
    await admin.unsafe(`DROP DATABASE ${name} WITH (FORCE)`)
    await admin.end()
  })
  const database = new URL(inject("postgres"))
  database.pathname = name
  const redis = new URL(inject("redis"))
  redis.pathname = "9"
  const connection = new Redis(redis.href, { lazyConnect: true })
  await connection.connect()
  await connection.flushdb()
  undo.push(async () => connection.disconnect())
  const sql = postgres(database.href, { max: 1 })
  undo.push(() => sql.end())
  return { sql, redis: connection, environment: { DATABASE_URL: database.href, REDIS_URL: redis.href } }
}

interface Child {
  pid: number
  args: string
}

async function childrenOf(pid: number): Promise<Child[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-ww", "-o", "pid=,ppid=,args="])
  return stdout.split("\n").flatMap(line => {
    const [, child, parent, args] = line.match(/^\s*(\d+)\s+(\d+)\s+(.*)$/) ?? []
    return Number(parent) === pid && args ? [{ pid: Number(child), args }] : []
  })
}

const isAlive = async (pid: number) => (await commandLine(pid)) !== undefined
const areGone = async (pids: readonly number[]) => !(await Promise.all(pids.map(isAlive))).includes(true)

/** Starts the program with nothing in its environment but what is given. */
function starling(environment: Record<string, string>, undo: Undo, args: readonly string[] = []) {
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOST: "127.0.0.1",
      PORT: "0",
      METRICS_PORT: "0",
      WORKERS: "2",
      LOG_LEVEL: "warn",
      ...environment,
    },
  })
  const pid = child.pid!
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const closed = once(child, "close") // after its last words
  const ended = once(child, "exit").then(([code, signal]) => (signal ?? code) as number | string)
  undo.push(async () => {
    const left = await childrenOf(pid)
    child.kill("SIGKILL")
    await ended
    for (const { pid } of left) if (await isAlive(pid)) process.kill(pid, "SIGKILL")
  })
  const process_ = {
    pid,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    /** Of the log, which is all that stderr has. */
    lines: () =>
      stderr
        .split("\n")
        .slice(0, -1)
        .map(line => JSON.parse(line) as { level: string; msg: string; [fact: string]: unknown }),
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** The exit code, when everything it wrote has been read. */
    async end(): Promise<number | string> {
      await closed
      return ended
    },
    /** @returns where it serves */
    async ready() {
      await Promise.race([
        until("ready", () => stdout.includes("Ctrl-C ends it"), 90_000),
        ended.then(code => Promise.reject(new Error(`it ended with ${code}: ${stderr}`))),
      ])
      const url = /health +(http:\S+)\/health/.exec(stdout)![1]!
      return { url, port: Number(new URL(url).port), metrics: /metrics +(http:\S+)/.exec(stdout)![1]! }
    },
    children: () => childrenOf(pid),
    /** The process in a place such as "web 0". */
    async at(place: string): Promise<number | undefined> {
      return (await childrenOf(pid)).find(({ args }) => args.endsWith(`main.js ${place}`))?.pid
    },
  }
  return process_
}

/** Each request on a connection of its own, so that the kernel deals them out to the workers. */
async function isHealthy(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/health`, { headers: { connection: "close" } }).catch(() => undefined)
  return answer?.status === 200
}

async function series(metrics: string): Promise<Map<string, number>> {
  const lines = (await (await fetch(metrics)).text()).split("\n").filter(line => line !== "" && !line.startsWith("#"))
  return new Map(
    lines.map(line => {
      const at = line.lastIndexOf(" ")
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}

const allServe = async (metrics: string) => {
  const now = await series(metrics)
  return now.get('starling_processes{role="web"}') === 2 && now.get('starling_processes{role="job"}') === 1
}

describe("what it refuses, before it starts anything", () => {
  test("a bad configuration: every problem by its name, exit code 2", async () => {
    const program = starling({ PORT: "eight", WORKERS: "0", STARLING_NONSENSE: "1" }, undo)
    expect(await program.end()).toBe(2)
    const lines = program.stderr().trim().split("\n")
    expect(lines).toHaveLength(3)
    for (const name of ["PORT", "WORKERS", "STARLING_NONSENSE"])
      expect(lines).toContainEqual(expect.stringContaining(name))
    expect(program.stdout()).toBe("")
  })

  test("what is only asked: whether the settings are valid, the version, and what there is to set", async () => {
    const ask = async (args: string[], environment: Record<string, string> = {}) => {
      const program = starling(environment, undo, args)
      const code = await program.end()
      return { code, out: program.stdout(), err: program.stderr() }
    }
    const good = await ask(["--check-config"], { STARLING_SERVER_NAME: "Chat" })
    expect(good).toMatchObject({ code: 0, err: "" })
    expect(good.out).toMatch(/^starling: the settings are valid; given are HOST, PORT, .*STARLING_SERVER_NAME\n$/)
    const bad = await ask(["--check-config"], {
      PORT: "eight",
      DATABASE_URL: "redis://:s3cret@x",
      STARLING_NONSENSE: "1",
    })
    expect(bad).toMatchObject({ code: 2, out: "" })
    const names = bad.err.trim().split("\n").map(line => /^starling: (\w+): /.exec(line)?.[1]) // prettier-ignore
    expect(names).toEqual(["PORT", "DATABASE_URL", "STARLING_NONSENSE"])
    expect(bad.err).not.toContain("s3cret")
    const { code, out } = await ask(["--version"], { PORT: "eight" })
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^starling \d+\.\d+\.\d+, commit \S+, Node\.js \d+\.\d+\.\d+\n$/),
    ])
    const help = await ask(["--help"])
    expect(help).toMatchObject({ code: 0, err: "" })
    for (const name of ["--check-config", "DATABASE_URL", "STARLING_SERVER_NAME"]) expect(help.out).toContain(name)
    for (const args of [["--nonsense"], ["--version", "--help"]])
      expect(await ask(args)).toMatchObject({
        code: 2,
        out: "",
        err: expect.stringContaining("means nothing here") as string,
      })
  })

  test("a port that is taken, by its number, exit code 1", async () => {
    const taken = createServer().listen(0, "127.0.0.1")
    await once(taken, "listening")
    undo.push(async () => taken.close())
    const { port } = taken.address() as AddressInfo
    const [program, scraped] = [{ PORT: String(port) }, { METRICS_PORT: String(port) }].map(ports =>
      starling(ports, undo),
    )
    expect(await program!.end()).toBe(1)
    expect(program!.stderr()).toMatch(new RegExp(`Port ${port} on 127.0.0.1 is already in use`))
    expect(await scraped!.end()).toBe(1)
    expect(scraped!.stderr()).toMatch(new RegExp(`Metrics port ${port} on 127.0.0.1 is already in use`))
    expect(program!.stdout() + scraped!.stdout()).toBe("")
  })

  test("a Redis that may evict what it was given, with the way out", async () => {
    const dataDir = await folder(undo)
    const { environment } = await freshServices(undo)
    const forgetful = await startEmbeddedRedis({
      dataDir,
      log: { info() {}, warn() {}, error() {} },
      appendonly: false,
    })
    undo.push(() => forgetful.stop())
    const redis = new Redis(forgetful.url)
    await redis.config("SET", "maxmemory-policy", "allkeys-lru")
    redis.disconnect()
    const program = starling({ ...environment, REDIS_URL: forgetful.url }, undo)
    expect(await program.end()).toBe(1)
    expect(program.stderr()).toMatch(/maxmemory-policy allkeys-lru.*noeviction/)
    expect(program.stderr()).not.toContain(new URL(forgetful.url).password)
  })
})

describe("one start with two web workers and a job worker", () => {
  const undo: Undo = []
  let services: Awaited<ReturnType<typeof freshServices>>
  let program: ReturnType<typeof starling>
  let where: Awaited<ReturnType<typeof program.ready>>
  beforeAll(async () => {
    services = await freshServices(undo)
    program = starling(services.environment, undo)
    where = await program.ready()
  })
  afterAll(() => finish(undo))

  test("it says where to go, and what it says is there", async () => {
    expect(await program.children()).toHaveLength(3)
    for (const path of ["/docs", "/health"]) {
      expect(program.stdout()).toContain(`${where.url}${path}`)
      expect((await fetch(where.url + path)).status).toBe(200)
    }
    expect(await allServe(where.metrics)).toBe(true)

    const gateway = await (await fetch(`${where.url}/docs/gateway`)).text()
    expect(gateway).toContain(`ws://localhost:${where.port}/gateway`)
    expect(gateway).not.toContain(":8000")

    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as {
      version: string
    }
    const health = (await (await fetch(`${where.url}/health`)).json()) as { release: string; commit: string }
    expect(health).toMatchObject({
      release: version,
      commit: expect.stringMatching(/^(unknown|[0-9a-f]{12}(-changed)?)$/),
    })
    const about = `version="${version}",commit="${health.commit}",node="${process.versions.node}"`
    const builds = [...(await series(where.metrics)).keys()].filter(name => name.startsWith("starling_build_info"))
    const names = ["job-0", "primary", "web-0", "web-1"]
    expect(builds.toSorted()).toEqual(names.map(worker => `starling_build_info{${about},worker="${worker}"}`))

    const [, url, type, body] = /curl (\S+) -H '([^']+)' \\\n +-d '([^']+)'/.exec(program.stdout())!
    const [name, value] = type!.split(": ") as [string, string]
    const registered = await fetch(url!, { method: "POST", headers: { [name]: value }, body: body! })
    expect(await registered.json()).toMatchObject({ status: "success", user: { username: "ada" } })
  })

  test("a job ends a session whose time is over, the sweep one without a job, and no job is lost in silence", async () => {
    const { sql, redis } = services
    const now = Math.floor(Date.now() / 1000)
    const [lin, timely, forgotten, extended] = ["0", "1", "2", "3"].map(last => `38245316688421273${last}`) as [
      string,
      string,
      string,
      string,
    ]
    await sql`INSERT INTO users (id, username, created_at) VALUES (${lin}, 'lin', ${now})`
    await sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      VALUES (${timely}, ${lin}, 'a', '', '', ${now}, ${now - 1}, ${now}), (${forgotten}, ${lin}, 'b', '', '', ${now}, ${now - 3600}, ${now}),
             (${extended}, ${lin}, 'c', '', '', ${now}, ${now + 3600}, ${now})`
    await sql`
      INSERT INTO one_time_tokens (id, user_id, kind, token_hash, expires_at)
      VALUES (1, ${lin}, 'two_factor', 'a', ${now - 3600}), (2, ${lin}, 'two_factor', 'b', ${now + 3600})`
    await sql`INSERT INTO failed_logins (name, failures, last_at) VALUES ('long ago', 4, ${now - 8 * 86_400}), ('now', 4, ${now})`
    const queue = openJobQueue(redis, "starling:", Date.now)
    await queue.add(expireSession.at({ user_id: lin, session_id: timely }, { key: `session:${timely}` }))
    await queue.add(expireSession.at({ user_id: lin, session_id: extended }, { key: `session:${extended}` }))
    await queue.add({ kind: "job", job: "stranger", data: {}, key: "stranger", runAtMs: 0 })
    const left = async () =>
      (await sql`SELECT id FROM sessions WHERE user_id = ${lin} ORDER BY id`).map(row => row["id"] as string)
    await until("the job has run", async () => !(await left()).includes(timely))
    // One is at most 66 s after the one before.
    await until("the sweep has run", async () => (await left()).join() === extended, 150_000)
    const kept = async () => [
      ...(await sql`SELECT id::text AS one FROM one_time_tokens WHERE user_id = ${lin}`),
      ...(await sql`SELECT name AS one FROM failed_logins WHERE name IN ('long ago', 'now')`),
    ]
    await until("it has forgotten what is over", async () => (await kept()).length <= 2)
    expect(await kept()).toEqual([{ one: "2" }, { one: "now" }])
    const counts = await series(where.metrics)
    expect(counts.get('starling_jobs_total{job="expireSession",outcome="done"}')).toBe(2)
    expect(counts.get('starling_jobs_total{job="stranger",outcome="retried"}')).toBeGreaterThan(0)
    expect(program.stderr()).toContain("no processor for the job stranger")
    await queue.close()
  })

  test("a web worker killed with -9 is declared dead at once and replaced; the other serves meanwhile", async () => {
    const killed = (await program.at("web 0"))!
    process.kill(killed, "SIGKILL")
    await until(
      "declared dead",
      async () => {
        const [row] =
          await services.sql`SELECT count(*)::int AS dead FROM incarnations WHERE slot = 0 AND role = 'web' AND died_at IS NOT NULL`
        return row!["dead"] === 1
      },
      // Before anybody could have missed its signs of life.
      clusterConfig.membership.deadAfterMs,
    )
    expect(await isHealthy(where.url)).toBe(true)
    await until("its shards are with its successor", async () => {
      const [row] = await services.sql`
        SELECT count(*)::int AS owned, count(*) FILTER (WHERE slot = 0)::int AS back
        FROM shards JOIN incarnations i ON i.id = shards.owner WHERE i.died_at IS NULL`
      return row!["owned"] === 1024 && row!["back"] > 0
    })
    expect([undefined, killed]).not.toContain(await program.at("web 0"))
    expect(await allServe(where.metrics)).toBe(true)
    const answers = await Promise.all(Array.from({ length: 20 }, () => isHealthy(where.url)))
    expect(answers).not.toContain(false)
  })

  test("processes that are over end by themselves and come back as new incarnations", async () => {
    const before = (await program.children()).map(child => child.pid)
    await services.redis.set("starling:identity", "another Redis")
    await until("all replaced", () => areGone(before))
    await until("all back", () => allServe(where.metrics))
    await until("serving", () => isHealthy(where.url))
    expect(program.stderr()).toMatch(/Redis lost what it knew.*incarnation ended/)
    expect(program.stderr()).toContain('"how":"code 75"')
  })

  test("SIGTERM ends every process in order, exit code 0", async () => {
    const children = (await program.children()).map(child => child.pid)
    expect(children).toHaveLength(3)
    const before = program.lines().length
    program.kill("SIGTERM")
    expect(await program.end()).toBe(0)
    // Nothing went wrong, so nothing is said to have; a job that nobody knows is tried again at any time.
    const said = program.lines().slice(before)
    expect(said.filter(line => !JSON.stringify(line).includes("no processor for the job stranger"))).toEqual([])
    expect(await areGone(children)).toBe(true)
    expect(program.stderr()).not.toMatch(/did not end/)
    expect(await services.sql`SELECT id FROM incarnations WHERE died_at IS NULL`).toEqual([])
  })
})

test("workers outlive a killed primary by a moment only, the next start on the same port does not mind, and a second signal ends it at once", async () => {
  const { environment, sql } = await freshServices(undo)
  const first = starling(environment, undo)
  const { port } = await first.ready()
  const children = (await first.children()).map(child => child.pid)
  first.kill("SIGKILL")
  const second = starling({ ...environment, PORT: String(port) }, undo)
  const { url } = await second.ready()
  expect(await areGone(children)).toBe(true)
  const answers = await Promise.all(Array.from({ length: 20 }, () => isHealthy(url)))
  expect(answers).not.toContain(false)
  expect(await sql`SELECT id FROM incarnations WHERE died_at IS NULL`).toHaveLength(3)

  const theirs = (await second.children()).map(child => child.pid)
  process.kill(theirs.at(-1)!, "SIGSTOP") // it cannot drain
  second.kill("SIGINT")
  await until("told", () => second.stdout().includes("once more to end at once"))
  second.kill("SIGINT")
  expect(await second.end()).toBe(1)
  await until("all gone", () => areGone(theirs))
})

test("embedded services are started without URLs, and when one of them ends everything does", async () => {
  const dataDir = await folder(undo)
  const program = starling({ DATA_DIR: dataDir, LOG_LEVEL: "info" }, undo)
  const { url } = await program.ready()
  const [first] = program.lines()
  expect(first).toMatchObject({ msg: "starting", commit: expect.any(String) as string, node: process.versions.node })
  const embedded = program.stderr().split("\n").filter(line => /embedded \w+ is ready/.test(line)) // prettier-ignore
  expect(embedded).toHaveLength(2)
  for (const line of embedded) expect(line.match(/"pid":/g), line).toHaveLength(1)
  expect(await isHealthy(url)).toBe(true)
  const children = await program.children()
  process.kill(children.find(({ args }) => args.includes("redis.conf"))!.pid, "SIGKILL")
  expect(await program.end()).toBe(1)
  const said = program
    .lines()
    .filter(({ msg }) => msg === "the embedded Redis has ended, and without it nothing can go on")
  expect(said).toMatchObject([{ level: "error", why: "ended by SIGKILL" }])
  await until("all gone", () => areGone(children.map(child => child.pid)))
})
