/**
 * `npm run bench -- batch`: what one batch of posts costs PostgreSQL, and this process, which makes and
 * sends it: as it is, with other forms of the outbox's row, without the row, without the fence. All
 * write to one database in turns, in another order each time, and what is shown is the difference of
 * each turn.
 */
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { messageCreate } from "../src/contract/messages/messages.ts"
import { viewersOf } from "../src/domain/core/audience.ts"
import { epochMs, idOf } from "../src/domain/core/snowflake.ts"
import { newMessageTexts } from "../src/domain/messages/message-text.ts"
import { newMessage, type MessageState } from "../src/domain/messages/messages.ts"
import { RawJson, rowBody, toItem } from "../src/runtime/row.ts"
import { openPool, type Sql } from "../src/storage/core/database.ts"
import { startEmbeddedPostgres } from "../src/storage/core/embedded.ts"
import type { Batch, Lane } from "../src/storage/core/lanes.ts"
import { migrate } from "../src/storage/core/migrate.ts"
import { insertMessage } from "../src/storage/messages/messages.ts"
import { openStorage } from "../src/storage/storage.ts"
import { readCount } from "./arguments.ts"
import { median, medianInterval } from "./statistics.ts"

const batchesInATurn = 30

const usage = `npm run bench -- batch [--posts 32] [--shards 16] [--turns 60]

--posts   in a batch; every second one comes from another worker, whose answer is kept
--shards  over which they are spread
--turns   of ${batchesInATurn} batches for each form`
const warmUpTurns = 4
const timeouts = { statementTimeoutMs: 10_000, connectTimeoutMs: 5_000 }

interface Posted {
  readonly state: MessageState
  readonly server: string
  readonly requestId: string
}

/** The items and answers of a row, as JSON without the brackets around them. */
interface Form {
  readonly name: string
  readonly item: (posted: Posted) => string
  readonly answer: (posted: Posted) => string
  /** Takes something out of the lane. */
  readonly without?: (lane: Lane) => void
}

const fullItem = ({ state, server }: Posted): string => {
  const { channel_id, id } = state
  const data = new RawJson(newMessageTexts(state)!.forAll)
  const item = toItem(server, {
    kind: "event",
    event: messageCreate,
    audience: viewersOf(server, channel_id),
    data,
    except: [],
    about: [channel_id, id],
  })
  return rowBody([item], []).slice('{"items":['.length, -'],"answers":[]}'.length)
}
const namedAnswer = ({ state, requestId }: Posted): string =>
  JSON.stringify([requestId, { sentBefore: state.id, server_id: state.server_id }])
const fullAnswer = ({ state, requestId }: Posted): string =>
  JSON.stringify([requestId, { text: newMessageTexts(state)!.forAuthor }])
/** What is not the same in every message. */
const shortItem = ({ state, server }: Posted): string => {
  const { channel_id, id, author_id, author_username, content, reply_to_id, nonce } = state
  return JSON.stringify(["m", server, channel_id, id, author_id, author_username, content, reply_to_id, nonce])
}
const nameAlone = ({ state, server }: Posted): string =>
  JSON.stringify(["m", server, state.channel_id, state.id, state.author_username])

const nothing = () => ({ text: () => "SELECT 1", parameters: [] })
const asIs = { item: fullItem, answer: namedAnswer }
const forms: readonly Form[] = [
  { name: "as it is", ...asIs },
  { name: "answers kept whole", item: fullItem, answer: fullAnswer },
  { name: "events in short", item: shortItem, answer: namedAnswer },
  { name: "events named", item: nameAlone, answer: namedAnswer },
  { name: "without the outbox", ...asIs, without: lane => (lane.keep = nothing) },
  { name: "without the fence", ...asIs, without: lane => (lane.fence = nothing) },
]

/** Servers with a channel and four authors each, who post in turns. */
class Posts {
  readonly #homes: readonly { server: string; channel: string; authors: readonly string[] }[]
  #ids = 0
  #batches = 0

