import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { GatewaySessions } from "./gateway-sessions.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "gateway sessions test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

test("a user's connections are counted by session; a worker counts out only its own", async () => {
  const records = new GatewaySessions(redis, redisKeys(`test-${randomUUID()}:`), () => true)
  expect(await records.connect("u", "a", "east")).toEqual(["east"])
  expect((await records.connect("u", "b", "west")).toSorted()).toEqual(["east", "west"])
  // The session goes on elsewhere; that its old socket has ended is heard later.
  await records.connect("u", "a", "west")
  expect(await records.disconnect("u", "a", "east")).toEqual(["west", "west"])
  expect(await records.disconnect("u", "a", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "unknown", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "b", "west")).toEqual([])
})

test("P17: a record is short only while everybody reads that, is read in either form, and is reported once to be written again", async () => {
  let isShortRead = false
  const keys = redisKeys(`test-${randomUUID()}:`)
  const records = new GatewaySessions(redis, keys, () => isShortRead)
  const record = {
    id: "s",
    worker: "east",
    user: "7",
    accessSession: "8",
    intents: 9,
    guilds: ["10", "11"],
    changes: [{ server: "12", s: 3, isMember: true }],
    spans: [{ log: "east", lo: 1, hi: null, counted: false, since: 1 }],
    voice: null,
  }
  const written = async () => {
    expect(await records.save(record)).toBe(true)
    expect(await records.load("s")).toEqual(record)
    return (await redis.hget(await onlyKey(keys.gatewaySession("*", "*")), "record"))!
  }
  // As the version before reads it.
  expect({ ...(JSON.parse(await written()) as object), worker: "east" }).toEqual(record)
  expect(records.takeUnreadable()).toBe(false)
  isShortRead = true
  expect(await written()).toMatch(/^2;/)
  expect(records.takeUnreadable()).toBe(false)
  isShortRead = false
  expect([records.takeUnreadable(), records.takeUnreadable()]).toEqual([true, false])
  expect(await written()).toMatch(/^{/)
})

async function onlyKey(pattern: string): Promise<string> {
  const found = await redis.keys(pattern)
  expect(found).toHaveLength(1)
  return found[0]!
}
