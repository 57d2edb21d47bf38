import { clusterConfig } from "../../cluster.config.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { readQuery } from "../../src/domain/messages/search-query.ts"
import { openPool, type Sql } from "../../src/storage/core/database.ts"
import { searchSettings, searchStorage } from "../../src/storage/messages/search.ts"
import { silentLog } from "../../src/observability/log.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { findMessages } from "../../src/views/search-plan.ts"
import { rebuildSearchIndex, SearchIndex } from "../../src/workers/search-index.ts"
import type { Person, Endpoint } from "../kit/person.ts"
import { refusal } from "../kit/conformance.ts"
import { sharedServer } from "../kit/seeds.ts"
import type { Topology } from "../kit/cluster.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: { search: { gatherForMs: 5, share: 1 } }, jobWorkers: 1 })

/** Everything that was sent can be found. */
const indexed = (shared: SharedCluster) =>
  until("what was sent is indexed", async () => {
    const [row] = await shared.sql`
      SELECT (SELECT count(*) FROM messages WHERE NOT deleted) = (SELECT count(*) FROM message_search) AS done`
    return row!["done"] === true
  })

/** All that a channel's search finds, page by page. */
async function pagesOf(person: Person, place: Endpoint, channel: string, content: string, limit: number) {
  const pages: string[][] = []
  let cursor: string | null = null
  do {
    const query = new URLSearchParams({ content, limit: String(limit), ...(cursor !== null && { cursor }) })
    const answer = await fetch(`${place.url}/api/v1/channels/${channel}/messages/search?${query.toString()}`, {
      headers: { authorization: `Bearer ${person.token}` },
    })
    expect(answer.status).toBe(200)
    pages.push(((await answer.json()) as { id: string }[]).map(({ id }) => id))
    cursor = answer.headers.get("x-next-cursor")
  } while (cursor !== null)
  return pages
}

const finder = (person: Person, shared: SharedCluster) => {
  const on = person.on(shared.west)
  return async (query: string, more: object = {}) =>
    (await on.searchMessages({ query, ...more })).results.map(({ content }) => content)
}

test("messages are found by their words, whatever the case, accents and endings, in any script", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const { createMessage } = ada.on(shared.east)
  const says = (content: string) => createMessage({ channel_id: channel.id, content })
  const texts = {
    run: "She was RUNNING along the river",
    cafe: "ein Café an der Straße",
    greek: "Ο Οδυσσεύς γύρισε στην Ιθάκη",
    turkish: "İSTANBUL'da ışık",
    chinese: "我今天在北京吃烤鸭",
    japanese: "東京タワーで待っています",
    thai: "สวัสดีครับยินดีต้อนรับ",
    russian: "Привет, как дела",
    hindi: "नमस्ते दुनिया",
    arabic: "مرحبا بالعالم",
    hostile: "'; DROP TABLE messages; -- 100% sure_thing \\ :* & | ! <->",
    emoji: "party 🎉 time",
    order: "the quick brown fox",
  }
  for (const content of Object.values(texts)) await says(content)
  await indexed(shared)
  const find = finder(lin, shared)
  const finds: [string, keyof typeof texts][] = [
    ["run", "run"],
    ["runs RIVERS", "run"],
    ["cafe", "cafe"],
    ["STRASSE", "cafe"],
    ["ΟΔΥΣΣΕΥΣ", "greek"],
    ["istanbul", "turkish"],
    ["ISIK", "turkish"],
    ["北京", "chinese"],
    ["烤", "chinese"],
    ["鸭", "chinese"],
    ["今天在北", "chinese"],
    ["タワー", "japanese"],
    ["ยินดี", "thai"],
    ["ПРИВЕТ", "russian"],
    ["दुनिया", "hindi"],
    ["بالعالم", "arabic"],
    ["drop table", "hostile"],
    ["100% sure_thing", "hostile"],
    ["🎉", "emoji"],
    ['"quick brown"', "order"],
    ["fox -river", "order"],
    ["QUICK", "order"],
  ]
  for (const [query, name] of finds)
    expect([query, await find(query, { server_id: server.id })]).toEqual([query, [texts[name]]])
  for (const query of [
    '"brown quick"',
    '"quick fox"',
    "京北",
    "天京",
    "quick -fox",
    "'); --",
    "!!!",
    '""',
    "zzz",
    '"runs"',
  ])
    expect([query, await find(query, { server_id: server.id })]).toEqual([query, []])
  const on = lin.on(shared.west)
  const holds = async (content: string) =>
    (await on.searchChannel({ channel_id: channel.id, content })).map(({ content }) => content)
  expect(await holds("RUNN")).toEqual([texts.run])
  expect(await holds("% SURE_")).toEqual([texts.hostile])
  expect(await holds("%%")).toEqual([])
  expect(await holds("straSSe")).toEqual([texts.cafe])
  expect(await holds("烤")).toEqual([texts.chinese])
  expect(await holds("\\ :")).toEqual([texts.hostile])
  expect(await holds("ick")).toEqual([texts.order])
})

