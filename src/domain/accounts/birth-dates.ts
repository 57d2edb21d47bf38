import type { ErrorCode } from "../../contract/core/errors.ts"

/** Who may register. The names are those of the configuration. */
export interface AgeGate {
  readonly age_gate_enabled: boolean
  readonly age_verification_type: "boolean" | "dob"
  readonly minimum_age: number
}

export interface Day {
  readonly year: number
  readonly month: number
  readonly day: number
}

/** The day that `YYYY-MM-DD` names, if there is such a day. */
export function parseDay(text: string): Day | undefined {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (!parts) return undefined
  const [year, month, day] = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return undefined
  return { year, month, day }
}

/** The day it is in UTC at a Unix time in milliseconds. */
export function dayOf(ms: number): Day {
  const date = new Date(ms)
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() }
}

/**
 * Whole years from birth to today; in other years, a person born on 29 February has their birthday
 * on 1 March.
 */
export function yearsBetween(born: Day, today: Day): number {
  const hadBirthday = today.month > born.month || (today.month === born.month && today.day >= born.day)
  return today.year - born.year - (hadBirthday ? 0 : 1)
}

/**
 * What keeps somebody from registering for reasons of age. A date that was sent must be one, gate
 * or no gate.
 */
export function ageRefusal(
  given: { age?: number | undefined; age_verified?: boolean | undefined; dob?: string | undefined },
  gate: AgeGate,
  today: Day,
): ErrorCode | undefined {
  const born = given.dob === undefined ? undefined : parseDay(given.dob)
  if (given.dob !== undefined && (!born || yearsBetween(born, today) < 0)) return "invalid_birth_date"
  if (!gate.age_gate_enabled) return undefined
  if (gate.age_verification_type === "dob") {
    if (!born) return "birth_date_required"
    return yearsBetween(born, today) >= gate.minimum_age ? undefined : "too_young"
  }
  if (given.age_verified === true) return undefined
  if (given.age === undefined) return "age_required"
  return given.age >= gate.minimum_age ? undefined : "too_young"
}

const leap = (year: number) => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
const daysIn = (year: number, month: number) =>
  month === 2 ? (leap(year) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31
