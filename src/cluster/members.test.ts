import { randomUUID } from "node:crypto"
import { setImmediate } from "node:timers/promises"
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from "vitest"
import { until } from "../../tests/kit/until.ts"
import { systemClock } from "../std/system-clock.ts"
import { redisKeys } from "./keys.ts"
import { Membership, type Member } from "./members.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "members test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const member = (slot: number): Member => ({ id: `w${slot}`, role: "web", host: "test", slot })

/** A member whose time is the test's. */
function timed() {
  const at = { ms: 1_000 }
  const keys = redisKeys(`test-${randomUUID()}:`)
  let renew: () => void = () => {}
  let sliceIsOver: () => void = () => {}
  const over: string[] = []
  const membership = new Membership({
    redis,
    keys,
    self: member(0),
    timing: { renewEveryMs: 500, serveForMs: 1_500, deadAfterMs: 2_500 },
    clock: {
      ...systemClock,
      monotonic: () => at.ms,
      every: (_ms, action) => {
        renew = action
        return { stop() {} }
      },
      after: (_ms, action) => {
        sliceIsOver = action
        return { stop() {} }
      },
    },
    store: {
      living: async () => [],
      declareDead: () => Promise.resolve(0),
      revive: () => Promise.resolve(1),
    },
    onChange: () => {},
    onNews: () => {},
    onDeath: () => {},
    onOver: why => void over.push(why),
    trouble: () => {},
  })
  const shown = () => redis.hget(keys.members, "w0")
  const renewed = async () => {
    const before = await shown()
    renew()
    await expect.poll(shown).not.toBe(before)
    // What it read is worked off when the next round can begin.
    await expect.poll(() => membership.serving).toBe(true)
  }
  const show = (id: string, ...more: unknown[]) =>
    redis.hset(keys.members, id, JSON.stringify([1, "web", "test", 1, false, 0, ...more]))
  return { at, membership, renew: () => renew(), renewed, show, keys, sliceIsOver: () => sliceIsOver() }
}

test("ALIVE5: there is no term before the first renewal and after the end, and another one after a silence", async () => {
  const { at, membership, renewed } = timed()
  expect(membership.term).toBeUndefined()
  await membership.start()
  const first = membership.term
  expect(first).toBeDefined()
  at.ms += 1_499
  await renewed()
  expect(membership.term).toBe(first)
  at.ms += 1_500
  expect(membership.term).toBeUndefined()
  await renewed()
  expect(membership.term).toBeGreaterThan(first!)
  await membership.leave()
  expect(membership.serving).toBe(true)
  expect(membership.term).toBeUndefined()
})

test("ALIVE6: what comes in a silence waits for the renewal, for a second after the first that came and not longer", async () => {
  const { at, membership, renewed, sliceIsOver } = timed()
  const stateOf = (wait: Promise<void> | undefined) => Promise.race([wait?.then(() => "over"), setImmediate("waits")])
  await membership.start()

  at.ms += 10_000
  const [first, second] = [membership.renewal(), membership.renewal()]
  expect(await stateOf(first)).toBe("waits")
  await renewed()
  await Promise.all([first, second])

  at.ms += 1_500
  const third = membership.renewal()
  // It stands still in that second: only a slice of it is over.
  at.ms += 2_000
  sliceIsOver()
  for (let slice = 2; slice < 10; slice++) sliceIsOver()
  expect(await stateOf(third)).toBe("waits")
  sliceIsOver()
  await third
  expect(membership.serving).toBe(false)
  // Nobody waits any more in this silence, and again in the next one.
  expect(membership.renewal()).toBeUndefined()
  await renewed()
  at.ms += 1_500
  const fourth = membership.renewal()
  expect(await stateOf(fourth)).toBe("waits")
  membership.stop()
  await fourth
  expect(membership.renewal()).toBeUndefined()
})

test("ALIVE6: a renewal that was under way while the process stood still is followed by another at once", async () => {
  const { at, membership, renew } = timed()
  await membership.start()
  at.ms += 500
  renew()
  at.ms += 10_000
  await expect.poll(() => membership.serving).toBe(true)
  membership.stop()
})

test("ALIVE6: so is one that failed because the process stood still", async () => {
  const { at, membership, renew } = timed()
  await membership.start()
  at.ms += 500
  const hset = vi.spyOn(redis, "hset").mockImplementationOnce(() => {
    at.ms += 10_000
    return Promise.reject(new Error("Command timed out"))
  })
  renew()
  await expect.poll(() => hset.mock.calls.length).toBe(2)
  await expect.poll(() => membership.serving).toBe(true)
  hset.mockRestore()
  membership.stop()
})

test("ALIVE5: there is no term beside a web worker of the version before, and another one afterwards", async () => {
  const { at, membership, renewed, show } = timed()
  await membership.start()
  const first = membership.term
  expect(first).toBeDefined()
  await show("new", 1, 0, true)
  at.ms += 500
  await renewed()
  await expect.poll(() => membership.members().length).toBe(2)
  expect(membership.term).toBe(first)
  await show("old", 1)
  at.ms += 500
  await renewed()
  await expect.poll(() => membership.term).toBeUndefined()
  membership.noteDeath("old")
  at.ms += 500
  await renewed()
  await expect.poll(() => membership.term).toBeGreaterThan(first!)
  membership.stop()
})

