import { once } from "node:events"
import { connect } from "node:net"
import type { Socket } from "node:net"

export interface HttpReply {
  status: number
  body: Buffer
}

const headEnd = Buffer.from("\r\n\r\n")

/**
 * One kept connection with one request on its way. It knows as much of HTTP as uWebSockets.js
 * answers (Content-Length, no chunks) and costs a few microseconds per request, where Node's own
 * client would take more than the server under load.
 */
export class HttpConnection {
  readonly #socket: Socket
  readonly #host: string
  #read: Buffer = Buffer.alloc(0)
  #waiting: { resolve: (reply: HttpReply) => void; reject: (cause: Error) => void } | undefined
  #failure: Error | undefined

  static async open(url: string, localAddress?: string): Promise<HttpConnection> {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), ...(localAddress !== undefined && { localAddress }) })
    socket.setNoDelay(true)
    await once(socket, "connect")
    return new HttpConnection(socket, `${hostname}:${port}`)
  }

  private constructor(socket: Socket, host: string) {
    this.#socket = socket
    this.#host = host
    socket.on("data", chunk => this.#take(chunk))
    socket.on("error", cause => this.#fail(cause))
    socket.on("close", () => this.#fail(new Error("the server closed the connection")))
  }

  /** Sends a JSON body, ASCII only. */
  post(path: string, token: string | undefined, body: string): Promise<HttpReply> {
    return this.#send(
      `${this.#head("POST", path, token)}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  }

  get(path: string, token: string): Promise<HttpReply> {
    return this.#send(`${this.#head("GET", path, token)}\r\n`)
  }

  /** Any request; the body is JSON, ASCII only. */
  request(method: string, path: string, token: string, body?: string): Promise<HttpReply> {
    const head = this.#head(method, path, token)
    if (body === undefined) return this.#send(`${head}${method === "GET" ? "" : "Content-Length: 0\r\n"}\r\n`)
    return this.#send(`${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  }

  /** Resets, so that no port is left waiting. */
  close(): void {
    this.#failure ??= new Error("closed")
    this.#socket.resetAndDestroy()
  }

  #head(method: string, path: string, token: string | undefined): string {
    const authorization = token === undefined ? "" : `Authorization: Bearer ${token}\r\n`
    return `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}\r\n${authorization}`
  }

  #send(request: string): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      if (this.#failure) {
        reject(this.#failure)
        return
      }
      this.#waiting = { resolve, reject }
      this.#socket.write(request, "latin1")
    })
  }

  #take(chunk: Buffer): void {
    this.#read = this.#read.length === 0 ? chunk : Buffer.concat([this.#read, chunk])
    const end = this.#read.indexOf(headEnd)
    if (end < 0) return
    const head = this.#read.toString("latin1", 0, end)
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
    const bodyAt = end + headEnd.length
    if (this.#read.length < bodyAt + length) return
    const body = this.#read.subarray(bodyAt, bodyAt + length)
    this.#read = this.#read.subarray(bodyAt + length)
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.resolve({ status: Number(head.slice(9, 12)), body })
  }

  #fail(cause: Error): void {
    this.#failure ??= cause
    this.#waiting?.reject(cause)
    this.#waiting = undefined
  }
}
