import { signal } from "@preact/signals"

/**
 * Texts for people. A text in English is its own key; another language brings a catalogue of the
 * same keys. Values stand in braces: `t("{n} of {total}", { n, total })`.
 */
type Values = Readonly<Record<string, string | number>>

/** Whom the page speaks to. What is rendered with it is rendered again when it changes. */
interface Speech {
  readonly catalogue: Readonly<Record<string, string>>
  /** By its rules plurals are chosen, and numbers and times written. */
  readonly locale: string
}

/** The day before the month, as most of the world writes them. */
const speech = signal<Speech>({ catalogue: {}, locale: "en-GB" })
export function speak(to: Speech): void {
  speech.value = to
}

/** What a catalogue has for a text; undefined: nothing. */
export const translated = (text: string): string | undefined =>
  Object.hasOwn(speech.value.catalogue, text) ? speech.value.catalogue[text] : undefined

export function t(text: string, values: Values = {}): string {
  return (translated(text) ?? text).replace(/\{(\w+)\}/g, (whole, name: string) =>
    Object.hasOwn(values, name) ? shown(values[name]!) : whole,
  )
}

/** Marks a text of a table, which `t` translates when it is shown. */
export const msgid = <T extends string>(text: T): T => text

/** Something of `Intl` that is costly to make: made once for each language that is spoken. */
export function byLocale<T>(make: (locale: string) => T): () => T {
  let made: { readonly locale: string; readonly value: T } | undefined
  return () => {
    const { locale } = speech.value
    if (made?.locale !== locale) made = { locale, value: make(locale) }
    return made.value
  }
}

const numbers = byLocale(locale => new Intl.NumberFormat(locale))
/** Written from right to left. */
const isTurned = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/
/** A name in another direction than the sentence around it does not disturb it. */
const shown = (value: string | number) =>
  typeof value === "number" ? numbers().format(value) : isTurned.test(value) ? `\u2068${value}\u2069` : value

const plurals = byLocale(locale => new Intl.PluralRules(locale))

/** The form that goes with a number, which stands in both as `{n}`. */
export const count = (n: number, one: string, other: string, values: Values = {}): string =>
  t(plurals().select(n) === "one" ? one : other, { ...values, n })
