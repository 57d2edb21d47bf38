import { byLocale, t } from "../kit/text.ts"

/** Times in the reader's zone, and as they write them. Seconds come in, as the server has them. */
const clocks = byLocale(locale => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }))
const days = byLocale(locale => new Intl.DateTimeFormat(locale, { dateStyle: "full" }))
const both = byLocale(locale => new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" }))

export const clock = (seconds: number): string => clocks().format(seconds * 1_000)
export const fullTime = (seconds: number): string => both().format(seconds * 1_000)
export const exactly = (seconds: number): string => new Date(seconds * 1_000).toISOString()

const dayNames = byLocale(() => new Map<number, string>())
const maxDayNames = 5_000
/** Two times with the same text are of the same day, here. Zones are quarters of an hour apart. */
export function dayOf(seconds: number): string {
  const quarter = Math.floor(seconds / 900)
  const names = dayNames()
  const known = names.get(quarter)
  if (known !== undefined) return known
  if (names.size >= maxDayNames) names.clear()
  const name = days().format(seconds * 1_000)
  names.set(quarter, name)
  return name
}

export function dayName(seconds: number): string {
  const day = dayOf(seconds)
  const now = Date.now() / 1_000
  if (day === dayOf(now)) return t("Today")
  return day === dayOf(now - 86_400) ? t("Yesterday") : day
}
