import type { Readable } from "node:stream"
import { Redis as Client } from "ioredis"
import { expect, inject, test } from "vitest"
import { openRedis } from "./redis.ts"

/** How many answers of so many were laid aside, to be handed over in another tick than that in which they came. */
async function laidAside(redis: Client): Promise<number> {
  await redis.connect()
  const { stream } = redis as unknown as { stream: Readable }
  const read = stream.read.bind(stream) as (size?: number) => unknown
  let count = 0
  stream.read = size => {
    const chunk = read(size)
    if (chunk !== null) count++
    return chunk
  }
  for (let i = 0; i < 20; i++) await redis.ping()
  redis.disconnect()
  return count
}

test("answers of Redis are handed over in the tick in which they come", async () => {
  expect(await laidAside(openRedis(inject("redis"), "test", () => {}) as Client)).toBe(0)
  // Once this is 0 as well, `gather` needs no listener of its own.
  expect(await laidAside(new Client(inject("redis"), { lazyConnect: true }))).toBeGreaterThan(10)
})
