import { limits } from "../../../contract/core/limits.ts"

/** What accounts may be called is decided by somebody else. */
type Refuses = (name: string) => boolean

/** The usernames that somebody's name may become, the best first; endless. */
export function* usernamesLike(name: string, refuses: Refuses): Generator<string, void> {
  const letters = name
    .normalize("NFKD")
    .replace(/\p{Mn}/gu, "")
    .replace(/[^A-Za-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "")
  const plain = letters.slice(0, limits.username.max)
  const first = plain.length >= limits.username.min && !refuses(plain) ? plain : `user_${plain}`.slice(0, 20)
  if (!refuses(first)) yield first
  const base = refuses(first) ? "imported" : first
  for (let number = 2; ; number++) {
    const suffix = `_${number}`
    const made = base.slice(0, limits.username.max - suffix.length) + suffix
    if (!refuses(made)) yield made
  }
}

/** Without what PostgreSQL does not keep: NUL, and halves of characters. */
export const keepable = (text: string): string => Buffer.from(text.replaceAll("\0", "")).toString()

/** So many characters of a name at most, none of which moves a cursor. */
export const fitting = (text: string, most: number): string => {
  const clean = keepable(text)
    .replace(/\p{Cc}+/gu, " ")
    .trim()
  return clean.length <= most ? clean : Array.from(clean).slice(0, most).join("").trim()
}

/** A text in parts of so many characters: between lines where that can be, else between words. */
export function partsOf(text: string, most: number): string[] {
  const all = Array.from(text)
  const parts: string[] = []
  for (let from = 0; from < all.length;) {
    let to = Math.min(from + most, all.length)
    if (to < all.length) {
      const half = from + Math.ceil(most / 2)
      const tail = all.slice(half, to)
      const cut = [tail.lastIndexOf("\n"), tail.lastIndexOf(" ")].find(place => place >= 0)
      to = cut === undefined ? to : half + cut + 1
    }
    const part = all.slice(from, to).join("").trim()
    if (part !== "") parts.push(part)
    from = to
  }
  return parts
}