test("operators say who, where, when and what", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const other = await ada.on(shared.east).createChannel({ server_id, name: "elsewhere" })
  const says = async (person: Person, content: string, channel_id = channel.id) =>
    (await person.on(shared.east).createMessage({ channel_id, content })).id
  const first = await says(ada, "apples for sale")
  await says(lin, `apples <@${ada.id}> see https://apples.example`)
  await says(ada, "apples are gone", other.id)
  await shared.sql`UPDATE messages SET embeds = '[{"title": "Cider", "image": {"url": "https://a.example/x.png"}}]',
    attachments = '[{"id": "1", "file": "x", "filename": "Orchard plan.mp4", "content_type": "video/mp4", "size": 1, "hash": ""}]' WHERE id = ${first}`
  await ada.on(shared.east).pinMessage({ channel_id: channel.id, message_id: first })
  await indexed(shared)
  const find = finder(lin, shared)
  const [sale, seen, gone] = ["apples for sale", `apples <@${ada.id}> see https://apples.example`, "apples are gone"]
  await until(
    "the pinned one is read again",
    async () => (await find("orchard pinned:true", { server_id })).length === 1,
  )
  const year = new Date().getUTCFullYear()
  const finds: [string, (string | null)[]][] = [
    [`apples from:${lin.username}`, [seen]],
    [`apples from:${lin.username.toUpperCase()} from:${ada.id}`, [gone, seen, sale]],
    [`from:@${ada.username}`, [gone, sale]],
    ["from:nobody_at_all", []],
    [`mentions:${ada.username}`, [seen]],
    [`mentions:<@${ada.id}> apples`, [seen]],
    [`mentions:${lin.id}`, []],
    ["in:elsewhere apples", [gone]],
    [`in:${other.id}`, [gone]],
    [`in:#ELSEWHERE in:${channel.id} apples`, [gone, seen, sale]],
    ["in:nowhere apples", []],
    ["has:link", [seen]],
    ["has:image", [sale]],
    ["has:video has:file has:attachment has:embed", [sale]],
    ["has:audio", []],
    ["cider", [sale]],
    ["pinned:true", [sale]],
    ["apples pinned:false", [gone, seen]],
    ["apples after:today", [gone, seen, sale]],
    ["apples before:today", []],
    ["apples after:1d before:9999-12-31", [gone, seen, sale]],
    [`apples before:${year - 1}-01-01`, []],
    ["apples has:nothing", []],
    ["APPLES", [gone, seen, sale]],
  ]
  for (const [query, contents] of finds) expect([query, await find(query, { server_id })]).toEqual([query, contents])
  expect(await find("apples", { server_id, author_id: lin.id })).toEqual([seen])
  expect(await find(`apples from:${ada.id}`, { server_id, author_id: lin.id })).toEqual([])
  expect(await find("apples", { channel_id: other.id })).toEqual([gone])
  await ada.on(shared.east).unpinMessage({ channel_id: channel.id, message_id: first })
  // What is pinned is looked at as it is.
  expect(await find("pinned:true", { server_id })).toEqual([])
})

test("only what the caller may read now is found, whatever was so when it was sent", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const hidden = await owner.createChannel({ server_id, name: "hidden" })
  const eve = await shared.person("eve")
  const dm = await owner.openDirectChannel({ recipient_id: eve.id })
  await owner.createMessage({ channel_id: channel.id, content: "treasure in the open" })
  await owner.createMessage({ channel_id: hidden.id, content: "treasure in the dark" })
  await owner.createMessage({ channel_id: dm.id, content: "treasure between us" })
  await indexed(shared)
  const [lins, adas, eves] = [finder(lin, shared), finder(ada, shared), finder(eve, shared)]
  const all = ["treasure between us", "treasure in the dark", "treasure in the open"]
  expect(await adas("treasure")).toEqual(all)
  expect(await lins("treasure")).toEqual(all.slice(1))
  expect(await eves("treasure")).toEqual(["treasure between us"])
  expect(await adas("treasure", { conversation_id: dm.id })).toEqual(["treasure between us"])
  expect(await adas(`in:${dm.id}`)).toEqual(["treasure between us"])
  expect(await lins(`in:${dm.id}`)).toEqual([])

  const everyone = { channel_id: hidden.id, target_id: server_id, type: "role" as const, allow: [] }
  await owner.setOverride({ ...everyone, deny: ["messages.read"] })
  expect(await lins("treasure")).toEqual(["treasure in the open"])
  expect(await lins(`treasure in:${hidden.id}`)).toEqual([])
  expect(await lins("treasure in:hidden", { server_id })).toEqual([])
  const searches = lin.on(shared.west).searchMessages
  expect(await refusal(searches({ query: "treasure", channel_id: hidden.id }))).toBe("permission_denied")
  const holds = lin.on(shared.west).searchChannel
  expect(await refusal(holds({ channel_id: hidden.id, content: "e" }))).toBe("permission_denied")
  expect(await refusal(holds({ channel_id: "5", content: "e" }))).toBe("channel_not_found")
  expect(await refusal(holds({ channel_id: "x", content: "e" }))).toBe("invalid_channel_id")
  expect(await refusal(holds({ channel_id: dm.id, content: "e" }))).toBe("channel_not_found")
  await owner.setOverride({ ...everyone, deny: ["channels.view"] })
  expect(await refusal(searches({ query: "treasure", channel_id: hidden.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).searchChannel({ channel_id: hidden.id, content: "e" }))).toBe(
    "access_denied",
  )
  expect(await lins("treasure")).toEqual(["treasure in the open"])
  expect(await adas("treasure")).toEqual(all)
  // A role that takes everything away, and a channel that gives it back.
  const everybody = { server_id, role_id: server_id }
  await owner.editRole({ ...everybody, permissions: { "messages.read": false } })
  expect(await lins("treasure")).toEqual([])
  await owner.setOverride({
    channel_id: channel.id,
    target_id: lin.id,
    type: "member",
    allow: ["channels.view", "messages.read"],
    deny: [],
  })
  expect(await lins("treasure")).toEqual(["treasure in the open"])

  expect(await refusal(searches({ query: "treasure", conversation_id: dm.id }))).toBe("channel_not_found")
  expect(await refusal(searches({ query: "treasure", conversation_id: channel.id }))).toBe("channel_not_found")
  const strange = await eve.on(shared.west).createServer({ name: "Eve's" })
  expect(await refusal(searches({ query: "treasure", channel_id: channel.id, server_id: strange.id }))).toBe(
    "channel_not_found",
  )
  expect(await refusal(searches({ query: "treasure", server_id: strange.id }))).toBe("access_denied")
  expect(await refusal(searches({ query: "treasure", server_id: "5" }))).toBe("server_not_found")
  expect(await refusal(searches({ query: "treasure", channel_id: "5" }))).toBe("channel_not_found")
  for (const [name, code] of [
    ["server_id", "invalid_server_id"],
    ["channel_id", "invalid_channel_id"],
    ["conversation_id", "invalid_channel_id"],
    ["author_id", "invalid_user_id"],
  ] as const)
    for (const id of ["x", "1 OR 1=1", "99999999999999999999", ""])
      expect(await refusal(searches({ query: "treasure", [name]: id }))).toBe(code)
  await owner.deleteChannel({ channel_id: hidden.id })
  expect(await adas("treasure")).toEqual(["treasure between us", "treasure in the open"])
  await lin.on(shared.west).leaveServer({ server_id })
  expect(await lins("treasure")).toEqual([])
})

