import { expect, test } from "vitest"
import type { Clock } from "../std/clock.ts"
import { epochMs } from "../domain/core/snowflake.ts"
import { DeliveryCounts } from "./delivery-counts.ts"

const message = { id: (BigInt(Date.now() - epochMs) << 22n).toString(), author_id: "1" }

/** So many who have received everything. */
function block(count: number): Buffer {
  const members = Buffer.alloc(24 * count)
  for (let i = 0; i < count; i++) {
    members.writeBigInt64BE(BigInt(i + 10), 24 * i)
    members.writeDoubleBE(1e18, 24 * i + 16)
  }
  return members
}

/** A database that takes its time. */
class Scene {
  now = 0
  took = 0
  takes = 40
  count = 1_000
  isBroken = false
  readonly asked: string[] = []
  #later: { at: number; action: () => void }[] = []
  readonly clock = {
    monotonic: () => this.now,
    sleep: (ms: number) => new Promise<void>(resolve => void this.clock.after(ms, resolve)),
    after: (ms: number, action: () => void) => {
      const timer = { at: this.now + ms, action }
      this.#later.push(timer)
      return { stop: () => void (this.#later = this.#later.filter(other => other !== timer)) }
    },
  } as unknown as Clock
  readonly delivered: DeliveryCounts

  constructor(maxBytes?: number) {
    const ofDirects = async (channels: readonly string[]) => {
      this.asked.push(...channels)
      const startedAt = this.now
      await new Promise<void>(resolve => void this.clock.after(this.takes, resolve))
      this.took += this.now - startedAt
      if (this.isBroken) throw new Error("canceling statement due to statement timeout")
      return channels.map(channel_id => ({ channel_id, roles: [], named: false, members: block(this.count) }))
    }
    const storage = { deliveries: { ofDirects } } as never
    this.delivered = new DeliveryCounts({ storage, clock: this.clock, ...(maxBytes !== undefined && { maxBytes }) })
  }

  async pass(ms: number): Promise<void> {
    for (const end = this.now + ms; this.now < end;) {
      this.now += 10
      const due = this.#later.filter(({ at }) => at <= this.now)
      this.#later = this.#later.filter(({ at }) => at > this.now)
      for (const { action } of due) action()
      await new Promise(resolve => setImmediate(resolve))
    }
  }

  /** What a page says, and after how long. */
  async page(channel: string): Promise<[count: number, after: number]> {
    const startedAt = this.now
    const found: number[] = []
    const counted = this.delivered.counts(channel, null, [message]).then(counts => found.push(...counts))
    await new Promise(resolve => setImmediate(resolve))
    while (found.length === 0) await this.pass(10)
    await counted
    return [found[0]!, this.now - startedAt]
  }
}

test("channels with many members are looked up anew in one part of 25 of the time, each in its turn, and no page waits for it", async () => {
  const scene = new Scene()
  const channels = Array.from({ length: 5 }, (_, i) => `channel ${i}`)
  for (const channel of channels) expect(await scene.page(channel)).toEqual([1_000, 40])
  await scene.pass(5 * 25 * 40)
  for (const channel of channels) await scene.page(channel)
  await scene.pass(5 * 25 * 40)
  const [startedAt, tookBefore] = [scene.now, scene.took]
  scene.asked.length = 0
  while (scene.now < startedAt + 20_000) {
    const pages = channels.map(channel => scene.delivered.counts(channel, null, [message]))
    await scene.pass(50)
    await Promise.all(pages)
  }
  expect((scene.took - tookBefore) / 20_000).toBeLessThanOrEqual(1 / 25 + 40 / 20_000)
  expect(scene.asked.length).toBeGreaterThan(10)
  for (const channel of channels) {
    const turns = scene.asked.filter(other => other === channel).length
    expect(Math.abs(turns - scene.asked.length / 5)).toBeLessThanOrEqual(1)
    const [count, after] = await scene.page(channel)
    expect(count).toBe(1_000)
    expect(after).toBeLessThanOrEqual(10)
  }
})

test("counts that do not fit the cache are not looked up for each page", async () => {
  const scene = new Scene(40 * 1_500)
  await scene.page("one")
  await scene.page("other")
  const before = scene.took
  const startedAt = scene.now
  for (let i = 0; i < 40; i++) {
    await scene.page("one")
    await scene.page("other")
    await scene.pass(20)
  }
  expect((scene.took - before) / (scene.now - startedAt)).toBeLessThan(1 / 15)
})

test("a count that cannot be had in time is what it was last, or nothing", async () => {
  const scene = new Scene()
  scene.count = 3
  expect(await scene.page("known")).toEqual([3, 40])
  await scene.pass(10_000)
  scene.count = 1_000
  await scene.page("many")
  await scene.pass(1_900)
  scene.count = 3
  scene.isBroken = true
  expect(await scene.page("known")).toEqual([3, 40])
  expect(await scene.page("many")).toEqual([1_000, 0])
  expect(await scene.page("never seen")).toEqual([0, 40])
  scene.isBroken = false
  scene.takes = 5_000
  const [count, after] = await scene.page("known")
  expect(count).toBe(3)
  expect(after).toBeLessThanOrEqual(510)
  expect((await scene.page("neither"))[0]).toBe(0)
  await scene.pass(6_000)
  scene.takes = 20
  expect(await scene.page("neither")).toEqual([3, 20])
})
