import postgres from "postgres"
import { expect, test } from "vitest"
import { silentLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import { defineWrite } from "../../storage/write.ts"
import { systemClock } from "../../system-clock.ts"
import { Home } from "./home.ts"
import { LaneQueue } from "./lane-queue.ts"
import { Shard } from "./shard.ts"

test("who waits for the end of a batch is told, also when its only turn was refused", async () => {
  const refused = new postgres.PostgresError("taken")
  Object.assign(refused, { code: "23505", constraint_name: "things_pkey" })
  const metrics = createMetrics()
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  const home = new Home("1", shard, { name: "thing", load: () => Promise.resolve(undefined) }, {}, 0)
  const queue = new LaneQueue({
    lane: { commit: () => Promise.reject(refused), raise: () => Promise.resolve() },
    publisher: { behind: 0, publish: (_rows, published) => published() },
    bounds: { batch: 10, unpublishedBatches: 10 },
    wasWritten: () => Promise.resolve(false),
    dropHome: () => home.drop(),
    onDisowned: () => {},
    onFenced: () => {},
    clock: systemClock,
    log: silentLog,
    metrics,
  })
  const write = defineWrite<object>("insertThing", sql => sql``, { things_pkey: "done" })({})
  const turn = new Promise((resolve, reject) =>
    queue.add({ shard, home, writes: [write], items: [], requestId: undefined, reply: "mine", resolve, reject }),
  )
  const barrier = new Promise<void>((resolve, reject) => queue.add({ barrier: resolve, reject }))
  // It was done before; and what waited behind it goes on.
  await expect(turn).resolves.toBeUndefined()
  await expect(barrier).resolves.toBeUndefined()
  metrics.close()
})
