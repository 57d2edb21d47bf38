import { expect, test } from "vitest"
import { newTokenSecret, readToken, tokenText } from "./one-time-tokens.ts"
import { hashSecret } from "./tokens.ts"

test("a token is read as what it was made for, and as nothing else", () => {
  const { secret, token_hash } = newTokenSecret()
  expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/)
  expect(token_hash).toBe(hashSecret(secret))
  expect(readToken("two_factor", tokenText("two_factor", "17", secret))).toEqual({ id: "17", token_hash })
  for (const kind of ["verify_email", "password_reset", "restore_email"] as const) {
    expect(readToken(kind, tokenText(kind, "17", secret))).toEqual({ id: "17", token_hash })
    expect(readToken("two_factor", tokenText(kind, "17", secret))).toBeUndefined()
    expect(readToken(kind, tokenText("two_factor", "17", secret))).toBeUndefined()
  }
})

test("what has another shape is no token", () => {
  const secret = "a".repeat(43)
  for (const text of [
    "",
    "2fa",
    `2fa.17.${secret}a`,
    `2fa.17.${secret.slice(1)}`,
    `2fa.017.${secret}`,
    `2fa.9223372036854775808.${secret}`,
    `2fa.x.${secret}`,
    ` 2fa.17.${secret}`,
    `2fa.17.${secret}\n`,
    `17.${secret}`,
    `bot.17.${secret}`,
  ])
    expect(readToken("two_factor", text)).toBeUndefined()
  expect(readToken("two_factor", `2fa.9223372036854775807.${secret}`)).toBeDefined()
})