  constructor(shards: number) {
    this.#homes = Array.from({ length: shards }, (_, shard) => {
      const id = () => this.#newId(shard)
      return { server: id(), channel: id(), authors: [id(), id(), id(), id()] }
    })
  }

  #newId(shard: number): string {
    const made = ++this.#ids
    return idOf(shard, { ms: epochMs + 9_000_000_000 + Math.floor(made / 4_000), sequence: made % 4_000 })
  }

  #post(n: number): Posted & { readonly shard: number } {
    const shard = n % this.#homes.length
    const { server, channel, authors } = this.#homes[shard]!
    const number = String(this.#ids).padStart(8, "0")
    const state = newMessage(
      { channel_id: channel, server_id: server },
      { id: authors[n % authors.length]!, username: "bench_000012", bot: false, badges: [] },
      { content: `#~${number}${" the quick brown fox jumps over the lazy dog".repeat(2)}`, nonce: `abcdef-${number}` },
      [],
      { now: 0, newId: () => this.#newId(shard) },
    )
    return { state, server, shard, requestId: `w0-1f2e3d4c.${number}` }
  }

  batch({ item, answer }: Form, count: number): Batch {
    const number = ++this.#batches
    const rows = new Map<number, { items: string[]; answers: string[]; last_id: string }>()
    const turns = Array.from({ length: count }, (_, n) => {
      const posted = this.#post(n)
      const row = rows.get(posted.shard) ?? { items: [], answers: [], last_id: "" }
      rows.set(posted.shard, row)
      row.items.push(item(posted))
      if ((n / this.#homes.length) % 2 < 1) row.answers.push(answer(posted))
      row.last_id = posted.state.id
      return { home: posted.server, writes: [insertMessage(posted.state)] }
    })
    const outbox = [...rows].map(([shard, { items, answers, last_id }]) => ({
      shard,
      number,
      last_id,
      body: `{"items":[${items.join(",")}],"answers":[${answers.join(",")}]}`,
    }))
    return { turns, outbox }
  }
}

/** Microseconds that a process has run on a core. */
const cpuOf = async (pid: number): Promise<number> =>
  Number((await readFile(`/proc/${pid}/schedstat`, "latin1")).split(" ")[0]) / 1_000

async function openSide(sql: Sql, url: string, form: Form, n: number) {
  const name = `side${n}`
  const storage = openStorage({ url, name, readConnections: 1, ...timeouts })
  await storage.placement.enrol({ id: name, host: "bench", slot: n, role: "web" }, 1)
  const lane = storage.openLane(name, 0, 1)
  form.without?.(lane)
  await lane.commit({ turns: [], outbox: [{ shard: 1_000 + n, number: 1, last_id: "0", body: "{}" }] })
  const [backend] = await sql<{ pid: number }[]>`
    SELECT pid FROM pg_stat_activity WHERE application_name = ${`${name} lane 0`}`
  const close = async () => {
    await lane.close()
    await storage.close()
  }
  return { form, lane, pid: backend!.pid, close, postgres: [] as number[], node: [] as number[] }
}

export async function benchBatch(args: string[], say: (what: string) => void): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { posts: { type: "string" }, shards: { type: "string" }, turns: { type: "string" } },
  })
  const count = readCount("posts", values.posts, 32, 200, usage)
  const shards = readCount("shards", values.shards, 16, 200, usage)
  const turns = readCount("turns", values.turns, 60, 1_000, usage)
  const folder = await mkdtemp(join(tmpdir(), "starling-bench-"))
  await chmod(folder, 0o755)
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const postgres = await startEmbeddedPostgres({ dataDir: folder, log: quiet })
  try {
    await migrate(postgres.url)
    const sql = openPool({ url: postgres.url, name: "bench", connections: 1, ...timeouts })
    const posts = new Posts(shards)
    const sides = await Promise.all(forms.map((form, n) => openSide(sql, postgres.url, form, n)))
    for (let turn = -warmUpTurns; turn < turns; turn++) {
      if (turn % 20 === 0) say(`turn ${turn}`)
      for (const side of turn % 2 === 0 ? sides : sides.toReversed()) {
        const batches = Array.from({ length: batchesInATurn }, () => posts.batch(side.form, count))
        const before = { postgres: await cpuOf(side.pid), node: process.cpuUsage() }
        for (const batch of batches) await side.lane.commit(batch)
        const { user, system } = process.cpuUsage(before.node)
        if (turn < 0) continue
        side.node.push((user + system) / batchesInATurn / count)
        side.postgres.push(((await cpuOf(side.pid)) - before.postgres) / batchesInATurn / count)
      }
    }
    const lines = sides.map((side, n) => {
      const cells = (["postgres", "node"] as const).map(part => {
        const { median: middle, from, to } = medianInterval(side[part].map((cpu, i) => cpu - sides[0]![part][i]!))
        const range = n === 0 ? "" : ` (${middle.toFixed(1)}; ${from.toFixed(1)} to ${to.toFixed(1)})`
        return `${median(side[part]).toFixed(1)} µs${range}`
      })
      const bytes = posts.batch(side.form, count).outbox.reduce((sum, { body }) => sum + body.length, 0) / count
      return `| ${side.form.name} | ${bytes.toFixed(0)} | ${cells.join(" | ")} |`
    })
    process.stdout.write(
      `${count} posts of ${shards} shards in a batch; µs of CPU per post (difference to the first line, and where its median lies)\n\n` +
        `| | bytes in the outbox | PostgreSQL | Node |\n|---|---|---|---|\n${lines.join("\n")}\n`,
    )
    for (const side of sides) await side.close()
    await sql.end({ timeout: 1 })
  } finally {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
