/**
 * DELIV1, DELIV2: what a client has named covers what it has received, no matter which home made
 * its id and how late it was appended, and no more.
 */
import fc from "fast-check"
import { expect, test } from "vitest"
import type { LogItem } from "../../src/domain/core/log-entry.ts"
import { compareIds, epochMs, idOf } from "../../src/domain/core/snowflake.ts"
import { Deliveries } from "../../src/gateway/deliveries.ts"
import type { Session } from "../../src/gateway/state/session.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import type { DeliveryRow } from "../../src/storage/messages/deliveries.ts"
import type { Clock } from "../../src/std/clock.ts"

const user = "500"
const everything = 0x3fffff

/** What makes ids in its own order: two servers, one that the user is not in, and two DM channels. */
interface Home {
  readonly id: string
  readonly kind: "server" | "direct"
  readonly isHeard: boolean
  /** Milliseconds by which its clock differs. */
  skew: number
  sequence: number
  lastMs: number
  /** Made, and not appended yet. */
  readonly queue: string[]
  readonly made: { readonly id: string; at: number }[]
}

const newHome = (id: string, kind: Home["kind"], isHeard: boolean): Home => ({
  id,
  kind,
  isHeard,
  skew: 0,
  sequence: 0,
  lastMs: 0,
  queue: [],
  made: [],
})

/** How the worker handles an item; a fault alters it. */
type Fault = (item: LogItem) => LogItem | undefined

class World {
  now = 1_000
  end = 10
  readonly homes = [
    newHome("1", "server", true),
    newHome("2", "server", true),
    newHome("3", "server", false),
    newHome("4", "direct", true),
    newHome("5", "direct", true),
  ]
  readonly cursors = new Map<string, string>()
  /** What cursors said, and which position the client had named by then, since which moment. */
  readonly moved: { readonly home: Home; readonly message: string; readonly named: number }[] = []
  readonly deliveries: Deliveries
  readonly #fault: Fault
  /** A write fails now and then. */
  isAbsent = false
  #tick = () => {}
  session!: Session
  /** The last id of each home that was made before the session. */
  before = new Map<string, string>()

