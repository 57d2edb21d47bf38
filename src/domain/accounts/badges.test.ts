import { describe, expect, it } from "vitest"
import { badgeOf, badges, isBadge, shownBadges } from "./badges.ts"

describe("badges", () => {
  it("are eight, each found by its name", () => {
    expect(badges).toHaveLength(8)
    for (const badge of badges) expect(badgeOf(badge.name)).toBe(badge)
    expect(badges.every(({ name }) => isBadge(name))).toBe(true)
  })

  it("that nobody gives any more are shown by their words", () => {
    expect(badgeOf("summer_2024_guest")).toEqual({
      name: "summer_2024_guest",
      display_name: "Summer 2024 Guest",
      description: "",
      icon: "🏷️",
      color: "#6b7280",
    })
    expect(badgeOf("_").display_name).toBe("")
    for (const name of ["", "Staff", "staff ", "__proto__", "constructor"]) expect(isBadge(name)).toBe(false)
  })

  it("are shown up to five", () => {
    expect(shownBadges(["a", "b", "c", "d", "e", "f"])).toEqual(["a", "b", "c", "d", "e"])
  })
})