test("pages go on where the one before ended; a cursor serves its own search only", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [server_id, channel_id] = [server.id, channel.id]
  for (let i = 0; i < 7; i++) await ada.on(shared.east).createMessage({ channel_id, content: `pear ${i}` })
  await indexed(shared)
  const { searchMessages } = lin.on(shared.west)
  const pages: (string | null)[][] = []
  let cursor: string | undefined
  let first: string | null = null
  do {
    const page = await searchMessages({ query: "pears", server_id, limit: "3", ...(cursor && { cursor }) })
    pages.push(page.results.map(({ content }) => content))
    cursor = page.next_cursor ?? undefined
    first ??= page.next_cursor
  } while (cursor !== undefined)
  expect(pages).toEqual([["pear 6", "pear 5", "pear 4"], ["pear 3", "pear 2", "pear 1"], ["pear 0"]])
  expect(Buffer.from(first!, "base64url").toString("latin1"), "a cursor tells no id of a message").not.toMatch(/\d{15}/)
  for (const wrong of [
    { query: "apples" },
    { query: "pears", channel_id },
    { query: "pears", cursor: `${first}A` },
    { query: "pears", cursor: "" },
    { query: "pears", cursor: "%00" },
    { query: "pears", cursor: `${first}${"A".repeat(3_000)}` },
  ])
    expect(await refusal(searchMessages({ cursor: first!, server_id, ...wrong }))).toBe("invalid_cursor")
  expect(await refusal(ada.on(shared.west).searchMessages({ query: "pears", server_id, cursor: first! }))).toBe(
    "invalid_cursor",
  )
  for (const wrong of [
    { query: "" },
    { query: "x".repeat(513) },
    { query: "x", limit: "0" },
    { query: "x", limit: "101" },
    {},
  ])
    expect(await refusal(searchMessages(wrong as { query: string }))).toBe("validation_failed")
})

interface Planted {
  readonly id: string
  readonly channel: string
  readonly home: string
  readonly author: string
  readonly words: readonly string[]
  readonly isPinned: boolean
}

/** Whole numbers below a bound, the same ones in every run. */
const numbersFrom = (seed: number) => (bound: number) => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((seed / 2 ** 32) * bound)
}

const dayMs = 86_400_000
const january = Date.parse("2025-01-01T00:00:00Z")
const dayOf = (day: number): string => new Date(january + day * dayMs).toISOString().slice(0, 10)

/** @param among each with how many of a hundred messages have it */
const wordsOf = (below: (bound: number) => number, among: Readonly<Record<string, number>>): string[] => {
  const words = Object.entries(among).flatMap(([word, share]) => (below(100) < share ? [word] : []))
  return below(2) === 0 ? words : words.toReversed()
}

/** All that is indexed is in blocks of a few messages. */
async function inSmallBlocks(url: string) {
  const storage = openStorage({ ...clusterConfig.storage, url, name: "test" })
  const rows = storage.openSearchIndex()
  const bounds = { ...clusterConfig.search, blocks: { messages: 4, messagesPerLook: 1 } }
  const index = new SearchIndex({ storage: rows, bounds, languages: ["english"], clock: systemClock, log: silentLog })
  try {
    await rebuildSearchIndex(rows, index, () => {})
  } finally {
    await rows.close()
    await storage.close()
  }
}

