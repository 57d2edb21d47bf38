import type { ClientFrame } from "./frames.ts"

/** Of one connection; what a client says in the same breath as IDENTIFY is less. */
const most = { frames: 16, bytes: 16_384 }

/** Frames that need a session and came while IDENTIFY or RESUME was under way. They wait for it, in their order. */
export class HeldFrames {
  readonly #frames: ClientFrame[] = []
  #bytes = 0

  /** @returns false: there are too many */
  hold(frame: ClientFrame, bytes: number): boolean {
    this.#bytes += bytes
    return this.#bytes <= most.bytes && this.#frames.push(frame) <= most.frames
  }

  [Symbol.iterator](): Iterator<ClientFrame> {
    return this.#frames.values()
  }
}
