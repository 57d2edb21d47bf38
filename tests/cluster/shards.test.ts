/** Who owns what: workers come, leave and stop, and every home has exactly one owner that serves it. */
import { vi } from "vitest"
import { unavailable } from "../../src/contract/core/errors.ts"
import { rowBody } from "../../src/runtime/row.ts"
import { Interests } from "../../src/cluster/interests.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { plantedId, sharedServer, testShards } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const ownersOf = async (cluster: Cluster) =>
  cluster.sql<
    { shard: number; owner: string | null; epoch: number }[]
  >`SELECT shard, owner, epoch FROM shards ORDER BY shard`
async function counted({ metrics }: Worker, name: string, label?: string): Promise<number> {
  const metric = (await metrics.registry.getSingleMetric(name)!.get()) as unknown as {
    values: { value: number; labels: Record<string, unknown> }[]
  }
  return metric.values
    .filter(({ labels }) => label === undefined || Object.values(labels).includes(label))
    .reduce((sum, { value }) => sum + value, 0)
}

/** They look so seldom that an old one has not seen a new one before it goes. */
const seldom = { membership: { renewEveryMs: 5_000, serveForMs: 60_000, deadAfterMs: 90_000 } }

test("shards are shared about evenly, and only those move that a newcomer or a leaver moves", async ({ cluster }) => {
  const [a, b] = await cluster.boot(2)
  const two = await ownersOf(cluster)
  for (const worker of [a!, b!])
    expect(two.filter(({ owner }) => owner === worker.id).length).toBeGreaterThan(testShards.length / 4)

  const [c] = await cluster.boot(1)
  const three = await ownersOf(cluster)
  for (const [i, { owner, epoch }] of three.entries()) {
    if (owner === c!.id) expect(epoch).toBeGreaterThan(two[i]!.epoch)
    else expect({ owner, epoch }).toEqual({ owner: two[i]!.owner, epoch: two[i]!.epoch })
  }
  expect(await counted(c!, "starling_shards_hand_overs_total", "in")).toBeGreaterThan(0)

  await c!.drain()
  await cluster.balanced()
  expect((await ownersOf(cluster)).map(({ owner }) => owner)).toEqual(two.map(({ owner }) => owner))
})

test("what another worker refuses is counted as refused", async ({ cluster }) => {
  const [a, b] = await cluster.boot(2)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const outcomes = async (outcome: string) =>
    (await counted(a!, "starling_bus_asks_total", outcome)) + (await counted(b!, "starling_bus_asks_total", outcome))
  const before = await outcomes("refused")
  for (const worker of [a!, b!]) {
    expect(await refusal(lin.on(worker).editChannel({ channel_id: channel.id, name: "mine" }))).toBe(
      "permission_denied",
    )
    await ada.on(worker).createMessage({ channel_id: channel.id, content: "asked" })
  }
  // One of the two has the server itself.
  expect(await outcomes("refused")).toBe(before + 1)
  expect(await outcomes("failed")).toBe(0)
  expect(await outcomes("answered")).toBeGreaterThan(0)
})

test("a worker that leaves owns nothing, and nobody's request is refused for it", async ({ cluster }) => {
  const [a, b] = await cluster.boot(2)
  const { ada, channel } = await cluster.seed(sharedServer)
  const over = new AbortController()
  let sent = 0
  const sending = (async () => {
    for (; !over.signal.aborted; sent++)
      await ada.on(b!).createMessage({ channel_id: channel.id, content: `${sent}`, nonce: `${sent}` })
  })()
  await until("the load runs", () => sent > 5)
  await a!.drain()
  const rows = await ownersOf(cluster)
  expect(rows.filter(({ owner }) => owner !== b!.id)).toEqual([])
  const before = sent
  await until("the load goes on", () => sent > before + 5)
  over.abort()
  await sending
  expect((await cluster.sql`SELECT 1 FROM messages WHERE channel_id = ${channel.id}`).length).toBe(sent)
})

