import { connect, createServer, type AddressInfo, type Socket } from "node:net"

/** What becomes of what PostgreSQL announces. */
export interface Muffled {
  readonly url: string
  /** Connections by what their clients call themselves: while it is so, nothing passes on them, and nobody is told. */
  silence: (name: string) => boolean
  /** Connections that are silent. */
  readonly silenced: number
  /** Announcements that have vanished. */
  readonly dropped: number
  close(): Promise<void>
}

/** The way to a database on which announcements vanish, as behind a pooler, or connections fall silent. */
export async function muffled(target: string, { dropsAnnouncements = false } = {}): Promise<Muffled> {
  const { hostname, port } = new URL(target)
  const open = new Set<Socket>()
  const silent = new Set<Socket>()
  let dropped = 0
  const isSilent = (socket: Socket, name: string) => {
    if (way.silence(name)) silent.add(socket)
    return silent.has(socket)
  }
  const server = createServer(client => {
    const service = connect(Number(port), hostname)
    let name: string | undefined
    const pass = dropsAnnouncements ? withoutAnnouncements(() => dropped++) : (bytes: Buffer) => bytes
    client.on("data", bytes => {
      name ??= /application_name\0([^\0]*)/.exec(bytes.toString("latin1"))?.[1] ?? ""
      if (!isSilent(client, name)) service.write(bytes)
    })
    service.on("data", bytes => {
      if (!isSilent(client, name ?? "")) client.write(pass(bytes))
    })
    for (const [one, other] of [
      [client, service],
      [service, client],
    ] as const) {
      open.add(one)
      one.setNoDelay(true)
      one.on("error", () => {})
      one.on("close", () => {
        open.delete(one)
        if (!silent.has(client)) other.destroy()
      })
    }
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  const url = new URL(target)
  url.hostname = "127.0.0.1"
  url.port = String((server.address() as AddressInfo).port)
  const way: Muffled = {
    url: url.href,
    silence: () => false,
    get silenced() {
      return silent.size
    },
    get dropped() {
      return dropped
    },
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
  return way
}

/** Takes out of what PostgreSQL says every NotificationResponse, which begins with an A. */
function withoutAnnouncements(onDropped: () => void): (bytes: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0)
  return bytes => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    const passed: Buffer[] = []
    while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
      const message = rest.subarray(0, 1 + rest.readUInt32BE(1))
      rest = rest.subarray(message.length)
      if (message[0] === "A".charCodeAt(0)) onDropped()
      else passed.push(message)
    }
    return Buffer.concat(passed)
  }
}
