import { createHash } from "node:crypto"
import { fail, type Failure } from "../../contract/core/errors.ts"
import { contentTypeOf, firstBytes, isProgram } from "../../domain/core/file-types.ts"

/** A file that is looked at while it passes: how long it is, its hash, and what its first bytes say. */
export class FileExamination {
  readonly #declared: string
  readonly #sum = createHash("sha256")
  #head = Buffer.alloc(0)
  #type: string | undefined
  size = 0

  /** `declared`: what its sender says that it is. */
  constructor(declared: string) {
    this.#declared = declared
  }

  /** Once all of it has passed. */
  facts(): { size: number; hash: string; content_type: string } {
    return { size: this.size, hash: this.#sum.digest("hex"), content_type: this.#type! }
  }

  /** Throws as soon as it is not what it is said to be. */
  take(piece: Buffer): void {
    this.size += piece.length
    this.#sum.update(piece)
    if (this.#type !== undefined) return
    this.#head = Buffer.concat([this.#head, piece.subarray(0, firstBytes - this.#head.length)])
    if (this.#head.length === firstBytes) this.#lookAtHead()
  }

  /** Nothing more comes. */
  end(): void {
    if (this.size === 0) throw fail("empty_file")
    if (this.#type === undefined) this.#lookAtHead()
  }

  #lookAtHead(): void {
    if (isProgram(this.#head)) throw fail("file_type_not_allowed")
    this.#type = contentTypeOf(this.#declared, this.#head)
    if (this.#type === undefined) throw fail("file_type_mismatch")
  }
}

export const typeNotAllowed = (what: string): Failure =>
  fail("file_type_not_allowed", { message: `File type not allowed: ${what}` })
