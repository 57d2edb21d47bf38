import * as argon2 from "argon2"
import { expect, test, vi } from "vitest"
import { createHashing } from "./password-hashing.ts"

/** Hashes, and keeps what it was asked for. */
const watched = () => vi.fn((password: string | Buffer, options: argon2.Options) => argon2.hash(password, options))

const busy = { status: "rejected", reason: { code: "unavailable", details: { retry_after: 2 } } }

test("a hash is its password's, and nobody's hash is nobody's password", async () => {
  const { hash, verify } = createHashing({ memoryKib: 19_456, passes: 2, maxConcurrent: 2, timeoutMs: 60_000 })
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

test("who would wait too long is refused at once; a place is free again after a failure", async () => {
  const { hash, verify, requireCapacity } = createHashing({
    memoryKib: 19_456,
    passes: 2,
    maxConcurrent: 1,
    timeoutMs: 1,
  })
  await hash("a") // It takes much longer than a millisecond.
  requireCapacity()
  const asked = Promise.allSettled([verify("a", "not a hash"), hash("b")])
  expect(requireCapacity).toThrow("unavailable")
  const [first, second] = await asked
  expect(first).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("pchstr") } })
  expect(second).toMatchObject(busy)
  await expect(hash("c")).resolves.toMatch(/^\$argon2id/)
})

test("as many wait as are expected to be done in time, however many that is", async () => {
  const { hash } = createHashing({ memoryKib: 1_024, passes: 1, maxConcurrent: 2, timeoutMs: 60_000 })
  const hashes = await Promise.all(Array.from({ length: 100 }, (_, i) => hash(String(i))))
  expect(new Set(hashes).size).toBe(100)
})

test("a request that waited too long is refused without a hash, and later ones get theirs", async () => {
  let now = 0
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now)
  try {
    const made = watched()
    const { hash } = createHashing({ memoryKib: 1_024, passes: 1, maxConcurrent: 1, timeoutMs: 1_000 }, made)
    await vi.waitFor(() => expect(made.mock.settledResults.at(-1)?.type).toBe("fulfilled"))
    const begun = made.mock.calls.length
    const first = hash("a")
    const waiting = Promise.allSettled([hash("b"), hash("c")])
    now = 900
    const later = hash("d")
    expect(await first).toMatch(/^\$argon2id/)
    // Even what a hash takes by the average, an eighth of 900, is more than the 100 that are left.
    expect(await waiting).toMatchObject([busy, busy])
    expect(await later).toMatch(/^\$argon2id/)
    expect(made.mock.calls.length).toBe(begun + 2)
  } finally {
    clock.mockRestore()
  }
})

test("what nobody's password is compared with is made before anybody asks, and again after a failure", async () => {
  const made = watched()
  made.mockRejectedValueOnce(new Error("out of memory"))
  const { verify } = createHashing({ memoryKib: 1_024, passes: 1, maxConcurrent: 1, timeoutMs: 1_000 }, made)
  expect(made).toHaveBeenCalledTimes(1)
  await expect(made.mock.results[0]!.value).rejects.toThrow("out of memory")
  for (let i = 0; i < 3; i++) expect(await verify("x", null)).toBe(false)
  expect(made).toHaveBeenCalledTimes(2)
})

test("a hash of other parameters is outdated", async () => {
  const { hash } = createHashing({ memoryKib: 64, passes: 1, maxConcurrent: 1, timeoutMs: 1_000 })
  const now = createHashing({ memoryKib: 19_456, passes: 2, maxConcurrent: 1, timeoutMs: 1_000 })
  const stored = await hash("Correct-Horse-7")
  expect(now.isOutdated(stored)).toBe(true)
  expect(await now.verify("Correct-Horse-7", stored)).toBe(true)
  expect(now.isOutdated(await now.hash("Correct-Horse-7"))).toBe(false)
})
