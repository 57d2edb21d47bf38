import { expect, test } from "vitest"
import { createHashing } from "./hashing.ts"

test("a hash is its password's, and nobody's hash is nobody's password", async () => {
  const { hash, verify } = createHashing({ atOnce: 2, queued: 8 })
  const stored = await hash("Correct-Horse-7")
  expect(stored).toMatch(/^\$argon2id\$v=19\$m=19456,(t=2,p=1|p=1,t=2)\$/)
  expect(
    await Promise.all([
      verify("Correct-Horse-7", stored),
      verify("correct-horse-7", stored),
      verify("x", null),
      verify("", undefined),
    ]),
  ).toEqual([true, false, false, false])
})

test("so many hashes run, so many wait, the rest comes back later; a place is free again after a failure", async () => {
  const { hash, verify } = createHashing({ atOnce: 1, queued: 1 })
  const [first, second, third] = await Promise.allSettled([verify("a", "not a hash"), hash("b"), hash("c")])
  expect(first.status).toBe("rejected")
  expect(second.status).toBe("fulfilled")
  expect(third).toMatchObject({ status: "rejected", reason: { code: "unavailable", details: { retry_after: 2 } } })
  await expect(hash("d")).resolves.toMatch(/^\$argon2id/)
})
