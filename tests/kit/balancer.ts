import { once } from "node:events"
import { connect, createServer, type AddressInfo, type Socket } from "node:net"
import { onTestFinished } from "vitest"
import type { Endpoint } from "./person.ts"

export interface Balancer extends Endpoint {
  /** Where new connections go from now on; undefined: nowhere, they are reset. */
  lead(to: Endpoint | undefined): void
  /** Resets every connection that goes through. */
  cut(): void
}

/** One address in front of workers, as a balancer: it can be pointed elsewhere, and cut what goes through it. */
export async function balancer(): Promise<Balancer> {
  let target: number | undefined
  const open = new Set<Socket>()
  const server = createServer(client => {
    if (target === undefined) return client.destroy()
    const behind = connect(target, "127.0.0.1")
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      open.add(one)
      one.on("error", () => other.destroy())
      one.on("close", () => {
        open.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lead(to) {
      target = to && Number(new URL(to.url).port)
    },
    cut() {
      for (const socket of open) socket.resetAndDestroy()
    },
  }
}