  constructor(fault: Fault) {
    this.#fault = fault
    this.deliveries = new Deliveries({
      subscriptions: { placeOf: () => this.end, ofUser: () => [this.session] },
      store: { move: async rows => this.#written(rows) },
      timing: { cursorsEveryMs: 1_000 },
      clock: { every: (_: number, act: () => void) => ((this.#tick = act), { stop: () => {} }) } as unknown as Clock,
      log: { warn: () => {} } as never,
      metrics: createMetrics(),
    })
    this.begin()
  }

  #written(rows: readonly DeliveryRow[]): string[] {
    if (this.isAbsent) throw new Error("away")
    for (const { home_id, message_id } of rows) {
      const home = this.homes.find(({ id }) => id === home_id)!
      if (compareIds(message_id, this.cursors.get(home_id) ?? "0") <= 0) continue
      this.cursors.set(home_id, message_id)
      this.moved.push({ home, message: message_id, named: this.session.named })
    }
    return []
  }

  /** IDENTIFY, or a resume from elsewhere. */
  begin(): void {
    this.before = new Map(this.homes.map(({ id, made }) => [id, made.at(-1)?.id ?? "0"]))
    const guilds = this.homes.flatMap(({ id, kind, isHeard }) =>
      kind === "server" && isHeard ? [{ view: { id } }] : [],
    )
    this.session = {
      user,
      intents: everything,
      state: "live",
      spans: [{ counted: false, lo: this.end }],
      guilds: { values: () => guilds },
      named: -1,
      before: this.homes
        .filter(({ isHeard }) => isHeard)
        .map(({ id, kind }) => ({ home_id: id, is_direct: kind === "direct", message_id: this.before.get(id)! })),
    } as unknown as Session
  }

  make(home: Home): void {
    const ms = Math.max(home.lastMs, epochMs + 10_000 + this.now + home.skew)
    home.sequence = ms === home.lastMs ? home.sequence + 1 : 0
    home.lastMs = ms
    const id = idOf(Number(home.id), { ms, sequence: home.sequence })
    home.made.push({ id, at: Infinity })
    home.queue.push(id)
  }

  append(home: Home): void {
    const id = home.queue.shift()
    if (id === undefined) return
    home.made.find(message => message.id === id)!.at = ++this.end
    const isDirect = home.kind === "direct"
    const audience = isDirect ? ({ kind: "user", user } as const) : ({ kind: "members", server: home.id } as const)
    const own = isDirect ? user : home.id
    const header = ["e", 1, this.end, own, audience, "MESSAGE_CREATE", [], [home.id, id]] as const
    const item = this.#fault({ s: this.end, header, data: "{}", bytes: 0 })
    if (item) this.deliveries.take([item])
  }

  async write(): Promise<void> {
    this.#tick()
    await new Promise(resolve => setImmediate(resolve))
  }
}

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant("make" as const), home: fc.nat(4) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("append" as const), home: fc.nat(4) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.nat(20) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("name" as const), back: fc.nat(4) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("write" as const), isAbsent: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("jump" as const), home: fc.nat(4), ms: fc.integer({ min: -5_000, max: 5_000 }) }) }, // prettier-ignore
  { weight: 1, arbitrary: fc.record({ do: fc.constant("begin" as const) }) },
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** Runs a history; throws where a cursor says more than was named, or at its end says less. */
async function run(steps: readonly Step[], fault: Fault): Promise<void> {
  const world = new World(fault)
  let early: string | undefined
  let checked = 0
  const check = () => {
    for (const { home, message, named } of world.moved.slice(checked))
      for (const { id, at } of home.made)
        // DELIV1
        if (compareIds(id, message) <= 0 && at > named && compareIds(id, world.before.get(home.id)!) > 0)
          early ??= `${id} at ${at} is not at or before ${named}`
    checked = world.moved.length
  }
  for (const each of steps) {
    if (each.do === "make") world.make(world.homes[each.home]!)
    else if (each.do === "append") world.append(world.homes[each.home]!)
    else if (each.do === "pass") world.now += each.ms
    else if (each.do === "name") world.deliveries.named(world.session, world.end - each.back)
    else if (each.do === "jump") world.homes[each.home]!.skew += each.ms
    else if (each.do === "write") {
      world.isAbsent = each.isAbsent
      await world.write()
    } else {
      world.isAbsent = false
      await world.write()
      check()
      world.begin()
    }
    check()
  }
  world.isAbsent = false
  for (const home of world.homes) while (home.queue.length > 0) world.append(home)
  world.deliveries.named(world.session, world.end)
  await world.write()
  check()
  if (early) throw new Error(early)
  for (const { id, isHeard, made } of world.homes) {
    const last = made.at(-1)?.id
    if (isHeard && last !== undefined && compareIds(world.cursors.get(id) ?? "0", last) < 0)
      throw new Error(`${last} is never covered`) // DELIV2
    if (!isHeard && world.cursors.has(id)) throw new Error("a server that the user is not in")
  }
}

const holdsWith = (fault: Fault, numRuns: number) =>
  fc.check(
    fc.asyncProperty(fc.array(step, { maxLength: 120 }), steps => run(steps, fault)),
    { numRuns, seed: 7 },
  )

test("DELIV1, DELIV2: a cursor covers what stands at or before what was named, and never more, however clocks jump and entries are late", async () => {
  const { failed, errorInstance, counterexample } = await holdsWith(item => item, 1_000)
  expect(failed, `${String(errorInstance)} ${JSON.stringify(counterexample)}`).toBe(false)
})

test("a worker that takes a message for an earlier one, or overlooks one, is found out", async () => {
  expect((await holdsWith(item => ({ ...item, s: item.s - 1 }), 1_000)).failed).toBe(true)
  expect((await holdsWith(item => (item.s % 3 === 0 ? undefined : item), 1_000)).failed).toBe(true)
})
