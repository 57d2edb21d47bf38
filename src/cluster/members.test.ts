import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from "vitest"
import { systemClock } from "../std/system-clock.ts"
import { redisKeys } from "./keys.ts"
import { Membership, type Member } from "./members.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "members test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const member = (slot: number): Member => ({ id: `w${slot}`, role: "web", host: "test", slot })

/** A member that is only just coming, and what it has heard of deaths. */
function newcomer(living: () => Promise<readonly Member[]>) {
  const deaths: string[] = []
  const membership = new Membership({
    redis,
    keys: redisKeys(`test-${randomUUID()}:`),
    self: member(0),
    timing: { renewEveryMs: 10_000, serveForMs: 20_000, deadAfterMs: 30_000 },
    clock: systemClock,
    store: { living, declareDead: () => Promise.resolve(undefined), revive: () => Promise.resolve(1) },
    onChange: () => {},
    onDeath: id => void deaths.push(id),
    onOver: () => {},
    trouble: () => {},
  })
  onTestFinished(() => membership.stop())
  return { membership, deaths }
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
