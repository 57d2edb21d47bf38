import { language, t } from "./text.ts"

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 })
const fine = new Intl.NumberFormat(language, { maximumFractionDigits: 2 })
const compact = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 })
/** The day before the month, as most of the world writes them. */
const dates = "en-GB"
const moments = new Intl.DateTimeFormat(dates, {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
})
const exactly = new Intl.DateTimeFormat(dates, { dateStyle: "full", timeStyle: "long" })
const clocks = new Intl.DateTimeFormat(dates, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false })

/** Small numbers keep what is behind the point. */
export const number = (value: number): string => (Math.abs(value) < 100 ? fine : whole).format(value)
export const short = (value: number): string => (Math.abs(value) < 10_000 ? number(value) : compact.format(value))
export const percent = (value: number): string => `${fine.format(value)} %`
export const milliseconds = (value: number): string =>
  value >= 10_000 ? `${number(value / 1_000)} s` : `${value < 10 ? fine.format(value) : whole.format(value)} ms`

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"]
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(value) / Math.log(1_000)))
  return `${new Intl.NumberFormat(language, { maximumSignificantDigits: 3 }).format(value / 1_000 ** power)} ${units[power]}`
}

const parts = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
] as const

/** The two largest parts: `2 h 5 min`. */
export function duration(seconds: number): string {
  let left = Math.max(0, Math.round(seconds))
  const found: string[] = []
  for (const [length, unit] of parts) {
    const n = Math.floor(left / length)
    left -= n * length
    if (n > 0) found.push(`${n} ${unit}`)
    else if (found.length > 0) break
  }
  return found.slice(0, 2).join(" ") || "0 s"
}

const nowSeconds = () => Math.floor(Date.now() / 1_000)

/** `3 min ago`, `in 2 h 5 min`. */
export function distance(seconds: number): string {
  const apart = seconds - nowSeconds()
  if (Math.abs(apart) < 5) return t("now")
  const length = duration(Math.abs(apart)).split(" ").slice(0, 2).join(" ")
  return apart > 0 ? t("in {length}", { length }) : t("{length} ago", { length })
}

export const moment = (seconds: number): string => moments.format(new Date(seconds * 1_000))
/** As a field takes it: `2026-11-27T09:30` of the clock here; its first ten characters are the day. */
export function fieldTime(seconds: number): string {
  const at = new Date(seconds * 1_000)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
export const clockTime = (seconds: number): string => clocks.format(new Date(seconds * 1_000))
export const exact = (seconds: number): string => exactly.format(new Date(seconds * 1_000))
