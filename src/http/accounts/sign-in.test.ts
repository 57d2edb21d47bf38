import { expect, test } from "vitest"
import { fail, Failure } from "../../contract/core/errors.ts"
import { newAccount } from "../../domain/accounts/accounts.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import { createSignIn, type SignInNeeds } from "./sign-in.ts"

const ada: UserRow = {
  ...newAccount({ username: "Ada", email: "ada@navy.example", password_hash: "right", created_at: 0 }),
  id: "1",
}

/** What is done, in order, for a sign-in with this name and password. */
async function steps(name: string, password: string, isLockedFrom = Infinity) {
  const done: string[] = []
  const noted =
    <T>(step: string, value: (...args: never[]) => T) =>
    async (...args: never[]) => {
      done.push(step)
      return value(...args)
    }
  let looks = 0
  const http = {
    storage: {
      users: { findByLogin: noted("find", (login: string) => (login === ada.username ? ada : undefined)) },
      sessions: {
        isLocked: noted("look", () => ++looks >= isLockedFrom),
        countFailure: noted("count", () => looks + 1 < isLockedFrom),
        clearFailures: noted("clear", () => {}),
        ofUser: async () => [],
      },
    },
    tokens: { lastUses: async () => new Map() },
    integrations: {
      hashing: {
        requireCapacity() {},
        verify: noted("hash", (given: string, stored: string | undefined) => given === stored),
        isOutdated: () => false,
      },
    },
    ask: noted("start", () => ({ session_id: "9" })),
    policy: { login_failures_allowed: 5, login_lockout_minutes: 15 },
    clock: () => 0,
  } as unknown as SignInNeeds
  const outcome = await createSignIn(http)
    .withPassword(name, password, { address: "192.0.2.1", userAgent: "" })
    .then(
      ({ user }) => user!.id,
      (error: unknown) => (error as Failure).code,
    )
  return { outcome, done }
}

test("LOGIN3: a name that nobody has costs what a known one costs, step by step", async () => {
  const known = await steps("Ada", "wrong")
  expect(known).toEqual({ outcome: "invalid_credentials", done: ["find", "look", "hash", "count"] })
  expect(await steps("nobody", "wrong")).toEqual(known)
  expect((await steps("Ada", "right")).outcome).toBe("1")
})

test("LOGIN2: a code stays counted where it was wrong, or may have been; any other refusal takes the count back", async () => {
  const counts = async (attempt: () => Promise<{ right: boolean }>) => {
    let count = 0
    const sessions = { countFailure: async () => ++count > 0, takeBackFailure: async () => void count-- }
    const policy = { login_failures_allowed: 5, login_lockout_minutes: 15 }
    const http = { storage: { sessions }, integrations: {}, policy, clock: () => 0 } as unknown as SignInNeeds
    const tried = createSignIn(http).tryCode(ada, attempt, ({ right }) => !right)
    const outcome = await tried.catch((error: unknown) => (error instanceof Failure ? error.code : "bug"))
    return [outcome, count]
  }
  expect(await counts(async () => ({ right: true }))).toEqual([{ right: true }, 0])
  expect(await counts(async () => ({ right: false }))).toEqual([{ right: false }, 1])
  expect(await counts(() => Promise.reject(fail("invalid_password")))).toEqual(["invalid_password", 0])
  expect(await counts(() => Promise.reject(fail("unavailable")))).toEqual(["unavailable", 1])
  expect(await counts(() => Promise.reject(new Error("connection lost")))).toEqual(["bug", 1])
})

test("LOGIN2: a sign-in that is judged after the lock is told of it alone, whether right or wrong", async () => {
  expect((await steps("Ada", "right", 2)).outcome).toBe("account_locked")
  expect((await steps("Ada", "wrong", 2)).outcome).toBe("account_locked")
  expect((await steps("nobody", "wrong", 2)).outcome).toBe("account_locked")
  expect(await steps("Ada", "right", 1)).toEqual({ outcome: "account_locked", done: ["find", "look"] })
})
