import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { ordinary } from "../../tests/kit/ordinary-session.ts"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { systemClock } from "../std/system-clock.ts"
import { NotHandled, WorkerGone } from "./bus.ts"
import { redisKeys } from "./keys.ts"
import { KeptSessions } from "./kept-sessions.ts"
import type { Member } from "./members.ts"
import { openRedis } from "./redis.ts"
import { SessionDrops } from "./session-drops.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "./tokens.ts"

const redis = openRedis(inject("redis"), "session drops test", () => {})
const metrics = createMetrics()
// One for each worker.
redis.setMaxListeners(0)
beforeAll(() => redis.connect())
afterAll(async () => {
  metrics.close()
  await redis.quit()
})

const serveForMs = 300

/** Workers that reach one another through `deliver`, each with sessions of its own in memory. */
function world() {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const stored = new Map<string, AccessSession>()
  const workers = new Map<string, { drop: (sessions: readonly string[]) => Promise<void> }>()
  const asked: [string, readonly string[]][] = []
  const dead = new Set<string>()
  const living = new Set<string>()
  /** What becomes of a notice; undefined: it arrives. */
  const fates = new Map<string, () => Promise<void> | undefined>()
  const member = (id: string): Member => ({ id, role: "web", host: "test", slot: 0 })
  const show = (id: string, value: string) => redis.hset(keys.members, id, value)

  async function join(id: string) {
    const at = { term: 1 as number | undefined }
    const kept = new KeptSessions<AccessSession>({
      bounds: { sessions: 100, bytes: 1_000_000, forMs: 60_000 },
      term: () => at.term,
      clock: systemClock,
    })
    const drops = new SessionDrops({
      bus: {
        handle: (_kind, handler) =>
          void workers.set(id, { drop: handler as unknown as (sessions: readonly string[]) => Promise<void> }),
        request: async (worker, _kind, body) => {
          asked.push([worker, body as readonly string[]])
          await fates.get(worker)?.()
          return (await workers.get(worker)!.drop(body as readonly string[])) as never
        },
      },
      membership: {
        self: member(id),
        members: () => [member(id)],
        isDead: worker => dead.has(worker),
      },
      living: async () => [...living].map(member),
      redis,
      keys,
      kept,
      serveForMs,
      clock: systemClock,
      log: silentLog,
      metrics,
    })
    const holders = { run: async (session: string) => stored.get(session) }
    const load = { run: async (session: string) => stored.get(session), count: 0 }
    const tokens = createTokens({
      redis,
      keys,
      load: session => {
        load.count++
        return load.run(session)
      },
      holderOf: session => holders.run(session),
      clock: Date.now,
      keeping: {
        kept,
        forSeconds: 30,
        drop: sessions => drops.everywhere(sessions),
        metrics: metrics.sessions,
      },
    })
    living.add(id)
    await show(id, "1")
    return { tokens, at, kept, load, holders }
  }

  let ids = 1_000
  function signIn(facts: Partial<AccessSession> = {}) {
    const secret = newSecret()
    const session_id = String(++ids)
    const now = Math.floor(Date.now() / 1000)
    // prettier-ignore
    const session: AccessSession = {
      session_id, user_id: "7", username: "ada", badges: [], tier: "standard", ...ordinary,
      token_hash: hashSecret(secret), expires_at: now + 3600, last_activity: now, ...facts,
    }
    stored.set(session_id, session)
    const token = `${session_id}.${secret}`
    return { session, token, presented: { session_id, token_hash: session.token_hash, isBot: false } }
  }
  return { join, signIn, stored, asked, dead, living, fates, show, keys }
}

const never = () => new Promise<void>(() => {})

test("TOK5: a session that a worker keeps is judged without asking anybody, until it is revoked anywhere", async () => {
  const { join, signIn, stored } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, presented, session } = signIn()
  for (const { tokens } of [east, west]) {
    expect(tokens.kept(presented)).toBeUndefined()
    expect(await tokens.verify(token)).toMatchObject({ username: "ada" })
    expect(tokens.kept(presented)).toEqual(session)
    expect(tokens.kept({ ...presented, token_hash: hashSecret("another") })).toBe("revoked")
  }
  stored.delete(session.session_id)
  await east.tokens.revoke([session.session_id])
  for (const { tokens } of [east, west]) {
    expect(tokens.kept(presented)).toBeUndefined()
    expect(await tokens.verify(token)).toBe("revoked")
    expect(await tokens.known(session.session_id)).toBeUndefined()
    // What is not there is not kept.
    expect(tokens.kept(presented)).toBeUndefined()
  }
})

test("TOK5: after a renewal no worker knows what was before it", async () => {
  const { join, signIn, stored } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, session } = signIn()
  for (const { tokens } of [east, west]) await tokens.verify(token)
  stored.set(session.session_id, { ...session, username: "lovelace" })
  await west.tokens.invalidate([session.session_id])
  for (const { tokens } of [east, west]) expect(await tokens.verify(token)).toMatchObject({ username: "lovelace" })
})