test("page by page, every hit comes once and nobody else's, whichever way it is looked for", async ({ cluster }) => {
  const way = (search: NonNullable<Topology["search"]>) => ({
    steady: true,
    unbalanced: true,
    topology: { search: { gatherForMs: 5, ...search } },
  })
  const everything = 1_000_000
  const inOne = way({ words: { few: everything, fewOfPhrases: everything } })
  const usual = { few: 0, fewOfPhrases: 0, looks: 26, looksForPhrases: 18, step: 10 }
  const texts = { tail: 3, first: 10, perStatement: 20, max: 50 }
  const inPieces = way({ words: { ...usual, strangers: 3, fewPlaces: 100 }, texts })
  const byPlaces = way({ words: { ...usual, strangers: 1, fewPlaces: 0, places: 0 } })
  const ways = await Promise.all([inOne, inPieces, byPlaces].map(async way => (await cluster.boot(1, way))[0]!))
  await cluster.balanced()
  const [whole, pieces] = ways

  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const eve = await cluster.person("eve")
  const [adas, eves] = [ada.on(whole!), eve.on(whole!)]
  const hidden = await adas.createChannel({ server_id: server.id, name: "hidden" })
  await adas.setOverride({
    channel_id: hidden.id,
    target_id: server.id,
    type: "role",
    allow: [],
    deny: ["messages.read"],
  })
  // Closed but for one of its channels.
  const closed = await adas.createServer({ name: "Closed" })
  const [shut] = await adas.listChannels({ server_id: closed.id })
  const ajar = await adas.createChannel({ server_id: closed.id, name: "ajar" })
  const { code } = await adas.createInvite({ channel_id: shut!.id })
  await lin.on(whole!).joinByInvite({ invite_code: code })
  await adas.editRole({ server_id: closed.id, role_id: closed.id, permissions: { "messages.read": false } })
  await adas.setOverride({
    channel_id: ajar.id,
    target_id: lin.id,
    type: "member",
    allow: ["channels.view", "messages.read"],
    deny: [],
  })
  const strange = await eves.createServer({ name: "Strange" })
  const [far] = await eves.listChannels({ server_id: strange.id })
  const dm = await lin.on(whole!).openDirectChannel({ recipient_id: ada.id })
  const theirs = await adas.openDirectChannel({ recipient_id: eve.id })

  const places = [
    { channel: channel.id, home: server.id, share: 30, authors: [ada, lin] },
    { channel: hidden.id, home: server.id, share: 10, authors: [ada] },
    { channel: shut!.id, home: closed.id, share: 10, authors: [ada] },
    { channel: ajar.id, home: closed.id, share: 10, authors: [ada] },
    { channel: far!.id, home: strange.id, share: 20, authors: [eve] },
    { channel: dm.id, home: dm.id, share: 10, authors: [ada, lin] },
    { channel: theirs.id, home: theirs.id, share: 10, authors: [ada, eve] },
  ].flatMap(place => Array<typeof place>(place.share).fill(place))
  const below = numbersFrom(20_250_101)
  // Some at the same time, some days apart; for a month strangers only; one word long ago only.
  let ms = january
  const planted = Array.from({ length: 320 }, (_, i): Planted => {
    ms += below(3) === 0 ? below(2 * dayMs) : below(20_000)
    const isMonth = i > 150 && i < 230
    const { channel, home, authors } = isMonth ? places.find(({ home }) => home === strange.id)! : places[below(100)]!
    const words = wordsOf(below, {
      korb: 60,
      taft: 30,
      nilm: 8,
      drus: isMonth || i < 40 ? 50 : 0,
      ypq: i % 97 === 5 ? 100 : 0,
    })
    return {
      id: idOf(shardOf(home), { ms, sequence: i }),
      channel,
      home,
      author: authors[below(authors.length)]!.id,
      words,
      isPinned: below(10) === 0,
    }
  })
  const column = (of: (message: Planted) => string | null) => planted.map(of)
  await cluster.sql`
    INSERT INTO messages (id, channel_id, server_id, author_id, content, pinned_at)
    SELECT * FROM unnest(${column(({ id }) => id)}::bigint[], ${column(({ channel }) => channel)}::bigint[],
      ${column(({ channel, home }) => (channel === home ? null : home))}::bigint[], ${column(({ author }) => author)}::bigint[],
      ${column(({ words }) => words.join(" "))}::text[], ${column(({ isPinned }) => (isPinned ? "1" : null))}::bigint[])`
  const said = await operator(["search", "rebuild"], { DATABASE_URL: cluster.databaseUrl })
  expect(said.out).toBe("320 messages indexed")
  await inSmallBlocks(cluster.databaseUrl)
  await cluster.sql`ANALYZE message_search`

  const readable = new Set([channel.id, ajar.id, dm.id])
  const model = planted.filter(message => readable.has(message.channel)).toReversed()
  const has =
    (...words: string[]) =>
    (message: Planted) =>
      words.every(word => message.words.includes(word))
  const isPhrase = ({ words }: Planted) => ` ${words.join(" ")} `.includes(" korb taft ")
  const isBetween =
    (from: number, to: number) =>
    ({ id }: Planted) =>
      BigInt(id) >= BigInt(idOf(0, { ms: january + from * dayMs, sequence: 0 })) &&
      BigInt(id) < BigInt(idOf(0, { ms: january + to * dayMs, sequence: 0 }))
  const cases: [string, object, (message: Planted) => boolean][] = [
    ["korb", {}, has("korb")],
    ["korb taft", {}, has("korb", "taft")],
    ['"korb taft"', {}, isPhrase],
    ["drus", {}, has("drus")],
    ["nilm drus", {}, has("nilm", "drus")],
    ["ypq", {}, has("ypq")],
    ["korb -taft", {}, message => has("korb")(message) && !has("taft")(message)],
    ["-korb", {}, message => !has("korb")(message)],
    ['taft -"korb taft"', {}, message => has("taft")(message) && !isPhrase(message)],
    [`from:${ada.id}`, {}, ({ author }) => author === ada.id],
    [`korb from:${lin.username}`, {}, message => has("korb")(message) && message.author === lin.id],
    ["korb", { author_id: eve.id }, () => false],
    [`in:${channel.id} in:${hidden.id} in:${far!.id} in:${theirs.id}`, {}, message => message.channel === channel.id],
    [`taft in:${dm.id} in:${ajar.id}`, {}, message => has("taft")(message) && message.channel !== channel.id],
    ["korb", { server_id: server.id }, message => has("korb")(message) && message.home === server.id],
    ["-taft", { server_id: closed.id }, message => !has("taft")(message) && message.home === closed.id],
    ['"korb taft"', { conversation_id: dm.id }, message => isPhrase(message) && message.channel === dm.id],
    [`before:${dayOf(40)}`, {}, isBetween(0, 40)],
    [`after:${dayOf(20)} before:${dayOf(90)}`, {}, isBetween(20, 90)],
    [`korb after:${dayOf(30)}`, {}, message => has("korb")(message) && isBetween(30, 10_000)(message)],
    ["pinned:true", {}, ({ isPinned }) => isPinned],
    ["korb pinned:false", {}, message => has("korb")(message) && !message.isPinned],
  ]
  const seen = { short: 0, empty: 0, further: 0 }
  for (const [n, place] of ways.entries()) {
    const { searchMessages } = lin.on(place)
    const limit = place === whole ? 40 : 16
    await Promise.all(
      [0, 1].map(async half => {
        for (const [query, more, isHit] of cases.filter((_, i) => i % 2 === half)) {
          const found: string[] = []
          let cursor: string | null = null
          do {
            const asked: object = { ...more, ...(cursor !== null && { cursor }) }
            const page = await searchMessages({ query, limit: String(limit), ...asked })
            found.push(...page.results.map(({ id }) => id))
            cursor = page.next_cursor
            if (page.results.length > limit || found.length > model.length) break
            if (cursor === null) continue
            seen.further++
            if (page.results.length < limit) seen.short++
            if (page.results.length === 0) seen.empty++
          } while (cursor !== null)
          expect([n, query, more, found]).toEqual([n, query, more, model.filter(isHit).map(({ id }) => id)])
        }
      }),
    )
  }
  // Else nothing was tried.
  expect(model.length).toBeGreaterThan(80)
  expect(seen.further).toBeGreaterThan(60)
  expect(seen.short).toBeGreaterThan(10)
  expect(seen.empty).toBeGreaterThan(0)

  const inChannel = model.filter(message => message.channel === channel.id)
  expect(inChannel.length).toBeGreaterThan(60)
  const holding = (part: string, limit: number) =>
    inChannel.filter(({ words }) => words.join(" ").includes(part)).slice(0, limit)
  const holds = async (place: typeof whole, content: string, limit: number) =>
    (await lin.on(place!).searchChannel({ channel_id: channel.id, content, limit: String(limit) })).map(({ id }) => id)
  for (const [place, content, limit] of [
    [whole, "ypq", 100],
    [whole, "yp", 100],
    [whole, "b t", 100],
    [pieces, "ypq", 100],
    [pieces, "drus", 2],
    [pieces, "rb", 7],
    [pieces, "t k", 3],
  ] as const)
    expect([content, await holds(place, content, limit)]).toEqual([
      content,
      holding(content, limit).map(({ id }) => id),
    ])
  // What is too much for one page goes on with the next: nothing is refused, missed or told twice.
  for (const [place, content, limit] of [
    [pieces, "yp", 100],
    [pieces, "%%", 100],
    [pieces, "q", 7],
    [pieces, "ypq", 7],
    [pieces, "korb", 100],
    [whole, "y", 7],
  ] as const) {
    const pages = await pagesOf(lin, place!, channel.id, content, limit)
    expect([content, pages.flat()]).toEqual([content, holding(content, everything).map(({ id }) => id)])
    for (const page of pages) expect(page.length).toBeLessThanOrEqual(limit)
    // Too short for the index of three characters each, or too frequent.
    if (place === pieces && content !== "ypq") expect(pages.length).toBeGreaterThan(1)
  }
  expect(await lin.on(pieces!).searchChannel({ channel_id: ajar.id, content: "zz" })).toEqual([])
  for (const cursor of ["x", "", Buffer.from("0").toString("base64url")])
    expect(await refusal(lin.on(pieces!).searchChannel({ channel_id: ajar.id, content: "zz", cursor }))).toBe(
      "invalid_cursor",
    )
})

