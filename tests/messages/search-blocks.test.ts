/** Searches for a part of a text in a channel, by blocks of its messages: against a plain look through all texts. */
import { onTestFinished } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { idOf } from "../../src/domain/core/snowflake.ts"
import { foldedText } from "../../src/domain/messages/search-text.ts"
import { placesOf, signatureOf } from "../../src/domain/messages/text-signature.ts"
import { silentLog } from "../../src/observability/log.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { findTexts } from "../../src/views/channel-search.ts"
import { rebuildSearchIndex, SearchIndex } from "../../src/workers/search-index.ts"
import type { Cluster } from "../kit/cluster.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const highest = "9223372036854775807"
const reach = { tail: 3, first: 5, perStatement: 12, max: 40, blocksPerStatement: 3, maxBlocks: 20 }
const small = { messages: 8, messagesPerLook: 1 }

function opened(cluster: Cluster, blocks = small) {
  const storage = openStorage({
    ...clusterConfig.storage,
    statementTimeoutMs: 20_000,
    url: cluster.databaseUrl,
    name: "test",
  })
  const rows = storage.openSearchIndex()
  const bounds = { ...clusterConfig.search, gatherForMs: 0, share: 1, batch: 25, blocks }
  const index = new SearchIndex({ storage: rows, bounds, languages: ["english"], clock: systemClock, log: silentLog })
  onTestFinished(async () => {
    await index.stop()
    await rows.close()
    await storage.close()
  })
  return { storage, rows, index }
}

/** All pages of a search. */
async function found(
  { storage }: Pick<ReturnType<typeof opened>, "storage">,
  channel: string,
  pattern: string,
  limit = 4,
) {
  const ids: string[] = []
  let below: string | null = highest
  for (let pages = 0; below !== null; pages++) {
    expect(pages).toBeLessThan(2_000)
    const page = await findTexts(storage.search, reach, { channel, pattern, below, limit }, () => false)
    expect(page.ids.length).toBeLessThanOrEqual(limit)
    ids.push(...page.ids)
    if (page.edge !== null) expect(BigInt(page.edge)).toBeLessThan(BigInt(below))
    below = page.edge
  }
  return ids
}

interface KeptBlock {
  channel_id: string
  upto_id: string
  looks: number
  signature: Buffer | null
}

/** Blocks, each with the texts that it has to have. */
async function withOwnTexts({ sql }: Cluster): Promise<[KeptBlock, string[]][]> {
  const blocks = await sql<KeptBlock[]>`SELECT * FROM message_search_blocks ORDER BY channel_id, upto_id`
  return Promise.all(
    blocks.map(async (block, i): Promise<[KeptBlock, string[]]> => {
      const before = blocks[i - 1]
      const since = before?.channel_id === block.channel_id ? before.upto_id : "0"
      const rows = await sql<{ folded: string }[]>`
        SELECT folded FROM message_search WHERE channel_id = ${block.channel_id} AND message_id > ${since} AND message_id <= ${block.upto_id} ORDER BY message_id`
      return [block, rows.map(({ folded }) => folded)]
    }),
  )
}

/** As the statement of a search looks at it. */
const has = (signature: Uint8Array, pattern: string): boolean =>
  placesOf(pattern).every(place => {
    const bit = place % (8 * signature.length)
    return (signature[bit >> 3]! & (1 << (bit & 7))) !== 0
  })

/** BLK1: what does not hold of the blocks as they are. */
async function wrongBlocks(cluster: Cluster): Promise<unknown[]> {
  const wrong: unknown[] = []
  for (const [{ upto_id, looks, signature }, texts] of await withOwnTexts(cluster)) {
    if (texts.length > looks) wrong.push({ upto_id, looks, messages: texts.length })
    if (signature === null) continue
    for (const folded of texts)
      for (let at = 0; at + 3 <= folded.length; at++)
        if (!has(signature, folded.slice(at, at + 4))) wrong.push({ upto_id, at, folded })
  }
  return wrong
}

test("a signature has the bits of every text, is as long as it needs, and seldom has those of another", () => {
  const words = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => `w${((from + i) * 7_919).toString(36)}ö`).join(" ")
  expect(placesOf("ab")).toEqual([])
  expect(placesOf("abc").length).toBe(1)
  expect(placesOf("ab😀").length).toBe(3)
  expect(placesOf("the whole of a longer sentence").length).toBe(16)
  const lengths = [0, 40, 400, 4_000, 40_000].map(count => {
    const text = words(0, count)
    const bits = signatureOf(text)
    for (let at = 0; at + 9 < text.length && at < 2_000; at += 7)
      for (const length of [3, 4, 9]) expect(has(bits, text.slice(at, at + length))).toBe(true)
    if (count <= 400) {
      const wrong = Array.from({ length: 500 }, (_, i) => `${i}-qx${i * 31}`).filter(pattern => has(bits, pattern))
      expect(wrong.length).toBeLessThan(25)
    }
    return bits.length
  })
  expect(lengths).toEqual([128, 216, 1_840, 3_960, 3_960])
})

