import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { GatewaySessions } from "./gateway-sessions.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "gateway sessions test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

test("a user's connections are counted by session; a worker counts out only its own", async () => {
  const records = new GatewaySessions(redis, redisKeys(`test-${randomUUID()}:`))
  expect(await records.connect("u", "a", "east")).toEqual(["east"])
  expect((await records.connect("u", "b", "west")).toSorted()).toEqual(["east", "west"])
  // The session goes on elsewhere; that its old socket has ended is heard later.
  await records.connect("u", "a", "west")
  expect(await records.disconnect("u", "a", "east")).toEqual(["west", "west"])
  expect(await records.disconnect("u", "a", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "unknown", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "b", "west")).toEqual([])
})