test("BAL5: who is given shards by a worker that leaves gives none back, though it has only just come", async ({
  cluster,
}) => {
  const [old] = await cluster.boot(1, { topology: seldom })
  // Shards that somebody has used are waited for until the taker serves them.
  await cluster.seed(sharedServer)
  const [next] = await cluster.boot(1, { topology: seldom, unbalanced: true })
  const before = await ownersOf(cluster)
  await old!.drain()
  expect(await ownersOf(cluster)).toEqual(
    before.map(({ shard, owner, epoch }) => ({
      shard,
      owner: next!.id,
      epoch: owner === old!.id ? epoch + 1 : epoch,
    })),
  )
})

test("what the last ones leave in Redis goes with the window of those that come after", async ({ cluster }) => {
  const topology = { gateway: { resumeWindowMs: 300 } }
  const [last] = await cluster.boot(1, { topology })
  const job = await cluster.bootJobWorker({ topology })
  const redis = openRedis(cluster.redisUrl, "test", () => {})
  await redis.connect()
  const keys = redisKeys(cluster.redisPrefix)
  const left = () =>
    redis.exists([last!.id, job.id].flatMap(id => [keys.inbox(id), keys.log(id), keys.logPosition(id)]))
  await Promise.all([last!.stop(), job.stop()])
  expect(await left()).toBe(6)
  await cluster.boot(1, { topology })
  await until("nothing of them is left", async () => (await left()) === 0)
  redis.disconnect()
})

test("a worker that stops is known to be dead at once, also to one that has only just come", async ({ cluster }) => {
  const [old] = await cluster.boot(1, { topology: seldom })
  const [next] = await cluster.boot(1, { topology: seldom, unbalanced: true })
  await old!.stop()
  // Long before its lease is over.
  await until("it is told", () => next!.node.membership.isDead(old!.id), { timeoutMs: 20_000 })
  await cluster.balanced()
})

test("a caller who waits for a worker that stops is answered by the next owner", async ({ cluster }) => {
  const places = await cluster.boot(2)
  const { ada, channel } = await cluster.seed(sharedServer)
  const { owner } = (await ownersOf(cluster)).find(({ shard }) => shard === shardOf(channel.id))!
  const [ends, stays] = owner === places[0]!.id ? places : places.toReversed()
  const over = new AbortController()
  let sent = 0
  const sending = Array.from({ length: 16 }, async () => {
    for (; !over.signal.aborted; sent++) await ada.on(stays!).createMessage({ channel_id: channel.id, content: "x" })
  })
  await until("the load runs", () => sent > 50)
  await ends!.stop()
  const before = sent
  await until("the load goes on", () => sent > before + 50)
  over.abort()
  await Promise.all(sending)
})

test("BAL5: a worker that leaves passes on what it is given nevertheless, and requests to it go on", async ({
  cluster,
}) => {
  const [old, next] = (await cluster.boot(2)) as [Worker, Worker]
  const { channel, ada } = await cluster.seed(sharedServer)
  await old.node.leave()
  // As if it came from somebody who has not heard of the leaving: nobody was there to tell them.
  await cluster.sql`UPDATE shards SET owner = ${old.id}, epoch = epoch + 1 WHERE shard = ${shardOf(channel.id)}`
  await until("it is passed on", async () => (await ownersOf(cluster)).every(({ owner }) => owner === next.id))
  await ada.on(old).createMessage({ channel_id: channel.id, content: "through the one that leaves" })
})

test("SHARD1, P3: ids of a home rise strictly across owners, and every id carries its home's shard", async ({
  cluster,
}) => {
  const [first] = await cluster.boot(1)
  const { ada, channel, server } = await cluster.seed(sharedServer)
  const ids: string[] = []
  let worker = first!
  for (let i = 0; i < 4; i++) {
    for (let n = 0; n < 5; n++)
      ids.push((await ada.on(worker).createMessage({ channel_id: channel.id, content: "x" })).id)
    const [next] = await cluster.boot(1, { unbalanced: true })
    await (i % 2 === 0 ? worker.drain() : worker.stop())
    worker = next!
    await cluster.balanced()
  }
  expect(new Set(ids.map(shardOf))).toEqual(new Set([shardOf(server.id)]))
  expect(ids.every((id, i) => i === 0 || BigInt(id) > BigInt(ids[i - 1]!))).toBe(true)
})