test("BLK1, BLK2: whatever is sent, edited, deleted and imported, blocks find what a look through all texts finds", async ({
  cluster,
}) => {
  const { sql } = cluster
  const mine = opened(cluster)
  const [channel, other] = [
    idOf(3, { ms: 1_750_000_000_000, sequence: 0 }),
    idOf(9, { ms: 1_750_000_000_000, sequence: 0 }),
  ]
  const texts = new Map<string, string>()
  let state = 20_261_128
  const below = (bound: number) => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) % bound
  const syllables = ["ka", "Ro", "mi", "ß", "tu", " ", "né", "語彙", "😀", "x%", "_y"]
  const text = () => Array.from({ length: 1 + below(9) }, () => syllables[below(syllables.length)]!).join("")
  const idAt = (ms: number) => idOf(3, { ms: 1_750_000_100_000 + ms, sequence: below(4_000) })
  const ids = () => [...texts.keys()].toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1))
  const list = (ids: readonly string[]) => sql`
    INSERT INTO message_search_backlog (channel_id, message_id) SELECT ${channel}::bigint, id FROM unnest(${[...ids]}::bigint[]) AS id`
  const send = async (ids: readonly string[], indexed = true) => {
    for (const id of ids) texts.set(id, text())
    await sql`
      INSERT INTO messages (channel_id, id, server_id, author_id, content)
      SELECT c, t.id, 7, 1, content FROM unnest(${[channel, other]}::bigint[]) AS c, unnest(${[...ids]}::bigint[], ${ids.map(id => texts.get(id)!)}::text[]) AS t (id, content)
      WHERE c = ${channel} OR t.id % 5 = 0`
    if (indexed) await list(ids)
  }
  const edit = async (ids: readonly string[]) => {
    for (const id of ids) texts.set(id, text())
    await sql`
      UPDATE messages SET content = t.content, edited_at = coalesce(edited_at, 0) + 1 FROM unnest(${[...ids]}::bigint[], ${ids.map(id => texts.get(id)!)}::text[]) AS t (id, content)
      WHERE channel_id = ${channel} AND messages.id = t.id`
    await list(ids)
  }
  const remove = async (ids: readonly string[]) => {
    for (const id of ids) texts.delete(id)
    await sql`DELETE FROM messages WHERE channel_id = ${channel} AND id = ANY(${[...ids]}::bigint[])`
    await list(ids)
  }
  const some = (count: number) => {
    const all = ids()
    return [...new Set(Array.from({ length: Math.min(count, all.length) }, () => all[below(all.length)]!))]
  }
  const indexedAll = async () => {
    mine.index.look()
    await until("all is indexed", async () => (await sql`SELECT FROM message_search_backlog LIMIT 1`).length === 0)
  }
  let now = 0
  const patterns = [
    "karo",
    "ss",
    "ß",
    "né語",
    "彙😀",
    "x%_y",
    "mi ka",
    "tutu",
    "語彙語彙語",
    "zzz",
    "roromiro",
    "k",
    "o mi",
  ]
  const compare = async (what: string) => {
    expect([what, await wrongBlocks(cluster)]).toEqual([what, []])
    const all = ids().toReversed()
    for (const pattern of patterns.map(foldedText)) {
      const plain = all.filter(id => foldedText(texts.get(id)!).includes(pattern))
      const seen = await found(mine, channel, pattern)
      // What was deleted a moment ago is left out when its message is read.
      expect([what, pattern, seen.filter(id => texts.has(id))]).toEqual([what, pattern, plain])
    }
  }
  const acts: [string, () => Promise<unknown>][] = [
    ["sent", () => send(Array.from({ length: 1 + below(60) }, () => idAt((now += 1 + below(50)))))],
    ["imported", () => send(Array.from({ length: 1 + below(40) }, () => idAt(below(now + 1))))],
    ["edited", () => edit(some(1 + below(6)))],
    ["deleted", () => remove(some(1 + below(6)))],
    // In one piece, as a moderator does.
    [
      "deleted in a row",
      async () => {
        const all = ids()
        const from = below(all.length)
        await remove(all.slice(from, from + below(50)))
      },
    ],
    // As the version before does it, and anybody by hand.
    [
      "written by another",
      async () => {
        const [id] = some(1)
        if (id === undefined) return
        texts.set(id, "by another karo語彙語彙語")
        await sql`UPDATE messages SET content = 'by another karo語彙語彙語' WHERE channel_id = ${channel} AND id = ${id}`
        await sql`UPDATE message_search SET folded = 'by another karo語彙語彙語' WHERE channel_id = ${channel} AND message_id = ${id}`
      },
    ],
  ]
  await send(Array.from({ length: 90 }, () => idAt((now += 1 + below(50)))))
  await indexedAll()
  for (let round = 0; round < 28; round++) {
    const [what, act] = acts[round < acts.length ? round : below(acts.length)]!
    await act()
    await indexedAll()
    if (round % 2 === 0) await compare(`${round}: ${what}`)
  }
  const blocks = () => sql<KeptBlock[]>`SELECT * FROM message_search_blocks WHERE channel_id = ${channel}`
  await until("no block is in doubt", async () => {
    while (await mine.rows.step(step => mine.index.makeDoubtful(step)));
    return (await blocks()).every(({ signature }) => signature !== null)
  })
  expect((await blocks()).length).toBeGreaterThan(10)
  for (const { looks } of await blocks()) expect(looks).toBeLessThanOrEqual(2 * small.messages)
  // Nothing is left in them of what was deleted or edited.
  for (const [block, own] of await withOwnTexts(cluster))
    if (block.channel_id === channel) expect([...block.signature!]).toEqual([...signatureOf(own.join("\n"))])
  await compare("made anew")

  // What was lost, or never was true, a rebuild sets right.
  await sql`DELETE FROM message_search WHERE message_id % 3 = 0`
  await sql`UPDATE message_search_blocks SET signature = '\\x00', looks = 99`
  await sql`INSERT INTO message_search_blocks (channel_id, upto_id, looks, signature) VALUES (5, 5, 1, '\\x00')`
  await rebuildSearchIndex(mine.rows, mine.index, () => {})
  await compare("rebuilt")
  expect((await sql`SELECT FROM message_search_blocks WHERE channel_id = 5`).length).toBe(0)

  // And nothing is left of a channel that is gone.
  await sql`DELETE FROM messages WHERE channel_id = ${channel}`
  while ((await mine.storage.messages.purgeSearched([channel], 7)) === 7);
  expect(await blocks()).toEqual([])
})

