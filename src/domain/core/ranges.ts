/** Some of a file: its first byte, and how many. */
interface Part {
  readonly from: number
  readonly length: number
}

const shape = /^bytes=\s*(\d{0,15})\s*-\s*(\d{0,15})\s*$/i

/**
 * What a header `Range` asks for (RFC 9110, 14.2). Undefined: the whole file, because it asks for
 * nothing that is understood here, such as several parts at once. Null: the file does not reach
 * that far.
 */
export function partOf(range: string, size: number): Part | null | undefined {
  const [, first, last] = shape.exec(range) ?? []
  if (first === undefined || last === undefined || (first === "" && last === "")) return undefined
  if (first === "") {
    const length = Math.min(Number(last), size)
    return length === 0 ? null : { from: size - length, length }
  }
  const from = Number(first)
  const to = last === "" ? Infinity : Number(last)
  if (to < from) return undefined
  if (from >= size) return null
  return { from, length: Math.min(to, size - 1) - from + 1 }
}
