/**
 * What a post and its deliveries ask of the kernel: system calls of the web worker, as strace counts them. Most of what a lone
 * message costs are the calls themselves and the waits between them, so one more of either is one too many.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { request, type IncomingMessage } from "node:http"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { requirePrograms, requireTracing } from "../kit/companions.ts"
import { cloneDatabase } from "../kit/database.ts"
import { Person, type Listener } from "../kit/person.ts"
import { startProcesses } from "../kit/processes.ts"
import { until } from "../kit/until.ts"

const sessions = 12
const lonePosts = 40
/** Of about a kilobyte each. */
const postsInABurst = 40

interface Call {
  /** Unix seconds. */
  readonly at: number
  readonly name: string
  /** The beginning of what was read or written. */
  readonly text: string
}

/** One line of each call of the main thread: `PID TIME NAME(ARGUMENTS) = RESULT`. A call that others interrupt begins its line and ends it later. */
function callsIn(log: string, pid: number): Call[] {
  return log.split("\n").flatMap(line => {
    const [, tid, at, name, rest] = /^(\d+) +([\d.]+) (\w+)\((.*)$/.exec(line) ?? []
    return Number(tid) === pid ? [{ at: Number(at), name: name!, text: rest! }] : []
  })
}

/** What a worker says to whom is known by how it begins. */
const kinds = {
  /** But for the end of a connection. */
  reads: ({ name, text }: Call) => /^(read|readv|recvfrom|recvmsg)$/.test(name) && !/ = 0( |$)/.test(text),
  toClients: ({ name, text }: Call) => name === "sendto" && text.includes('"HTTP/1.1 '),
  toSessions: ({ name, text }: Call) => name === "sendto" && text.includes("MESSAGE_CREATE"),
  toServices: ({ name }: Call) => /^(write|writev)$/.test(name),
  /** Waits for whatever comes next, and looks whether something has come. */
  waits: ({ name, text }: Call) => /^epoll_p?wait$/.test(name) && !/, 1024, 0, /.test(text),
  looks: ({ name, text }: Call) => /^epoll_p?wait$/.test(name) && /, 1024, 0, /.test(text),
}
type Kind = keyof typeof kinds
type Counts = Record<Kind, number>

const count = (calls: readonly Call[]): Counts =>
  Object.fromEntries(
    (Object.keys(kinds) as Kind[]).map(kind => [kind, calls.filter(call => kinds[kind](call)).length]),
  ) as Counts

/** Unix seconds. */
type Span = readonly [from: number, to: number]

const isPost = ({ name, text }: Call) => name === "recvfrom" && text.includes('"POST ')
const isAppend = ({ name, text }: Call) => /^writev?$/.test(name) && text.includes("evalsha")

/**
 * Of some posts what a tenth of them has at most, by kind: the others may have met what a worker does by the clock, and on a busy machine,
 * where each takes long, most have.
 */
const usual = (posts: readonly Counts[]): Counts =>
  Object.fromEntries(
    (Object.keys(kinds) as Kind[]).map(kind => [
      kind,
      posts.map(counts => counts[kind]).toSorted((a, b) => a - b)[Math.floor(posts.length / 10)] ?? NaN,
    ]),
  ) as Counts

const both = (one: Counts, other: Counts): Counts =>
  Object.fromEntries((Object.keys(kinds) as Kind[]).map(kind => [kind, one[kind] + other[kind]])) as Counts

test("a lone post is few reads, writes and waits of its workers, besides its answer and one write to each session", async ({
  skip,
}) => {
  await requirePrograms(skip, "strace")
  await requireTracing(skip)
  const database = await cloneDatabase()
  const server = await startProcesses({ WORKERS: "2", DATABASE_URL: database.url })
  const folder = await mkdtemp(join(tmpdir(), "starling-calls-"))
  const listeners: Listener[] = []
  try {
    const ada = await Person.register(server, "ada")
    const { id } = await ada.on(server).createServer({ name: "Quiet" })
    const [channel] = await ada.on(server).listChannels({ server_id: id })
    for (let i = 0; i < sessions; i++) listeners.push(await ada.listen(server))
    const workers = (await server.workers()).filter(({ slot }) => slot.startsWith("web"))

    /** All sessions have it. */
    const heard = (content: string) =>
      Promise.all(listeners.map(one => one.next("MESSAGE_CREATE", { where: data => data.content === content })))
    /** Each on a connection of its own, so that either worker gets some. */
    const postAlone = async (content: string) => {
      const isHeard = heard(content)
      await ask(`${server.url}/api/v1/channels/${channel!.id}/messages`, ada.token, content)
      await isHeard
    }
    for (let i = 0; i < 40; i++) await postAlone(`warm ${i}`)

    const file = join(folder, "calls")
    const traced = "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,epoll_wait,epoll_pwait"
    const pids = workers.flatMap(({ pid }) => ["-p", String(pid)])
    const strace = spawn("strace", ["-f", "-ttt", "-s", "64", "-o", file, "-e", `trace=${traced}`, ...pids], {
      stdio: "ignore",
    })
    await until("the workers are traced", async () => {
      const statuses = await Promise.all(workers.map(({ pid }) => readFile(`/proc/${pid}/status`, "utf8")))
      return statuses.every(status => /^TracerPid:\t[1-9]/m.test(status))
    })

    const lone: Span[] = []
    for (let i = 0; i < lonePosts; i++) {
      const from = Date.now() / 1_000
      await postAlone(`lone ${i}`)
      await sleep(10) // the workers wait again, as for a post that comes alone
      lone.push([from, Date.now() / 1_000])
    }
    const burstFrom = Date.now() / 1_000
    await Promise.all(
      Array.from({ length: postsInABurst }, async (_, i) => {
        const isHeard = heard(`burst ${i}`)
        await ada.on(server).createMessage({ channel_id: channel!.id, content: `burst ${i}` })
        await isHeard
      }),
    )
    const burst: Span = [burstFrom, Date.now() / 1_000]
    strace.kill("SIGINT")
    await once(strace, "exit")

    const log = await readFile(file, "utf8")
    const calls = workers.map(({ pid }) => callsIn(log, pid))
    const during = (worker: number, [from, to]: Span) => calls[worker]!.filter(({ at }) => at >= from && at <= to)
    const [row] = await database.sql<{ slot: number }[]>`
      SELECT slot FROM shards JOIN incarnations ON incarnations.id = owner WHERE shard = ${shardOf(channel!.id)}`
    const owner = workers.findIndex(({ slot }) => slot === `web ${row!.slot}`)
    const other = 1 - owner
    const came = (worker: number) => lone.filter(span => during(worker, span).some(isPost))
    const costs = (worker: number, spans: readonly Span[]) => usual(spans.map(span => count(during(worker, span))))
    const [atOwner, elsewhere] = [came(owner), came(other)]

    // The request, the commit's answer and the append's; commit and append.
    const local = { owner: costs(owner, atOwner), other: costs(other, atOwner) }
    expect(local.owner).toMatchObject({ reads: 3, toServices: 2, toClients: 1 })
    // What was appended to its log; the next two reads.
    expect(local.other).toMatchObject({ reads: 1, toServices: 1, toClients: 0 })
    // A question and its answer more.
    const remote = { owner: costs(owner, elsewhere), other: costs(other, elsewhere) }
    expect(remote.owner).toMatchObject({ reads: 3, toServices: 3, toClients: 0 })
    expect(remote.other).toMatchObject({ reads: 3, toServices: 2, toClients: 1 })
    for (const { owner, other } of [local, remote]) {
      expect(both(owner, other).toSessions).toBe(sessions)
      // A wait for each read, and a look before it; the connection comes and goes.
      for (const { reads, waits, looks } of [owner, other]) {
        expect(waits).toBeLessThanOrEqual(reads + 2)
        expect(looks).toBeLessThanOrEqual(reads + 2)
      }
    }

    // One write for each session and flush, however many messages are in it; uWebSockets.js writes 16 KiB at once.
    for (const worker of [owner, other]) {
      const reached = costs(worker, lone).toSessions
      const all = during(worker, burst)
      const appends = during(owner, burst).filter(isAppend).length
      expect(appends).toBeLessThan(postsInABurst)
      expect(count(all).toSessions).toBeLessThanOrEqual(reached * (appends + Math.ceil(postsInABurst / 16)))
    }
  } finally {
    for (const listener of listeners) listener.close()
    await server.stop()
    await database.drop()
    await rm(folder, { recursive: true, force: true })
  }
})

async function ask(url: string, token: string, content: string): Promise<void> {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` }
  const sent = request(url, { method: "POST", agent: false, headers })
  sent.end(JSON.stringify({ content }))
  const [answer] = (await once(sent, "response")) as [IncomingMessage]
  expect(answer.statusCode).toBe(200)
  answer.resume()
  await once(answer, "end")
}