test("a word of which PostgreSQL's statistics know nothing yet is found page by page, by bounded steps", async ({
  cluster,
}) => {
  const words = { few: 10, fewOfPhrases: 10, looks: 12, looksForPhrases: 12 }
  const ways = [
    { ...words, fewPlaces: 100 },
    { ...words, fewPlaces: 0, strangers: 1_000 },
  ].map(words => ({ steady: true, unbalanced: true, topology: { search: { gatherForMs: 5, words } } }))
  const places = await Promise.all(ways.map(async way => (await cluster.boot(1, way))[0]!))
  await cluster.balanced()
  const { ada, server, channel } = await cluster.seed(sharedServer)
  let ms = january
  const plant = async (content: string, count: number, everyMs: number, channelId = channel.id) => {
    const ids = Array.from({ length: count }, (_, sequence) =>
      idOf(shardOf(server.id), { ms: (ms += everyMs), sequence }),
    )
    await cluster.sql`
      INSERT INTO messages (id, channel_id, server_id, author_id, content)
      SELECT id, ${channelId}, ${server.id}, ${ada.id}, ${content} FROM unnest(${ids}::bigint[]) AS id`
    await operator(["search", "rebuild"], { DATABASE_URL: cluster.databaseUrl })
    return ids.toReversed()
  }
  await plant("usual words", 120, dayMs)
  await cluster.sql`ANALYZE message_search`
  // Some in the same moment, some hours apart.
  const sudden = [...(await plant("sudden words", 60, 10)), ...(await plant("sudden words", 60, dayMs / 4))].toSorted(
    (a, b) => Number(BigInt(b) - BigInt(a)),
  )
  for (const place of places)
    for (const query of ["sudden", '"sudden words"']) {
      const found: string[] = []
      let pages = 0
      let cursor: string | null = null
      do {
        const asked: object = { limit: "100", ...(cursor !== null && { cursor }) }
        const page = await ada.on(place).searchMessages({ query, ...asked })
        found.push(...page.results.map(({ id }) => id))
        cursor = page.next_cursor
      } while (cursor !== null && ++pages < 100)
      expect([query, found]).toEqual([query, sudden])
      // All at once would be two pages.
      expect(pages).toBeGreaterThan(3)
    }

  const elsewhere = await ada.on(places[0]!).createChannel({ server_id: server.id, name: "elsewhere" })
  const few = await plant("sudden words", 3, 10, elsewhere.id)
  const pool = { ...clusterConfig.storage, url: cluster.databaseUrl, connections: 1, name: "test" }
  const sql = openPool({ ...pool, settings: searchSettings })
  try {
    await sql.begin(async transaction => {
      const index = searchStorage(transaction as unknown as Sql)
      const rowsRead = async () => {
        const [row] = await transaction<{ rows: number }[]>`
          SELECT pg_stat_get_xact_tuples_fetched('message_search'::regclass)::int AS rows`
        return row!.rows
      }
      const [from, below] = ["0", "9223372036854775807"]
      const middle = sudden[80]!
      const step = async (most: number) => {
        const pieces = [
          { words: null, from: middle, below, most: 1_000 },
          { words: null, from, below: middle, most },
        ]
        const { found, edge, full } = await index.newest(
          { words: ["'sudden'", `':c${BigInt(channel.id).toString(36)}'`], exact: null },
          pieces,
          { places: null, hidden: [] },
          { from, below, pinned: null, limit: 200 },
          1_000,
        )
        return { found: found.length, edge, full }
      }
      expect(await step(39)).toEqual({ found: 120, edge: null, full: null })
      expect(await step(38)).toEqual({ found: 81, edge: middle, full: 1 })

      // What stands elsewhere is not read, however rare the word.
      const before = await rowsRead()
      const { found } = await findMessages({
        index,
        reach: clusterConfig.search.words,
        languages: [],
        scope: { homes: [], hidden: [], channels: [elsewhere.id], participant: null },
        query: readQuery("sudden", Date.now()),
        author: undefined,
        span: { from, below, limit: 26 },
        now: Date.now(),
      })
      expect(found.map(({ message_id }) => message_id)).toEqual(few)
      expect((await rowsRead()) - before).toBe(few.length)
    })
  } finally {
    await sql.end()
  }
})

