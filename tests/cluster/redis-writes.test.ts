/** How commands leave on connections to Redis. */
import { setImmediate } from "node:timers/promises"
import type { Redis as Server } from "ioredis"
import { afterEach, expect, inject, test } from "vitest"
import { openRedis } from "../../src/cluster/redis.ts"
import { openLink, type Link } from "../chaos/proxy.ts"
import { countWrites } from "../kit/socket-writes.ts"

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function open(url: string, options = {}): Promise<Server> {
  const redis = openRedis(url, "redis writes test", () => {}, options) as Server
  undo.push(() => redis.disconnect())
  await redis.connect()
  return redis
}

async function openThroughProxy(options = {}): Promise<{ redis: Server; link: Link }> {
  const url = new URL(inject("redis"))
  const target = { host: url.hostname, port: Number(url.port) }
  const link = await openLink("redis writes", () => target)
  undo.push(() => link.close())
  url.host = `127.0.0.1:${link.port}`
  return { link, redis: await open(url.href, options) }
}

const echoes = (redis: Server, count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => redis.echo(`text ${i}`)))
const texts = (count: number) => Array.from({ length: count }, (_, i) => `text ${i}`)

test("commands of one turn leave in one write, in their order, and each has its own answer", async () => {
  const redis = await open(inject("redis"))
  const writes = countWrites(redis)
  const [first, pipeline, transaction, wrong, later] = await Promise.all([
    echoes(redis, 20),
    redis.pipeline().echo("in a pipeline").call("no-such-command").exec(),
    redis.multi().echo("in a transaction").exec(),
    redis.call("no-such-command").catch((error: Error) => error.message),
    // What follows at once belongs to the turn.
    Promise.resolve().then(() => echoes(redis, 20)),
  ])
  expect(first).toEqual(texts(20))
  expect(pipeline![0]).toEqual([null, "in a pipeline"])
  expect(pipeline![1]![0]!.message).toContain("unknown command")
  expect(transaction).toEqual([[null, "in a transaction"]])
  expect(wrong).toContain("unknown command")
  expect(later).toEqual(texts(20))
  expect(writes.count).toBe(1)
})

test("a command has left before anything else is handled", async () => {
  const redis = await open(inject("redis"))
  const writes = countWrites(redis)
  for (let i = 1; i <= 5; i++) {
    const answer = redis.echo("alone")
    await new Promise(resolve => process.nextTick(resolve))
    expect(writes.count).toBe(i)
    expect(await answer).toBe("alone")
    await setImmediate()
  }
})

test("what is cut off fails at once, each command of a write, and the connection after it gathers again", async () => {
  const { redis, link } = await openThroughProxy()
  link.set({ lost: "replies" })
  const unanswered = Promise.allSettled(Array.from({ length: 5 }, () => redis.echo("unanswered")))
  await setImmediate()
  const again = new Promise(resolve => redis.once("ready", resolve))
  link.set({}) // ends the connection that has lost something
  for (const { status } of await unanswered) expect(status).toBe("rejected")
  await again
  const writes = countWrites(redis)
  expect(await echoes(redis, 10)).toEqual(texts(10))
  expect(writes.count).toBe(1)
})

test("commands of one write that are not answered time out, each of them", async () => {
  const { redis, link } = await openThroughProxy({ commandTimeout: 200 })
  link.set({ lost: "replies" })
  const ends = await Promise.allSettled(Array.from({ length: 5 }, () => redis.echo("unanswered")))
  for (const end of ends) expect(end).toMatchObject({ status: "rejected", reason: { message: "Command timed out" } })
})

test("commands that are given in the turn in which the connection ends are settled", async () => {
  const redis = await open(inject("redis"))
  const given = Promise.allSettled(Array.from({ length: 5 }, () => redis.echo("last")))
  redis.disconnect()
  for (const end of await given)
    expect(end.status === "fulfilled" ? end.value : String(end.reason)).toMatch(/^last$|Connection is closed/)
})
