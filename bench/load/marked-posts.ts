/** Posts that say their number, so that a frame tells which post it comes from without being parsed. */
const mark = "#~"
const digits = 8
const filler = " the quick brown fox jumps over the lazy dog".repeat(2)

/** The content and nonce of one post; both have the same length for every number. */
export function markedBody(number: number, run: string): string {
  const padded = String(number).padStart(digits, "0")
  return JSON.stringify({ content: `${mark}${padded}${filler}`, nonce: `${run}-${padded}` })
}

const first = mark.charCodeAt(0)
const second = mark.charCodeAt(1)
/** Frames of one kind have it at the same place, so the last place is tried first. */
let lastAt = 0

/** The number of the post that a frame brings; undefined for any other frame. */
export function markedNumber(frame: Buffer): number | undefined {
  let at = lastAt
  if (frame[at] !== first || frame[at + 1] !== second) {
    at = frame.indexOf(mark)
    if (at < 0) return undefined
    lastAt = at
  }
  let number = 0
  for (let i = at + mark.length; i < at + mark.length + digits; i++) number = number * 10 + frame[i]! - 48
  return number
}
