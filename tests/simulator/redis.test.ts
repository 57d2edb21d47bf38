/** The simulated Redis beside the real one: every reply equal, and what only a simulation can do to a connection. */
import { randomUUID } from "node:crypto"
import fc from "fast-check"
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest"
import { DeliveryLogs, type LogPart, type OwnRun } from "../../src/cluster/delivery-log.ts"
import { GatewaySessions } from "../../src/cluster/gateway-sessions.ts"
import { Interests, type Interest } from "../../src/cluster/interests.ts"
import type { OwnedShard } from "../../src/cluster/shard-hash.ts"
import { redisKeys, type RedisKeys } from "../../src/cluster/keys.ts"
import { defineScript, openBlockingRedis, openRedis, type Redis } from "../../src/cluster/redis.ts"
import { epochMs } from "../../src/domain/core/snowflake.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { until } from "../kit/until.ts"
import { directLink, SimulatedRedis, type Flight, type Link } from "./redis.ts"

const realRedis = openRedis(inject("redis"), "simulated redis test", () => {})
const realBlocking = openBlockingRedis(inject("redis"), "simulated redis test blocking", () => {})
const workers = ["a", "b"]
let blockingId: number
beforeAll(async () => {
  await Promise.all([realRedis.connect(), realBlocking.connect()])
  blockingId = await realBlocking.client("ID")
})
afterAll(async () => {
  await Promise.all([realRedis.quit(), realBlocking.quit()])
})

/** The program's own classes over one connection. */
function open(redis: Redis, keys: RedisKeys) {
  defineScript(redis, "amend-session")
  const scripts = redis as unknown as Record<string, (...args: (string | number)[]) => Promise<unknown>>
  const runs: unknown[] = []
  const take = ({ from, to, fields }: OwnRun) => runs.push({ from, to, fields })
  const ownLogs = new Map(
    [...workers, "w"].map(worker => [worker, new DeliveryLogs(redis, redis, keys, { worker, take })]),
  )
  return {
    redis,
    keys,
    logs: ownLogs.get("w")!,
    // A worker to its own log, with what it is told of it. What wakes others has ids of a moment that no answer shows.
    append: async (worker: string, parts: readonly LogPart[]) => [
      await ownLogs.get(worker)!.append(worker, parts),
      runs.splice(0),
    ],
    appendEphemeral: async (worker: string, fields: readonly string[]) => [
      await ownLogs.get(worker)!.appendEphemeral(worker, fields),
      runs.splice(0),
    ],
    interests: new Interests(redis, keys),
    sessions: new GatewaySessions(redis, keys, { isShortRead: () => true, clock: systemClock }),
    script: (name: string, ...args: (string | number)[]) => scripts[name]!(...args),
  }
}
type Side = ReturnType<typeof open>

