import { boundaryOf, headOf, maxHeadBytes, malformed, maxParts } from "./multipart.ts"
import type { Longer } from "./answer-clock.ts"
import type { StreamedBody } from "./streamed-body.ts"
import { invalid } from "./validation.ts"

/** A file of a form, as it comes. */
export interface StreamedFile {
  readonly filename: string | undefined
  readonly type: string | undefined
  /** Its size as far as its sender announced it, if nothing comes after it; 0: not announced. */
  readonly announced: number
  /** Ends with the file; then the rest of the form has come as well. */
  readonly pieces: AsyncIterable<Buffer>
}

/** Bytes that a form may have beside its file. */
export const maxBytesBesideFile = 64 * 1024

const tooMuch = () =>
  invalid([{ loc: ["body"], msg: `holds more than ${maxBytesBesideFile} bytes beside its file`, type: "too_long" }])

/**
 * A form (RFC 7578) of which one part is a file that need not fit into memory. Every other part is
 * passed over.
 */
export class FormStream {
  readonly #body: StreamedBody
  readonly #longer: Longer
  readonly #name: string
  readonly #delimiter: Buffer
  #rest: Buffer = Buffer.alloc(0)
  /** Bytes that came before what is left. */
  #passed = 0

  constructor(body: StreamedBody, name: string, contentType: string | undefined, longer: Longer) {
    this.#body = body
    this.#longer = longer
    this.#name = name
    this.#delimiter = Buffer.from(`\r\n--${boundaryOf(contentType)}`, "latin1")
  }

  /** Waits until its head has come. */
  file(): Promise<StreamedFile> {
    return this.#longer(() => this.#find())
  }

  async #find(): Promise<StreamedFile> {
    // The first delimiter may be the form's beginning, where no line has to end.
    this.#rest = Buffer.from("\r\n")
    this.#passed = -2
    await this.#pass()
    for (let parts = 0; !(await this.#isOver()); parts++) {
      if (parts === maxParts) throw malformed()
      const { name, filename, type } = await this.#head()
      if (name !== this.#name) {
        await this.#pass()
        continue
      }
      const { announced } = this.#body
      return {
        filename,
        type,
        announced: announced === 0 ? 0 : announced - this.#passed - this.#delimiter.length - 4,
        pieces: this.#file(),
      }
    }
    throw invalid([{ loc: ["body", this.#name], msg: "Field required", type: "missing" }])
  }

  async *#file(): AsyncGenerator<Buffer> {
    yield* this.#content()
    let beside = 0
    for (let piece: Buffer | undefined = this.#take(this.#rest.length); piece; piece = await this.#body.next()) {
      beside += piece.length
      if (beside > maxBytesBesideFile) throw tooMuch()
    }
  }

  /** What comes before the next delimiter, which is passed over. */
  async *#content(): AsyncGenerator<Buffer> {
    const delimiter = this.#delimiter
    for (;;) {
      const at = this.#rest.indexOf(delimiter)
      if (at >= 0) {
        const last = this.#take(at)
        this.#take(delimiter.length)
        if (last.length > 0) yield last
        return
      }
      const surely = this.#rest.length - this.#begun()
      if (surely > 0) yield this.#take(surely)
      await this.#more()
    }
  }

  /** How many of the last bytes may be the beginning of a delimiter, whose only CR is its first byte. */
  #begun(): number {
    const at = this.#rest.lastIndexOf(0x0d)
    const begun = this.#rest.length - at
    if (at < 0 || begun >= this.#delimiter.length) return 0
    return this.#rest.subarray(at).equals(this.#delimiter.subarray(0, begun)) ? begun : 0
  }

  async #pass(): Promise<void> {
    let bytes = 0
    for await (const { length } of this.#content()) {
      bytes += length
      if (bytes > maxBytesBesideFile) throw tooMuch()
    }
  }

  /**
   * Whether the delimiter before was the last. If not, its line is passed over but for its end,
   * with which a head begins.
   */
  async #isOver(): Promise<boolean> {
    while (this.#rest.length < 2) await this.#more()
    if (this.#rest.toString("latin1", 0, 2) === "--") return true
    for (;;) {
      const blanks = /^[\t ]*/.exec(this.#rest.toString("latin1", 0, maxHeadBytes))![0].length
      if (blanks === maxHeadBytes) throw malformed()
      if (this.#rest.length >= blanks + 2) {
        this.#take(blanks)
        if (this.#rest.toString("latin1", 0, 2) !== "\r\n") throw malformed()
        return false
      }
      await this.#more()
    }
  }

  async #head(): Promise<ReturnType<typeof headOf>> {
    for (;;) {
      const end = this.#rest.subarray(0, maxHeadBytes).indexOf("\r\n\r\n")
      if (end >= 0) return headOf(this.#take(end + 4).subarray(0, end))
      if (this.#rest.length >= maxHeadBytes) throw malformed()
      await this.#more()
    }
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    this.#passed += length
    return taken
  }

  async #more(): Promise<void> {
    // The piece before is used again as soon as the next one is asked for. Little of it is left.
    const rest = Buffer.from(this.#rest)
    const piece = await this.#body.next()
    if (!piece) throw malformed()
    this.#rest = rest.length === 0 ? piece : Buffer.concat([rest, piece])
  }
}
