import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { Interests } from "./interests.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "interests test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const interest = (worker: string) => ({ home: "7", worker, from: 3 })

test("HASH1: an owner that was replaced changes nothing that the next one has written", async () => {
  const interests = new Interests(redis, redisKeys(`test-${randomUUID()}:`))
  const [before, after] = [1, 2].map(epoch => ({ number: 5, epoch }))
  await interests.replace(before!, [interest("a")])
  await interests.add(after!, [interest("b")])
  await interests.replace(before!, [interest("a"), interest("late")])
  await interests.add(before!, [interest("late")])
  await interests.remove(before!, [interest("b")])
  const { list, isComplete } = (await interests.load([5])).get(5)!
  expect(list).toEqual([interest("a"), interest("b")])
  expect(isComplete).toBe(true)
  await interests.replace(after!, [interest("c")])
  expect((await interests.load([5])).get(5)!.list).toEqual([interest("c")])
})

test("what was added to nothing is not called everything", async () => {
  const interests = new Interests(redis, redisKeys(`test-${randomUUID()}:`))
  await interests.add({ number: 5, epoch: 1 }, [interest("a")])
  expect((await interests.load([5])).get(5)).toEqual({ list: [interest("a")], isComplete: false })
})
