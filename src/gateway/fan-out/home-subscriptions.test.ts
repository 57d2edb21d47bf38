import { expect, test } from "vitest"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import { createLog } from "../../observability/log.ts"
import { usedBytes } from "../../../tests/kit/heap.ts"
import { HomeSubscriptions } from "./home-subscriptions.ts"

const turn = () => new Promise<void>(resolve => setImmediate(resolve))
const keep = 60_000
const shards = new Set(Array.from({ length: 1_024 }, (_, shard) => shard))

/** A worker's homes, and what the owners of their shards know of it. What is sent to them may overtake one another. */
function open({ fails = () => false, arrives = turn }: { fails?: () => boolean; arrives?: () => Promise<void> } = {}) {
  const at = { ms: 0 }
  const interest = new Map<Snowflake, number>()
  const releases: Snowflake[] = []
  let row = 0
  const homes = new HomeSubscriptions({
    async register(_shard, asked) {
      await arrives()
      if (fails()) throw new Error("the owner is away")
      row++
      for (const home of asked) interest.set(home, row)
      return { row, places: "here" }
    },
    release: (_shard, asked) => asked.forEach(home => interest.delete(home)),
    async releaseUsers(_shard, users) {
      releases.push(...users)
      await arrives()
      if (fails()) throw new Error("the owner is away")
      for (const user of users) interest.delete(user)
    },
    loadOutline: () => Promise.resolve(undefined),
    oldest: () => 0,
    keep,
    clock: { monotonic: () => at.ms, soon: action => void setImmediate(action) } as Clock,
    log: createLog({ level: "silent", process: "web" }),
  })
  return { at, homes, interest, releases, held: () => new Map(homes.of(shards)) }
}

/** The same numbers for the same seed. */
function numbers(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}

interface HeldFor {
  /** It has registered its user; until then it may end, too. */
  isHeld: boolean
}

test("a user with a session is held, and nobody else for long, whatever comes, goes, moves and fails in which order", async () => {
  const users = ["1", "2", "3"]
  for (let seed = 1; seed <= 400; seed++) {
    const random = numbers(seed)
    let failing = 0.15
    const { at, homes, interest, releases, held } = open({
      fails: () => random() < failing,
      async arrives() {
        for (let turns = Math.floor(random() * 6); turns >= 0; turns--) await turn()
      },
    })
    const sessions = new Map<Snowflake, Set<HeldFor>>(users.map(user => [user, new Set()]))
    const begin = (user: Snowflake) => {
      const mine = sessions.get(user)!
      const session = { isHeld: false }
      mine.add(session)
      homes.holdUser(user).then(
        () => (session.isHeld = true),
        () => mine.delete(session) && homes.release(user),
      )
    }
    /** Until when a session that moved, and whose access session goes on, is waited for. */
    const movedUntil = new Map<string, number>()
    const look = () => {
      for (const user of users) {
        const isHere = [...sessions.get(user)!].some(({ isHeld }) => isHeld)
        if (isHere) expect([seed, held().get(user)]).toEqual([seed, expect.any(Number)])
        if (isHere) expect(held().get(user)).toBeLessThanOrEqual(interest.get(user)!)
        if (isHere || (movedUntil.get(user) ?? 0) > at.ms)
          expect([seed, releases]).not.toEqual([seed, expect.arrayContaining([user])])
      }
      releases.length = 0
    }
    for (let step = 0; step < 30; step++) {
      const user = users[Math.floor(random() * users.length)]!
      const mine = sessions.get(user)!
      const [session] = mine
      const choice = random()
      if (choice < 0.4) begin(user)
      else if (choice < 0.65) {
        if (session && mine.delete(session)) homes.release(user)
      } else if (choice < 0.72) {
        if (session?.isHeld && mine.delete(session)) {
          homes.release(user, "access")
          movedUntil.set(user, at.ms + keep)
        }
      } else if (choice < 0.78) {
        homes.accessEnded(user, "access")
        movedUntil.delete(user)
      } else at.ms += Math.floor(random() * (random() < 0.1 ? 40_000 : 700))
      if (random() < 0.5) {
        homes.sweepUsers()
        look()
      }
      if (random() < 0.5) for (let i = 0; i < 4; i++) await turn()
    }
    failing = 0
    for (const [user, mine] of sessions) for (const session of mine) if (mine.delete(session)) homes.release(user)
    for (let i = 0; i < 4; i++) {
      for (let j = 0; j < 20; j++) await turn()
      at.ms += keep + 1
      homes.sweepUsers()
    }
    for (let j = 0; j < 20; j++) await turn()
    expect([seed, [...held().keys()], [...interest.keys()]]).toEqual([seed, [], []])
  }
})

test("a user with one session takes a number and no more, also once further ones have come and gone", async () => {
  const users = Array.from({ length: 20_000 }, (_, i) => `${i}`)
  const { at, homes, held } = open()
  const hold = () => Promise.all(users.map(user => homes.holdUser(user)))
  await hold()
  const condensed = usedBytes()
  await hold()
  const full = usedBytes()
  expect((full - condensed) / users.length).toBeGreaterThan(60)
  for (const user of users) homes.release(user)
  at.ms += 501
  homes.sweepUsers()
  expect((full - usedBytes()) / users.length).toBeGreaterThan(60)
  expect(held().size).toBe(users.length)
  for (const user of users) homes.release(user)
  at.ms += 501
  homes.sweepUsers()
  expect(held().size).toBe(0)
})