const worker = fc.constantFrom(...workers)
const shard = fc.constantFrom(1, 2)
const session = fc.constantFrom("s1", "s2")
const small = fc.integer({ min: 0, max: 6 })
const text = fc.oneof(
  fc.constantFrom("", "x", "0", "-1", "127", "70000", "9223372036854775808", "007"),
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom("y".repeat(70), "é".repeat(300), "z".repeat(1500)),
)
/** Positions that many operations meet at. */
const position = fc.constantFrom(0, 3, 6, 1000, 1001, 1002, 1010, 4_000_000_000_000)
const part: fc.Arbitrary<LogPart> = fc.record({
  shard,
  epoch: fc.integer({ min: 1, max: 3 }),
  number: small,
  before: fc.option(small),
  fields: fc.array(fc.tuple(fc.constantFrom('["e",1]', '["x",2]'), text), { maxLength: 3 }).map(pairs => pairs.flat()),
})
const owned: fc.Arbitrary<OwnedShard> = fc.record({ number: shard, epoch: fc.integer({ min: 1, max: 3 }) })
const interest: fc.Arbitrary<Interest> = fc.record({
  home: fc.constantFrom("7", "h", "__proto__", "constructor"),
  worker,
  from: small,
})
const count = fc.integer({ min: -1, max: 4 })
const id = fc.oneof(
  fc.constantFrom("0-0", "5", "1000-0", "1000-1", "1002-7", "x", "1-", "-1", ""),
  position.map(s => `${s}-0`),
)
const bound = fc.oneof(
  fc.constantFrom("-", "+", "(-"),
  id,
  id.map(id => `(${id}`),
)
const fieldList = fc.oneof(
  { weight: 9, arbitrary: fc.array(text, { minLength: 2, maxLength: 2 }) },
  { weight: 2, arbitrary: fc.array(text, { minLength: 4, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.array(text, { minLength: 1, maxLength: 3 }) },
)
const stream = fc.constantFrom("log", "inbox", "nothing", "positions")
const streamKey = ({ keys }: Side, stream: string, worker: string) =>
  stream === "log"
    ? keys.log(worker)
    : stream === "inbox"
      ? keys.inbox(worker)
      : stream === "positions"
        ? keys.logPosition(worker)
        : keys.log("nobody")

const accessSession = (activity: number) =>
  `${"f".repeat(64)} ${String(activity).padStart(10, "0")} 0000009999 100 7 {}`

/** One operation: what is asked of each side. Its arguments are what a failure shows. */
type Operation = readonly [name: string, args: readonly unknown[], ask: (side: Side) => Promise<unknown>]
const operation = <Args extends unknown[]>(
  name: string,
  args: { [K in keyof Args]: fc.Arbitrary<Args[K]> },
  ask: (side: Side, ...args: Args) => Promise<unknown>,
): fc.Arbitrary<Operation> => fc.tuple(...args).map(args => [name, args, side => ask(side, ...(args as Args))] as const)

const operations: fc.Arbitrary<Operation>[] = [
  operation("create", [worker, position], ({ logs }, worker, first) => logs.create(worker, first)),
  operation("append", [worker, fc.array(part, { minLength: 1, maxLength: 4 })], (side, worker, parts) =>
    side.append(worker, parts),
  ),
  operation("append in a chain", [worker, shard, small], async ({ logs, append }, worker, shard, events) => {
    const reached = (await logs.positions(worker))?.get(shard) ?? 0
    const fields = Array.from({ length: events * 2 }, (_, i) => (i % 2 === 0 ? '["e",1]' : "d".repeat(200)))
    return append(worker, [{ shard, epoch: 3, number: reached + 1, before: reached, fields }])
  }),
  operation("append much", [worker, fc.constantFrom(1999, 2000, 2001, 4500)], ({ append }, worker, events) =>
    append(worker, [
      { shard: 2, epoch: 9, number: events, before: null, fields: Array.from({ length: 2 * events }, () => "1") },
    ]),
  ),
  operation("append large ones", [worker, fc.constantFrom(3, 262_110, 262_140)], ({ append }, worker, size) =>
    append(worker, [
      {
        shard: 2,
        epoch: 9,
        number: size,
        before: null,
        fields: ["1", "é", "22", "漢".repeat(size / 3), "", "d", "1", "é"],
      },
    ]),
  ),
  operation("append ephemeral", [worker, fieldList], (side, worker, fields) =>
    side.appendEphemeral(worker, fields.length % 2 === 0 ? fields : [...fields, ""]),
  ),
  operation("mark", [worker, position, fc.integer({ min: 0, max: 20 })], ({ logs }, worker, floor, length) =>
    logs.mark(worker, { floor, from: "other", since: 1, length }),
  ),
  operation("mark far ahead", [worker, fc.integer({ min: -1, max: 1 })], async ({ logs }, worker, beyond) => {
    // Twice: then the log is ahead of the clock, and the bound is known to the digit.
    const ahead = 1_000_000 * 4096 * 3600 + 10 ** 14
    const last = (await logs.lastPosition(worker)) ?? 0
    const floor = last > 10 ** 14 ? last + 3_600_000 * 4096 + beyond : ahead
    return logs.mark(worker, { floor, from: "other", since: 1, length: 5 })
  }),
  operation("positions", [worker], ({ logs }, worker) => logs.positions(worker)),
  operation("lastPosition", [worker], ({ logs }, worker) => logs.lastPosition(worker)),
  operation("firstPosition", [worker], ({ logs }, worker) => logs.firstPosition(worker)),
  operation("read", [worker, position, fc.integer({ min: 1, max: 4 })], ({ logs }, worker, after, entries) =>
    logs.read(worker, after, entries),
  ),
  operation("trim", [worker, position], async ({ logs }, worker, before) => logs.trim(worker, before)),
  operation("trim to the end", [worker], async ({ logs, redis, keys }, worker) => {
    const last = (await logs.lastPosition(worker)) ?? 0
    return redis.xtrim(keys.log(worker), "MINID", "~", `${last}-0`)
  }),
  operation("drop", [worker], ({ logs }, worker) => logs.drop(worker)),
  operation("exists", [worker], ({ logs }, worker) => logs.exists(worker)),

  operation("interests replace", [owned, fc.array(interest, { maxLength: 3 })], ({ interests }, shard, all) =>
    interests.replace(shard, all),
  ),
  operation("interests add", [owned, fc.array(interest, { maxLength: 3 })], ({ interests }, shard, added) =>
    interests.add(shard, added),
  ),
  operation("interests remove", [owned, fc.array(interest, { maxLength: 3 })], ({ interests }, shard, removed) =>
    interests.remove(shard, removed),
  ),
  operation(
    "interests of several shards at once",
    [owned, owned, owned, fc.array(interest, { maxLength: 3 })],
    ({ interests }, one, other, third, all) =>
      Promise.all([interests.add(one, all), interests.remove(other, all.slice(1)), interests.replace(third, all)]),
  ),
  operation("interests load", [fc.subarray([1, 2])], ({ interests }, shards) => interests.load(shards)),

  operation("session save", [session, worker, text], ({ sessions }, id, worker, user) =>
    sessions.save({ id, worker, user, accessSession: "1", intents: 1, guilds: ["7"], changes: [], spans: [] }),
  ),
  operation(
    "sessions begin",
    [worker, fc.array(fc.tuple(session, fc.constantFrom("1", "2")), { minLength: 1, maxLength: 3 })],
    ({ sessions }, worker, begun) => {
      const rest = { accessSession: "1", intents: 1, guilds: ["7"], changes: [], spans: [] }
      return Promise.all(begun.map(([id, user]) => sessions.begin({ id, worker, user, ...rest })))
    },
  ),
  operation("session load", [session], ({ sessions }, id) => sessions.load(id)),
  operation("session claim", [session, worker, worker], ({ sessions }, id, from, to) => sessions.claim(id, from, to)),
  operation("session forget", [session, worker], ({ sessions }, id, holder) => sessions.forget(id, holder)),
  operation("connect", [session, worker], ({ sessions }, id, worker) => sessions.connect("u", id, worker)),
  operation("disconnect", [session, worker], ({ sessions }, id, worker) => sessions.disconnect("u", id, worker)),

  operation("bus send", [worker, text], ({ redis, keys }, worker, message) =>
    redis.xadd(keys.inbox(worker), "NOMKSTREAM", "*", "m", message),
  ),
  operation("bus open", [worker], ({ redis, keys }, worker) => redis.xadd(keys.inbox(worker), "*", "m", "[]")),
  operation("xadd", [stream, worker, fc.boolean(), id, fieldList], (side, stream, worker, make, id, fields) =>
    make
      ? side.redis.xadd(streamKey(side, stream, worker), id, ...fields)
      : side.redis.xadd(streamKey(side, stream, worker), "NOMKSTREAM", id, ...fields),
  ),
  operation("xread", [worker, count, id, id], ({ redis, keys }, worker, count, inboxId, logId) =>
    redis.xread("COUNT", count, "STREAMS", keys.inbox(worker), keys.log(worker), inboxId, logId),
  ),
  operation("xrange", [stream, worker, bound, bound, count], (side, stream, worker, start, end, count) =>
    side.redis.xrange(streamKey(side, stream, worker), start, end, "COUNT", count),
  ),
  operation("xrevrange", [stream, worker, bound, bound, count], (side, stream, worker, end, start, count) =>
    side.redis.xrevrange(streamKey(side, stream, worker), end, start, "COUNT", count),
  ),
  operation("xtrim", [stream, worker, id], (side, stream, worker, id) =>
    side.redis.xtrim(streamKey(side, stream, worker), "MINID", "~", id),
  ),
  operation("xlen", [stream, worker], (side, stream, worker) => side.redis.xlen(streamKey(side, stream, worker))),

  operation("renew", [worker, small, text], ({ redis, keys }, worker, counter, identity) =>
    redis
      .pipeline()
      .hset(keys.members, worker, JSON.stringify([counter, "web"]))
      .hgetall(keys.members)
      .set(keys.identity, identity, "NX")
      .get(keys.identity)
      .exec(),
  ),
  operation("leave", [worker], ({ redis, keys }, worker) => redis.hdel(keys.members, worker)),
  operation("hmget", [stream, worker], (side, stream, worker) =>
    side.redis.hmget(streamKey(side, stream, worker), "s", "n1", "e1"),
  ),
  operation("hget", [stream, worker], (side, stream, worker) => side.redis.hget(streamKey(side, stream, worker), "n1")),

  operation("token fill", [session, fc.integer({ min: 100, max: 300 })], ({ redis, keys }, id, activity) =>
    redis.set(keys.accessSession(id), accessSession(activity), "EX", 300, "NX"),
  ),
  operation("token revoke", [session], ({ redis, keys }, id) => redis.set(keys.accessSession(id), "revoked", "EX", 60)),
  operation(
    "token amend",
    [fc.array(fc.tuple(session, fc.integer({ min: 100, max: 300 })), { minLength: 1, maxLength: 3 })],
    ({ script, keys }, uses) =>
      script(
        "amend-session",
        uses.length,
        ...uses.map(([id]) => keys.accessSession(id)),
        ...uses.map(([, seconds]) => String(seconds).padStart(10, "0")),
      ),
  ),
  operation("mget", [stream, worker], (side, stream, worker) =>
    side.redis.mget(side.keys.accessSession("s1"), side.keys.identity, streamKey(side, stream, worker)),
  ),
  operation("get", [stream, worker], (side, stream, worker) => side.redis.get(streamKey(side, stream, worker))),
  operation("del", [session], ({ redis, keys }, id) => redis.del(keys.accessSession(id), keys.identity)),
  operation("wrong kind of value", [worker, fc.constantFrom("log", "logPosition", "inbox")], (side, worker, kind) =>
    side.redis.set(side.keys[kind as "log"](worker), "text", "NX"),
  ),
  operation("transaction with a failure", [worker], ({ redis, keys }, worker) =>
    redis
      .multi()
      .hset(keys.log(worker), "f", "v")
      .xadd(keys.log(worker), "1-0", "a", "b")
      .xlen(keys.log(worker))
      .exec(),
  ),
  operation("words missing", [worker], ({ redis, keys }, worker) =>
    redis.multi().xlen(keys.log(worker)).hdel(keys.members).exec(),
  ),
]

/** Both must have the same at every key; how long it is kept may differ by the second in which each was asked. */
async function everythingIn({ redis, keys }: Side): Promise<unknown> {
  const streams = workers.flatMap(worker => [keys.log(worker), keys.inbox(worker)])
  const hashes = [
    ...workers.map(worker => keys.logPosition(worker)),
    keys.members,
    ...[1, 2].map(shard => keys.interest(shard)),
    ...["s1", "s2"].map(id => keys.gatewaySession(id)),
    keys.gatewayConnections("u"),
  ]
  const texts = [keys.identity, ...["s1", "s2"].map(id => keys.accessSession(id))]
  const all: Record<string, unknown> = {}
  for (const key of streams) all[key] = [await outcome(redis.xrange(key, "-", "+")), await outcome(redis.xlen(key))]
  for (const key of hashes) all[key] = await outcome(redis.hgetall(key))
  for (const key of texts) all[key] = await outcome(redis.get(key))
  for (const key of [...streams, ...hashes, ...texts]) {
    const seconds = await redis.ttl(key)
    all[`${key} kept`] = seconds <= 0 ? seconds : seconds > 1000 ? "a day" : seconds > 60 ? "minutes" : "a minute"
  }
  return all
}

/** A reply, or what went wrong. */
async function outcome(reply: Promise<unknown>): Promise<unknown> {
  try {
    return { reply: await reply }
  } catch (error) {
    return { name: (error as Error).name, message: (error as Error).message }
  }
}

/** Milliseconds of the real Redis' clock. */
const timeOf = ([seconds, microseconds]: readonly number[]) =>
  Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)

/**
 * Asks the real Redis and then the simulated one, whose clock is put to the real one's. When a millisecond passed during
 * the question, any of those in between may have been the moment.
 */
async function compare(operations: readonly Operation[], plant: (redis: Redis) => void = () => {}): Promise<void> {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const real = open(realRedis, keys)
  let now = 0
  const server = new SimulatedRedis({ now: () => now })
  const simulated = open(server.connect(directLink()).redis, keys)
  plant(simulated.redis)
  for (const [name, , ask] of operations) {
    const before = realRedis.time()
    const asked = outcome(ask(real))
    const expected = await asked
    const [from, to] = [timeOf(await before), timeOf(await realRedis.time())]
    const snapshot = from === to ? undefined : server.snapshot()
    for (now = from; ; now++) {
      const got = await outcome(ask(simulated))
      if (snapshot === undefined || now === to || (same(got, expected) && (await sameLogs(real, simulated)))) {
        expect(got, name).toEqual(expected)
        break
      }
      server.rollback(snapshot)
    }
    now = to
  }
  expect(await everythingIn(simulated)).toEqual(await everythingIn(real))
}

const same = (a: unknown, b: unknown) => {
  try {
    expect(a).toEqual(b)
    return true
  } catch {
    return false
  }
}

/** What a script answers does not show which moment it saw. */
async function sameLogs(real: Side, simulated: Side): Promise<boolean> {
  for (const worker of workers)
    for (const ask of [
      ({ redis, keys }: Side) => redis.xrevrange(keys.log(worker), "+", "-", "COUNT", 3),
      ({ redis, keys }: Side) => redis.hget(keys.logPosition(worker), "s"),
    ])
      if (!same(await outcome(ask(simulated)), await outcome(ask(real)))) return false
  return true
}

const runs = fc.array(fc.oneof(...operations), { minLength: 5, maxLength: 60, size: "max" })

test("every reply and all that is kept are the real Redis'", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(runs, operations => compare(operations)),
    { numRuns: 250 },
  )
})

