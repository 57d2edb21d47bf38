import { connect, type Socket } from "node:net"

/** What a client has begun to send and goes on with when the test says so. */
export interface SlowForm {
  readonly socket: Socket
  /** What comes after the file. */
  readonly end: string
  readonly ended: Promise<void>
  answer(): string
}

/** A form whose only part is a file of so many bytes, which the test sends. */
export function slowForm(at: { url: string }, { token }: { token: string }, path: string, length: number): SlowForm {
  const { hostname, port } = new URL(at.url)
  const socket = connect(Number(port), hostname).on("error", () => {})
  let answer = ""
  socket.on("data", chunk => (answer += chunk.toString("latin1")))
  const ended = new Promise<void>(resolve => socket.on("close", () => resolve()))
  const head = '--X\r\nContent-Disposition: form-data; name="file"; filename="big.dat"\r\n\r\n'
  const end = "\r\n--X--\r\n"
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: multipart/form-data; boundary=X\r\nContent-Length: ${head.length + length + end.length}\r\n\r\n${head}`,
  )
  return { socket, end, ended, answer: () => answer }
}