test("a user who searches more than they may keeps only themselves waiting", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "loganberry" })
  await indexed(shared)
  const { searchMessages } = ada.on(shared.west)
  const outcomes: (number | string)[] = []
  const stuck = async () =>
    (
      await shared.sql`
        SELECT count(*)::int AS stuck FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE '% search'`
    )[0]!["stuck"] as number
  let asked: Promise<unknown>[] = []
  // Nothing can be read there meanwhile.
  await shared.sql.begin(async sql => {
    await sql`LOCK TABLE message_search IN ACCESS EXCLUSIVE MODE`
    asked = Array.from({ length: 6 }, async () => {
      const search = searchMessages({ query: "loganberry", server_id: server.id })
      outcomes.push(await search.then(({ results }) => results.length).catch(() => refusal(search)))
    })
    await until("the first one hangs, and two are refused", async () => outcomes.length === 2 && (await stuck()) === 1)
    expect(outcomes).toEqual(["search_busy", "search_busy"])
    const busy = ada.on(shared.west)
    for (const search of [
      () => busy.searchChannel({ channel_id: channel.id, content: "b" }),
      () => busy.searchUsers({ query: lin.username }),
      () => busy.searchServers({ query: "server" }),
    ])
      expect(await refusal(search())).toBe("search_busy")
    const { status, headers } = await fetch(`${shared.west.url}/api/v1/search/messages?query=loganberry`, {
      headers: { authorization: `Bearer ${ada.token}` },
    })
    expect([status, Number(headers.get("retry-after"))]).toEqual([429, expect.any(Number)])
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
    const { results } = await lin.on(shared.west).searchUsers({ query: ada.username })
    expect(results.map(({ user_id }) => user_id)).toEqual([ada.id])
    expect(await stuck()).toBe(1)
  })
  await Promise.all(asked)
  expect(outcomes).toEqual(["search_busy", "search_busy", 1, 1, 1, 1])
})

