/** How the search index follows what is committed: who reads it, who is killed at it, and what happens when nobody does. */
import { onTestFinished } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { silentLog } from "../../src/observability/log.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { openStorage, type SearchIndexStep, type SearchIndexStorage } from "../../src/storage/storage.ts"
import { SearchIndex } from "../../src/workers/search-index.ts"
import { gauge, type Cluster } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const eager = { search: { gatherForMs: 5, share: 1 } }
/** Rows of the outbox are deleted as soon as they have arrived, but for the newest of each shard. */
const sweptSoon = { actors: { outboxKeepMs: 0, outboxSweepEveryMs: 20 } }

/** As many connections as there are processes that keep the index. */
function opened(cluster: Cluster) {
  const storage = openStorage({
    ...clusterConfig.storage,
    statementTimeoutMs: 20_000,
    readConnections: 1,
    url: cluster.databaseUrl,
    name: "test",
  })
  onTestFinished(() => storage.close())
  const rows = storage.openSearchIndex()
  onTestFinished(() => rows.close())
  return { storage, rows }
}

const indexOn = (storage: SearchIndexStorage, batch = 500) => {
  const bounds = { ...clusterConfig.search, gatherForMs: 0, share: 1, batch }
  const index = new SearchIndex({ storage, bounds, languages: ["english"], clock: systemClock, log: silentLog })
  onTestFinished(() => index.stop())
  return index
}

/** The same, but each step is given another way to ask. */
const stepping = (
  rows: SearchIndexStorage,
  changed: (step: SearchIndexStep) => Partial<SearchIndexStep>,
): SearchIndexStorage => ({ ...rows, step: act => rows.step(step => act({ ...step, ...changed(step) })) })

const indexedIn = async ({ sql }: Cluster): Promise<string[]> =>
  (await sql<{ message_id: string }[]>`SELECT message_id FROM message_search ORDER BY message_id`).map(
    ({ message_id }) => message_id,
  )

const allIndexed = (cluster: Cluster) =>
  until("everything is indexed", async () => {
    const [row] = await cluster.sql<{ done: boolean }[]>`
      SELECT NOT EXISTS (SELECT channel_id, id FROM messages WHERE NOT deleted EXCEPT SELECT channel_id, message_id FROM message_search)
        AND NOT EXISTS (SELECT FROM message_search_backlog) AS done`
    return row!.done
  })

