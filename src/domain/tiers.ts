/** How much of a user's limits each tier multiplies. */
const multipliers: ReadonlyMap<string, number> = new Map([
  ["standard", 1],
  ["alpha", 2],
  ["premium", 3],
  ["staff", 10],
])

/** What the requests and the burst of a user's, route's or resource's limit are multiplied with, in percent. */
export const limitPercent = (tier: string, bot: boolean): number => (multipliers.get(tier) ?? 1) * (bot ? 150 : 100)
