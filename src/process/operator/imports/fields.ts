import { keepable } from "./usernames.ts"

/** Reads what somebody else's program wrote: a field that is not what it should be is not there. */

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const fieldsIn = (value: unknown): Fields => (isFields(value) ? value : {})
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : [])
export const rowsIn = (value: unknown): readonly Fields[] => listIn(value).filter(isFields)

/** A text, or a number as one; null where it is neither or empty. */
export const textIn = (value: unknown): string | null =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : null

const longestId = 300

/** A text that tells something from others; null where it is none, or so long that nothing is called so. */
export const idIn = (value: unknown): string | null => {
  const text = textIn(value)
  if (text === null || text.length > longestId) return null
  return keepable(text)
}

export const idsIn = (value: unknown): readonly string[] =>
  listIn(value).flatMap(one => {
    const id = idIn(one)
    return id === null ? [] : [id]
  })

export const numberIn = (value: unknown): number | null => {
  const number = typeof value === "string" && value !== "" ? Number(value) : value
  return typeof number === "number" && Number.isFinite(number) ? number : null
}

/** Of an ISO 8601 text. */
export const momentIn = (value: unknown): number | null => {
  const ms = typeof value === "string" ? Date.parse(value) : NaN
  return Number.isFinite(ms) ? ms : null
}
