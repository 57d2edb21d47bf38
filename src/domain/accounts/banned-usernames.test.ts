import { expect, test } from "vitest"
import { bannedExpression, BannedUsernames, usualReason, type BannedUsername } from "./banned-usernames.ts"
import { similarity } from "./look-alikes.ts"

const banned = (pattern: string, rest: Partial<BannedUsername> = {}): BannedUsername => ({
  id: pattern,
  pattern,
  is_regex: false,
  reason: null,
  ...rest,
})
const of = (...names: BannedUsername[]) => BannedUsernames.of(names, async () => {})

test("a name is banned whole, in any case, and with all that looks like it", async () => {
  const names = await of(banned("Admin", { reason: "nobody is" }), banned("hello"), banned("O'Neil"), banned("___"))
  for (const name of ["admin", "ADMIN", "4dm1n", "a_d_m_i_n", "_Adm1n_", "@dm!n"])
    expect([name, names.reasonAgainst(name)]).toEqual([name, "nobody is"])
  for (const name of ["he110", "H3||O", "h3l1o", "oneil", "0_N_E_1_L", "___"])
    expect([name, names.reasonAgainst(name)]).toEqual([name, usualReason])
  // Part of a name is nothing, and what may stand for two letters does not make these the same.
  for (const name of ["admins", "the_admin", "adnin", "heiio", "hellol", "____", "ada"])
    expect([name, names.reasonAgainst(name)]).toEqual([name, undefined])
  expect((await of(banned("ill"))).reasonAgainst("lil")).toBeUndefined()
  expect((await of(banned("ﬁnn"))).reasonAgainst("f1nn")).toBe(usualReason)
})

test("an expression is found anywhere in a name, in any case; one that is none, or costs too much, is refused", async () => {
  const names = await of(
    banned("^mod|staff", { is_regex: true, reason: "reserved for the team" }),
    banned("(", { is_regex: true }),
  )
  for (const name of ["Moderator", "the_STAFF_room"]) expect(names.reasonAgainst(name)).toBe("reserved for the team")
  expect(names.reasonAgainst("a_mod")).toBeUndefined()
  for (const pattern of ["(", "a{1,1001}", "(?=x)", "([a-z0-9]{1,30}x){1,30}"])
    expect([pattern, bannedExpression(pattern)]).toEqual([pattern, undefined])
  expect(bannedExpression("(a+)+$")!.size).toBeLessThan(20)
})

test("how similar two names are: what need not be changed of the longer one, however its digits look", () => {
  for (const [one, other, value] of [
    ["ada", "ada", 1],
    ["Ada", "aDA", 1],
    ["admin", "4dm1n", 1],
    ["a_d_a", "ada", 1],
    ["abcdefghij", "abcdefgh", 0.8],
    ["abcdefghij", "abcdefghix", 0.9],
    ["ada", "lin", 0],
    ["ada", "adalovelace", 3 / 11],
  ] as const)
    expect([one, other, Math.round(similarity(one, other) * 1000)]).toEqual([one, other, Math.round(value * 1000)])
})
