import { byLocale, t } from "./text.ts"

const whole = byLocale(locale => new Intl.NumberFormat(locale, { maximumFractionDigits: 0 }))
const fine = byLocale(locale => new Intl.NumberFormat(locale, { maximumFractionDigits: 2 }))
const compact = byLocale(locale => new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 }))
const threeDigits = byLocale(locale => new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }))
const moments = byLocale(
  locale =>
    new Intl.DateTimeFormat(locale, {
      day: "numeric",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
    }),
)
const exactly = byLocale(locale => new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long" }))
const clocks = byLocale(
  locale => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
)
const relative = byLocale(locale => new Intl.RelativeTimeFormat(locale, { style: "short", numeric: "always" }))

/** Small numbers keep what is behind the point. */
export const number = (value: number): string => (Math.abs(value) < 100 ? fine : whole)().format(value)
export const short = (value: number): string => (Math.abs(value) < 10_000 ? number(value) : compact().format(value))
export const percent = (value: number): string => `${fine().format(value)} %`
export const milliseconds = (value: number): string =>
  value >= 10_000 ? `${number(value / 1_000)} s` : `${value < 10 ? fine().format(value) : whole().format(value)} ms`

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"]
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(value) / Math.log(1_000)))
  return `${threeDigits().format(value / 1_000 ** power)} ${units[power]}`
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

const spans = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
] as const

/** `3 min ago`, `in 2 hr`. */
export function distance(seconds: number): string {
  const apart = seconds - nowSeconds()
  if (Math.abs(apart) < 5) return t("now")
  const [unit, length] = spans.find(([, length]) => Math.abs(apart) >= length)!
  return relative().format(Math.trunc(apart / length), unit)
}

export const moment = (seconds: number): string => moments().format(new Date(seconds * 1_000))
/** As a field takes it: `2026-11-27T09:30` of the clock here; its first ten characters are the day. */
export function fieldTime(seconds: number): string {
  const at = new Date(seconds * 1_000)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
export const clockTime = (seconds: number): string => clocks().format(new Date(seconds * 1_000))
export const exact = (seconds: number): string => exactly().format(new Date(seconds * 1_000))