test("SHARD2, OUT3: outbox rows of a shard are numbered without a hole, published rows are forgotten, the newest never", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1, { topology: { actors: { outboxKeepMs: 200, outboxSweepEveryMs: 50 } } })
  const { ada, channel } = await cluster.seed(sharedServer)
  const rowsOf = () =>
    cluster.sql<{ number: number }[]>`SELECT number FROM outbox WHERE shard = ${shardOf(channel.id)} ORDER BY number`
  for (let i = 0; i < 20; i++) await ada.on(worker!).createMessage({ channel_id: channel.id, content: `${i}` })
  const numbers = (await rowsOf()).map(row => row.number)
  expect(numbers).toEqual(numbers.map((_, i) => numbers[0]! + i))
  await until("only the newest is left", async () => (await rowsOf()).length === 1)
  expect((await rowsOf())[0]!.number).toBe(numbers.at(-1))
  expect(await counted(worker!, "starling_outbox_deleted_rows_total")).toBeGreaterThanOrEqual(19)
})

test("BAL2, P12: what was committed and not yet published is published by the next owner, in order and once", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const owner =
    (await ownersOf(cluster)).find(({ shard }) => shard === shardOf(channel.id))!.owner === east!.id ? east! : west!
  const other = owner === east ? west! : east!
  const inbox = await lin.listen(other)
  await ada.on(owner).createMessage({ channel_id: channel.id, content: "published" })
  await cluster.settle()
  // Killed between commit and publication: the rows of its last batch are there, their events are in no log.
  const [newest] = await cluster.sql<{ number: number; last_id: string; body: string }[]>`
    SELECT number, last_id, body FROM outbox WHERE shard = ${shardOf(channel.id)} ORDER BY number DESC LIMIT 1`
  const id = String(BigInt(newest!.last_id) + 1n)
  const [published] = inbox.rest()
  const body = newest!.body
    .replaceAll((published!.data as { id: string }).id, id)
    .replaceAll('"published"', '"unpublished"')
  await cluster.sql`INSERT INTO messages (channel_id, id, server_id, author_id, content) VALUES (${channel.id}, ${id}, ${(published!.data as { server_id: string }).server_id}, ${ada.id}, 'unpublished')`
  await cluster.sql`INSERT INTO outbox (shard, number, last_id, body) VALUES (${shardOf(channel.id)}, ${newest!.number + 1}, ${id}, ${body})`
  await owner.stop()
  expect((await inbox.next("MESSAGE_CREATE", { timeoutMs: 10_000 })).content).toBe("unpublished")
  await ada.on(other).createMessage({ channel_id: channel.id, content: "after" })
  await cluster.settle()
  expect(inbox.rest().map(({ data }) => (data as { content: string }).content)).toEqual(["after"])
  expect(await counted(other, "starling_outbox_republished_rows_total")).toBeGreaterThan(0)
})

/** As if another owner had written: the next row of a shard. */
const writeElsewhere = ({ sql }: Cluster, shard: number) =>
  sql`INSERT INTO outbox (shard, number, last_id, body)
      SELECT shard, number + 1, last_id, ${rowBody([], [])} FROM outbox WHERE shard = ${shard} ORDER BY number DESC LIMIT 1`

test("an owner whose shard has a row that it did not write opens it anew, and goes on after that row", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const rest = ada.on(worker!)
  await rest.createMessage({ channel_id: channel.id, content: "before" })
  await writeElsewhere(cluster, shardOf(channel.id))
  expect(await refusal(rest.createMessage({ channel_id: channel.id, content: "refused" }))).toBe("unavailable")
  await rest.createMessage({ channel_id: channel.id, content: "after" })
  const messages = await rest.listMessages({ channel_id: channel.id })
  expect(new Set(messages.map(({ content }) => content))).toEqual(new Set(["before", "after"]))
})

