import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "./tokens.ts"
import { ordinary } from "../../tests/kit/ordinary-session.ts"

const redis = openRedis(inject("redis"), "tokens test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const secret = newSecret()
const session: AccessSession = {
  session_id: "1000",
  user_id: "7",
  username: "ada",
  badges: [],
  tier: "standard",
  ...ordinary,
  token_hash: hashSecret(secret),
  expires_at: Math.floor(Date.now() / 1000) + 3600,
  last_activity: Math.floor(Date.now() / 1000),
}
const token = `${session.session_id}.${secret}`

let keys: ReturnType<typeof redisKeys>
beforeEach(() => {
  keys = redisKeys(`test-${randomUUID()}:`)
})
const tokensOf = (load: () => Promise<AccessSession | undefined>) =>
  createTokens({ redis, keys, load, clock: Date.now })

test("TOK4: what was read before a renewal is never cached after it", async () => {
  let username = "ada"
  let answer = () => {}
  let asked = () => {}
  let isAsked = new Promise<void>(resolve => (asked = resolve))
  const slow = tokensOf(async () => {
    const read = { ...session, username }
    asked()
    await new Promise<void>(resolve => (answer = resolve))
    return read
  })
  const other = tokensOf(async () => ({ ...session, username }))

  const found = slow.verify(token)
  await isAsked
  username = "lovelace"
  await other.invalidate([session.session_id])
  isAsked = new Promise(resolve => (asked = resolve))
  answer()
  // It looks again.
  await isAsked
  answer()
  expect(await found).toMatchObject({ username: "lovelace" })
  expect(await other.known(session.session_id)).toMatchObject({ username: "lovelace" })
  expect(await redis.ttl(keys.accessRenewal(session.session_id))).toBeGreaterThan(0)
})

test("TOK4: a session that is renewed again and again is served all the same", async () => {
  let number = 0
  const tokens = tokensOf(async () => ({ ...session, username: `ada ${++number}` }))
  const renewing = Array.from({ length: 30 }, () => tokens.invalidate([session.session_id]))
  const asking = Array.from({ length: 30 }, () => tokens.verify(token))
  for (const answer of await Promise.all(asking)) expect(answer).toMatchObject({ user_id: "7" })
  await Promise.all(renewing)
})

test("TOK1: what was read before a revocation is never cached after it, also when its mark is gone", async () => {
  for (const isLate of [false, true]) {
    let ask = () => {}
    let answer = () => {}
    const asked = new Promise<void>(resolve => (ask = resolve))
    const answered = new Promise<void>(resolve => (answer = resolve))
    let isThere = true
    const slow = tokensOf(async () => {
      const read = isThere ? session : undefined
      ask()
      await answered
      return read
    })
    const found = slow.verify(token)
    await asked
    isThere = false
    await tokensOf(async () => undefined).revoke([session.session_id])
    // As after a process that stood still for longer than any mark is kept.
    await redis.del(keys.accessSession(session.session_id))
    if (isLate) await redis.del(keys.accessRenewal(session.session_id))
    answer()
    expect(await found).toBe("revoked")
    expect(await redis.get(keys.accessSession(session.session_id))).toBeNull()
  }
})

test("a renewal does not bring back what was revoked", async () => {
  const tokens = tokensOf(async () => session)
  expect(await tokens.verify(token)).toMatchObject({ username: "ada" })
  await tokens.revoke([session.session_id])
  await tokens.invalidate([session.session_id])
  expect(await tokens.verify(token)).toBe("revoked")
  expect(await tokens.known(session.session_id)).toBeUndefined()
})

test("who has no session is known to have none", async () => {
  const tokens = tokensOf(async () => undefined)
  expect(await tokens.verify(token)).toBe("revoked")
  expect(await tokens.known(session.session_id)).toBeUndefined()
})