describe("a difference is found", () => {
  type Replies = Record<string, (...args: unknown[]) => Promise<unknown>>
  const planted: [string, method: string, (reply: unknown, args: unknown[]) => unknown][] = [
    ["in a count", "hdel", reply => Number(reply) + 1],
    ["a null that is a text", "hget", reply => reply ?? ""],
    ["in a script's answer", "append", reply => (reply as string[]).map(word => (word === "dup" ? "ok" : word))],
    ["in an id", "xadd", reply => (typeof reply === "string" ? reply.replace(/-0$/, "-1") : reply)],
  ]
  test.for(planted)("%s", { timeout: 120_000 }, async ([, method, change]) => {
    const found = await fc.check(
      fc.asyncProperty(runs, operations =>
        compare(operations, redis => {
          const replies = redis as unknown as Replies
          const asked = replies[method]!.bind(redis)
          Object.defineProperty(redis, method, {
            value: async (...args: unknown[]) => change(await asked(...args), args),
          })
        }),
      ),
      { numRuns: 150, endOnFailure: true },
    )
    expect(found.failed).toBe(true)
  })
})

test("nodes of a stream are dropped by an approximate trim exactly as in Redis", { timeout: 60_000 }, async () => {
  const fields = fc.oneof(
    fc.array(text, { minLength: 2, maxLength: 2 }),
    fc.constant<string[]>(["m", "short"]),
    fc.array(text, { minLength: 6, maxLength: 6 }),
  )
  const stepWith = (fields: fc.Arbitrary<string[]>) =>
    fc.tuple(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 0, max: 300 }), fields)
  const steps = (step: ReturnType<typeof stepWith>) => fc.array(step, { minLength: 50, maxLength: 400, size: "max" })
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(steps(stepWith(fields)), steps(stepWith(fc.constant(["m", "short"])))),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 4 }),
      async (steps, cuts) => {
        const key = `test-${randomUUID()}:stream`
        const simulated = new SimulatedRedis({ now: () => 0 }).connect(directLink()).redis
        const ids: string[] = []
        let ms = 0
        const trims = cuts.toSorted((a, b) => a - b).map(cut => Math.floor(cut * steps.length))
        for (const [i, [later, seq, fields]] of steps.entries()) {
          ids.push(`${(ms += later)}-${seq}`)
          const sides = [realRedis, simulated]
          const added = sides.map(redis => redis.xadd(key, ids.at(-1)!, ...fields))
          if (trims.includes(i)) {
            const [real, other] = await Promise.all(
              sides.map(redis => redis.xtrim(key, "MINID", "~", ids[Math.floor(i * 0.7)]!)),
            )
            expect(other).toBe(real)
          }
          await Promise.all(added)
        }
        const [real, other] = await Promise.all(
          [realRedis, simulated].map(redis => redis.xtrim(key, "MINID", "~", ids.at(-1)!)),
        )
        expect(other).toBe(real)
        expect(await simulated.xlen(key)).toBe(await realRedis.xlen(key))
        await realRedis.unlink(key)
      },
    ),
    { numRuns: 40 },
  )
})