test("a shard whose new owner was not told of it is served as soon as somebody asks for it", async ({ cluster }) => {
  const places = await cluster.boot(2, { topology: { handover: { rebalanceEveryMs: 60_000 } } })
  const { ada, channel } = await cluster.seed(sharedServer)
  const shard = shardOf(channel.id)
  await ada.on(places[0]!).createMessage({ channel_id: channel.id, content: "before" })
  const { owner } = (await ownersOf(cluster)).find(row => row.shard === shard)!
  const [former, next] = owner === places[0]!.id ? places : places.toReversed()
  await cluster.sql`UPDATE shards SET owner = ${next!.id}, epoch = epoch + 1 WHERE shard = ${shard}`
  await writeElsewhere(cluster, shard)
  // Now the former owner knows.
  expect(await refusal(ada.on(former!).createMessage({ channel_id: channel.id, content: "refused" }))).toBe(
    "unavailable",
  )
  for (const place of places) await ada.on(place).createMessage({ channel_id: channel.id, content: "after" })
})

/** Two workers: one holds a user's shard, and the other asks it. */
async function apart(cluster: Cluster) {
  const places = await cluster.boot(2)
  const ada = await cluster.person("ada")
  const shard = shardOf(ada.id)
  const { owner } = (await ownersOf(cluster)).find(row => row.shard === shard)!
  const [holder, asker] = owner === places[0]!.id ? places : places.toReversed()
  return { ada, shard, holder: holder!, asker: asker! }
}

test("BAL3, P14: whom a worker has let go of stays so at the next owner, though that could not be written at once", async ({
  cluster,
}) => {
  const { ada, shard, holder, asker } = await apart(cluster)
  const { router } = asker.node
  await router.register(shard, [ada.id])
  const removing = vi
    .spyOn(Interests.prototype, "remove")
    .mockRejectedValueOnce(new Error("Redis is away for a moment"))
  await router.releaseSurely(shard, [ada.id])
  await holder.drain()
  expect(removing).toHaveBeenCalledWith(expect.objectContaining({ number: shard }), [
    { home: ada.id, worker: asker.id },
  ])
  removing.mockRestore()
  expect(await router.workersOf(ada.id)).toEqual([])
})

test("P14: who is let go of behind a registration that waits for its owner stays let go of", async ({ cluster }) => {
  const { ada, shard, holder, asker } = await apart(cluster)
  const { router } = asker.node
  let renew = () => {}
  const renewed = new Promise<void>(resolve => (renew = resolve))
  const waiting = vi.spyOn(holder.node.view, "untilAble").mockReturnValue(renewed)
  const registered = router.register(shard, [ada.id])
  await until("its owner has been asked", () => waiting.mock.calls.length > 0)
  const released = router.releaseSurely(shard, [ada.id])
  await until("and told of the release", () => waiting.mock.calls.length > 1)
  waiting.mockRestore()
  renew()
  await Promise.all([registered, released])
  expect(await router.workersOf(ada.id)).toEqual([])
})

test("P14: who is let go of while their owner refuses what comes is let go of nevertheless", async ({ cluster }) => {
  const { ada, shard, holder, asker } = await apart(cluster)
  const { router } = asker.node
  await router.register(shard, [ada.id])
  const refusing = vi.spyOn(holder.node.view, "untilAble").mockRejectedValue(unavailable("worker is not serving"))
  await expect(router.releaseSurely(shard, [ada.id])).rejects.toMatchObject({ code: "unavailable" })
  refusing.mockRestore()
  expect(await router.workersOf(ada.id)).toEqual([])
})

test("an id of a shard that the cluster does not have names nothing", async ({ cluster }) => {
  const workers = await cluster.boot(2)
  const { ada } = await cluster.seed(sharedServer)
  const none = plantedId(testShards[1]! + 1)
  for (const place of workers) {
    expect(await refusal(ada.on(place).getChannel({ channel_id: none }))).toBe("channel_not_found")
    expect(await refusal(ada.on(place).createMessage({ channel_id: none, content: "x" }))).toBe("channel_not_found")
    expect(await refusal(ada.on(place).getServer({ server_id: none }))).toBe("server_not_found")
  }
})
