/** The runtime alone, with an actor that knows nothing of chat, on real PostgreSQL and Redis. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { tell, type ActorKind, type Tell } from "../../src/runtime/actor.ts"
import { defineFact } from "../../src/runtime/facts.ts"
import { Facts } from "../../src/domain/core/facts.ts"
import { wantedPlace } from "../../src/domain/core/placement.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { defineWrite } from "../../src/storage/core/write.ts"
import { cloneDatabase, type TestDatabase } from "../kit/database.ts"
import { gauge } from "../kit/cluster.ts"
import { bootKernel, shared, type Kernel } from "../kit/kernel.ts"
import { plantedId } from "../kit/seeds.ts"
import { until } from "../kit/until.ts"

interface CounterRow {
  readonly id: string
  count: number
}
interface Counter extends CounterRow {
  readonly facts: Facts
}
interface CounterCommands {
  begin(input: object): string
  add(input: { by: number }): number
  /** Takes from this counter and gives to another, wherever it lives. */
  give(input: { by: number; to: string }): number
  /** Its owner dies of it: see `deadlyFact`. */
  die(input: object): number
}

/** Loading it ends the worker that loads it. */
let onDeadly: (counter: string) => Promise<void> = () => Promise.reject(new Error("nobody is to die"))
const deadlyFact = defineFact<Counter, true>({
  keep: 1,
  async load(_source, counter) {
    await onDeadly(counter)
    return new Promise(() => {})
  },
})

/** How it is kept: all counters of a batch in one statement. */
const putCounter = defineWrite<CounterRow>(
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
  home: { name: "counter", load: wokenCounter },
  find: counter => counter,
  missing: "not_found",
  commands: {
    begin: {
      create: ({ id }) => ({
        home: { id, count: 0, facts: new Facts() },
        write: [putCounter({ id, count: 0 })],
        reply: id,
      }),
    },
    add: { turn: ({ state: counter }, { by }) => counted(counter, counter.count + by) },
    give: {
      turn: ({ state: counter }, { by, to }) =>
        counted(
          counter,
          counter.count - by,
          tell<Counter, Counter, CounterCommands, "add">(counterActor, to, { type: "add", by }),
        ),
    },
    die: { needs: () => [deadlyFact.need("it")], turn: ({ state: counter }) => ({ reply: counter.count }) },
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

async function loadCounter(id: string): Promise<CounterRow | undefined> {
  const [row] = await database.sql<CounterRow[]>`SELECT id::text, count FROM counters WHERE id = ${id}`
  return row && { ...row }
}
async function wokenCounter(id: string): Promise<Counter | undefined> {
  const row = await loadCounter(id)
  return row && { ...row, facts: new Facts() }
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

test("what another worker refuses is counted as a refusal of its", async () => {
  const [east, west] = workers as [Kernel, Kernel]
  const refused = () => gauge(west, "starling_bus_asks_total", "refused")
  const before = await refused()
  const nobody = plantedId(shardOf(await counterOf(east)))
  await expect(add(west, nobody, 1)).rejects.toMatchObject({ code: "not_found" })
  expect(await refused()).toBe(before + 1)
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

test("ASK1: a command that its owner dies of goes to one more owner, then it is refused and the others live", async () => {
  const five: Kernel[] = []
  for (let i = 0; i < 5; i++) five.push(await bootKernel(database, [counterActor]))
  workers.push(...five)
  // Those of the tests before give away what they have.
  for (const worker of workers) if (!five.includes(worker)) await worker.leave().catch(() => {})
  await shared(database, five)
  const id = await begin(five[0]!)
  // The three that it would be with one after the other; who asks is another. In which order depends on who hears first of a
  // death.
  const places = five.map(worker => ({ worker, host: "test", slot: worker.slot }))
  const owners: Kernel[] = []
  for (let i = 0; i < 3; i++) {
    const left = places.filter(({ worker }) => !owners.includes(worker))
    owners.push(wantedPlace(shardOf(id), left)!.worker)
  }
  const asker = five.find(worker => !owners.includes(worker))!
  const died: string[] = []
  onDeadly = async () => {
    const [row] = await database.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`
    const victim = five.find(worker => worker.id === row!.owner)!
    died.push(victim.id)
    await database.sql`UPDATE incarnations SET died_at = now() WHERE id = ${victim.id}`
    for (const worker of five) if (worker !== victim) worker.membership.noteDeath(victim.id)
  }
  await expect(asker.ask(counterActor, id, { type: "die" })).rejects.toMatchObject({
    code: "unavailable",
    details: { extra: { reason: "its owners died" } },
  })
  expect(new Set(died).size).toBe(2)
  expect(died).toHaveLength(2)
  expect(await add(asker, id, 1)).toBe(1)
  const [last] = five.filter(worker => !died.includes(worker.id) && worker.shards.has(shardOf(id)))
  expect(last).toBeDefined()
})
