import { shardOf } from "../src/domain/snowflake.ts"
import { plantServer, plantedId, sharedServer } from "./kit/seeds.ts"
import { refusal } from "./kit/conformance.ts"
import { expect, test } from "./kit/test.ts"

test("pages go newest first, or oldest first after a message, and never miss or repeat one", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const ids = Array.from({ length: 230 }, () => plantedId(shardOf(server_id)))
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel_id}, id, ${server_id}, ${ada.id}, 'planted' FROM unnest(${ids}::bigint[]) AS id`
  const page = async (query: { limit?: string; before?: string; after?: string }, place = shared.east) =>
    (await lin.on(place).listMessages({ channel_id, ...query })).map(({ id }) => id)
  const newestFirst = ids.toReversed()

  expect(await page({})).toEqual(newestFirst.slice(0, 50))
  expect(await page({ limit: "1" })).toEqual(newestFirst.slice(0, 1))
  expect(await page({ limit: "100" })).toEqual(newestFirst.slice(0, 100))
  expect(await page({ before: ids[100]! })).toEqual(ids.slice(50, 100).reverse())
  expect(await page({ after: ids[100]! })).toEqual(ids.slice(101, 151))
  expect(await page({ before: ids[100]!, after: ids[20]!, limit: "3" })).toEqual(ids.slice(97, 100).reverse())
  expect(await page({ before: ids[0]! })).toEqual([])
  expect(await page({ after: ids[229]! })).toEqual([])
  expect(await page({ after: "0", limit: "2" })).toEqual(ids.slice(0, 2))
  expect(await page({ before: "9223372036854775807", limit: "2" })).toEqual(newestFirst.slice(0, 2))
  // Positions need not be messages.
  const between = (BigInt(ids[10]!) + 1n).toString()
  expect((await page({ after: between, limit: "1" }))[0]).toBe(BigInt(ids[11]!) === BigInt(between) ? ids[12] : ids[11])

  for (const [key, start] of [
    ["before", "9223372036854775807"],
    ["after", "0"],
  ] as const) {
    const walked: string[] = []
    for (let at: string = start, i = 0; ; i++) {
      const found = await page({ [key]: at, limit: "70" }, i % 2 ? shared.east : shared.west)
      if (found.length === 0) break
      walked.push(...found)
      at = found.at(-1)!
    }
    expect(walked).toEqual(key === "before" ? newestFirst : ids)
  }
})

test("what is out of range is a validation error", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const { listMessages } = ada.on(shared.east)
  const channel_id = channel.id
  for (const limit of ["0", "101", "-1", "1.5", "ten", "", "1e1", "99999999999999999999", " 5"])
    expect(await refusal(listMessages({ channel_id, limit }))).toBe("validation_failed")
  for (const id of ["x", "-1", "", "1.5", "9223372036854775808", "0x1", "１"]) {
    expect(await refusal(listMessages({ channel_id, before: id }))).toBe("validation_failed")
    expect(await refusal(listMessages({ channel_id, after: id }))).toBe("validation_failed")
  }
  expect(await listMessages({ channel_id, nonsense: "is ignored" } as never)).toEqual([])
})

test("history is for those who see the channel", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const secret = await plantServer(shared, { owner: ada, members: [lin], everyone: ["channels.view"] })
  expect(await refusal(eve.on(shared.east).listMessages({ channel_id: channel.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: secret.channel_id }))).toBe("permission_denied")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: "x" }))).toBe("invalid_channel_id")
  expect(await ada.on(shared.west).listMessages({ channel_id: secret.channel_id })).toEqual([])
})

test("P4: what was acknowledged is on the first page of any worker at once", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  for (let i = 0; i < 20; i++) {
    const [here, there] = i % 2 ? [shared.east, shared.west] : [shared.west, shared.east]
    const { id } = await ada.on(here).createMessage({ channel_id: channel.id, content: `${i}` })
    const [newest] = await lin.on(there).listMessages({ channel_id: channel.id, limit: "1" })
    expect(newest!.id).toBe(id)
  }
})