test("whose log has grown by another worker is woken as by the real scripts", async () => {
  const keys = redisKeys(`test-${randomUUID()}:`)
  // Ahead of every clock: the positions are known.
  const start = 10 ** 15
  const part = (number: number, fields: string[]) => ({ shard: 1, epoch: 1, number, before: number - 1, fields })
  const found: unknown[] = []
  for (const redis of [realRedis, new SimulatedRedis({ now: Date.now }).connect(directLink()).redis]) {
    const logs = new DeliveryLogs(redis, redis, keys, { worker: "other", take: () => {} })
    await logs.create("w", start)
    await redis.xadd(keys.inbox("w"), "*", "m", "[]")
    await logs.append("w", [part(1, ["h", "d", "h", "d"])])
    await logs.append("w", [part(1, ["h", "d"])]) // stands there: nobody is woken
    await logs.appendEphemeral("w", ["h", "d"])
    found.push((await redis.xrange(keys.inbox("w"), "-", "+")).map(([, fields]) => fields))
  }
  expect(found[0]).toEqual([
    ["m", "[]"],
    ["l", `[${start + 2}]`],
    ["l", `[${start + 3}]`],
  ])
  expect(found[1]).toEqual(found[0])
  await realRedis.unlink(keys.inbox("w"), keys.log("w"), keys.logPosition("w"))
})

