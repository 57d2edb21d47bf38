import { resolve } from "node:path"
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

/** What every bench takes, for `parseArgs`. */
export const measuringOptions = {
  runs: { type: "string" },
  quick: { type: "boolean", default: false },
  write: { type: "boolean", default: false },
  main: { type: "string" },
} as const

export function readMeasuring(
  values: { runs?: string | undefined; quick: boolean; write: boolean; main?: string | undefined },
  usage: string,
) {
  return {
    runs: readCount("runs", values.runs, values.quick ? 1 : 3, maxRuns, usage),
    isQuick: values.quick,
    isKept: values.write,
    /** Given when another build than this checkout's is measured. */
    mainFile: values.main === undefined ? undefined : resolve(values.main),
  }
}
