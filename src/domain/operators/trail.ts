import { utf8Bytes } from "../../contract/core/fields.ts"
import type { Trail } from "../../contract/core/registry.ts"

/** What a handler adds to the entry of its call. */
export interface TrailNote {
  /** Who it was, where the call itself brought no session. */
  operator?: { readonly id: string; readonly name: string }
  /** What the call was about; by default what its route's path names first. */
  target?: string
  /** Facts about what was done: counts, names, ids. */
  result?: Readonly<Record<string, unknown>>
}

const maxCharacters = 200
const maxItems = 20
const maxDepth = 4
/** Of one entry's input, and of its result. */
export const maxTrailBytes = 4_096

/** Even where a route says by mistake that it keeps such a key. */
const secretKey = /password|token|code|secret|api_?key|authorization|credential/i

/** What the trail keeps of a call's input. */
export function keptInput(
  { keeps }: Trail,
  ...parts: (Readonly<Record<string, unknown>> | undefined)[]
): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  for (const part of parts)
    for (const key of keeps) if (part?.[key] !== undefined && !secretKey.test(key)) kept[key] = part[key]
  return kept
}

/** JSON of some facts within bounds; secrets are left out wherever they stand. */
export function trailText(facts: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(shortened(facts, 0))
  return utf8Bytes(text) <= maxTrailBytes ? text : JSON.stringify({ keys: Object.keys(facts).slice(0, maxItems) })
}

function shortened(value: unknown, depth: number): unknown {
  if (typeof value === "string") return cut(value)
  if (typeof value !== "object" || value === null) return value
  if (depth === maxDepth) return "…"
  if (Array.isArray(value)) return value.slice(0, maxItems).map(item => shortened(item, depth + 1))
  const entries = Object.entries(value).slice(0, maxItems)
  return Object.fromEntries(
    entries.map(([key, item]) => [cut(key), secretKey.test(key) ? "********" : shortened(item, depth + 1)]),
  )
}

/** At most so many characters, none of them half. */
export function cut(text: string, most = maxCharacters): string {
  if (text.length <= most) return text
  const isHalf = (text.charCodeAt(most - 2) & 0xfc00) === 0xd800
  return `${text.slice(0, isHalf ? most - 2 : most - 1)}…`
}
