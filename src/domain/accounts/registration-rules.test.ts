import { expect, test } from "vitest"
import { ageRefusal, parseDay, yearsBetween } from "./birth-dates.ts"
import { isEmailAddress, isOfDomain } from "./email-addresses.ts"
import { passwordFaults } from "./passwords.ts"
import { limitPercent } from "./tiers.ts"
import { isReserved, isUsername } from "./usernames.ts"

const rules = {
  password_min_length: 12,
  password_max_length: 128,
  password_require_uppercase: true,
  password_require_lowercase: true,
  password_require_digit: true,
  password_require_special: true,
}

test("a password has to satisfy every rule that is on", () => {
  expect(passwordFaults("Correct-Horse-7", rules)).toEqual([])
  expect(passwordFaults("short", rules)).toHaveLength(4)
  expect(passwordFaults("Correct_Horse 7", rules)).toEqual(["a special character"])
  expect(passwordFaults("Élan-vital-1234", rules)).toEqual([])
  expect(passwordFaults(`Aa1-${"x".repeat(125)}`, rules)).toEqual(["at most 128 characters"])
  expect(passwordFaults("😀".repeat(12), { ...rules, password_min_length: 13 })).toContain("at least 13 characters")
  expect(passwordFaults("", { ...rules, password_min_length: 0, password_require_uppercase: false })).toHaveLength(3)
})

test("user names hold ASCII letters, digits and underscores; reserved ones count in any case", () => {
  expect(["ada", "Ada_1", "___"].every(isUsername)).toBe(true)
  expect(["", "a b", "ada\n", "adä", "a-b", "@me"].some(isUsername)).toBe(false)
  expect(isReserved("AdMin", ["admin"])).toBe(true)
  expect(isReserved("admins", ["admin"])).toBe(false)
})

test("mail addresses", () => {
  expect(["a@b.example", "a.b+c@x-y.example", `${"l".repeat(64)}@b.example`].every(isEmailAddress)).toBe(true)
  const bad = [
    "",
    "a",
    "a@b",
    "@b.example",
    "a@@b.example",
    ".a@b.example",
    "a.@b.example",
    "a..b@c.example",
    "a@-b.example",
    "a b@c.example",
  ]
  expect(
    [...bad, "a@b.example\n", `${"l".repeat(65)}@b.example`, `a@${"b".repeat(260)}.example`].filter(isEmailAddress),
  ).toEqual([])
})

test("an address belongs to a domain and to what that is a part of", () => {
  expect(isOfDomain("a@b.example", [])).toBe(true)
  for (const email of ["a@b.example", "a@X.B.Example", "a@b.edu"])
    expect(isOfDomain(email, ["edu", "b.example"])).toBe(true)
  for (const email of ["a@ab.example", "a@b.example.org", "a@b.notedu", "edu@c.example"])
    expect(isOfDomain(email, ["edu", "b.example"])).toBe(false)
})

test("a hostile address is refused in no time", () => {
  const started = performance.now()
  expect(isEmailAddress(`a@${"a-".repeat(60)}.${"b.".repeat(60)}`)).toBe(false)
  expect(isEmailAddress(`${"a.".repeat(100)}@`)).toBe(false)
  expect(performance.now() - started).toBeLessThan(50)
})

test("days and ages", () => {
  expect(parseDay("2024-02-29")).toEqual({ year: 2024, month: 2, day: 29 })
  expect(
    ["2023-02-29", "2023-13-01", "2023-00-10", "2023-04-31", "23-01-01", "2023-1-1", "2023-01-01 "].filter(parseDay),
  ).toEqual([])
  expect(yearsBetween(parseDay("2000-02-29")!, parseDay("2013-02-28")!)).toBe(12)
  expect(yearsBetween(parseDay("2000-02-29")!, parseDay("2013-03-01")!)).toBe(13)
})

test("the age gate", () => {
  const today = { year: 2026, month: 6, day: 15 }
  const off = { age_gate_enabled: false, age_verification_type: "boolean", minimum_age: 13 } as const
  const byAge = { ...off, age_gate_enabled: true }
  const byBirth = { ...byAge, age_verification_type: "dob" } as const
  expect(ageRefusal({}, off, today)).toBeUndefined()
  expect(ageRefusal({ dob: "yesterday" }, off, today)).toBe("invalid_birth_date")
  expect(ageRefusal({ dob: "2999-01-01" }, byBirth, today)).toBe("invalid_birth_date")
  expect(ageRefusal({}, byAge, today)).toBe("age_required")
  expect(ageRefusal({ age: 12 }, byAge, today)).toBe("too_young")
  expect(ageRefusal({ age: 13 }, byAge, today)).toBeUndefined()
  expect(ageRefusal({ age_verified: true }, byAge, today)).toBeUndefined()
  expect(ageRefusal({ age: 40 }, byBirth, today)).toBe("birth_date_required")
  expect(ageRefusal({ dob: "2013-06-16" }, byBirth, today)).toBe("too_young")
  expect(ageRefusal({ dob: "2013-06-15" }, byBirth, today)).toBeUndefined()
})

test("tiers and bots scale limits", () => {
  expect([
    limitPercent("standard", false),
    limitPercent("alpha", true),
    limitPercent("staff", false),
    limitPercent("new", false),
  ]).toEqual([100, 300, 1000, 100])
})