test("TOK5: a load that is under way when the notice comes serves its request and is not kept", async () => {
  const { join, signIn, stored } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, presented, session } = signIn()
  // West has read it from Redis, and is told before it goes on.
  const mget = redis.mget.bind(redis)
  await east.tokens.verify(token)
  let letGo = () => {}
  const isLetGo = new Promise<void>(resolve => (letGo = resolve))
  let hasRead = () => {}
  const read = new Promise<void>(resolve => (hasRead = resolve))
  redis.mget = (async (...keys: string[]) => {
    const values = await mget(...keys)
    hasRead()
    await isLetGo
    return values
  }) as never
  try {
    const found = west.tokens.verify(token)
    await read
    redis.mget = mget as never
    stored.delete(session.session_id)
    await east.tokens.revoke([session.session_id])
    letGo()
    expect(await found).toMatchObject({ username: "ada" })
    expect(west.tokens.kept(presented)).toBeUndefined()
    expect(await west.tokens.verify(token)).toBe("revoked")
  } finally {
    redis.mget = mget as never
  }
})

test("TOK5: what was said of a session holds without asking anybody until any session is dropped", async () => {
  const { join, signIn } = world()
  const [east, west] = [await join("east"), await join("west")]
  const [ada, other] = [signIn(), signIn()]
  const look = west.tokens.look()
  const holder = await west.tokens.admit(ada.token)
  west.holders.run = () => Promise.reject(new Error("nobody asks"))
  if (typeof holder === "string") throw new Error(holder)
  expect(west.tokens.isStill(holder, look)).toBe(true)
  expect(west.tokens.isStill({ ...holder, expires_at: 1 }, look)).toBe(false)
  expect(west.tokens.isStill(holder, undefined)).toBe(false)
  await east.tokens.revoke([other.session.session_id])
  expect(west.tokens.isStill(holder, look)).toBe(false)
  expect(west.tokens.isStill(holder, west.tokens.look())).toBe(true)
})

test("while the database is away a connection is let in by what Redis knows", async () => {
  const { join, signIn } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, session } = signIn()
  const stranger = signIn()
  await east.tokens.verify(token)
  west.holders.run = () => Promise.reject(new Error("the database is away"))
  west.load.run = west.holders.run
  expect(await west.tokens.admit(token)).toEqual(session)
  await expect(west.tokens.admit(stranger.token)).rejects.toThrow("away")
})

test("TOK1: a connection asks the database alone, and is refused when its session ends while it is asked", async () => {
  const { join, signIn, stored, keys } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, presented, session } = signIn()
  expect(await west.tokens.admit(token)).toEqual(session)
  expect(await west.tokens.admit(`${session.session_id}.${newSecret()}`)).toBe("revoked")
  expect(await west.tokens.admit("nonsense")).toBe("malformed")
  expect(west.tokens.kept(presented)).toBeUndefined()
  expect(await redis.exists(keys.accessSession(session.session_id))).toBe(0)
  expect(west.load.count).toBe(0)
  // What is kept because of a request is used.
  await west.tokens.verify(token)
  const { run } = west.holders
  west.holders.run = () => Promise.reject(new Error("nobody asks"))
  expect(await west.tokens.admit(token)).toEqual(session)

  const ending = signIn()
  let answer = () => {}
  const isAsked = new Promise<void>(asked => {
    west.holders.run = async id => {
      const found = await run(id)
      asked()
      await new Promise<void>(resolve => (answer = resolve))
      return found
    }
  })
  const found = west.tokens.admit(ending.token)
  await isAsked
  stored.delete(ending.session.session_id)
  await east.tokens.revoke([ending.session.session_id])
  answer()
  expect(await found).toBe("revoked")
})

test("DROP1: a worker that does not answer is waited for until it has shown nothing new for serveForMs", async () => {
  const { join, signIn, fates, show } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { token, session } = signIn()
  await west.tokens.verify(token)
  fates.set("west", never)
  let counter = 1
  const renewing = setInterval(() => void show("west", String(++counter)), 50)
  let isOver = false
  const revoking = east.tokens.revoke([session.session_id]).finally(() => (isOver = true))
  const startedAt = performance.now()
  // While it lives it is waited for, however long it takes to answer.
  await expect.poll(() => performance.now() - startedAt, { timeout: 10_000 }).toBeGreaterThan(4 * serveForMs)
  expect(isOver).toBe(false)
  clearInterval(renewing)
  await show("west", String(++counter))
  const silentAt = performance.now()
  await revoking
  expect(performance.now() - silentAt).toBeGreaterThanOrEqual(serveForMs)
  // What it knew by then is over, too.
  west.at.term = undefined
  expect(await west.tokens.verify(token)).toBe("revoked")
  west.at.term = 2
  expect(await west.tokens.verify(token)).toBe("revoked")
  // It is known to stand still.
  const again = signIn()
  await east.tokens.revoke([again.session.session_id])
})

