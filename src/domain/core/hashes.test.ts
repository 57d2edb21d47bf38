import { expect, test } from "vitest"
import { sameHash } from "./hashes.ts"

test("only a hash that is the same to its last character is the same", () => {
  const hash = "0123456789abcdef"
  expect(sameHash(hash, "0123456789abcdef")).toBe(true)
  for (const other of ["", "0", "1123456789abcdef", "0123456789abcdee", "0123456789abcde", "0123456789abcdef0"])
    expect([other, sameHash(hash, other), sameHash(other, hash)]).toEqual([other, false, false])
})
