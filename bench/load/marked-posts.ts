import { inflatePiece } from "../../client/node-inflate.ts"

/**
 * Posts that say their number, so that a frame tells which post it comes from without being parsed.
 */
const mark = "#~"
const digits = 8
const filler = " the quick brown fox jumps over the lazy dog".repeat(2)

/** What else a body says where the server adds nothing: JSON up to the content, and after the nonce. */
export interface Around {
  before: string
  after: string
}

/** The content and nonce of one post; both have the same length for every number. */
export function markedBody(number: number, run: string, padding = 0, around?: Around): string {
  const padded = String(number).padStart(digits, "0")
  const body = JSON.stringify({ content: `${mark}${padded}${filler}${"~".repeat(padding)}`, nonce: `${run}-${padded}` })
  return around ? around.before + body.slice(1) + around.after : body
}

/** Characters of content without padding. */
export const contentLength = mark.length + digits + filler.length

const first = mark.charCodeAt(0)
const second = mark.charCodeAt(1)
/** Frames that are under way at one time, and more. */
const inflatedKept = 256

/** Tells which post a frame brings, for sessions whose frames are alike. */
export class MarkReader {
  readonly #inflates: boolean
  /** Frames of one kind have it at the same place, so the last place is tried first. */
  #lastAt = 0
  /** Everybody gets the same bytes: they are inflated for the first. */
  readonly #inflated = new Map<string, number | undefined>()

  constructor(inflates: boolean) {
    this.#inflates = inflates
  }

  /** The number of the post that a frame brings; undefined for any other frame. */
  number(frame: Buffer): number | undefined {
    if (!this.#inflates) return this.#find(frame)
    const bytes = frame.toString("latin1")
    if (this.#inflated.has(bytes)) return this.#inflated.get(bytes)
    const number = this.#find(Buffer.from(inflatePiece(frame)))
    this.#inflated.set(bytes, number)
    if (this.#inflated.size > inflatedKept) this.#inflated.delete(this.#inflated.keys().next().value!)
    return number
  }

  #find(frame: Buffer): number | undefined {
    let at = this.#lastAt
    if (frame[at] !== first || frame[at + 1] !== second) {
      at = frame.indexOf(mark)
      if (at < 0) return undefined
      this.#lastAt = at
    }
    let number = 0
    for (let i = at + mark.length; i < at + mark.length + digits; i++) number = number * 10 + frame[i]! - 48
    return number
  }
}
