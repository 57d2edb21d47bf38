/**
 * Rules for JSON as it arrives: text that nobody can store, nesting that nobody needs, and where a
 * mistake is.
 */

/** U+0000, which PostgreSQL cannot keep, or half of a surrogate pair, which is no character. */
const unsafe = /[\0\p{Surrogate}]/u

export const isUnsafe = (text: string): boolean => unsafe.test(text)

/**
 * Whether any key or text in a parsed value is unsafe. Valid UTF-8 can bring neither into JSON but
 * by an escape, so this is worth its walk only where `mayBeUnsafe(source)`.
 */
export function holdsUnsafeText(value: unknown): boolean {
  if (typeof value === "string") return isUnsafe(value)
  if (typeof value !== "object" || value === null) return false
  if (Array.isArray(value)) return value.some(holdsUnsafeText)
  return Object.keys(value).some(key => isUnsafe(key) || holdsUnsafeText((value as Record<string, unknown>)[key]))
}

export const mayBeUnsafe = (source: string): boolean => source.includes("\\u")

/** Whether arrays and objects lie deeper in each other than `bound`. */
export function isDeeper(value: unknown, bound: number): boolean {
  if (typeof value !== "object" || value === null) return false
  if (bound === 0) return true
  if (Array.isArray(value)) return value.some(item => isDeeper(item, bound - 1))
  for (const key in value) if (isDeeper((value as Record<string, unknown>)[key], bound - 1)) return true
  return false
}

/** The same of text that need not be JSON; brackets inside its texts do not count. */
export function opensDeeper(source: string, bound: number): boolean {
  let depth = 0
  let inText = false
  for (let i = 0; i < source.length; i++) {
    const code = source.charCodeAt(i)
    if (inText) {
      if (code === 0x5c) i++
      else if (code === 0x22) inText = false
    } else if (code === 0x22) inText = true
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > bound) return true
    } else if (code === 0x7d || code === 0x5d) depth--
  }
  return false
}

/**
 * What a text opens and separates, without making anything of it: to build a hundred thousand values, only to count them,
 * would take a fifth of a second of everybody's. There are at least as many keys and items as `values` says, where a repeated key counts each time. It counts no further than shows that
 * one of the bounds is passed.
 */
export function measureJson(
  source: string,
  { maxDepth, maxValues }: { readonly maxDepth: number; readonly maxValues: number },
): { readonly isTooDeep: boolean; readonly values: number } {
  let depth = 0
  let openings = 0
  let commas = 0
  for (let i = 0; i < source.length; i++) {
    const code = source.charCodeAt(i)
    if (code === 0x22) {
      for (i++; i < source.length; i++) {
        const inside = source.charCodeAt(i)
        if (inside === 0x5c) i++
        else if (inside === 0x22) break
      }
    } else if (code === 0x2c) {
      if (++commas >= maxValues) break
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > maxDepth) return { isTooDeep: true, values: commas }
      if (++openings > maxValues + 1) break
    } else if (code === 0x7d || code === 0x5d) depth--
  }
  // After each comma, and in front of it, stands an item; and each list but the outermost is one itself.
  return { isTooDeep: false, values: Math.max(commas > 0 ? commas + 1 : 0, openings - 1) }
}

const space = /[ \t\n\r]*/y
const word = /true|false|null/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
// eslint-disable-next-line no-control-regex
const textPart = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y

/**
 * Where text stops being JSON, in UTF-16 units; only for text that `JSON.parse` refused, whose
 * message quotes the text instead of saying the place. It recurses as deep as the text: see
 * `opensDeeper` before.
 */
export function jsonErrorOffset(source: string): number {
  let at = 0
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at
    const found = pattern.exec(source)
    if (!found) return false
    at += found[0].length
    return true
  }
  const literal = (character: string): boolean => {
    skip(space)
    if (source[at] !== character) return false
    at++
    return true
  }
  const text = (): boolean => {
    skip(space)
    return skip(textPart) && literalHere('"')
  }
  const literalHere = (character: string): boolean => {
    if (source[at] !== character) return false
    at++
    return true
  }
  const list = (close: string, item: () => boolean): boolean => {
    if (literal(close)) return true
    do {
      if (!item()) return false
    } while (literal(","))
    return literal(close)
  }
  const value = (): boolean => {
    skip(space)
    if (literalHere("{")) return list("}", () => text() && literal(":") && value())
    if (literalHere("[")) return list("]", value)
    return source[at] === '"' ? text() : skip(word) || skip(number)
  }
  if (value()) skip(space)
  return at
}
