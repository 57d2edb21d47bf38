/** Lanes and their fence on a real PostgreSQL: what is committed, what is refused, what a raised generation waits for. */
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, afterEach, beforeAll, expect, test } from "vitest"
import { isDataError, openPool } from "../../src/storage/core/database.ts"
import { Fenced, type Batch, type Lane } from "../../src/storage/core/lanes.ts"
import type { Write } from "../../src/storage/core/write.ts"
import { putAvatar } from "../../src/storage/accounts/avatars.ts"
import { deleteMessage, insertMessage, updateContent } from "../../src/storage/messages/messages.ts"
import { readRowBody, rowBody } from "../../src/runtime/row.ts"
import { openStorage, type Storage } from "../../src/storage/storage.ts"
import { addEveryShard, cloneDatabase, type TestDatabase } from "../kit/database.ts"
import { until } from "../kit/until.ts"

let database: TestDatabase
let storage: Storage
beforeAll(async () => {
  database = await cloneDatabase()
  await addEveryShard(database.sql)
  storage = openStorage({
    url: database.url,
    name: "w",
    readConnections: 4,
    statementTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
})
afterAll(async () => {
  await storage.close()
  await database.drop()
})

const lanes: Lane[] = []
afterEach(async () => {
  for (const lane of lanes.splice(0)) await lane.close()
})

let incarnations = 0
async function openLane() {
  const incarnation = `w${++incarnations}`
  await storage.placement.enrol({ id: incarnation, host: "h", slot: 0, role: "web" }, 1)
  const lane = storage.openLane(incarnation, 0, 1)
  lanes.push(lane)
  return { incarnation, lane }
}

let ids = 0
const channel = "900"
const message = (options: { nonce?: string; content?: string } = {}) => ({
  channel_id: channel,
  id: String(1_000_000_000_000_000 + ++ids),
  server_id: null as string | null,
  author_id: "7",
  content: options.content ?? `text ${ids}`,
  reply_to_id: null as string | null,
  nonce: options.nonce ?? null,
})
type Message = ReturnType<typeof message>

let rows = 0
/** A batch of nothing but messages, or one that needs a transaction. */
function batchOf(messages: readonly Message[], kind: "statement" | "transaction" = "statement"): Batch {
  const number = ++rows
  const inserts = messages.map(one => insertMessage(one))
  const more =
    kind === "transaction"
      ? [updateContent({ channel_id: channel, id: messages[0]!.id, content: "edited", edited_at: 5 })]
      : []
  return {
    turns: [{ home: channel, writes: [...inserts, ...more] }],
    outbox: [{ shard: 5, number, last_id: messages.at(-1)!.id, body: '{"items":[],"answers":[]}' }],
  }
}
const storedRows = (list: readonly Message[]) =>
  database.sql<
    { id: string; content: string | null }[]
  >`SELECT id, content FROM messages WHERE id = ANY(${list.map(one => one.id)}::bigint[]) ORDER BY id`
const rowsAfter = (id: string) => database.sql<{ id: string }[]>`SELECT id FROM messages WHERE id > ${id} ORDER BY id`
const isWritten = (batch: Batch) => storage.placement.wasWritten(5, batch.outbox[0]!.number)

/** Holds up the statement that inserts a message with this nonce, in the middle of its batch, until told. */
async function holdUp(nonce: string) {
  const held = await database.sql.reserve()
  await held`BEGIN`
  await held`INSERT INTO messages (channel_id, id, author_id, nonce) VALUES (${channel}, ${String(++ids)}, 7, ${nonce})`
  return async () => {
    await held`ROLLBACK`
    held.release()
  }
}
async function isHeldUp(name: string): Promise<boolean> {
  const [row] = await database.sql`
    SELECT 1 FROM pg_stat_activity WHERE datname = ${database.name} AND application_name = ${name} AND wait_event_type = 'Lock'`
  return row !== undefined
}
/** One lane is open at a time where this is asked. */
const laneIsHeldUp = () => isHeldUp("w lane 0")

test.each(["statement", "transaction"] as const)(
  "a batch (%s) is written whole, with its row of the outbox",
  async kind => {
    const { lane } = await openLane()
    const messages = [message(), message({ content: "é 🐦" }), message()]
    const batch = batchOf(messages, kind)
    await lane.commit(batch)
    expect((await storedRows(messages)).map(row => row.content)).toEqual(
      kind === "transaction" ? ["edited", "é 🐦", messages[2]!.content] : messages.map(one => one.content),
    )
    expect(await isWritten(batch)).toBe(true)
  },
)

test.each(["statement", "transaction"] as const)(
  "messages of a batch (%s) come back as they were sent, whatever is in their texts",
  async kind => {
    const { lane } = await openLane()
    const odd = ['"quoted" \\ {a,b}', "line\n\u001Eend\\", "NULL", "null", "{}", "", ",", "é 🐦"]
    const sent = odd.map((text, i) => ({
      ...message({ content: text, nonce: `${kind} ${text}` }),
      server_id: i % 2 === 0 ? null : "8",
      reply_to_id: i % 3 === 0 ? null : "9",
    }))
    await lane.commit(batchOf([message(), ...sent], kind))
    const found = await database.sql`
      SELECT channel_id::text, id, server_id::text, author_id::text, content, reply_to_id::text, nonce FROM messages
      WHERE id = ANY(${sent.map(({ id }) => id)}::bigint[]) ORDER BY id`
    expect(found.map(row => ({ ...row }))).toEqual(sent)
  },
)

test("the rows of the outbox come back as they were written, whatever is in their texts", async () => {
  const { lane } = await openLane()
  const odd = ["plain", '"quoted" \\ {a,b}', "line\n\u001E\u0000end", "é 🐦 \uD800", "NULL", ""]
  const bodies = odd.map(text => rowBody([["t", "user", "7", "note", { text }]], []))
  const outbox = bodies.map((body, i) => ({ shard: 100 + i, number: 1, last_id: "1", body }))
  await lane.commit({ turns: [{ home: channel, writes: [insertMessage(message())] }], outbox })
  const found = await storage.placement.outbox(outbox.map(({ shard }) => shard))
  expect(found.toSorted((a, b) => a.shard - b.shard).map(({ body }) => body)).toEqual(bodies)
  expect(readRowBody(found.find(({ shard }) => shard === 102)!.body).items[0]![4]).toEqual({ text: odd[2] })
})

test.each(["statement", "transaction"] as const)(
  "FILE2: pictures that replace one another in one batch (%s) leave a note for each file that no row names; a dead worker's leave none",
  async kind => {
    const { lane, incarnation } = await openLane()
    const user_id = String(++ids)
    await database.sql`INSERT INTO users ${database.sql({ id: user_id, username: `u${user_id}`, created_at: 1 })}`
    const [first, second, third] = ["a", "b", "c"].map(digit => digit.repeat(32)) as [string, string, string]
    const keyOf = (file: string) => `users/${user_id}/${file}`
    const put = (file: string, former?: string) =>
      putAvatar({
        user_id,
        file,
        content_type: "image/png",
        hash: "",
        size: 1,
        key: keyOf(file),
        former: former === undefined ? undefined : keyOf(former),
        since: 5,
      })
    const commit = (...writes: Write[]) => {
      const { turns, outbox } = batchOf([message()], kind)
      const more = kind === "transaction" ? turns : []
      return lane.commit({ turns: [{ home: user_id, writes }, ...more], outbox })
    }
    const left = async () => {
      const notes = await database.sql`SELECT key FROM unused_files WHERE key LIKE ${keyOf("%")} ORDER BY key`
      const [row] = await database.sql`SELECT file FROM user_avatars WHERE user_id = ${user_id}`
      return [row?.["file"], ...notes.map(({ key }) => key as string)]
    }
    await storage.files.announce([keyOf(first), keyOf(second), keyOf(third)], 1)
    await commit(put(first))
    expect(await left()).toEqual([first, keyOf(second), keyOf(third)])
    await commit(put(second, first), put(third, second))
    expect(await left()).toEqual([third, keyOf(first), keyOf(second)])
    await storage.placement.declareDead(incarnation)
    await expect(commit(put(first, third))).rejects.toThrow(Fenced)
    rows--
    expect(await left()).toEqual([third, keyOf(first), keyOf(second)])
  },
)

test.each(["statement", "transaction"] as const)(
  "a batch (%s) with one refused row leaves nothing behind",
  async kind => {
    const { lane } = await openLane()
    const known = message({ nonce: `taken ${kind}` })
    await lane.commit(batchOf([known]))
    const guilty = [message(), message({ nonce: `taken ${kind}` }), message()]
    const batch = batchOf(guilty, kind)
    const error = await lane.commit(batch).then(
      () => undefined,
      (failure: unknown) => failure,
    )
    expect(isDataError(error)).toBe(true)
    expect(await storedRows(guilty)).toEqual([])
    expect(await isWritten(batch)).toBe(false)
    rows-- // numbers have no hole
    await lane.commit(batchOf([message()]))
  },
)

test.each(["statement", "transaction"] as const)(
  "P7: a batch (%s) of a worker that was declared dead is refused whole",
  async kind => {
    const { lane, incarnation } = await openLane()
    await lane.commit(batchOf([message()], kind))
    expect(await storage.placement.declareDead(incarnation)).toBe(true)
    expect(await storage.placement.declareDead(incarnation)).toBe(false)
    expect(await storage.placement.isDead(incarnation)).toBe(true)
    const late = [message(), message()]
    const batch = batchOf(late, kind)
    await expect(lane.commit(batch)).rejects.toThrow(Fenced)
    expect(await storedRows(late)).toEqual([])
    expect(await isWritten(batch)).toBe(false)
    rows--
    await expect(lane.raise()).rejects.toThrow(Fenced)
  },
)

test.each(["statement", "transaction"] as const)(
  "LANE2, P7: declaring dead waits for the batch (%s) in flight, and what it wrote stands",
  async kind => {
    const { lane, incarnation } = await openLane()
    const goOn = await holdUp(`held up ${kind}`)
    const messages = [message(), message({ nonce: `held up ${kind}` })]
    const commit = lane.commit(batchOf(messages, kind))
    await until("the batch waits", laneIsHeldUp)

    let declared = false
    const death = storage.placement.declareDead(incarnation).then(() => (declared = true))
    await until("the declaration waits", () => isHeldUp("w"))
    expect(declared).toBe(false)

    await goOn()
    await commit
    await death
    expect(await storedRows(messages)).toHaveLength(2)
    await expect(lane.commit(batchOf([message()]))).rejects.toThrow(Fenced)
    rows--
  },
)

test("P7: a batch that came too late for its table is refused when it gets there", async () => {
  const { lane, incarnation } = await openLane()
  const held = await database.sql.reserve()
  await held`BEGIN`
  await held`LOCK TABLE outbox IN SHARE MODE`
  const late = [message()]
  const commit = lane.commit(batchOf(late))
  commit.catch(() => {})
  await until("the batch waits", laneIsHeldUp)
  await storage.placement.declareDead(incarnation)
  await held`COMMIT`
  held.release()
  await expect(commit).rejects.toThrow(Fenced)
  rows--
  expect(await storedRows(late)).toEqual([])
})

test("LANE1, P7: under a race, exactly those batches stand whose commit was answered", async () => {
  for (let round = 0; round < 10; round++) {
    const { lane, incarnation } = await openLane()
    const before = message().id
    const answered: Message[] = []
    const refused: Message[] = []
    let over = false
    const writing = (async () => {
      for (let i = 0; !over; i++) {
        const one = message()
        try {
          await lane.commit(batchOf([one], i % 2 === 0 ? "statement" : "transaction"))
          answered.push(one)
        } catch (error) {
          expect(error).toBeInstanceOf(Fenced)
          rows--
          refused.push(one)
          over = true
        }
      }
    })()
    await until("some are answered", () => answered.length > round)
    await storage.placement.declareDead(incarnation)
    const standing = await rowsAfter(before)
    await writing
    expect(refused).toHaveLength(1)
    expect(await rowsAfter(before)).toEqual(standing)
    expect(standing.map(row => row.id)).toEqual(answered.map(one => one.id))
  }
})

test("P7: an owner that is paused within a transaction holds nobody up for much longer than a second", async () => {
  const { incarnation } = await openLane()
  const paused = openPool({
    url: database.url,
    connections: 1,
    statementTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
    name: "paused",
    idleInTransactionTimeoutMs: 1_000,
  })
  const transaction = paused.begin(async sql => {
    await sql`SELECT 1 FROM lanes WHERE incarnation = ${incarnation} FOR SHARE`
    await sleep(3_000)
    await sql`INSERT INTO messages (channel_id, id, author_id) VALUES (1, 1, 1)`
  })
  const outcome = transaction.then(
    () => "committed",
    () => "ended",
  )
  await until("the row is locked", async () => {
    const [row] =
      await database.sql`SELECT 1 FROM pg_stat_activity WHERE application_name = 'paused' AND state = 'idle in transaction'`
    return row !== undefined
  })
  const startedAt = performance.now()
  await storage.placement.declareDead(incarnation)
  expect(performance.now() - startedAt).toBeLessThan(2_000)
  expect(await outcome).toBe("ended")
  expect(await database.sql`SELECT 1 FROM messages WHERE channel_id = 1`).toHaveLength(0)
  await paused.end({ timeout: 1 })
})

test("COMMIT3: after a lost connection the raised generation shuts out what was in flight, and the lane goes on", async () => {
  const { lane } = await openLane()
  await lane.commit(batchOf([message()]))
  const goOn = await holdUp("lost")
  const lost = [message({ nonce: "lost" })]
  const batch = batchOf(lost)
  const commit = lane.commit(batch).then(
    () => undefined,
    (failure: unknown) => failure,
  )
  await until("the batch waits", laneIsHeldUp)
  const [ended] = await database.sql`
    SELECT pg_terminate_backend(pid) AS done FROM pg_stat_activity WHERE application_name = 'w lane 0' AND datname = ${database.name}`
  expect(ended!["done"]).toBe(true)
  const error = await commit
  expect(error).toBeInstanceOf(Error)
  expect(isDataError(error)).toBe(false)
  await goOn()

  // postgres.js 3.4.9 fails the first query of a new connection with the error that ended the old one: the caller repeats.
  await until("the generation is raised", () =>
    lane.raise().then(
      () => true,
      (failure: unknown) => {
        if (failure instanceof Fenced) throw failure
        return false
      },
    ),
  )
  expect(await isWritten(batch)).toBe(false)
  rows--
  await lane.commit(batchOf(lost))
  expect(await storedRows(lost)).toHaveLength(1)
})

test("COMMIT3: a committed batch whose answer was lost is found in the outbox, by its number alone", async () => {
  const { lane } = await openLane()
  const batch = batchOf([message()])
  await lane.commit(batch)
  await lane.raise()
  expect(await isWritten(batch)).toBe(true)
  // Older rows may have been swept; the newest never is.
  await database.sql`DELETE FROM outbox WHERE shard = 5 AND number < ${batch.outbox[0]!.number}`
  expect(await isWritten(batch)).toBe(true)
  expect(await storage.placement.wasWritten(5, batch.outbox[0]!.number + 1)).toBe(false)
  expect(await storage.placement.wasWritten(6, 1)).toBe(false)
})

test("a batch that PostgreSQL takes back because it and another wait for each other is written after all", async () => {
  const { lane } = await openLane()
  const [edited, deleted] = [message(), message()]
  await lane.commit(batchOf([edited, deleted]))
  const held = await database.sql.reserve()
  const lock = ({ id }: Message) => held`SELECT FROM messages WHERE channel_id = ${channel} AND id = ${id} FOR UPDATE`
  await held`BEGIN`
  // The one that looks first whether both wait for each other is taken back.
  await held`SET LOCAL deadlock_timeout = '10s'`
  await lock(deleted)
  const commit = lane.commit({
    turns: [
      {
        home: channel,
        writes: [
          updateContent({ channel_id: channel, id: edited.id, content: "edited", edited_at: 5 }),
          deleteMessage({ channel_id: channel, id: deleted.id, isLeft: false }),
        ],
      },
    ],
    outbox: [{ shard: 5, number: ++rows, last_id: deleted.id, body: "{}" }],
  })
  await until("the batch waits", laneIsHeldUp)
  await lock(edited)
  await held`COMMIT`
  held.release()
  await commit
  expect(await storedRows([edited, deleted])).toEqual([{ id: edited.id, content: "edited" }])
})

test("the generation belongs to one lane: a worker that still writes under the old one is refused", async () => {
  const { lane, incarnation } = await openLane()
  const twin = storage.openLane(incarnation, 0, 1)
  lanes.push(twin)
  await twin.commit(batchOf([message()]))
  await lane.raise()
  await expect(twin.commit(batchOf([message()]))).rejects.toThrow(Fenced)
  rows--
  await lane.commit(batchOf([message()]))
})

test("MSG3: a deleted message's nonce is kept, and found without its content", async () => {
  const { lane } = await openLane()
  await database.sql`INSERT INTO users (id, username, created_at) VALUES (7, 'ada', 0) ON CONFLICT DO NOTHING`
  const one = message({ nonce: "kept" })
  await lane.commit(batchOf([one]))
  await lane.commit({
    turns: [
      { home: channel, writes: [deleteMessage({ channel_id: channel, id: one.id, isLeft: one.nonce !== null })] },
    ],
    outbox: [{ shard: 5, number: ++rows, last_id: one.id, body: "{}" }],
  })
  const found = await storage.messages.byNonces([{ channel, author: "7", nonce: "kept" }])
  expect([...found.values()]).toMatchObject([{ id: one.id, content: null, deleted: true, nonce: "kept" }])
})

/** As a taker or an owner has seen them. */
const at = (epoch: number, ...shards: number[]) => shards.map(shard => ({ shard, epoch }))

test("BAL1: a shard without a living owner is taken by exactly one of many", async () => {
  const takers = await Promise.all([openLane(), openLane(), openLane()])
  for (let round = 0; round < 20; round++) {
    const dead = await openLane()
    const shards = [round * 4, round * 4 + 1, round * 4 + 2, round * 4 + 3]
    expect(await storage.placement.take(at(0, ...shards), dead.incarnation)).toHaveLength(4)
    expect(await storage.placement.take(at(1, ...shards), takers[0].incarnation)).toEqual([])
    await storage.placement.declareDead(dead.incarnation)
    const taken = await Promise.all(
      takers.map(({ incarnation }) => storage.placement.take(at(1, ...shards), incarnation)),
    )
    expect(
      taken
        .flat()
        .map(row => [row.shard, row.epoch])
        .toSorted(([a], [b]) => a! - b!),
    ).toEqual(shards.map(shard => [shard, 2]))
    // What was seen is over.
    expect(await storage.placement.take(at(1, ...shards), takers[0].incarnation)).toEqual([])
    await lanes.pop()!.close()
  }
})

test("BAL1: only the owner gives a shard away; who is dead takes nothing and is given nothing", async () => {
  const [owner, other, dead] = await Promise.all([openLane(), openLane(), openLane()])
  await storage.placement.take(at(0, 1001, 1002), owner.incarnation)
  await storage.placement.declareDead(dead.incarnation)
  expect(await storage.placement.take(at(0, 1003), dead.incarnation)).toEqual([])
  expect(await storage.placement.handOver(at(1, 1001), other.incarnation, other.incarnation)).toEqual([])
  expect(await storage.placement.handOver(at(1, 1001), owner.incarnation, other.incarnation)).toEqual([
    { shard: 1001, owner: other.incarnation, epoch: 2 },
  ])
  expect(await storage.placement.handOver(at(1, 1002), owner.incarnation, dead.incarnation)).toEqual([
    { shard: 1002, owner: null, epoch: 2 },
  ])
})

test("BAL6: a hand-over that its owner has given up finds nothing once the owner has raised the epoch", async () => {
  const [owner, other] = await Promise.all([openLane(), openLane()])
  const seen = at(1, 1010, 1011)
  await storage.placement.take(at(0, 1010, 1011), owner.incarnation)
  const kept = await storage.placement.handOver(seen, owner.incarnation, owner.incarnation)
  expect(kept.map(({ owner, epoch }) => [owner, epoch])).toEqual(seen.map(() => [owner.incarnation, 2]))
  expect(await storage.placement.handOver(seen, owner.incarnation, other.incarnation)).toEqual([])
  expect((await storage.placement.shards([1010])).map(({ owner }) => owner)).toEqual([owner.incarnation])
})
