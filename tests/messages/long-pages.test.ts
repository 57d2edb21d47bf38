/** Lists of messages end early where they would be too long, and a client gets all of them all the same. */
import { limits } from "../../src/contract/core/limits.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import { routes as messageRoutes } from "../../src/contract/messages/messages.ts"
import { routes as pinRoutes } from "../../src/contract/messages/pins.ts"
import { routes as searchRoutes } from "../../src/contract/messages/search.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { send } from "../kit/exchange.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: { search: { gatherForMs: 5, share: 1 } }, jobWorkers: 1 })

const longest = limits.messagesPageBytes

test(
  "history, pins and searches end a page before a megabyte of JSON, with what is needed to go on, and miss or repeat nothing",
  {
    timeout: 60_000,
  },
  async ({ shared }) => {
    const { ada, lin, channel } = await sharedServer(shared, shared.east)
    const channel_id = channel.id
    const embeds = [{ description: "long", more: "ü".repeat(22_000) }]
    const ids: string[] = []
    for (let i = 0; i < 50; i++) {
      const { id } = await ada.on(shared.east).createMessage({ channel_id, content: `needle ${i}`, embeds })
      await ada.on(shared.west).pinMessage({ channel_id, message_id: id })
      ids.push(id)
    }
    const newestFirst = ids.toReversed()
    await until("all is indexed", async () => {
      const [row] = await shared.sql<
        [{ count: number }]
      >`SELECT count(*)::int AS count FROM message_search WHERE channel_id = ${channel_id}`
      return row.count === ids.length
    })

    const ask = async (path: string, route: Route) => {
      const { status, bytes, body, headers } = await send(shared.west, `/api/v1${path}`, { route, token: lin.token })
      expect(status).toBe(200)
      expect(bytes.length).toBeLessThanOrEqual(longest)
      const found = body as { results: Message[]; next_cursor: string | null }
      const messages = Array.isArray(body) ? (body as Message[]) : found.results
      return { ids: messages.map(({ id }) => id), next: headers.get("x-next-cursor") ?? found.next_cursor ?? null }
    }
    /** Every page until there is nothing to go on with. */
    const all = async (route: Route, pathOf: (next: string | null) => string) => {
      const pages: string[][] = []
      for (let next: string | null = null; ;) {
        const page = await ask(pathOf(next), route)
        pages.push(page.ids)
        if (page.next === null) return pages
        expect(page.ids.length).toBeGreaterThan(0)
        ;({ next } = page)
      }
    }
    const cursor = (name: string, next: string | null) => (next === null ? "" : `&${name}=${next}`)

    const history = await all(
      messageRoutes.listMessages,
      next => `/channels/${channel_id}/messages?limit=100${cursor("before", next)}`,
    )
    expect(history.length).toBeGreaterThan(2)
    expect(history.flat()).toEqual(newestFirst)
    // The newest page is in the cache by now.
    expect(await ask(`/channels/${channel_id}/messages?limit=100`, messageRoutes.listMessages)).toEqual({
      ids: history[0],
      next: history[0]!.at(-1),
    })
    const forward = await all(
      messageRoutes.listMessages,
      next => `/channels/${channel_id}/messages?limit=100&after=${next ?? "0"}`,
    )
    expect(forward.flat()).toEqual(ids)
    const around = await ask(`/channels/${channel_id}/messages?limit=50&around=${ids[25]}`, messageRoutes.listMessages)
    expect(around.ids).toContain(ids[25])
    expect(around.ids).toEqual(newestFirst.slice(newestFirst.indexOf(around.ids[0]!)).slice(0, around.ids.length))
    expect([around.ids.length > 5, around.next]).toEqual([true, around.ids.at(-1)])
    // What fits has no header.
    expect((await ask(`/channels/${channel_id}/messages?limit=2`, messageRoutes.listMessages)).next).toBeNull()

    expect(
      (await all(pinRoutes.listPins, next => `/channels/${channel_id}/pins?${cursor("cursor", next)}`)).flat(),
    ).toEqual(newestFirst)
    for (const [route, path] of [
      [searchRoutes.searchChannel, `/channels/${channel_id}/messages/search?limit=100&content=needle`],
      [searchRoutes.searchMessages, `/search/messages?limit=100&query=needle`],
    ] as const) {
      const found = await all(route, next => path + cursor("cursor", next))
      expect(found.length).toBeGreaterThan(2)
      expect(found.flat()).toEqual(newestFirst)
    }
    expect(
      (
        await send(shared.west, `/api/v1/channels/${channel_id}/pins?cursor=nonsense`, {
          route: pinRoutes.listPins,
          token: lin.token,
        })
      ).code,
    ).toBe("invalid_cursor")
  },
)

test("one message is shown however long it is", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada })
  const ids = [plantedId(), plantedId()].toSorted()
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content, embeds)
    SELECT ${channel_id}, id, ${server_id}, ${ada.id}, 'planted', ${JSON.stringify([{ more: "x".repeat(1_100_000) }])}::text::json
    FROM unnest(${ids}::bigint[]) AS id`
  const first = await send(shared.east, `/api/v1/channels/${channel_id}/messages`, { token: ada.token })
  expect((first.body as Message[]).map(({ id }) => id)).toEqual([ids[1]])
  expect(first.headers.get("x-next-cursor")).toBe(ids[1])
  const second = await send(shared.east, `/api/v1/channels/${channel_id}/messages?before=${ids[1]}`, {
    token: ada.token,
  })
  expect((second.body as Message[]).map(({ id }) => id)).toEqual([ids[0]])
  expect(second.headers.get("x-next-cursor")).toBeNull()
})

test(
  "names of readers count: 50 messages that a thousand have read fit into a page",
  { timeout: 60_000 },
  async ({ shared }) => {
    const ada = await shared.person("ada")
    const readers = Array.from({ length: 1_000 }, (_, i) => ({ id: plantedId(), username: `${"r".repeat(24)}${i}` }))
    await shared.sql`
    INSERT INTO users (id, username, email, password_hash, created_at)
    SELECT id, name, name || '@example.org', '', 0 FROM unnest(${readers.map(({ id }) => id)}::bigint[], ${readers.map(({ username }) => username)}::text[]) AS t (id, name)`
    const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: readers })
    const ids = Array.from({ length: 50 }, () => plantedId()).toSorted()
    await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel_id}, id, ${server_id}, ${ada.id}, 'planted' FROM unnest(${ids}::bigint[]) AS id`
    await shared.sql`
    INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id)
    SELECT ${channel_id}, id, 0, ${ids.at(-1)!}, ${ids.at(-1)!} FROM unnest(${readers.map(({ id }) => id)}::bigint[]) AS id`
    const seen: string[] = []
    for (let before: string | null = "9223372036854775807"; before !== null;) {
      const page = await send(shared.east, `/api/v1/channels/${channel_id}/messages?limit=100&before=${before}`, {
        token: ada.token,
      })
      expect(page.bytes.length).toBeLessThanOrEqual(longest)
      const messages = page.body as Message[]
      expect(messages[0]!.read_by).toHaveLength(1_000)
      seen.push(...messages.map(({ id }) => id))
      before = page.headers.get("x-next-cursor")
    }
    expect(seen).toEqual(ids.toReversed())
  },
)
