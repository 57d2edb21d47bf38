/**
 * Reads JSON that may be longer than memory: an array item by item, an object member by member, and of an
 * object's long arrays each item by itself. What is held is one item.
 */

export interface JsonItem {
  /** The member that it is, or that it is an item of; null: the text is an array. */
  readonly key: string | null
  /** Where it begins, counted from 1. */
  readonly line: number
  /** How long it is. */
  readonly bytes: number
  readonly value: unknown
}

/** An item that is no JSON; what comes after it can be read. */
export interface BrokenItem {
  readonly line: number
  readonly problem: string
}

/** A text that cannot be read any further. */
export class JsonProblem extends Error {
  readonly line: number
  constructor(line: number, problem: string) {
    super(problem)
    this.line = line
  }
}

export interface JsonItemsOptions {
  /** Members of the object that are arrays, and come item by item. */
  readonly lists?: readonly string[]
  /** The bytes of one item, or member. */
  readonly maxItemBytes: number
}

const [quote, backslash, comma, colon, newline] = [0x22, 0x5c, 0x2c, 0x3a, 0x0a]
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d]
const isBlank = (byte: number) => byte === 0x20 || byte === newline || byte === 0x0d || byte === 0x09

/** What the reader is in: the whole text, an object, or an array whose items are given. */
type Place = "outside" | "object" | "array" | "list" | "over"

class ItemReader {
  readonly #options: JsonItemsOptions
  #place: Place = "outside"
  #line = 1
  #itemLine = 1
  /** Brackets that are open inside of the item. */
  #depth = 0
  #isInString = false
  #isEscaped = false
  #isKey = false
  #key: string | null = null
  #held: Uint8Array[] = []
  #heldBytes = 0
  #isTooLong = false

  constructor(options: JsonItemsOptions) {
    this.#options = options
  }

  *read(piece: Uint8Array): Generator<JsonItem | BrokenItem, void> {
    let start = this.#isHolding ? 0 : -1
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at]!
      if (byte === newline) this.#line++
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (byte === backslash) this.#isEscaped = true
        else if (byte === quote) this.#isInString = false
        continue
      }
      if (isBlank(byte)) continue
      if (start < 0 && this.#enters(byte)) continue
      const isEnd =
        this.#depth === 0 &&
        (byte === comma || (this.#isKey ? byte === colon : byte === closeBracket || byte === closeBrace))
      if (isEnd) {
        if (start >= 0) this.#hold(piece.subarray(start, at))
        start = -1
        yield* this.#ended(byte)
        continue
      }
      if (start < 0) {
        start = at
        this.#itemLine = this.#line
        this.#isHolding = true
      }
      if (byte === quote) this.#isInString = true
      else if (byte === openBracket || byte === openBrace) this.#depth++
      else if (byte === closeBracket || byte === closeBrace) this.#depth--
    }
    if (start >= 0) this.#hold(piece.subarray(start))
  }

  end(): void {
    if (this.#place !== "over") throw new JsonProblem(this.#line, "it is cut off")
  }

  #isHolding = false

  /** Whether the byte leads into or out of something, and is part of no item. */
  #enters(byte: number): boolean {
    if (this.#place === "over") throw new JsonProblem(this.#line, "something stands behind the end")
    if (this.#place === "outside") {
      if (byte === openBracket) this.#place = "array"
      else if (byte === openBrace) [this.#place, this.#isKey] = ["object", true]
      // A mark of the byte order may stand first.
      else if (byte !== 0xef && byte !== 0xbb && byte !== 0xbf)
        throw new JsonProblem(this.#line, "it is neither an array nor an object")
      return true
    }
    if (this.#place === "object" && this.#isKey && byte === closeBrace) {
      this.#place = "over"
      return true
    }
    if (this.#place === "object" && !this.#isKey && byte === openBracket && this.#options.lists?.includes(this.#key!)) {
      this.#place = "list"
      return true
    }
    return false
  }

  #hold(bytes: Uint8Array): void {
    this.#isHolding = true
    this.#heldBytes += bytes.length
    this.#isTooLong ||= this.#heldBytes > this.#options.maxItemBytes
    if (this.#isTooLong) this.#held = []
    else this.#held.push(Uint8Array.from(bytes))
  }

  *#ended(byte: number): Generator<JsonItem | BrokenItem, void> {
    const bytes = this.#heldBytes
    const text = Buffer.concat(this.#held).toString("utf8").trim()
    const isTooLong = this.#isTooLong
    const isAny = this.#isHolding
    const line = this.#itemLine
    this.#held = []
    this.#heldBytes = 0
    this.#isTooLong = this.#isHolding = false
    if (this.#isKey) {
      if (byte !== colon) throw new JsonProblem(this.#line, "a name is not followed by a colon")
      this.#key = keyIn(text, this.#line)
      this.#isKey = false
      return
    }
    const key = this.#place === "array" ? null : this.#key
    // The end of a list: what stands behind it, and the comma, belong to the object.
    if (isTooLong) yield { line, problem: `it is longer than ${this.#options.maxItemBytes} bytes` }
    else if (isAny) yield parsed(text, { key, line, bytes })
    this.#leave(byte)
  }

  #leave(byte: number): void {
    if (byte === comma) {
      if (this.#place === "object") this.#isKey = true
      return
    }
    if (this.#place === "list" && byte === closeBracket) this.#place = "object"
    else if (this.#place !== "list" && (this.#place === "array") === (byte === closeBracket)) this.#place = "over"
    else throw new JsonProblem(this.#line, "a bracket is closed that was not opened")
  }
}

function keyIn(text: string, line: number): string {
  try {
    return String(JSON.parse(text))
  } catch {
    throw new JsonProblem(line, "a name is no JSON")
  }
}

function parsed(text: string, item: Omit<JsonItem, "value">): JsonItem | BrokenItem {
  try {
    return { ...item, value: JSON.parse(text) as unknown }
  } catch (error) {
    return { line: item.line, problem: (error as Error).message }
  }
}

/** Throws a JsonProblem where the text ends early, or is no array and no object. */
export async function* jsonItems(
  pieces: AsyncIterable<Uint8Array>,
  options: JsonItemsOptions,
): AsyncGenerator<JsonItem | BrokenItem, void> {
  const reader = new ItemReader(options)
  for await (const piece of pieces) yield* reader.read(piece)
  reader.end()
}

/** A line of a text, without what ends it; `text` is undefined where it is too long. */
export interface Line {
  readonly line: number
  readonly text: string | undefined
}

/** Lines of a text that may be longer than memory. Empty ones are left out. */
export async function* linesOf(pieces: AsyncIterable<Uint8Array>, maxLineBytes: number): AsyncGenerator<Line, void> {
  let held: Uint8Array[] = []
  let heldBytes = 0
  let line = 1
  const taken = (rest: Uint8Array): Line | undefined => {
    const bytes = heldBytes + rest.length
    const text =
      bytes > maxLineBytes
        ? undefined
        : Buffer.concat([...held, rest])
            .toString("utf8")
            .trim()
    held = []
    heldBytes = 0
    return text === "" ? undefined : { line, text }
  }
  for await (const piece of pieces) {
    let from = 0
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, from)) {
      const found = taken(piece.subarray(from, at))
      if (found) yield found
      line++
      from = at + 1
    }
    const rest = piece.subarray(from)
    heldBytes += rest.length
    if (heldBytes > maxLineBytes) held = []
    else if (rest.length > 0) held.push(Uint8Array.from(rest))
  }
  const last = taken(new Uint8Array())
  if (last) yield last
}
