import { byLocale, t } from "../kit/text.ts"

/** Times in the reader's zone, and as they write them. Seconds come in, as the server has them. */
const clocks = byLocale(locale => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" }))
const days = byLocale(locale => new Intl.DateTimeFormat(locale, { dateStyle: "full" }))
const both = byLocale(locale => new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" }))

export const clock = (seconds: number): string => clocks().format(seconds * 1_000)
export const fullTime = (seconds: number): string => both().format(seconds * 1_000)
export const exactly = (seconds: number): string => new Date(seconds * 1_000).toISOString()

/** Two times with the same text are of the same day, here. */
export const dayOf = (seconds: number): string => days().format(seconds * 1_000)

export function dayName(seconds: number): string {
  const day = dayOf(seconds)
  const now = Date.now() / 1_000
  if (day === dayOf(now)) return t("Today")
  return day === dayOf(now - 86_400) ? t("Yesterday") : day
}
