import { expect, test } from "vitest"
import { accepted } from "./second-factors.ts"

const account = { totp_enabled: true, totp_secret: "sealed", totp_step: 100, backup_codes: ["a", "b"] }

test("a code counts when its step is later than that of the last one", () => {
  expect(accepted(account, { secret: "sealed", step: 101 })).toEqual({ totp_step: 101 })
  for (const step of [100, 99]) expect(accepted(account, { secret: "sealed", step })).toBeUndefined()
})

test("a code of a secret that is another by now does not count", () => {
  expect(accepted(account, { secret: "former", step: 101 })).toBeUndefined()
  expect(accepted({ ...account, totp_secret: null }, { secret: "sealed", step: 101 })).toBeUndefined()
})

test("a backup code is used up", () => {
  expect(accepted(account, { digest: "a" })).toEqual({ backup_codes: ["b"] })
  expect(accepted({ ...account, backup_codes: ["b"] }, { digest: "a" })).toBeUndefined()
})

test("nothing counts while the second factor is off, and nothing is no code", () => {
  const off = { ...account, totp_enabled: false }
  for (const factor of [{ secret: "sealed", step: 101 }, { digest: "a" }, null])
    expect(accepted(off, factor)).toBeUndefined()
  expect(accepted(account, null)).toBeUndefined()
})