test("DROP2: a worker that lives and does not answer fails the revocation, with a reason to try it again", async () => {
  const { join, signIn, fates, show } = world()
  const east = await join("east")
  await join("west")
  fates.set("west", () => Promise.reject(new WorkerGone("west")))
  let counter = 1
  const renewing = setInterval(() => void show("west", String(++counter)), 50)
  try {
    const { session } = signIn()
    await expect(east.tokens.revoke([session.session_id])).rejects.toMatchObject({ code: "unavailable" })
    fates.delete("west")
    await east.tokens.revoke([session.session_id])
  } finally {
    clearInterval(renewing)
  }
})

test("DROP1: a worker that dies without an answer, one of another version and one that is only a record hold nothing up for ever", async () => {
  const { join, signIn, fates, dead, living } = world()
  const east = await join("east")
  await join("west")
  await join("older")
  fates.set("older", () => Promise.reject(new NotHandled({})))
  fates.set("west", async () => {
    dead.add("west")
    throw new WorkerGone("west", { diedMeanwhile: true })
  })
  const { session } = signIn()
  await east.tokens.revoke([session.session_id])
  // Recorded, and never seen.
  living.add("starting")
  fates.set("starting", () => Promise.reject(new WorkerGone("starting")))
  await east.tokens.revoke([session.session_id])
})

test("DROP1: a worker that joins after the mark is found or looks after it; nothing is kept before it shows itself", async () => {
  const { join, signIn, stored } = world()
  const east = await join("east")
  const { token, presented, session } = signIn()
  const west = await join("west")
  west.at.term = undefined
  await west.tokens.verify(token)
  west.at.term = 1
  expect(west.tokens.kept(presented)).toBeUndefined()
  await west.tokens.verify(token)
  // Only PostgreSQL's record names it to east.
  stored.delete(session.session_id)
  await east.tokens.revoke([session.session_id])
  expect(await west.tokens.verify(token)).toBe("revoked")
})

test("notices to one worker go together while one is under way", async () => {
  const { join, fates, asked, keys } = world()
  const east = await join("east")
  await join("west")
  let letGo = () => {}
  const isLetGo = new Promise<void>(resolve => (letGo = resolve))
  fates.set("west", () => isLetGo)
  const first = east.tokens.revoke(["1"])
  await expect.poll(() => asked.length).toBe(1)
  const others = ["2", "3", "4"].map(id => east.tokens.revoke([id]))
  await expect
    .poll(() => redis.mget(...["2", "3", "4"].map(id => keys.accessSession(id))))
    .toEqual(Array.from({ length: 3 }, () => "revoked"))
  letGo()
  await Promise.all([first, ...others])
  expect(asked.flatMap(([, sessions]) => sessions).toSorted()).toEqual(["1", "2", "3", "4"])
  expect(asked.length).toBeLessThan(4)
})

test("TOK2: a kept session ends with its tier, and Redis keeps it for so much less", async () => {
  const { join, signIn, keys } = world()
  const east = await join("east")
  const now = Math.floor(Date.now() / 1000)
  const short = signIn({ tier_expires_at: now + 2 })
  await east.tokens.verify(short.token)
  expect(east.kept.find(short.session.session_id)!.endsAt).toBe(now + 2)
  const long = signIn()
  await east.tokens.verify(long.token)
  expect(await redis.ttl(keys.accessSession(long.session.session_id))).toBeLessThanOrEqual(270)
})

test("the use of a kept session is written down once a minute, also when another worker has done it", async () => {
  const { join, signIn } = world()
  const [east, west] = [await join("east"), await join("west")]
  const { presented, session } = signIn({ last_activity: Math.floor(Date.now() / 1000) - 61 })
  const [one, other] = await Promise.all([east.tokens.find(presented), west.tokens.find(presented)])
  const touches = await Promise.all([
    east.tokens.touch(one as AccessSession),
    east.tokens.touch(one as AccessSession),
    west.tokens.touch(other as AccessSession),
  ])
  expect(touches.filter(Boolean)).toHaveLength(1)
  for (const { tokens } of [east, west]) expect(tokens.touch(tokens.kept(presented) as AccessSession)).toBe(false)
  expect(east.tokens.kept(presented)).toEqual(session)
})

test("what requests share nobody can change", async () => {
  const { join, signIn } = world()
  const east = await join("east")
  const { token } = signIn({ permissions: ["a"] })
  const session = (await east.tokens.verify(token)) as AccessSession
  expect(() => (session.username = "eve")).toThrow(TypeError)
  expect(() => session.permissions.push("b")).toThrow(TypeError)
  expect(() => (session.account.email = "eve@example.org")).toThrow(TypeError)
})
