/**
 * Texts for people. A text in English is its own key; another language brings a catalogue of the
 * same keys. Values stand in braces: `t("{n} of {total}", { n, total })`.
 */
type Values = Readonly<Record<string, string | number>>

const catalogue: ReadonlyMap<string, string> = new Map()

export const language = "en"

export function t(text: string, values: Values = {}): string {
  return (catalogue.get(text) ?? text).replace(/\{(\w+)\}/g, (whole, name: string) =>
    Object.hasOwn(values, name) ? shown(values[name]!) : whole,
  )
}

const numbers = new Intl.NumberFormat(language)
const shown = (value: string | number) => (typeof value === "number" ? numbers.format(value) : value)

const plurals = new Intl.PluralRules(language)

/** The form that goes with a number, which stands in both as `{n}`. */
export const count = (n: number, one: string, other: string, values: Values = {}): string =>
  t(plurals.select(n) === "one" ? one : other, { ...values, n })