test("IDX2: a step that is cut off leaves nothing behind, and the next process does all of it", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const ids: string[] = []
  for (let i = 0; i < 9; i++)
    ids.push((await ada.on(place!).createMessage({ channel_id: channel.id, content: `plum ${i}` })).id)
  let cuts = 0
  const first = opened(cluster).rows
  const cut = indexOn(
    stepping(first, step => ({
      async put(rows) {
        await step.put(rows)
        // In the middle: some are written, others not yet.
        if (++cuts === 1)
          await cluster.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'test index'`
        else await new Promise(() => {})
      },
    })),
    4,
  )
  cut.look()
  await until("its connection is gone", () => cuts > 0)
  // The shard is free as soon as PostgreSQL has seen the end of it.
  indexOn(opened(cluster).rows, 4).look()
  await until("all are indexed", async () => (await indexedIn(cluster)).length === ids.length)
  expect(await indexedIn(cluster)).toEqual(ids)
})

test("IDX2: a job worker that is killed in the middle of its work loses nothing, and its successor does it", async ({
  cluster,
}) => {
  const processes = await cluster.processes(1)
  const { ada, channel } = await sharedServer(cluster, processes)
  const jobs = async () => (await processes.workers()).filter(({ slot }) => slot.startsWith("job"))
  const { pid } = (await jobs())[0]!
  const ids: string[] = []
  await cluster.sql.begin(async sql => {
    // Who writes to the index waits.
    await sql`LOCK TABLE message_search IN SHARE MODE`
    for (let i = 0; i < 5; i++)
      ids.push((await ada.on(processes).createMessage({ channel_id: channel.id, content: `sloe ${i}` })).id)
    await until("it is in the middle of a step", async () => {
      const [row] = await cluster.sql<{ count: number }[]>`
        SELECT count(*)::int AS count FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE '% index'`
      return row!.count > 0
    })
    processes.kill(pid, "SIGKILL")
    await until("another has taken its place", async () => (await jobs()).some(job => job.pid !== pid))
  })
  await allIndexed(cluster)
  expect(await indexedIn(cluster)).toEqual(ids)
  const { results } = await ada.on(processes).searchMessages({ query: "sloes" })
  expect(results.map(({ id }) => id)).toEqual(ids.toReversed())
})

test("IDX2: nobody else reads a shard that is being indexed; two job workers miss nothing", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const scenes = await Promise.all([sharedServer(cluster), sharedServer(cluster), sharedServer(cluster)])
  const say = (content: string) =>
    Promise.all(scenes.map(({ ada, channel }) => ada.on(place!).createMessage({ channel_id: channel.id, content })))
  await say("damson")
  const [one, two] = [opened(cluster).rows, opened(cluster).rows]
  await one.step(async step => {
    const { rows } = await step.claim(1)
    const held = new Set(rows.map(({ shard }) => shard))
    expect(held.size).toBe(1)
    const others = await two.step(async other => (await other.claim(2 ** 20)).rows.map(({ shard }) => shard))
    // All that have news are held, whether or not their rows were read.
    expect(others).toEqual([])
  })
  await Promise.all([0, 1].map(() => cluster.bootJobWorker({ topology: eager })))
  for (let i = 0; i < 20; i++) await say(`damson ${i}`)
  await allIndexed(cluster)
  expect(await indexedIn(cluster)).toHaveLength(3 * 21)
})

test("IDX1: a message that is edited while it is indexed ends up with its new text, within one second too", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const { createMessage, editMessage, searchMessages } = ada.on(place!)
  const channel_id = channel.id
  const { id } = await createMessage({ channel_id, content: "elder one" })
  const edits = ["elder two", "elder three", "elder four"]
  const { rows } = opened(cluster)
  let reads = 0
  // Between what is read and what is written, and after what is written.
  const edit = async () => {
    const content = edits.shift()
    if (content !== undefined) await editMessage({ channel_id, message_id: id, content })
  }
  const index = indexOn(
    stepping(rows, step => ({
      async sources(keys) {
        const found = await step.sources(keys)
        reads++
        await edit()
        return found
      },
    })),
  )
  do {
    const before: number = reads
    index.look()
    await until("the index has read it", () => reads > before)
  } while (edits.length > 0)
  index.look()
  const found = async (query: string) => (await searchMessages({ query })).results.length
  await until("the last text is found", async () => (await found("four")) === 1)
  for (const old of ["one", "two", "three"]) expect([old, await found(old)]).toEqual([old, 0])
  expect(await cluster.sql`SELECT folded FROM message_search`).toEqual([{ folded: "elder four" }])
})

test("IDX1: a message that is deleted while it is indexed is not in the index afterwards", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const { createMessage, deleteMessage, searchMessages } = ada.on(place!)
  const channel_id = channel.id
  const { id } = await createMessage({ channel_id, content: "haw" })
  const { rows } = opened(cluster)
  let isWritten = false
  const index = indexOn(
    stepping(rows, step => ({
      async put(written) {
        await step.put(written)
        if (isWritten) return
        isWritten = true
        // It sees nothing of what this step has not committed, and removes nothing.
        await deleteMessage({ channel_id, message_id: id })
        expect((await searchMessages({ query: "haw" })).results).toEqual([])
      },
    })),
  )
  index.look()
  await until("it is written", () => isWritten)
  index.look()
  await until("and gone", async () => (await indexedIn(cluster)).length === 0 && isWritten)
  expect((await searchMessages({ query: "haw" })).results).toEqual([])
})

test("IDX1: nothing is left of a channel that is deleted while its messages are indexed", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  for (const content of ["medlar one", "medlar two"])
    await ada.on(place!).createMessage({ channel_id: channel.id, content })
  const { storage, rows } = opened(cluster)
  let purged: Promise<number> | undefined
  const index = indexOn(
    stepping(rows, step => ({
      async put(read) {
        if (!purged) {
          // As the job does it: the messages, which no row of the outbox names, then what searches have of them.
          expect(await storage.messages.purge([channel.id], 100)).toBe(2)
          purged = storage.messages.purgeSearched([channel.id], 100)
          await until("it waits for the step", async () => {
            const [row] = await cluster.sql<{ count: number }[]>`
              SELECT count(*)::int AS count FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'test'`
            return row!.count > 0
          })
        }
        await step.put(read)
      },
    })),
  )
  index.look()
  await until("the step has come to them", () => purged !== undefined)
  expect(await purged).toBe(2)
  expect(await indexedIn(cluster)).toEqual([])
})

test("without a job worker searches answer, and what they miss waits in a list until there is one", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1, { topology: sweptSoon })
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const rest = ada.on(place!)
  const channel_id = channel.id
  const say = async (content: string, channel = channel_id) =>
    (await rest.createMessage({ channel_id: channel, content })).id
  const dm = (await rest.openDirectChannel({ recipient_id: lin.id })).id
  const said = [await say("rowan one"), await say("rowan two"), await say("rowan three"), await say("rowan four")]
  const between = await say("rowan between us", dm)
  await rest.editMessage({ channel_id, message_id: said[0]!, content: "rowan edited" })
  await rest.pinMessage({ channel_id, message_id: said[1]! })
  await rest.bulkDeleteMessages({ channel_id, messages: [said[2]!, said[3]!] })
  // The newest row of a shard stays.
  await rest.editServer({ server_id: channel.server_id, name: "Other" })
  await rest.deleteMessage({ channel_id: dm, message_id: await say("the last", dm) })
  const listed = async () =>
    new Set(
      (await cluster.sql<{ message_id: string }[]>`SELECT message_id FROM message_search_backlog`).map(
        ({ message_id }) => message_id,
      ),
    )
  await until("all of them wait", async () => {
    const ids = await listed()
    return [...said, between].every(id => ids.has(id))
  })
  expect((await rest.searchMessages({ query: "rowan" })).results).toEqual([])
  const inChannel = async () => (await rest.searchChannel({ channel_id, content: "rowan" })).map(({ id }) => id)
  expect(await inChannel()).toEqual([said[1], said[0]])
  const { storage } = opened(cluster)
  expect(await storage.searchLag.waitingFor()).toBeGreaterThan(0)

  await cluster.bootJobWorker({ topology: eager })
  await allIndexed(cluster)
  expect((await rest.searchMessages({ query: "rowan" })).results.map(({ id }) => id)).toEqual([
    between,
    said[1],
    said[0],
  ])
  expect((await rest.searchMessages({ query: "edited" })).results.map(({ id }) => id)).toEqual([said[0]])
  expect(await storage.searchLag.waitingFor()).toBe(0)
})

test("the first web worker of a host tells how long messages have waited for the index", async ({ cluster }) => {
  await cluster.sql`INSERT INTO message_search_backlog (channel_id, message_id, listed_at) VALUES (1, 1, now() - interval '2 hours')`
  const [first, second] = [(await cluster.boot(1))[0]!, (await cluster.boot(1))[0]!]
  await until("it has looked", async () => (await gauge(first, "starling_search_behind_seconds")) >= 7_200)
  expect(await gauge(second, "starling_search_behind_seconds")).toBe(0)
})

test("an index that was lost is made again from nothing, while two job workers follow what is sent", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1)
  await Promise.all([0, 1].map(() => cluster.bootJobWorker({ topology: eager })))
  const scenes = await Promise.all([sharedServer(cluster), sharedServer(cluster)])
  const say = (content: string) =>
    Promise.all(scenes.map(({ ada, channel }) => ada.on(place!).createMessage({ channel_id: channel.id, content })))
  for (let i = 0; i < 10; i++) await say(`bilberry ${i}`)
  await allIndexed(cluster)
  await cluster.sql`TRUNCATE message_search`
  const [said] = await Promise.all([
    operator(["search", "rebuild"], { DATABASE_URL: cluster.databaseUrl }),
    (async () => {
      for (let i = 10; i < 20; i++) await say(`bilberry ${i}`)
    })(),
  ])
  expect(said).toMatchObject({ code: 0 })
  await allIndexed(cluster)
  for (const { ada, channel } of scenes) {
    const { results } = await ada.on(place!).searchMessages({ query: "bilberry", channel_id: channel.id, limit: "100" })
    expect(results).toHaveLength(20)
  }
})

test("positions have the shards of channels, as ids have them", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const { id } = await ada.on(place!).createMessage({ channel_id: channel.id, content: "quandong" })
  await cluster.sql`INSERT INTO message_search_backlog (channel_id, message_id) VALUES (${channel.id}, ${id})`
  const [one, two] = [opened(cluster).rows, opened(cluster).rows]
  await one.step(async step => {
    expect((await step.takeListed(10)).map(({ message_id }) => message_id)).toEqual([id])
    expect(await two.step(async other => (await other.claim(2 ** 20)).rows.map(({ shard }) => shard))).not.toContain(
      shardOf(channel.id),
    )
    expect(await two.step(other => other.takeListed(10))).toEqual([])
  })
})
