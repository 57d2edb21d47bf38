/**
 * P5, P10: a worker is killed with thousands of sessions, and all of them come back to the others
 * at once.
 */
import { setTimeout as sleep } from "node:timers/promises"
import type { ServerFrame } from "../../client/gateway.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import type { Cluster } from "../kit/cluster.ts"
import { machineBounds, quantile } from "../kit/load.ts"
import { usualIntents, type Person } from "../kit/person.ts"
import { plantedId, testShards } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** `STORM_SESSIONS=5000 npm test -- tests/gateway/resume-storm.test.ts` makes a larger storm. */
const sessions = Number(process.env["STORM_SESSIONS"] ?? 2_400)
const serverCount = 20

interface Community {
  readonly server: string
  readonly channel: string
}

/**
 * Users with sessions, in the tables only: to register thousands would take minutes. Ada is in
 * every server.
 */
async function plant({ sql }: Cluster, ada: Person): Promise<{ list: Community[]; tokens: string[] }> {
  const users = Array.from({ length: sessions }, (_, i) => {
    const session = plantedId(testShards[i % testShards.length])
    const secret = newSecret()
    return {
      id: plantedId(testShards[i % testShards.length]),
      session,
      token: `${session}.${secret}`,
      hash: hashSecret(secret),
    }
  })
  await sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT id, 'member_' || n, 'member_' || n || '@example.invalid', 1704153600
    FROM unnest(${users.map(({ id }) => id)}::bigint[]) WITH ORDINALITY AS u (id, n)`
  await sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT id, user_id, hash, '127.0.0.1', 'starling-tests', 1704153600, 4102444800, extract(epoch FROM now())::bigint
    FROM unnest(${users.map(({ session }) => session)}::bigint[], ${users.map(({ id }) => id)}::bigint[],
      ${users.map(({ hash }) => hash)}::text[]) AS s (id, user_id, hash)`
  const list: Community[] = []
  for (let index = 0; index < serverCount; index++) {
    const shard = testShards[index % testShards.length]!
    const [server, channel] = [plantedId(shard), plantedId(shard)]
    list.push({ server, channel })
    const members = [ada.id, ...users.filter((_, i) => i % serverCount === index).map(({ id }) => id)]
    await sql`
      INSERT INTO servers (id, name, owner_id, member_count, created_at)
      VALUES (${server}, 'Crowded', ${ada.id}, ${members.length}, 1704153600)`
    await sql`
      INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
      VALUES (${server}, ${server}, '@everyone', '#000000', 0, false, false, ${[...grantedAtCreation]}::text[])`
    await sql`
      INSERT INTO members (server_id, user_id, joined_at)
      SELECT ${server}, id, 1704153600 FROM unnest(${members}::bigint[]) AS id`
    await sql`
      INSERT INTO channels (id, server_id, name, channel_type, position, nsfw, slowmode_seconds, read_receipts_enabled, created_at)
      VALUES (${channel}, ${server}, 'general', 'text', 0, false, 0, true, 1704153600)`
  }
  await sql`ANALYZE`
  return { list, tokens: users.map(({ token }) => token) }
}

/** A client that comes back at once and keeps nothing but the ids that it heard. */
class Guest {
  readonly heard: string[] = []
  /** Milliseconds from the end of a connection to RESUMED. */
  readonly away: number[] = []
  refused = 0
  live = false
  /** How often the session was resumed. */
  resumed = 0
  readonly #url: string
  readonly #token: string
  #session: string | undefined
  #seq = 0
  #leftAt = 0
  #socket: NodeWebSocket | undefined
  #isOver = false

  constructor(url: string, token: string) {
    this.#url = url
    this.#token = token
  }

  connect(): void {
    const socket = new NodeWebSocket(this.#url)
    this.#socket = socket
    /* oxlint-disable unicorn/prefer-add-event-listener */
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data as string) as ServerFrame)
    socket.onclose = () => {
      if (this.live) this.#leftAt = performance.now()
      this.live = false
      if (!this.#isOver) setTimeout(() => this.connect(), 20 + Math.random() * 200).unref()
    }
    /* oxlint-enable unicorn/prefer-add-event-listener */
  }