test("a read that waits is given what the real one is given", { timeout: 60_000 }, async () => {
  const append = fc.constantFrom("inbox", "log", "inbox and log", "log and inbox", "script", "another")
  await fc.assert(
    fc.asyncProperty(fc.array(append, { minLength: 1, maxLength: 4 }), fc.boolean(), async (steps, newest) => {
      const keys = redisKeys(`test-${randomUUID()}:`)
      const server = new SimulatedRedis({ now: Date.now })
      const sides = [
        { side: open(realRedis, keys), blocking: realBlocking },
        { side: open(server.connect(directLink()).redis, keys), blocking: server.connect(directLink()).redis },
      ]
      const found: unknown[] = []
      for (const {
        side: { redis, logs },
        blocking,
      } of sides) {
        const isReal = blocking === realBlocking
        // Ahead of every clock: the positions are known.
        await logs.create("w", 10 ** 15)
        await redis.xadd(keys.inbox("w"), "1-0", "m", "[]")
        const reads: unknown[] = []
        let [inboxId, logId] = newest ? ["$", "$"] : ["1-0", `${10 ** 15}-0`]
        for (const [i, step] of steps.entries()) {
          const read = blocking.xread(
            "COUNT",
            5,
            "BLOCK",
            5000,
            "STREAMS",
            keys.inbox("w"),
            keys.log("w"),
            inboxId,
            logId,
          )
          let over = false
          const done = read.finally(() => (over = true))
          if (isReal)
            await until("it waits or has found something", async () => {
              const clients = String(await realRedis.client("LIST", "ID", blockingId))
              return over || /flags=b/.test(clients)
            })
          const position = 10 ** 15 + 10 * (i + 1)
          await redis.hset(keys.logPosition("w"), "s", position - 1)
          const inbox = [keys.inbox("w"), `${i + 2}-0`, "m", "1"] as const
          const log = [keys.log("w"), `${position - 1}-0`, "h", "d"] as const
          if (step === "inbox") await redis.xadd(...inbox)
          else if (step === "log") await redis.xadd(...log)
          else if (step === "inbox and log")
            await redis
              .multi()
              .xadd(...inbox)
              .xadd(...log)
              .exec()
          else if (step === "log and inbox")
            await redis
              .multi()
              .xadd(...log)
              .xadd(...inbox)
              .exec()
          else if (step === "script") await logs.appendEphemeral("w", ["h", "d"])
          else {
            await redis.xadd(keys.log("other"), "*", "h", "d")
            await redis.xadd(...inbox)
          }
          const reply = await done
          reads.push(reply)
          for (const [key, entries] of reply ?? [])
            if (key === keys.inbox("w")) inboxId = entries.at(-1)![0]
            else logId = entries.at(-1)![0]
        }
        found.push(reads)
      }
      expect(found[1]).toEqual(found[0])
    }),
    { numRuns: 40 },
  )
})

