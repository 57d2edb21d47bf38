import { NodeWebSocket } from "../../client/node-websocket.ts"
import { opcodes } from "../../src/contract/gateway-codes.ts"

/** The server closed the connection. */
export class SessionClosed extends Error {
  override readonly name = "SessionClosed"
  readonly code: number
  constructor(code: number, reason: string) {
    super(`a session was closed: ${code} ${reason}`)
    this.code = code
  }
}

export interface SessionOptions {
  url: string
  /** Who identifies; left out for a bare server, where a connection that is open is all there is. */
  token: string | undefined
  localAddress: string | undefined
  /** Every frame of a session that is ready. The bytes hold only during the call. */
  onFrame: (bytes: Buffer) => void
  /** The connection of a session that was ready ended, and nobody here ended it. */
  onLost: (why: Error) => void
}

/**
 * One connection to the gateway that looks into no frame once it is ready. `GatewayClient` would parse each of them, which
 * for a thousand sessions in one process costs more than the server takes to send them.
 */
export class Session {
  readonly ready: Promise<void>
  readonly #socket: NodeWebSocket
  readonly #identifies: boolean
  #state: "opening" | "ready" | "closed" = "opening"

  constructor({ url, token, localAddress, onFrame, onLost }: SessionOptions) {
    const address = localAddress === undefined ? {} : { localAddress }
    const socket = new NodeWebSocket(url, [], { textAsBytes: true, ...address })
    this.#socket = socket
    this.#identifies = token !== undefined
    this.ready = new Promise((resolve, reject) => {
      // A property costs `NodeWebSocket` one call per frame; it has no listeners.
      /* oxlint-disable unicorn/prefer-add-event-listener */
      const go = () => {
        this.#state = "ready"
        socket.onmessage = ({ data }) => onFrame(data as Buffer)
        resolve()
      }
      socket.onmessage = ({ data }) => {
        const { op, t } = JSON.parse((data as Buffer).toString()) as { op: number; t?: string }
        if (op === opcodes.HELLO.op) this.#send({ op: opcodes.IDENTIFY.op, d: { token, properties: {} } })
        else if (op === opcodes.DISPATCH.op && t === "READY") go()
        else if (op === opcodes.INVALID_SESSION.op) reject(new Error("the server refused to identify a session"))
      }
      if (token === undefined) socket.onopen = go
      socket.onerror = ({ error }) => reject(error)
      socket.onclose = ({ code, reason }) => {
        const why = new SessionClosed(code, reason)
        if (this.#state === "ready") onLost(why)
        else reject(why)
      }
      /* oxlint-enable unicorn/prefer-add-event-listener */
    })
  }

  heartbeat(): void {
    if (this.#identifies && this.#state === "ready") this.#send({ op: opcodes.HEARTBEAT.op, d: null })
  }

  /** Resets, so that no port is left waiting. */
  close(): void {
    this.#state = "closed"
    this.#socket.terminate()
  }

  #send(frame: object): void {
    this.#socket.send(JSON.stringify(frame))
  }
}
