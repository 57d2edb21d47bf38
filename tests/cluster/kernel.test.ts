/** The runtime alone, with an actor that knows nothing of chat, on real PostgreSQL and Redis. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { tell, type ActorKind, type Tell } from "../../src/runtime/actor.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { defineWrite } from "../../src/storage/core/write.ts"
import { cloneDatabase, type TestDatabase } from "../kit/database.ts"
import { bootKernel, shared, type Kernel } from "../kit/kernel.ts"
import { until } from "../kit/until.ts"

interface Counter {
  readonly id: string
  count: number
}
interface CounterCommands {
  begin(input: object): string
  add(input: { by: number }): number
  /** Takes from this counter and gives to another, wherever it lives. */
  give(input: { by: number; to: string }): number
}

/** How it is kept: all counters of a batch in one statement. */
const putCounter = defineWrite<Counter>(
  "putCounter",
  (sql, rows) => sql`
    INSERT INTO counters SELECT * FROM unnest(${rows.map(row => row.id)}::bigint[], ${rows.map(row => row.count)}::int[])
    ON CONFLICT (id) DO UPDATE SET count = excluded.count`,
)
/** What a turn decides: memory, rows, what others are told, the answer. */
const counted = ({ id }: Pick<Counter, "id">, count: number, ...publish: Tell[]) => ({
  apply: (counter: Counter) => void (counter.count = count),
  write: [putCounter({ id, count })],
  publish,
  reply: count,
})

const counterActor: ActorKind<Counter, Counter, CounterCommands> = {
  kind: "counter",
  home: { name: "counter", load: id => loadCounter(id) },
  find: counter => counter,
  missing: "not_found",
  commands: {
    begin: { create: ({ id }) => ({ home: { id, count: 0 }, write: [putCounter({ id, count: 0 })], reply: id }) },
    add: { turn: ({ state: counter }, { by }) => counted(counter, counter.count + by) },
    give: {
      turn: ({ state: counter }, { by, to }) =>
        counted(
          counter,
          counter.count - by,
          tell<Counter, Counter, CounterCommands, "add">(counterActor, to, { type: "add", by }),
        ),
    },
  },
}

let database: TestDatabase
const workers: Kernel[] = []
beforeAll(async () => {
  database = await cloneDatabase()
  await database.sql`CREATE TABLE counters (id bigint PRIMARY KEY, count int NOT NULL)`
  for (let i = 0; i < 2; i++) workers.push(await bootKernel(database, [counterActor]))
  await shared(database, workers)
})
afterAll(async () => {
  for (const worker of workers) await worker.stop()
  await database.drop()
})

async function loadCounter(id: string): Promise<Counter | undefined> {
  const [row] = await database.sql<Counter[]>`SELECT id::text, count FROM counters WHERE id = ${id}`
  return row && { ...row }
}

const begin = (at: Kernel) => at.create(counterActor, { type: "begin" })
const add = (at: Kernel, id: string, by: number) => at.ask(counterActor, id, { type: "add", by })

/** A counter whose shard is with this worker. */
async function counterOf(owner: Kernel): Promise<string> {
  for (;;) {
    const id = await begin(owner)
    if (owner.shards.has(shardOf(id))) return id
  }
}

test("a counter counts, asked through any worker, and what it answers is committed", async () => {
  const [east, west] = workers as [Kernel, Kernel]
  const id = await counterOf(east)
  expect(await add(east, id, 2)).toBe(2)
  expect(await add(west, id, 3)).toBe(5)
  expect(await loadCounter(id)).toEqual({ id, count: 5 })
  await expect(add(west, "1", 1)).rejects.toMatchObject({ code: "not_found" })
})

test("asked at once by both workers, it counts every command once", async () => {
  const id = await begin(workers[0]!)
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => add(workers[i % 2]!, id, 1)))
  expect(answers.toSorted((a, b) => a - b)).toEqual(answers.map((_, i) => i + 1))
  expect(await loadCounter(id)).toEqual({ id, count: 200 })
})

test("a tell reaches another home on another worker, once", async () => {
  const [east, west] = workers as [Kernel, Kernel]
  const [here, there] = await Promise.all([counterOf(east), counterOf(west)])
  const given = Array.from({ length: 20 }, () => east.ask(counterActor, here, { type: "give", by: 1, to: there }))
  expect((await Promise.all(given)).at(-1)).toBe(-20)
  await until("it was told", async () => (await loadCounter(there))!.count >= 20)
  expect(await add(east, there, 0)).toBe(20)
})

test("what its memory held is read again by the next owner of its shard", async () => {
  const [east, west] = workers as [Kernel, Kernel]
  const id = await counterOf(east)
  await add(west, id, 7)
  await east.leave()
  expect(west.shards.has(shardOf(id))).toBe(true)
  expect(await add(west, id, 1)).toBe(8)
  expect(await add(east, id, 1)).toBe(9)
})

test("a row that was changed behind its back is not seen by a home in memory, and is by one that was loaded anew", async () => {
  const next = await bootKernel(database, [counterActor])
  workers.push(next)
  await until("it has shards", () => next.shards.size > 0)
  const id = await counterOf(next)
  await add(next, id, 1)
  await database.sql`UPDATE counters SET count = 100 WHERE id = ${id}`
  expect(await add(next, id, 1)).toBe(2)
  await database.sql`UPDATE counters SET count = 100 WHERE id = ${id}`
  await next.leave()
  expect(await add(next, id, 1)).toBe(101)
})
