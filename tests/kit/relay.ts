import { connect, createServer, type AddressInfo, type Socket } from "node:net"

/** What one connection lets pass: the bytes that go on, or none. */
export interface Passing {
  readonly up: (bytes: Buffer) => Buffer | undefined
  readonly down: (bytes: Buffer) => Buffer | undefined
  /** Whether the end of one side is the end of the other. */
  readonly endsBoth?: () => boolean
}

export interface Relay {
  readonly url: string
  close(): Promise<void>
}

/** Another way to a service, over which bytes go in both directions as `passing` has it. */
export async function openRelay(target: string, passing: () => Passing): Promise<Relay> {
  const { hostname, port } = new URL(target)
  const open = new Set<Socket>()
  const server = createServer(client => {
    const service = connect(Number(port), hostname)
    const { up, down, endsBoth = () => true } = passing()
    for (const [one, other, pass] of [
      [client, service, up],
      [service, client, down],
    ] as const) {
      open.add(one)
      one.setNoDelay(true)
      one.on("error", () => {})
      one.on("close", () => {
        open.delete(one)
        if (endsBoth()) other.destroy()
      })
      one.on("data", bytes => {
        const passed = pass(bytes)
        if (passed) other.write(passed)
      })
    }
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  const url = new URL(target)
  url.hostname = "127.0.0.1"
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
}