/** A link that does nothing by itself. */
function heldLink() {
  const sent: Flight[] = []
  const replies: Flight[] = []
  const blocks: { ms: number; expire: () => void; cancelled: boolean }[] = []
  const closings: boolean[] = []
  const link: Link = {
    send: flight => sent.push(flight),
    reply: flight => replies.push(flight),
    block(ms, expire) {
      const block = { ms, expire, cancelled: false }
      blocks.push(block)
      return () => (block.cancelled = true)
    },
    disconnect: again => closings.push(again),
  }
  return { link, sent, replies, blocks, closings }
}

function start() {
  let now = 1_800_000_000_000
  const server = new SimulatedRedis({ now: () => now })
  const held = heldLink()
  const connection = server.connect(held.link)
  return {
    server,
    connection,
    ...held,
    redis: connection.redis,
    direct: server.connect(directLink()).redis,
    passes: (ms: number) => (now += ms),
  }
}

describe("a connection", () => {
  test("executes in the order of sending and answers in it, whatever the order of arrival", async () => {
    const { redis, sent, replies, direct } = start()
    const settled: string[] = []
    const first = redis.set("k", "1").then(() => settled.push("first"))
    const second = redis.set("k", "2").then(() => settled.push("second"))
    sent[1]!.arrive()
    expect(await direct.get("k")).toBeNull()
    sent[0]!.arrive()
    expect(await direct.get("k")).toBe("2")
    expect(replies).toEqual(sent)
    sent[1]!.settle()
    await direct.ping()
    expect(settled).toEqual([])
    sent[0]!.settle()
    await Promise.all([first, second])
    expect(settled).toEqual(["first", "second"])
  })

  test("a lost command was not executed, a lost reply was, and what comes after goes on", async () => {
    const { redis, sent, direct } = start()
    const lost = redis.hset("h", "a", "1")
    const unanswered = redis.hset("h", "b", "1")
    const whole = redis.hset("h", "c", "1")
    sent[1]!.arrive()
    sent[2]!.arrive()
    sent[0]!.lose()
    await expect(lost).rejects.toThrow("Connection is closed.")
    sent[2]!.settle()
    sent[1]!.lose(new Error("read ECONNRESET"))
    await expect(unanswered).rejects.toThrow("read ECONNRESET")
    expect(await whole).toBe(1)
    expect(await direct.hgetall("h")).toEqual({ b: "1", c: "1" })
  })

  test("a command that took too long may still be executed", async () => {
    const { redis, sent, replies, direct } = start()
    const late = redis.set("k", "late")
    sent[0]!.timeOut()
    await expect(late).rejects.toThrow("Command timed out")
    sent[0]!.arrive()
    expect(await direct.get("k")).toBe("late")
    expect(replies).toEqual([])
  })

  test("a pipeline can be cut between two commands, a transaction cannot", async () => {
    const { redis, sent, direct } = start()
    const pipeline = redis.pipeline().hset("h", "a", "1").hset("h", "b", "1").hset("h", "c", "1").exec()
    sent[0]!.arrive(2)
    expect(sent[0]!.executed).toBe(2)
    sent[0]!.lose(new Error("cut"), 1)
    expect(await pipeline).toEqual([[null, 1], [new Error("cut")], [new Error("cut")]])
    expect(await direct.hgetall("h")).toEqual({ a: "1", b: "1" })
    const transaction = redis.multi().hset("t", "a", "1").hset("t", "b", "1").exec()
    expect(sent[1]!.pieces).toBe(1)
    sent[1]!.lose(new Error("cut"))
    await expect(transaction).rejects.toThrow("cut")
    expect(await direct.hgetall("t")).toEqual({})
  })

  test("a cut fails everything under way, and everything until the connection is back", async () => {
    const { redis, connection, sent, direct } = start()
    const executed = redis.set("executed", "1")
    const under = redis.set("under way", "1")
    const many = redis.pipeline().get("executed").exec()
    sent[0]!.arrive()
    connection.cut()
    await expect(executed).rejects.toThrow("Connection is closed.")
    await expect(under).rejects.toThrow("Connection is closed.")
    expect(await many).toEqual([[new Error("Connection is closed.")]])
    sent[1]!.arrive()
    sent[0]!.settle()
    expect(await direct.mget("executed", "under way")).toEqual(["1", null])
    expect(redis.status).toBe("reconnecting")
    await expect(redis.get("executed")).rejects.toThrow("Stream isn't writeable")
    expect(sent).toHaveLength(3)
    connection.reconnect()
    const again = redis.get("executed")
    sent[3]!.arrive()
    sent[3]!.settle()
    expect(await again).toBe("1")
  })

  test("what was on its way at a cut can still arrive, after what the next connection sent", async () => {
    const { redis, connection, sent, direct } = start()
    const old = redis.set("k", "old")
    connection.cut({ stillArriving: true })
    await expect(old).rejects.toThrow("Connection is closed.")
    connection.reconnect()
    const young = redis.set("k", "young")
    sent[1]!.arrive()
    sent[1]!.settle()
    await young
    sent[0]!.arrive()
    expect(await direct.get("k")).toBe("old")
  })

  test("the program's own closing is told to the link, and is final without `again`", async () => {
    const { redis, connection, closings } = start()
    redis.disconnect(true)
    expect([redis.status, closings]).toEqual(["reconnecting", [true]])
    connection.reconnect()
    const read = redis.xread("BLOCK", 2000, "STREAMS", "s", "0")
    redis.disconnect()
    await expect(read).rejects.toThrow("Connection is closed.")
    connection.reconnect()
    expect([redis.status, closings]).toEqual(["end", [true, false]])
    await expect(redis.ping()).rejects.toThrow("Connection is closed.")
  })
})

