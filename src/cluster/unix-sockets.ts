import { createHash } from "node:crypto"
import { mkdtemp, readdir, rm, stat } from "node:fs/promises"
import { connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Connection, Sockets } from "./socket-road.ts"

/** What such a path may have: in C it ends with a zero, in 108 bytes on Linux and 104 elsewhere. */
const maxPathBytes = 103
const headerBytes = 4

/** The socket of a worker in its host's folder. A worker's id may be longer than a path. */
export const socketPath = (folder: string, worker: string): string =>
  join(folder, createHash("sha256").update(worker).digest("base64url").slice(0, 16))

const prefix = "starling-sockets-"

/**
 * Makes a folder for the sockets of one primary's workers, which no other user may enter, and removes those that killed primaries
 * of this user have left.
 */
export async function makeSocketFolder(parent = tmpdir()): Promise<string> {
  await removeLeftFolders(parent).catch(() => {})
  const folder = await mkdtemp(join(parent, `${prefix}${process.pid}-`)) // 0700, and new
  if (Buffer.byteLength(socketPath(folder, "")) <= maxPathBytes) return folder
  await rm(folder, { recursive: true, force: true })
  throw new Error(`${parent} is too long a path for a unix socket`)
}

/** A number may be another process by now, or one of another container that shares the folder: a socket that answers is in use. */
async function removeLeftFolders(parent: string): Promise<void> {
  const uid = process.getuid?.()
  for (const name of await readdir(parent)) {
    const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : NaN
    if (!Number.isInteger(pid) || pid === process.pid || isRunning(pid)) continue
    const folder = join(parent, name)
    const { uid: owner } = await stat(folder)
    if (owner !== uid || (await isAnyListening(folder))) continue
    await rm(folder, { recursive: true, force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

async function isAnyListening(folder: string): Promise<boolean> {
  for (const name of await readdir(folder))
    try {
      ;(await connected(join(folder, name))).destroy()
      return true
    } catch {
      // Its process has gone.
    }
  return false
}

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

function connected(path: string): Promise<Socket> {
  const socket = connect({ path })
  return new Promise((resolve, reject) => {
    socket.once("connect", () => {
      socket.off("error", reject)
      resolve(socket)
    })
    socket.once("error", reject)
  })
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
