const effort = Number(process.env["TEST_EFFORT"] ?? 0.3)

/** How many runs a property has; `TEST_EFFORT` multiplies them where there is time for more. */
export const runs = (count: number): number => Math.max(1, Math.round(count * effort))
