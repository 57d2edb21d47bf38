/**
 * DELIV1, DELIV2: what a client has named covers what it has received, no matter which home made
 * its id and how late it was appended, and no more.
 */
import fc from "fast-check"
import { IdWatermark, type Hold } from "../../src/runtime/id-watermark.ts"
import { Shard } from "../../src/runtime/shard.ts"
import type { Clock } from "../../src/std/clock.ts"
import { idWatermarks, type IdWatermarks, type WatermarkReport } from "../../src/domain/core/id-watermark.ts"
import { msOf } from "../../src/domain/core/snowflake.ts"
import { deliveredUpTo, MessageMarks } from "../../src/gateway/message-marks.ts"
import { expect, test } from "vitest"

const began = 1_750_000_000_000
const homes = ["11", "12", "13", "14"]

/** One of a few workers, with a clock of its own. */
class Owner {
  skew: number
  readonly watermark: IdWatermark
  readonly shards = new Set<Shard>()
  /** What it made ids for and has not appended yet, in order. */
  readonly queue: { readonly hold: Hold; readonly shard: number; readonly ms: number }[] = []
  said: WatermarkReport | null = null

  constructor(time: () => number, skew: number) {
    this.skew = skew
    const clock = { now: () => began + time() + this.skew, monotonic: time } as Clock
    this.watermark = new IdWatermark(clock)
  }
}

/** The owners of four homes, each in its shard, and the log of a worker that takes all of them. */
class World {
  now = 0
  readonly owners: Owner[] = []
  readonly shards: Shard[]
  readonly made: { readonly home: string; readonly ms: number; at: number }[] = []
  readonly log: { readonly home: string; readonly ms: number }[] = []
  readonly marks = new MessageMarks()
  minted0: IdWatermarks | undefined
  /** What stands in PostgreSQL, no matter which process ends. */
  bound = -Infinity

  constructor(skews: readonly number[]) {
    for (const skew of skews) this.join(skew)
    this.shards = homes.map((_, number) => newShard(number, undefined))
    for (const [i, shard] of this.shards.entries()) this.owners[i % this.owners.length]!.shards.add(shard)
    this.report()
  }

  join(skew: number): void {
    const owner = new Owner(() => this.now, skew)
    const reports = this.owners.flatMap(({ said }) => said ?? [])
    if (reports.length > 0) owner.watermark.beginAfter(Math.min(...reports.map(({ servers }) => servers)))
    owner.watermark.beginAfter(this.bound)
    this.owners.push(owner)
    owner.said = owner.watermark.report(owner.shards)
  }

  makeId(number: number): void {
    const owner = this.owners.find(({ shards }) => shards.has(this.shards[number]!))
    if (!owner) return
    const ms = msOf(this.shards[number]!.newId(owner.watermark.moment()))
    owner.queue.push({ hold: owner.watermark.hold(began + this.now + owner.skew, false), shard: number, ms })
    this.made.push({ home: homes[number]!, ms, at: Infinity })
  }

  append(from: number): void {
    const next = this.owners[from % this.owners.length]!.queue.shift()
    if (!next) return
    const { shard, ms, hold } = next
    const home = homes[shard]!
    this.log.push({ home, ms })
    this.marks.note(home, this.log.length, ms)
    const message = this.made.find(one => one.home === home && one.ms === ms && one.at === Infinity)!
    message.at = this.log.length
    for (const { watermark } of this.owners) watermark.appended(hold)
  }

  /** With nothing unfinished; its taker goes on where it ended. */
  handOver(number: number, to: number): void {
    const old = this.shards[number]!
    const owner = this.owners.find(({ shards }) => shards.has(old))!
    const from = this.owners.indexOf(owner)
    while (owner.queue.some(({ shard }) => shard === number)) this.append(from)
    owner.shards.delete(old)
    const taken = newShard(number, old.lastId)
    this.shards[number] = taken
    this.owners[to % this.owners.length]!.shards.add(taken)
  }

  /** Everybody at once; what was committed is appended by who comes next. */
  restart(skew: number): void {
    for (const [i, { queue }] of this.owners.entries()) while (queue.length > 0) this.append(i)
    this.owners.length = 0
    this.join(skew)
    for (const [number, old] of this.shards.entries()) {
      const taken = newShard(number, old.lastId)
      this.shards[number] = taken
      this.owners[0]!.shards.add(taken)
    }
    this.report()
  }

  report(one?: number): void {
    for (const [i, owner] of this.owners.entries())
      if (one === undefined || i === one % this.owners.length) owner.said = owner.watermark.report(owner.shards)
    this.minted0 = idWatermarks(
      this.owners.map(({ said }) => said),
      homes.keys(),
    )
  }
}