test("messages of before are put into blocks while servers run, and the old index goes ten minutes later", async ({
  cluster,
}) => {
  const { sql } = cluster
  const first = idOf(0, { ms: 1_750_000_000_000, sequence: 0 })
  const idAfter = (count: number) => String(BigInt(first) + BigInt(count))
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${first}::bigint + c * 4096, ${first}::bigint + i, 7, 1, CASE WHEN i = 77 THEN 'needle' ELSE 'straw ' || i END
    FROM generate_series(1, 40) AS c, generate_series(1, 60 + 15 * (c % 20)) AS i`
  const before = opened(cluster, { messages: 1_000, messagesPerLook: 1 })
  await rebuildSearchIndex(before.rows, before.index, () => {})
  expect(await sql`SELECT FROM message_search_blocks`).toHaveLength(0)
  await sql`CREATE INDEX message_search_folded ON message_search USING gin ((ARRAY[channel_id]), folded gin_trgm_ops)`
  await sql`INSERT INTO message_search_blocks_begun DEFAULT VALUES`
  const channel = idAfter(7 * 4096)
  expect(await found(before, channel, "needle")).toEqual([idAfter(77)])

  const [mine, theirs] = [opened(cluster), opened(cluster)]
  for (const { index } of [mine, theirs]) index.look()
  const waiting = async () =>
    (await sql<{ channel_id: string }[]>`SELECT channel_id FROM message_search_blocks_begun`)[0]?.channel_id
  await until("all are in blocks", async () => (await waiting()) === idAfter(40 * 4096))
  const open = await sql`
    SELECT channel_id FROM message_search s WHERE message_id > coalesce((SELECT max(upto_id) FROM message_search_blocks b WHERE b.channel_id = s.channel_id), 0)
    GROUP BY channel_id HAVING count(*) >= ${small.messages}`
  expect(open).toHaveLength(0)
  expect(await wrongBlocks(cluster)).toEqual([])
  expect(await found(mine, channel, "needle")).toEqual([idAfter(77)])
  const hasOld = async () => (await sql`SELECT FROM pg_class WHERE relname = 'message_search_folded'`).length === 1
  mine.index.look()
  expect(await hasOld()).toBe(true)

  await sql`UPDATE message_search_blocks_begun SET since = now() - interval '10 minutes'`
  for (const { index } of [mine, theirs]) index.look()
  await until("the old index is gone", async () => !(await hasOld()) && (await waiting()) === undefined)
})
