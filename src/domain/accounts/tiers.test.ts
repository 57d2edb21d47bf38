import { describe, expect, it } from "vitest"
import { isBelowLimit, limitPercent, limitsOf, tiers } from "./tiers.ts"

describe("tiers", () => {
  it("are what the interface says", () => {
    const table = [...tiers.values()].map(tier => [
      tier.name,
      tier.multiplier,
      tier.max_voice_minutes_per_day,
      tier.max_video_minutes_per_day,
      tier.max_file_uploads_per_day,
      tier.max_file_size_mb,
      tier.max_servers,
    ])
    expect(table).toEqual([
      ["standard", 1, 120, 60, 50, 10, 100],
      ["alpha", 2, 480, 240, 200, 25, 200],
      ["premium", 3, -1, -1, 500, 100, 500],
      ["staff", 10, -1, -1, -1, 500, -1],
    ])
    for (const tier of tiers.values())
      expect(tier).toMatchObject({
        max_message_length: 4000,
        max_reactions_per_message: 20,
        max_pins_per_channel: 50,
        custom_emoji_slots: 50,
      })
  })

  it("that nobody knows are worth the standard one", () => {
    for (const name of ["", "unheard of", "__proto__", "Staff"]) expect(limitsOf(name).name).toBe("standard")
    expect([limitPercent("unheard of", false), limitPercent("alpha", true)]).toEqual([100, 300])
  })

  it("allow more below their number, and always where there is none", () => {
    expect([isBelowLimit(99, 100), isBelowLimit(100, 100), isBelowLimit(1_000_000, -1), isBelowLimit(0, 0)]).toEqual([
      true,
      false,
      true,
      false,
    ])
  })
})
