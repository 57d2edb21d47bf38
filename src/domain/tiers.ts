/** How much of a user's limits each tier multiplies. */
const multipliers: ReadonlyMap<string, number> = new Map([
  ["standard", 1],
  ["alpha", 2],
  ["premium", 3],
  ["staff", 10],
])

/** Seconds in voice a day; who has none here has no bound. */
const voiceAllowances: ReadonlyMap<string, number | null> = new Map([
  ["standard", 120 * 60],
  ["alpha", 480 * 60],
  ["premium", null],
  ["staff", null],
])

/** Seconds that a user may spend in voice channels a day; null: no bound. */
export function voiceAllowance(tier: string): number | null {
  const known = voiceAllowances.get(tier)
  return known === undefined ? voiceAllowances.get("standard")! : known
}

/** What the requests and the burst of a user's, route's or resource's limit are multiplied with, in percent. */
export const limitPercent = (tier: string, bot: boolean): number => (multipliers.get(tier) ?? 1) * (bot ? 150 : 100)
