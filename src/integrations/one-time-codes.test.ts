import { generateSync } from "otplib"
import { expect, test } from "vitest"
import { newBackupCodes, newTotpSecret, readBackupCode, stepOf, totpUri } from "./one-time-codes.ts"

/** The secret of RFC 6238, appendix B: "12345678901234567890". */
const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"

test("codes are those of RFC 6238, their last six digits", () => {
  for (const [time, code] of [
    [59, "287082"],
    [1_111_111_109, "081804"],
    [1_234_567_890, "005924"],
    [20_000_000_000, "353130"],
  ] as const)
    expect(stepOf(code, secret, time)).toBe(Math.floor(time / 30))
})

test("a code is taken during its step, the one before and the one after, to the second", () => {
  const step = 40_000_000
  const code = generateSync({ secret, epoch: step * 30 })
  for (const time of [(step - 1) * 30, step * 30, step * 30 + 29, (step + 1) * 30 + 29])
    expect(stepOf(code, secret, time)).toBe(step)
  for (const time of [(step - 1) * 30 - 1, (step + 2) * 30, (step + 2000) * 30])
    expect(stepOf(code, secret, time)).not.toBe(step)
})

test("what has not six ASCII digits is no code, and breaks nothing", () => {
  for (const code of ["", "12345", "1234567", "12 456", "１２３４５６", "12345a", "-12345", "1e5000", "\n123456"])
    expect(stepOf(code, secret, 59)).toBeUndefined()
})

test("secrets have 160 bits and every one is another; apps are told of them by a URI", () => {
  const secrets = Array.from({ length: 50 }, newTotpSecret)
  expect(new Set(secrets).size).toBe(50)
  for (const one of secrets) expect(one).toMatch(/^[A-Z2-7]{32}$/)
  const uri = new URL(totpUri("My Chat: best?", "ada", secret))
  expect([uri.protocol, uri.host, decodeURIComponent(uri.pathname)]).toEqual([
    "otpauth:",
    "totp",
    "/My Chat: best?:ada",
  ])
  expect(Object.fromEntries(uri.searchParams)).toEqual({ secret, issuer: "My Chat: best?" })
})

test("backup codes are read with and without a dash, in any case of letters, and nothing else is", () => {
  const codes = newBackupCodes()
  expect(new Set(codes).size).toBe(10)
  for (const code of codes) {
    expect(code).toMatch(/^[0-9A-F]{4}-[0-9A-F]{4}$/)
    expect(readBackupCode(code.toLowerCase())).toBe(code.replace("-", ""))
    expect(readBackupCode(code.replace("-", ""))).toBe(code.replace("-", ""))
  }
  for (const code of [
    "",
    "1234",
    "123456",
    "1234-567",
    "12345-678",
    "1234--5678",
    "1234 5678",
    "GHIJ-KLMN",
    "１２３４-５６７８",
  ])
    expect(readBackupCode(code)).toBeUndefined()
})
