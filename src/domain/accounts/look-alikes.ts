/**
 * Which letters a digit or a sign may stand for. Two characters look alike where they may stand for
 * the same letter: so `1` is like `i` and like `l`, which are not like one another.
 */
const standsFor: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "il",
  "2": "z",
  "3": "e",
  "4": "a",
  "5": "s",
  "6": "bg",
  "7": "t",
  "8": "b",
  "9": "g",
  "@": "a",
  $: "s",
  "€": "e",
  "£": "l",
  "!": "il",
  "|": "il",
  "+": "t",
  "(": "c",
  "<": "c",
}

/** Beyond ASCII what remains of a character is its own letter. */
const isKept = (character: string): boolean => /[\p{L}\p{N}]/u.test(character) || character in standsFor

/** What a name shows: lower case, without marks, and without what is neither letter, digit nor like one. */
export const shownCharacters = (name: string): string[] =>
  Array.from(name.normalize("NFKD").toLowerCase()).filter(character => isKept(character))

const lettersOf = (character: string): string => standsFor[character] ?? character

const areAlike = (one: string, other: string): boolean => {
  const letters = lettersOf(other)
  return lettersOf(one)
    .split("")
    .some(letter => letters.includes(letter))
}

/** Whether two names, as `shownCharacters` gives them, look like one another. */
export const lookAlike = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((character, at) => areAlike(character, other[at]!))

/** One text for all names that may look alike, and for some more: a key to look under. */
export const lookKey = (shown: readonly string[]): string =>
  shown
    .map(character =>
      /[il]/.test(lettersOf(character)) ? "i" : /[bg]/.test(lettersOf(character)) ? "b" : lettersOf(character),
    )
    .join("")

/**
 * How similar two names are, from 0 to 1: the share of the longer one that need not be changed. Digits
 * and signs count as the letters that they look like.
 */
export function similarity(one: string, other: string): number {
  const plain = (name: string) => Array.from(name.toLowerCase())
  return Math.max(
    unchanged(plain(one), plain(other), (a, b) => a === b),
    unchanged(shownCharacters(one), shownCharacters(other), areAlike),
  )
}

/** By the Levenshtein distance. Names are short: it takes their lengths' product. */
function unchanged(
  one: readonly string[],
  other: readonly string[],
  isSame: (a: string, b: string) => boolean,
): number {
  const longest = Math.max(one.length, other.length)
  if (longest === 0) return 0
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (const [i, character] of one.entries()) {
    const next = [i + 1]
    for (const [j, against] of other.entries())
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (isSame(character, against) ? 0 : 1)))
    row = next
  }
  return 1 - row.at(-1)! / longest
}