function newShard(number: number, lastId: string | undefined): Shard {
  const shard = new Shard({ number, epoch: 1, lastId, lastRow: 0, positions: new Map(), interests: [] })
  shard.isPublished = true
  shard.isNotified = true
  return shard
}

type Rule = typeof deliveredUpTo

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("makeId" as const), home: fc.nat(3) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("append" as const), owner: fc.nat(3) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.nat(20) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("report" as const), owner: fc.nat(3) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("name" as const), back: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("jump" as const), owner: fc.nat(3), ms: fc.integer({ min: -5_000, max: 5_000 }) }) }, // prettier-ignore
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("restart" as const), skew: fc.integer({ min: -5_000, max: 200 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("hand over" as const), home: fc.nat(3), to: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("join" as const), skew: fc.integer({ min: -200, max: 200 }) }) },
)

/** Runs a history; throws where a cursor says more than was named, or at its end says less. */
function run(
  skews: readonly number[],
  steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[],
  rule: Rule,
): void {
  const world = new World(skews)
  // The user is subscribed to three of the four.
  const heard = homes.slice(0, 3)
  let named = 0
  let cursor = -Infinity
  const moved: { readonly cursor: number; readonly named: number }[] = []
  const settle = () => {
    if (!world.minted0) return
    const { upTo } = rule(world.marks, heard, named, world.minted0.servers)
    if (!Number.isFinite(upTo) || upTo <= cursor) return
    cursor = upTo
    world.bound = cursor
    moved.push({ cursor, named })
  }
  for (const each of steps) {
    if (each.do === "makeId") world.makeId(each.home)
    else if (each.do === "append") world.append(each.owner)
    else if (each.do === "pass") world.now += each.ms
    else if (each.do === "report") world.report(each.owner)
    else if (each.do === "name") named = Math.max(named, world.log.length - each.back)
    else if (each.do === "jump") world.owners[each.owner % world.owners.length]!.skew += each.ms
    else if (each.do === "hand over") world.handOver(each.home, each.to)
    else if (each.do === "restart") world.restart(each.skew)
    else world.join(each.skew)
    settle()
  }
  // Messages to the end, however far ahead some of the ids are.
  for (let beat = 0; beat < 4; beat++) {
    for (const home of homes) world.makeId(homes.indexOf(home))
    for (const [i, owner] of world.owners.entries()) while (owner.queue.length > 0) world.append(i)
    world.now += 500
    world.report()
    named = world.log.length
    settle()
    const upTo = world.minted0?.servers ?? -Infinity
    for (const { home, ms } of world.made)
      if (heard.includes(home) && ms <= upTo && ms > cursor) throw new Error("not covered while more is said") // DELIV2
  }
  for (const { cursor: upTo, named: s } of moved)
    for (const { home, ms, at } of world.made)
      if (heard.includes(home) && ms <= upTo && at > s) throw new Error(`${ms} at ${at} is not at or before ${s}`) // DELIV1
  // Clocks that fell back are waited for.
  named = world.log.length
  world.now += 10_000_000
  world.report()
  settle()
  for (const { home, ms } of world.made) if (heard.includes(home) && ms > cursor) throw new Error("never covered") // DELIV2
}

const histories = fc.tuple(
  fc.array(fc.integer({ min: -100, max: 100 }), { minLength: 1, maxLength: 3 }),
  fc.array(step, { maxLength: 120 }),
)
const holdsOf = (rule: Rule, numRuns: number) =>
  fc.check(
    fc.property(histories, ([skews, steps]) => run(skews, steps, rule)),
    { numRuns, seed: 7 },
  )

test("DELIV1, DELIV2: a cursor covers what stands at or before what was named, and never more, however clocks jump and shards move", () => {
  const { failed, errorInstance, counterexample } = holdsOf(deliveredUpTo, 1_500)
  expect(failed, `${String(errorInstance)} ${JSON.stringify(counterexample)}`).toBe(false)
})

test("without a look at what stands after the position, or at what is on its way, a cursor says too much", () => {
  const heedless: Rule = (_marks, _homes, _s, made) => ({ upTo: made, isAll: true })
  expect(holdsOf(heedless, 1_500).failed).toBe(true)
  const hasty: Rule = (marks, of, s) => {
    const free = Math.min(...[...of].map(home => marks.freeUpTo(home, s)))
    return { upTo: Number.isFinite(free) ? free : Math.max(...[...of].map(home => marks.latest(home))), isAll: true }
  }
  expect(holdsOf(hasty, 1_500).failed).toBe(true)
})
