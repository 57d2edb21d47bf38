/** The languages of pages that are made here; the page at /app has the same. */
export type Language = "en" | "de"

const isLanguage = (name: string): name is Language => name === "en" || name === "de"

/**
 * The first of the languages that a reader prefers (RFC 9110, section 12.5.4) which there is; English
 * for everybody else.
 * @param accepted `Accept-Language`
 */
export function readerLanguage(accepted: string): Language {
  const preferred = accepted
    .toLowerCase()
    .split(",", 20)
    .map(range => {
      const [name = "", quality = ""] = range.split(";", 2)
      const weight = /^\s*q\s*=\s*([01](?:\.\d*)?)\s*$/.exec(quality)?.[1]
      return { language: name.trim().split("-")[0]!, weight: weight === undefined ? 1 : Number(weight) }
    })
    .filter(({ weight }) => weight > 0)
    .toSorted((one, other) => other.weight - one.weight)
  return preferred.map(({ language }) => language).find(isLanguage) ?? "en"
}
