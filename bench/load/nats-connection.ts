import { once } from "node:events"
import { connect } from "node:net"
import type { Socket } from "node:net"
import { hall } from "./dialects.ts"
import type { HttpReply } from "./http-connection.ts"

/**
 * One connection that publishes, as `HttpConnection` posts: one message on its way, which the
 * server acknowledges (`verbose`).
 */
export class NatsConnection {
  readonly #socket: Socket
  #read = ""
  #waiting: { resolve: (reply: HttpReply) => void; reject: (cause: Error) => void } | undefined
  #failure: Error | undefined

  static async open(url: string): Promise<NatsConnection> {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port) })
    socket.setNoDelay(true)
    await once(socket, "connect")
    const opened = new NatsConnection(socket)
    await opened.#send(`CONNECT {"verbose":true,"pedantic":false}\r\n`)
    return opened
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on("data", chunk => this.#take(chunk))
    socket.on("error", cause => this.#fail(cause))
    socket.on("close", () => this.#fail(new Error("the server closed the connection")))
  }

  /** Publishes a body, ASCII only. */
  post(_path: string, _token: string | undefined, body: string): Promise<HttpReply> {
    return this.#send(`PUB ${hall} ${body.length}\r\n${body}\r\n`)
  }

  close(): void {
    this.#failure ??= new Error("closed")
    this.#socket.resetAndDestroy()
  }

  #send(text: string): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      if (this.#failure) {
        reject(this.#failure)
        return
      }
      this.#waiting = { resolve, reject }
      this.#socket.write(text, "latin1")
    })
  }

  #take(chunk: Buffer): void {
    const lines = (this.#read + chunk.toString("latin1")).split("\r\n")
    this.#read = lines.pop()!
    for (const line of lines) {
      if (line === "PING") this.#socket.write("PONG\r\n")
      else if (line === "+OK") {
        const waiting = this.#waiting
        this.#waiting = undefined
        waiting?.resolve({ status: 200, body: Buffer.alloc(0) })
      } else if (!line.startsWith("INFO ")) this.#fail(new Error(`NATS said ${line}`))
    }
  }

  #fail(cause: Error): void {
    this.#failure ??= cause
    this.#waiting?.reject(cause)
    this.#waiting = undefined
  }
}
