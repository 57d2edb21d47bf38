import { createHash } from "node:crypto"
import { createServer, type Server, type Socket } from "node:net"
import { join } from "node:path"
import { connected } from "../std/socket-folder.ts"
import type { Connection, Sockets } from "./socket-road.ts"

const headerBytes = 4

/** The socket of a worker in its host's folder. A worker's id may be longer than a path. */
export const socketPath = (folder: string, worker: string): string =>
  join(folder, createHash("sha256").update(worker).digest("base64url").slice(0, 16))

export interface UnixSocketsOptions {
  /** Of the workers of one primary. */
  readonly folder: string
  readonly self: string
  readonly maxFrameBytes: number
}

/** A character is four bytes at most. @param folder none where workers use Redis alone */
export const unixSocketsIn = (folder: string | undefined, self: string, maxUntaken: number): UnixSockets | undefined =>
  folder === undefined ? undefined : new UnixSockets({ folder, self, maxFrameBytes: 4 * maxUntaken })

/** Unix sockets in a folder that only this user may enter: who connects is a process of this user on this host. */
export class UnixSockets implements Sockets {
  readonly #options: UnixSocketsOptions
  #server: Server | undefined

  constructor(options: UnixSocketsOptions) {
    this.#options = options
  }

  listen(accept: (connection: Connection) => void): Promise<void> {
    const { folder, self, maxFrameBytes } = this.#options
    const server = createServer(socket => accept(new FramedSocket(socket, maxFrameBytes)))
    this.#server = server
    return new Promise((resolve, reject) => {
      server.on("error", reject)
      // By this process itself: node:cluster would have the primary listen.
      server.listen({ path: socketPath(folder, self), exclusive: true }, resolve)
    })
  }

  async connect(worker: string): Promise<Connection> {
    const { folder, maxFrameBytes } = this.#options
    return new FramedSocket(await connected(socketPath(folder, worker)), maxFrameBytes)
  }

  close(): void {
    this.#server?.close()
  }
}

/** A frame is its length in four bytes and its text in UTF-8. */
export class FramedSocket implements Connection {
  onFrame: (frame: string) => void = () => {}
  onEnd: () => void = () => {}
  readonly #socket: Socket
  readonly #maxFrameBytes: number
  #isOver = false
  /** What has come of the next frame, and how many bytes it needs before it is looked at. */
  #pieces: Buffer[] = []
  #bytes = 0
  #wanted = headerBytes

  constructor(socket: Socket, maxFrameBytes: number) {
    this.#socket = socket
    this.#maxFrameBytes = maxFrameBytes
    // Its end is an event of its own.
    socket.on("error", () => {})
    socket.on("close", () => {
      if (!this.#isOver) {
        this.#isOver = true
        this.onEnd()
      }
    })
    socket.on("data", (bytes: Buffer) => this.#take(bytes))
  }

  send(frame: string): void {
    const length = Buffer.byteLength(frame)
    const bytes = Buffer.allocUnsafe(headerBytes + length)
    bytes.writeUInt32LE(length)
    bytes.write(frame, headerBytes)
    this.#socket.write(bytes)
  }

  end(): void {
    this.#isOver = true
    this.#socket.destroySoon()
  }

  destroy(): void {
    this.#isOver = true
    this.#socket.destroy()
  }

  /** Large frames are put together once, when they are whole. */
  #take(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes < this.#wanted) return
    const all = this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces, this.#bytes)
    let at = 0
    this.#wanted = headerBytes
    while (!this.#isOver && all.length - at >= headerBytes) {
      const length = all.readUInt32LE(at)
      if (length > this.#maxFrameBytes) return void this.#socket.destroy()
      const end = at + headerBytes + length
      if (end > all.length) {
        this.#wanted = headerBytes + length
        break
      }
      this.onFrame(all.toString("utf8", at + headerBytes, end))
      at = end
    }
    this.#pieces = at === all.length ? [] : [all.subarray(at)]
    this.#bytes = all.length - at
  }
}