test("what was edited is found as it is now, what was deleted not at all, and what the index lost a rebuild brings back", async ({
  shared,
}) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const { createMessage, editMessage, deleteMessage } = ada.on(shared.east)
  const [one, two] = [
    await createMessage({ channel_id, content: "quince jam" }),
    await createMessage({ channel_id, content: "quince tart" }),
  ]
  await indexed(shared)
  const find = finder(lin, shared)
  const found = async (query: string) =>
    (await find(query, { channel_id })).toSorted((a, b) => (String(a) < String(b) ? -1 : 1))
  expect(await found("quince")).toEqual(["quince jam", "quince tart"])
  await editMessage({ channel_id, message_id: one.id, content: "medlar jam" })
  await deleteMessage({ channel_id, message_id: two.id })
  // At once, by the message itself: the index follows.
  expect(await found("quince tart")).toEqual([])
  expect(await lin.on(shared.west).searchChannel({ channel_id, content: "quince" })).toEqual([])
  await until("the edit is indexed", async () => (await found("medlar")).length === 1)
  expect(await found("quince")).toEqual([])
  await until(
    "the deleted one is gone",
    async () => (await shared.sql`SELECT FROM message_search WHERE message_id = ${two.id}`).length === 0,
  )
  await shared.sql`DELETE FROM message_search WHERE channel_id = ${channel_id}`
  await shared.sql`INSERT INTO message_search (channel_id, message_id, home_id, edited_at, folded, words) VALUES (${channel_id}, ${two.id}, 1, 0, 'ghost', 'ghost')`
  expect(await found("medlar")).toEqual([])
  const [said] = await Promise.all([
    operator(["search", "rebuild"], { DATABASE_URL: shared.databaseUrl }),
    createMessage({ channel_id, content: "sorb jam" }),
  ])
  expect(said).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+ messages indexed$/) as string })
  await until("all is there again", async () => (await found("jam")).length === 2)
  expect(await shared.sql`SELECT FROM message_search WHERE folded = 'ghost'`).toHaveLength(0)
})

test("users are found by the beginning of their names, but for those who blocked one another", async ({ shared }) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const names = ["zora_b", "zora_a", "zora"].map(name => shared.newName(name))
  const people = []
  for (const name of names) people.push(await shared.person(name))
  const { searchUsers, blockUser } = lin.on(shared.west)
  const named = async (query: string, more: object = {}) =>
    (await searchUsers({ query, ...more })).results.map(({ username }) => username)
  const sorted = people.map(({ username }) => username).toSorted()
  expect(await named("ZORA")).toEqual(sorted)
  expect((await searchUsers({ query: sorted[0]! })).results[0]).toMatchObject({
    username: sorted[0],
    score: 1,
    display_name: null,
  })
  const page = await searchUsers({ query: "zora", limit: "2" })
  expect(page.results).toHaveLength(2)
  expect(await named("zora", { limit: "2", cursor: page.next_cursor! })).toEqual([sorted[2]])
  expect(await named("zora", { server_id: server.id })).toEqual([])
  expect(await named(ada.username.slice(0, 4), { server_id: server.id })).toContain(ada.username)
  await blockUser({ user_id: people[0]!.id })
  await people[1]!.on(shared.east).blockUser({ user_id: lin.id })
  expect(await named("zora")).toEqual([people[2]!.username])
  for (const query of ["zo%", "__", "zora' --", "\\\\"]) expect(await named(query)).toEqual([])
  expect(await refusal(searchUsers({ query: "z" }))).toBe("validation_failed")
  expect(await refusal(searchUsers({ query: "zora", cursor: "x" }))).toBe("invalid_cursor")
  expect(await refusal(searchUsers({ query: "zora", server_id: "x" }))).toBe("invalid_server_id")
  expect(await refusal(searchUsers({ query: "zora", server_id: "5" }))).toBe("server_not_found")
  expect(await refusal(people[2]!.on(shared.east).searchUsers({ query: "zora", server_id: server.id }))).toBe(
    "access_denied",
  )
})

