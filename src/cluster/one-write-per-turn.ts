import type { Redis as Server } from "ioredis"
import type { Writable } from "node:stream"

/**
 * What a connection is given while one piece of the program runs (a handler and all that follows it at once) leaves in one
 * write, not in one for each command. It leaves before anything else is handled, so that no command waits for its company.
 */
export function writeOncePerTurn(redis: Server): Server {
  // Each time it is made anew. It can go when the client gathers commands without changing the slots and errors of each.
  const { connector } = redis as unknown as { connector: { connect(onError: unknown): Promise<Writable> } }
  const connect = connector.connect.bind(connector)
  connector.connect = async onError => gather(await connect(onError))
  return redis
}

function gather(stream: Writable): Writable {
  const write = stream.write.bind(stream) as (...args: unknown[]) => boolean
  let isGathering = false
  const send = () => {
    isGathering = false
    stream.uncork()
  }
  stream.write = (...args: unknown[]) => {
    if (!isGathering) {
      isGathering = true
      stream.cork()
      process.nextTick(send)
    }
    return write(...args)
  }
  return stream
}
