import { Stop } from "./stop.ts"

/** Names with commas, each of a part that there is. */
export function readParts<P extends string>(parts: readonly P[], text: string, usage: string): ReadonlySet<P> {
  const named = text.split(",").map(name => {
    const part = parts.find(part => part === name.trim())
    if (part === undefined) throw new Stop(`there is no part ${name}\n\n${usage}`)
    return part
  })
  return new Set(named)
}

export function readCount(name: string, text: string | undefined, fallback: number, most: number, usage: string) {
  if (text === undefined) return fallback
  if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > most)
    throw new Stop(`--${name} takes a whole number from 1 to ${most}\n\n${usage}`)
  return Number(text)
}

export const maxRuns = 20
