import { signal, type ReadonlySignal } from "@preact/signals"
import { speak } from "../kit/text.ts"

/** The languages of the page, as their readers call them. Texts of all but English are loaded when they are needed. */
export const languages = { en: "English", de: "Deutsch" } as const
type Language = keyof typeof languages
/** `browser`: the first of the browser's languages that the page has. */
export type Choice = "browser" | Language

const loaders: Readonly<Record<Language, () => Promise<Readonly<Record<string, string>>>>> = {
  en: () => Promise.resolve({}),
  de: async () => {
    const { texts, refusals } = await import("./messages/de.ts")
    return { ...refusals, ...texts }
  },
}

const key = "starling.language"
const isLanguage = (name: string | null): name is Language => name !== null && Object.hasOwn(languages, name)
const kept = localStorage.getItem(key)
const current = signal<Choice>(isLanguage(kept) ? kept : "browser")
export const choice: ReadonlySignal<Choice> = current

/** Where the browser prefers another language than was chosen. */
const locales: Readonly<Record<Language, string>> = { en: "en-GB", de: "de" }
const languageOf = (locale: string) => locale.split("-")[0]!.toLowerCase()

/** The page's language, and the locale of the browser that is nearest to it: of Austria, say. */
function wanted(): { language: Language; locale: string } {
  const { value } = current
  const preferred = navigator.languages
  const first = preferred.map(languageOf).find(isLanguage)
  const language = value === "browser" ? (first ?? "en") : value
  return { language, locale: preferred.find(locale => languageOf(locale) === language) ?? locales[language] }
}

/** Speaks the language that was chosen, as soon as its texts are there. */
export async function speakChosen(): Promise<void> {
  const { language, locale } = wanted()
  const catalogue = await loaders[language]().catch(() => undefined)
  // Without its texts, as when the connection is away, the page is English and says so.
  const isThere = catalogue !== undefined
  if (wanted().locale !== locale) return
  speak({ catalogue: catalogue ?? {}, locale: isThere ? locale : locales.en })
  const { documentElement } = document
  documentElement.lang = isThere ? locale : "en"
  documentElement.dir = "ltr"
}

export function choose(value: Choice): void {
  current.value = value
  if (value === "browser") localStorage.removeItem(key)
  else localStorage.setItem(key, value)
  speakChosen().catch(() => {})
}