describe("a read that waits", () => {
  test("ends when its time is over, and what was sent behind it follows", async () => {
    const { redis, sent, replies, blocks } = start()
    const read = redis.xread("BLOCK", 2000, "STREAMS", "s", "0")
    const ping = redis.ping()
    for (const flight of sent) flight.arrive()
    expect(blocks.map(({ ms }) => ms)).toEqual([2000])
    expect(replies).toEqual([])
    blocks[0]!.expire()
    expect(replies).toEqual(sent)
    for (const flight of sent) flight.settle()
    expect([await read, await ping]).toEqual([null, "PONG"])
  })

  test("ends when something comes, and its time is called off", async () => {
    const { redis, sent, blocks, direct } = start()
    const read = redis.xread("BLOCK", 2000, "STREAMS", "s", "0")
    sent[0]!.arrive()
    await direct.xadd("s", "1-0", "m", "x")
    expect(blocks[0]!.cancelled).toBe(true)
    blocks[0]!.expire()
    await direct.xadd("s", "2-0", "m", "y")
    sent[0]!.settle()
    expect(await read).toEqual([["s", [["1-0", ["m", "x"]]]]])
  })

  test("is given up with its connection", async () => {
    const { redis, connection, sent, blocks, replies, direct } = start()
    const read = redis.xread("BLOCK", 0, "STREAMS", "s", "0")
    sent[0]!.arrive()
    connection.cut()
    await expect(read).rejects.toThrow("Connection is closed.")
    expect(blocks[0]!.cancelled).toBe(true)
    await direct.xadd("s", "1-0", "m", "x")
    expect(replies).toEqual([])
  })
})