  beat(): void {
    this.#socket?.send('{"op":1}')
  }

  leave(): void {
    this.#isOver = true
    this.#socket?.terminate()
  }

  #take({ op, d, s, t }: ServerFrame): void {
    if (op === 10) {
      const token = this.#token
      const hello = this.#session
        ? { op: 6, d: { token, session_id: this.#session, seq: this.#seq } }
        : { op: 2, d: { token, intents: usualIntents } }
      this.#socket!.send(JSON.stringify(hello))
    } else if (op === 9) {
      this.refused++
      this.#session = undefined
      this.#socket!.terminate()
    }
    if (op !== 0) return
    this.#seq = s!
    if (t === "MESSAGE_CREATE") this.heard.push((d as { id: string }).id)
    else if (t === "READY" || t === "RESUMED") {
      if (t === "READY") this.#session = (d as { session_id: string }).session_id
      else this.resumed++
      if (this.#leftAt > 0) this.away.push(performance.now() - this.#leftAt)
      this.live = true
    }
  }
}

test(
  `P5, P10: ${sessions} sessions, their worker killed and another drained meanwhile: all go on, once and in order`,
  {
    timeout: 400_000,
  },
  async ({ cluster }) => {
    const starling = await cluster.processes(2)
    const ada = await cluster.person("ada", starling)
    const { list, tokens } = await plant(cluster, ada)
    const url = `${starling.url.replace("http", "ws")}/gateway`
    const guests = tokens.map(token => new Guest(url, token))
    const isAllLive = () => guests.every(({ live }) => live)
    const beating = setInterval(() => guests.forEach(guest => guest.live && guest.beat()), 30_000)
    const { sql } = cluster
    const transactions = async () =>
      Number(
        (
          await sql<{ n: string }[]>`
          SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()`
        )[0]!.n,
      )
    /** What is counted in the processes that live. */
    const sum = (series: ReadonlyMap<string, number>, name: string) =>
      [...series].reduce((all, [key, value]) => (key.startsWith(name) ? all + value : all), 0)
    try {
      for (let i = 0; i < guests.length; i += 250) {
        const wave = guests.slice(i, i + 250)
        for (const guest of wave) guest.connect()
        await until("a wave has READY", () => wave.every(({ live }) => live), { timeoutMs: 120_000 })
      }

      const over = new AbortController()
      const acked: string[][] = list.map(() => [])
      const faults: unknown[] = []
      const post = async (index: number, content: string) => {
        for (;;) {
          try {
            const input = { channel_id: list[index]!.channel, content, nonce: content }
            acked[index]!.push((await ada.on(starling).createMessage(input)).id)
            return
          } catch (error) {
            // A killed worker's connections end; nobody may answer with a fault.
            if ((error as { status?: number }).status !== undefined) faults.push(String(error))
            await sleep(20)
          }
        }
      }
      const posting = list.map(async (_, index) => {
        for (let n = 0; !over.signal.aborted; n++) {
          await post(index, `${index}:${n}`)
          await sleep(400)
        }
      })
      let maxConnections = 0
      const watching = setInterval(() => {
        sql<{ n: number }[]>`
        SELECT count(*)::int AS n FROM pg_stat_activity
        WHERE datname = current_database() AND application_name <> 'test'`.then(
          ([row]) => (maxConnections = Math.max(maxConnections, row!.n)),
          () => {},
        )
      }, 100)
      await until("everybody has heard something", () => guests.every(({ heard }) => heard.length > 0))
      // What the posting and the program itself ask PostgreSQL is no part of the storm; the longer
      // that lasts, the more it is.
      const quietBefore = await transactions()
      await sleep(2_000)
      const quietStatements = ((await transactions()) - quietBefore) / 2

      const web = (await starling.workers()).filter(({ slot }) => slot.startsWith("web"))
      const statementsBefore = await transactions()
      const bound = machineBounds()
      const startedAt = performance.now()
      starling.kill(web[0]!.pid, "SIGKILL")
      await until("the storm has begun", () => guests.some(({ live }) => !live))
      const victims = guests.filter(({ live }) => !live).length
      await until("half of them are back", () => guests.filter(({ live }) => !live).length < victims / 2, {
        timeoutMs: 120_000,
      })
      starling.kill(web[1]!.pid, "SIGTERM")
      await until(
        "the drained worker is gone",
        async () => {
          return !(await starling.workers()).some(({ pid }) => pid === web[1]!.pid)
        },
        { timeoutMs: 120_000, everyMs: 100 },
      )
      await until("all are back", isAllLive, { timeoutMs: 120_000, everyMs: 20 })
      const seconds = (performance.now() - startedAt) / 1_000
      const statements = (await transactions()) - statementsBefore
      clearInterval(watching)
      over.abort()
      await Promise.all(posting)
      for (const index of list.keys()) await post(index, `${index}:last`)

      const history = new Map<number, string[]>()
      for (const [index, { channel }] of list.entries()) {
        const rows = await sql<{ id: string }[]>`SELECT id FROM messages WHERE channel_id = ${channel} ORDER BY id`
        history.set(
          index,
          rows.map(({ id }) => id),
        )
        expect(acked[index]!, "P1, P3").toEqual(history.get(index))
      }
      const isWhole = (guest: Guest, i: number) => guest.heard.at(-1) === history.get(i % serverCount)!.at(-1)
      await until("everybody has the last of it", () => guests.every(isWhole), { timeoutMs: 120_000, everyMs: 20 })
      const broken = guests.flatMap(({ heard }, i) => {
        // Sessions that came later than the first messages have all from then on.
        const all = history.get(i % serverCount)!
        return heard.join() === all.slice(all.indexOf(heard[0]!)).join() ? [] : [i]
      })
      expect(
        guests.reduce((all, { refused }) => all + refused, 0),
        "P6: sessions that were refused",
      ).toBe(0)
      expect(broken, "P5: sessions with a hole, a repeat or another order").toEqual([])
      expect(faults, "P10: faults of REST").toEqual([])

      const resumed = guests.reduce((all, guest) => all + guest.resumed, 0)
      const away = guests.flatMap(guest => guest.away)
      const series = await starling.metrics()
      const figures = {
        sessions,
        resumed,
        seconds: Math.round(seconds * 10) / 10,
        awayP50: Math.round(quantile(away, 0.5)),
        awayP99: Math.round(quantile(away, 0.99)),
        statements,
        quietStatements,
        maxConnections,
        reads: sum(series, "starling_gateway_replay_reads_total"),
        joins: sum(series, "starling_gateway_joins_total"),
        membershipQueries: sum(series, "starling_gateway_membership_queries_total"),
        registrations: sum(series, "starling_gateway_registrations_total"),
        fromDead: sum(series, 'starling_gateway_resumes_total{outcome="dead_worker"'),
      }
      console.log("resume storm", JSON.stringify(figures))
      expect(resumed).toBeGreaterThanOrEqual(sessions / 4)
      expect(figures.fromDead).toBeGreaterThan(0)
      // Not one statement a session. A log is read once for all who come from it to a worker, and
      // on as it grows; a dead worker's is joined once, that of one who leaves anew when it has
      // grown.
      expect(statements - quietStatements * seconds).toBeLessThan(resumed / 2)
      expect(figures.membershipQueries).toBeLessThan(resumed / 10)
      expect(figures.reads).toBeLessThan(resumed / 20)
      expect(figures.joins).toBeLessThan(resumed / 40)
      // Six to read with, one lane and its like, for each process, and as many more while one
      // replaces another.
      expect(maxConnections).toBeLessThanOrEqual(60)
      expect(seconds * 1_000).toBeLessThan(bound(60_000))
    } finally {
      clearInterval(beating)
      for (const guest of guests) guest.leave()
    }
  },
)
