/** Files on their way in and out over plain sockets, so that the clients cost the same for every server. */
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { connect } from "node:net"

export interface Target {
  readonly url: string
  /** Where a file goes, and who sends it. */
  readonly path: string
  readonly token: string
}

const piece = randomBytes(262_144)
const head = '--X\r\nContent-Disposition: form-data; name="file"; filename="film.dat"\r\n\r\n'
const end = "\r\n--X--\r\n"

/** Sends a file that no other is the same as. @returns its address */
export async function sendFile({ url, path, token }: Target, bytes: number): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, "connect")
  const answered = answerOf(socket)
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: multipart/form-data; boundary=X\r\n` +
      `Content-Length: ${head.length + bytes + end.length}\r\n\r\n${head}`,
  )
  const own = randomBytes(16)
  socket.write(own)
  for (let left = bytes - own.length; left > 0; left -= piece.length)
    if (!socket.write(piece.subarray(0, left))) await once(socket, "drain")
  socket.write(end)
  const { status, body } = await answered
  socket.destroy()
  if (status !== 200) throw new Error(`an upload was answered with ${status}: ${body}`)
  return (JSON.parse(body) as { url: string }).url
}

/** What comes is looked at by nobody: all connections may read into the same bytes. */
const incoming = Buffer.allocUnsafeSlow(262_144)

/** Fetches a file and lets it go. @returns its bytes */
export async function fetchFile({ url, token }: Omit<Target, "path">, path: string): Promise<number> {
  const { hostname, port } = new URL(url)
  let wanted = Infinity
  let got = 0
  let start = ""
  await new Promise<void>((resolve, reject) => {
    const take = (bytes: number): boolean => {
      got += bytes
      if (wanted === Infinity) {
        start += incoming.toString("latin1", 0, bytes)
        const at = start.indexOf("\r\n\r\n")
        if (at < 0) return true
        if (!start.startsWith("HTTP/1.1 200")) reject(new Error(`a download was answered with ${start.slice(0, 60)}`))
        wanted = at + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(start)![1])
      }
      if (got >= wanted) {
        resolve()
        socket.destroy()
      }
      return true
    }
    const socket = connect({ port: Number(port), host: hostname, onread: { buffer: incoming, callback: take } })
    socket.on("error", reject)
    socket.on("close", () => reject(new Error(`the connection was closed after ${got} bytes`)))
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  })
  return got
}

function answerOf(socket: ReturnType<typeof connect>): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    let text = ""
    socket.on("data", chunk => {
      text += chunk.toString("latin1")
      const at = text.indexOf("\r\n\r\n")
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? Infinity)
      if (at >= 0 && text.length >= at + 4 + length)
        resolve({ status: Number(text.slice(9, 12)), body: text.slice(at + 4) })
    })
    socket.on("error", reject)
    socket.on("close", () => reject(new Error(`the connection was closed: ${text.slice(0, 200)}`)))
  })
}
