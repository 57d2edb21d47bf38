/** To hundredths, for figures that people read. */
export const rounded = (value: number): number => Math.round(value * 100) / 100