test("public servers are found by name and description, others never", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { createServer, editServer, searchServers } = ada.on(shared.east)
  const made = async (name: string, description: string, settings: object) => {
    const { id } = await createServer({ name, description })
    await editServer({ server_id: id, ...settings })
    return id
  }
  await made("Kumquat", "private", {})
  const exact = await made("KUMQUAT", "", { public: true, category: "Fruit" })
  const begins = await made("Kumquats 100%", "", { public: true })
  const holds = await made("My kumquat", "", { public: true, category: "fruit" })
  const described = await made("Orchard", "about Kumquats", { public: true })
  const lin = await shared.person("lin")
  const found = async (query: string, more: object = {}) =>
    (await lin.on(shared.west).searchServers({ query, ...more })).results.map(({ server_id }) => server_id)
  expect(await found("kumquat")).toEqual([exact, begins, holds, described])
  expect(await found("kumquat", { category: "FRUIT" })).toEqual([exact, holds])
  expect(await found("0%")).toEqual([])
  expect(await found("100%")).toEqual([begins])
  expect((await found("ku")).toSorted()).toEqual([exact, begins].toSorted())
  const page = await searchServers({ query: "kumquat", limit: "3" })
  expect(page.results.map(({ score }) => score)).toEqual([1, 0.9, 0.7])
  expect(await found("kumquat")).toHaveLength(4)
  expect(
    (await searchServers({ query: "kumquat", cursor: page.next_cursor! })).results.map(({ server_id }) => server_id),
  ).toEqual([described])
  expect(await refusal(searchServers({ query: "kumquat", category: "x", cursor: page.next_cursor! }))).toBe(
    "invalid_cursor",
  )
  await editServer({ server_id: exact, public: false })
  expect(await found("kumquat")).toEqual([begins, holds, described])
})

test("while nothing is searched, what was deleted or edited does not stay among what can be", async ({ cluster }) => {
  const off = { config: { STARLING_SEARCH_ENABLED: "false" }, topology: { search: { gatherForMs: 5, share: 1 } } }
  const [place] = await cluster.boot(1, off)
  await cluster.bootJobWorker(off)
  const { ada, channel } = await cluster.seed(sharedServer)
  const channel_id = channel.id
  const { createMessage, editMessage, deleteMessage, bulkDeleteMessages } = ada.on(place!)
  const ids: string[] = []
  for (const nonce of [undefined, "kept", undefined, undefined, undefined, undefined])
    ids.push((await createMessage({ channel_id, content: "a secret", nonce })).id)
  const [gone, left, one, two, edited, stays] = ids
  // Of when it was on.
  await cluster.sql`
    INSERT INTO message_search (channel_id, message_id, home_id, edited_at, folded, words)
    SELECT channel_id, id, server_id, 0, content, 'secret' FROM messages`
  const rows = async () =>
    (await cluster.sql`SELECT message_id FROM message_search ORDER BY message_id`).map(
      row => row["message_id"] as string,
    )
  await deleteMessage({ channel_id, message_id: gone! })
  await deleteMessage({ channel_id, message_id: left! })
  await bulkDeleteMessages({ channel_id, messages: [one!, two!] })
  expect(await rows()).toEqual([edited, stays])
  await editMessage({ channel_id, message_id: edited!, content: "nothing" })
  await until("the old text is gone", async () => (await rows()).length === 1)
  expect(await rows()).toEqual([stays])
})

test("new rows are soon sorted into the index, so that searches do not go through them one by one", async ({
  cluster,
}) => {
  const sorting = (sortEveryMs: number) => ({ topology: { search: { gatherForMs: 5, sortEveryMs } } })
  const [place] = await cluster.boot(1)
  const seldom = await cluster.bootJobWorker(sorting(600_000))
  const { ada, channel } = await cluster.seed(sharedServer)
  await cluster.sql`CREATE EXTENSION pageinspect`
  const unsorted = async () => {
    const [row] = await cluster.sql<{ words: number }[]>`
      SELECT (gin_metapage_info(get_raw_page('message_search_words', 0))).n_pending_tuples::int AS words`
    return row!.words
  }
  const said = async (content: string) => {
    await ada.on(place!).createMessage({ channel_id: channel.id, content })
    await until(
      "it is found",
      async () => (await ada.on(place!).searchMessages({ query: content })).results.length === 1,
    )
  }
  await said("kumquat")
  expect(await unsorted()).toBeGreaterThan(0)
  await seldom.stop()
  await cluster.bootJobWorker(sorting(50))
  await said("physalis")
  await until("all is sorted in", async () => (await unsorted()) === 0)
})

test("IDX1: an edited message is not found by its old text, indexed or not", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  await cluster.bootJobWorker({ topology: { search: { gatherForMs: 5 } } })
  const { ada, channel } = await cluster.seed(sharedServer)
  const { createMessage, searchMessages } = ada.on(place!)
  const { id } = await createMessage({ channel_id: channel.id, content: "the password is hunter" })
  const found = async () => (await searchMessages({ query: "hunter" })).results.length
  await until("it is found", async () => (await found()) === 1)
  // As an edit leaves it that the index has not followed yet.
  await cluster.sql`UPDATE messages SET content = '…', edited_at = ${Math.floor(Date.now() / 1000) + 1} WHERE id = ${id}`
  expect(await found()).toBe(0)
})

test("what was committed when its owner died is indexed, in servers and conversations", async ({ cluster }) => {
  const [east] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const eve = await cluster.person("eve")
  const dm = await ada.on(east!).openDirectChannel({ recipient_id: eve.id })
  for (const { id } of [channel, dm]) await ada.on(east!).createMessage({ channel_id: id, content: "last words" })
  const rows = () => cluster.sql`SELECT channel_id FROM message_search ORDER BY channel_id`
  expect(await rows()).toEqual([])
  await east!.stop()
  await cluster.bootJobWorker({ topology: { search: { gatherForMs: 5 } } })
  await until("both are indexed", async () => (await rows()).length === 2)
  const [west] = await cluster.boot(1)
  const { results } = await ada.on(west!).searchMessages({ query: "last words" })
  expect(results.map(({ channel_id }) => channel_id).toSorted()).toEqual([channel.id, dm.id].toSorted())
})