/** A member that is only just coming, and what it has heard of deaths. */
function newcomer(living: () => Promise<readonly Member[]>, { clock = systemClock, renewEveryMs = 10_000 } = {}) {
  const deaths: string[] = []
  const keys = redisKeys(`test-${randomUUID()}:`)
  const membership = new Membership({
    redis,
    keys,
    self: member(0),
    timing: { renewEveryMs, serveForMs: 20_000, deadAfterMs: 30_000 },
    clock,
    store: { living, declareDead: () => Promise.resolve(undefined), revive: () => Promise.resolve(1) },
    onChange: () => {},
    onDeath: id => void deaths.push(id),
    onNews: () => {},
    onOver: () => {},
    trouble: () => {},
  })
  onTestFinished(() => membership.stop())
  return { membership, deaths, keys }
}

test("a death that is heard of while the living are read stays one", async () => {
  let answer: (living: readonly Member[]) => void = () => {}
  const { membership, deaths } = newcomer(() => new Promise(resolve => (answer = resolve)))
  const started = membership.start()
  membership.noteDeath("w1")
  answer([member(0), member(1), member(2)])
  await started
  expect(membership.members()).toEqual([member(0), member(2)])
  expect(membership.isLiving("w1")).toBe(false)
  // However often it is told.
  membership.noteDeath("w1")
  expect(deaths).toEqual(["w1"])
})

test("P17: the short form of records is for when every web worker says that it reads it, and not soon after one that does not has gone", async () => {
  let aheadMs = 0
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs }
  const { membership, keys } = newcomer(async () => [], { clock, renewEveryMs: 20 })
  const show = ({ id, role, host, slot }: Member, ...more: unknown[]) =>
    redis.hset(keys.members, id, JSON.stringify([1, role, host, slot, false, 0, ...more]))
  await membership.start()
  expect(membership.readsShortRecords).toBe(true)
  await show(member(1), 1)
  await show({ ...member(3), role: "job" })
  await until("both are seen", () => membership.isLiving("w1") && membership.isLiving("w3"))
  expect(membership.readsShortRecords).toBe(true)
  // As a worker of the version before shows itself.
  await show(member(2))
  await until("it is seen", () => membership.isLiving("w2"))
  expect(membership.readsShortRecords).toBe(false)
  await redis.hdel(keys.members, "w2")
  membership.noteDeath("w2")
  expect([membership.isLiving("w2"), membership.readsShortRecords]).toEqual([false, false])
  aheadMs = 61_000
  expect(membership.readsShortRecords).toBe(true)
})

test("P17: a member that is only on record is taken for one of the version before until it has shown itself", async () => {
  const { membership, keys } = newcomer(async () => [member(1)], { renewEveryMs: 20 })
  await membership.start()
  expect(membership.readsShortRecords).toBe(false)
  await redis.hset(keys.members, "w1", JSON.stringify([1, "web", "test", 1, false, 0, 1]))
  await until("it says what it reads", () => membership.readsShortRecords)
})

test("P17: a web worker of the version before wakes nobody, and is taken for one until it has shown itself", async () => {
  const { membership, keys } = newcomer(async () => [member(1)], { renewEveryMs: 20 })
  const show = ({ id, role, host, slot }: Member, ...more: unknown[]) =>
    redis.hset(keys.members, id, JSON.stringify([1, role, host, slot, false, 0, 1, 0, true, ...more]))
  expect(membership.ringsLogs).toBe(true)
  await membership.start()
  expect(membership.ringsLogs).toBe(false)
  await show(member(1), true)
  await until("it says that it does", () => membership.ringsLogs)
  await show({ ...member(3), role: "job" })
  await show(member(2))
  await until("both are seen", () => membership.isLiving("w2") && membership.isLiving("w3"))
  expect(membership.ringsLogs).toBe(false)
  membership.noteDeath("w2")
  expect(membership.ringsLogs).toBe(true)
  const mine = JSON.parse((await redis.hget(keys.members, membership.self.id))!) as unknown[]
  expect(mine[9]).toBe(true)
})

test("who has committed something says so once with its sign of life, and nobody is told anything otherwise", async () => {
  const keys = redisKeys(`test-${randomUUID()}:`)
  let told = 0
  const memberIn = (slot: number, onNews: () => void) => {
    const membership = new Membership({
      redis,
      keys,
      self: member(slot),
      timing: { renewEveryMs: 10, serveForMs: 20_000, deadAfterMs: 30_000 },
      clock: systemClock,
      store: {
        living: () => Promise.resolve([]),
        declareDead: () => Promise.resolve(undefined),
        revive: () => Promise.resolve(1),
      },
      onChange: () => {},
      onDeath: () => {},
      onNews,
      onOver: () => {},
      trouble: () => {},
    })
    onTestFinished(() => membership.stop())
    return membership
  }
  const shown = async (slot: number) =>
    (JSON.parse((await redis.hget(keys.members, `w${slot}`)) ?? "[0]") as [number])[0]
  /** Both have shown themselves, and seen the other, several times from here on. */
  const rounds = async () => {
    const before = await Promise.all([shown(0), shown(1)])
    await until("both have renewed", async () =>
      (await Promise.all([shown(0), shown(1)])).every((count, i) => count >= before[i]! + 4),
    )
  }
  const busy = memberIn(0, () => {})
  await busy.start()
  await memberIn(1, () => told++).start()
  await rounds()
  // Of one that it had not seen before it knows nothing.
  expect(told).toBe(1)
  busy.noteNews()
  busy.noteNews()
  await rounds()
  expect(told).toBe(2)
  await rounds()
  expect(told).toBe(2)
})
