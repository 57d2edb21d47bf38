import postgres from "postgres"
import { afterAll, expect, test } from "vitest"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { defineWrite } from "../storage/core/write.ts"
import { systemClock } from "../std/system-clock.ts"
import { Home } from "./home.ts"
import { CommitQueue, type Publisher } from "./commit-queue.ts"
import { RawJson, type RowItem } from "./row.ts"
import { Shard } from "./shard.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

/** A lane of a database that has each thing once, and the turns that would write one. */
function laneOf(publisher: Publisher, { clock = systemClock, taking = () => Promise.resolve() } = {}) {
  const refused = new postgres.PostgresError("taken")
  Object.assign(refused, { code: "23505", constraint_name: "things_pkey" })
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  const kept = new Set<string>()
  const batches: string[][] = []
  const queue = new CommitQueue({
    lane: {
      async commit({ turns }) {
        await taking()
        const things = turns.flatMap(({ writes }) => writes.map(write => (write.row as { thing: string }).thing))
        if (things.some(thing => kept.has(thing))) throw refused
        for (const thing of things) kept.add(thing)
        batches.push(things)
      },
      raise: () => Promise.resolve(),
    },
    publisher,
    bounds: { batch: 10, unpublishedBatches: 10 },
    wasWritten: () => Promise.resolve(false),
    dropHome: home => home.drop(),
    onDisowned: () => {},
    onFenced: () => {},
    clock,
    log: silentLog,
    metrics,
  })
  const insertThing = defineWrite<{ thing: string }>("insertThing", sql => sql``, { things_pkey: "done" })
  const keep = (thing: string, items: readonly RowItem[] = []) => {
    const home = new Home("1", shard, {}, 0)
    const writes = [insertThing({ thing })]
    return new Promise((resolve, reject) =>
      queue.add({
        shard,
        home,
        writes,
        items,
        requestId: undefined,
        keptReply: undefined,
        reply: "mine",
        resolve,
        reject,
      }),
    )
  }
  return { queue, keep, batches }
}

test("who waits for the end of a batch is told, also when its only turn was refused", async () => {
  const publish = (_rows: unknown, published: () => void, inEffect?: () => void) => {
    published()
    inEffect?.()
  }
  const { queue, keep } = laneOf({ behind: 0, publish })
  await expect(keep("gull")).resolves.toBe("mine")
  const turn = keep("gull")
  const barrier = new Promise<void>((resolve, reject) => queue.add({ barrier: resolve, reject }))
  // It was done before; and what waited behind it goes on.
  await expect(turn).resolves.toBeUndefined()
  await expect(barrier).resolves.toBeUndefined()
})

test("COMMIT1: what was done before is answered when that has been published, not as soon as it is committed", async () => {
  const waiting: (() => void)[] = []
  const { queue, keep } = laneOf({
    behind: 0,
    publish: (_rows, published, inEffect) => void waiting.push(published, ...(inEffect ? [inEffect] : [])),
  })
  const committed = () =>
    new Promise<void>((resolve, reject) => queue.add({ committed: resolve, barrier: () => {}, reject }))
  const answers: unknown[] = []
  const note = (answer: unknown) => void answers.push(answer)
  const first = keep("gull").then(note)
  await committed()
  const again = keep("gull").then(note)
  await committed()
  // It has been refused by now.
  await new Promise(resolve => setImmediate(resolve))
  expect(answers).toEqual([])
  for (const published of waiting) published()
  await Promise.all([first, again])
  expect(answers).toEqual(["mine", undefined])
})

test("a batch ends with the turn with which its events reach a megabyte of UTF-8, in order and with nobody left out", async () => {
  const { keep, batches } = laneOf({ behind: 0, publish: (_rows, published) => published() })
  const event = (characters: number): RowItem[] => [
    ["e", "1", { kind: "user", user: "1" }, "MESSAGE_CREATE", [], new RawJson("漢".repeat(characters))],
  ]
  const sizes = [100_000, 100_000, 100_000, 100_000, 1_000_000, 1, 1, 1]
  await Promise.all(sizes.map((size, i) => keep(`${i}`, event(size))))
  expect(batches).toEqual([["0", "1", "2", "3"], ["4"], ["5", "6", "7"]])
})

test("OUT2: of one batch only turns that end or change sessions are answered when that is in effect", async () => {
  const calls: [published: () => void, inEffect: (() => void) | undefined][] = []
  const { keep, batches } = laneOf({
    behind: 0,
    publish: (_rows, published, inEffect) => void calls.push([published, inEffect]),
  })
  const answered: string[] = []
  const turns = [
    keep("logs out", [["r", ["7"]]]),
    keep("posts", [["e", "1", { kind: "user", user: "1" }, "MESSAGE_CREATE", [], new RawJson("{}")]]),
    keep("renames", [["n", ["8"]]]),
  ].map((turn, i) => turn.then(() => answered.push(["logs out", "posts", "renames"][i]!)))
  await expect.poll(() => calls.length).toBe(1)
  expect(batches).toHaveLength(1)
  const [[published, inEffect]] = calls as [[() => void, () => void]]
  published()
  await turns[1]
  expect(answered).toEqual(["posts"])
  inEffect()
  await Promise.all(turns)
  expect(answered).toEqual(["posts", "logs out", "renames"])
})

test("behind a batch the next is gathered while each turn of the event loop brings something, for three milliseconds at most; what comes alone is not held up", async () => {
  let nowMs = 0
  const clock = { ...systemClock, monotonic: () => nowMs }
  const taking = () => new Promise<void>(resolve => setImmediate(resolve))
  const { keep, batches } = laneOf({ behind: 0, publish: (_rows, published) => published() }, { clock, taking })
  const all: Promise<unknown>[] = []
  const come = (n: number, last: number) => {
    nowMs++
    // Before the queue asks for the next turn of the loop, so that it comes before that.
    if (n < last) setImmediate(() => come(n + 1, last))
    all.push(keep(`${n}`))
  }
  come(0, 6)
  await expect.poll(() => all.length).toBe(7)
  await Promise.all(all)
  expect(batches).toEqual([["0"], ["1", "2", "3", "4"], ["5", "6"]])
  setImmediate(() => void keep("later"))
  await keep("alone")
  expect(batches.at(-1)).toEqual(["alone"])
})
