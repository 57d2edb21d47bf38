import { once } from "node:events"
import { connect, createServer, type AddressInfo, type Socket } from "node:net"

/** What happens to bytes on their way. */
export interface Weather {
  /** Connections end, and new ones end at once. */
  cut?: boolean
  /** Requests arrive and replies vanish, or the other way round. Nobody is told. */
  lost?: "replies" | "requests"
  /** Milliseconds that every piece is late, both ways. */
  delayMs?: number
  /** Bytes in a second, each way and connection. */
  bandwidth?: number
}

export interface LinkCounts {
  connections: number
  /** Connections ended or refused by a cut. */
  cut: number
  lostBytes: number
  delayedPieces: number
  throttledPieces: number
}

/**
 * A TCP proxy of ours: listens on an address of its own, and the weather between the two ends can
 * be set.
 */
export interface Link {
  readonly name: string
  readonly port: number
  readonly counts: Readonly<LinkCounts>
  set(weather: Weather): void
  /** Keeps the requests of some connections back until they are released. */
  hold(which: (connection: Connection) => boolean): Hold
  /** Ends every connection with a reset; new ones are welcome. */
  reset(): void
  close(): Promise<void>
}

interface Connection {
  /** The port from which it came. */
  readonly from: number
  /** The first bytes that came, as Latin-1. */
  readonly hello: string
}

interface Hold {
  /** What is kept back now. */
  readonly bytes: number
  release(): void
}

export interface Target {
  host: string
  port: number
}

/** `target` is asked for every connection, so that it may be known only later. */
export async function openLink(name: string, target: () => Target, host = "127.0.0.1"): Promise<Link> {
  const counts: LinkCounts = { connections: 0, cut: 0, lostBytes: 0, delayedPieces: 0, throttledPieces: 0 }
  const pipes = new Set<[Socket, Socket]>()
  let weather: Weather = {}
  const holds = new Set<{ which: (connection: Connection) => boolean; kept: (() => void)[]; bytes: number }>()

  const server = createServer({ allowHalfOpen: true }, near => {
    near.on("error", () => {})
    if (weather.cut) {
      counts.cut++
      near.resetAndDestroy()
      return
    }
    counts.connections++
    const far = connect({ ...target(), allowHalfOpen: true })
    far.on("error", () => {})
    const pair: [Socket, Socket] = [near, far]
    pipes.add(pair)
    const connection = { from: near.remotePort ?? 0, hello: "" }
    near.once("data", (piece: Buffer) => (connection.hello = piece.toString("latin1")))
    carry(near, far, "requests", connection)
    carry(far, near, "replies")
    for (const socket of pair)
      socket.on("close", () => {
        for (const end of pair) if (!end.destroyed) end.resetAndDestroy()
        pipes.delete(pair)
      })
  })
  server.on("error", () => {}) // out of descriptors: the one who connects is refused

  function carry(from: Socket, to: Socket, way: "requests" | "replies", connection?: Connection): void {
    from.setNoDelay(true)
    /** When the last piece that is under way may leave; pieces keep their order. */
    let free = 0
    const underWay: Buffer[] = []
    let ended = false
    const hole = () => weather.lost === way
    const end = () => {
      if (ended && underWay.length === 0 && !hole()) to.end()
    }
    const deliver = (piece: Buffer) => {
      for (const hold of holds)
        if (connection && hold.which(connection)) {
          hold.bytes += piece.length
          hold.kept.push(() => deliver(piece))
          return
        }
      if (hole()) counts.lostBytes += piece.length
      else if (!to.destroyed && !to.write(piece) && !from.destroyed) {
        from.pause()
        to.once("drain", () => from.resume())
      }
    }
    from.on("data", (piece: Buffer) => {
      const { delayMs = 0, bandwidth } = weather
      const now = performance.now()
      if (delayMs === 0 && bandwidth === undefined && underWay.length === 0) return deliver(piece)
      if (delayMs > 0) counts.delayedPieces++
      if (bandwidth !== undefined) counts.throttledPieces++
      free = Math.max(free, now + delayMs) + (bandwidth === undefined ? 0 : (piece.length / bandwidth) * 1_000)
      underWay.push(piece)
      // A slow line takes nothing more in; a long one does.
      if (bandwidth !== undefined) from.pause()
      setTimeout(() => {
        if (bandwidth !== undefined) from.resume()
        deliver(underWay.shift()!)
        end()
      }, free - now)
    })
    from.on("end", () => {
      ended = true
      end()
    })
  }

  server.listen(0, host)
  await once(server, "listening")
  const reset = () => {
    for (const pair of pipes) for (const socket of pair) socket.resetAndDestroy()
  }
  return {
    name,
    port: (server.address() as AddressInfo).port,
    counts,
    set(next) {
      const lifted = weather.lost !== undefined && next.lost === undefined
      weather = next
      if (next.cut) counts.cut += pipes.size
      // A connection that lost bytes is of no use: TCP would have ended it.
      if (next.cut || lifted) reset()
    },
    hold(which) {
      const hold = { which, kept: [] as (() => void)[], bytes: 0 }
      holds.add(hold)
      return {
        get bytes() {
          return hold.bytes
        },
        release() {
          holds.delete(hold)
          for (const deliver of hold.kept.splice(0)) deliver()
        },
      }
    },
    reset,
    async close() {
      reset()
      server.close()
      await once(server, "close")
    },
  }
}