describe("the server", () => {
  test("tells a connection its replication id when it is made, another after each loss", () => {
    const { server, connection, redis } = start()
    const told: unknown[] = []
    const { connector } = redis as unknown as { connector: { check: (facts: unknown) => boolean } }
    connector.check = facts => told.push(facts) > 0
    for (const lose of [() => {}, () => server.flush(), () => server.rollback(server.snapshot())]) {
      lose()
      connection.cut()
      connection.reconnect()
    }
    const ids = told.map(facts => (facts as { master_replid: string }).master_replid)
    expect(new Set(ids).size).toBe(3)
  })

  test("forgets everything when it is flushed", async () => {
    const { server, direct } = start()
    await direct.set("k", "1")
    await direct.xadd("s", "5-0", "m", "x")
    server.flush()
    expect(await direct.exists("k", "s")).toBe(0)
    expect(await direct.xadd("s", "NOMKSTREAM", "*", "m", "x")).toBeNull()
    expect(await direct.xadd("s", "1-0", "m", "x")).toBe("1-0")
  })

  test("goes back to a snapshot any number of times", async () => {
    const { server, direct } = start()
    await direct.hset("h", "a", "1")
    await direct.xadd("s", "5-0", "m", "x")
    await direct.set("t", "1")
    const snapshot = server.snapshot()
    for (let i = 0; i < 2; i++) {
      await direct.hset("h", "a", "2")
      await direct.xadd("s", "6-0", "m", "lost")
      await direct.xtrim("s", "MINID", "~", "9-0")
      await direct.del("t")
      server.rollback(snapshot)
      expect(await direct.hgetall("h")).toEqual({ a: "1" })
      expect(await direct.xrange("s", "-", "+")).toEqual([["5-0", ["m", "x"]]])
      expect(await direct.get("t")).toBe("1")
    }
  })

  test("stands still while it is paused, and then does what came meanwhile", async () => {
    const { server, redis, sent, replies, blocks, direct } = start()
    const other = server.connect(directLink()).redis
    const read = redis.xread("BLOCK", 100, "STREAMS", "s", "0")
    sent[0]!.arrive()
    server.pause()
    blocks[0]!.expire()
    const set = direct.set("k", "1")
    const get = other.get("k")
    expect(replies).toEqual([])
    server.resume()
    expect(replies).toEqual(sent)
    sent[0]!.settle()
    expect([await read, await set, await get]).toEqual([null, "OK", "1"])
  })

  test("lets keys expire by its clock, and no earlier", async () => {
    const { direct, passes } = start()
    await direct.set("k", "1", "EX", 10)
    passes(10_000)
    expect(await direct.get("k")).toBe("1")
    passes(1)
    expect(await direct.get("k")).toBeNull()
    expect(await direct.set("k", "2", "EX", 10, "NX")).toBe("OK")
  })

  test("its scripts' positions are its clock's", async () => {
    const { direct } = start()
    const keys = redisKeys("x:")
    const logs = new DeliveryLogs(direct, direct, keys)
    await logs.create("w", 1)
    await logs.append("w", [{ shard: 1, epoch: 1, number: 1, before: 0, fields: ["[]", "", "[]", ""] }])
    expect(await logs.lastPosition("w")).toBe((1_800_000_000_000 - epochMs) * 4096 + 1)
  })
})
