import type { Redis as Server } from "ioredis"
import { existsSync } from "node:fs"
import type { Writable } from "node:stream"

/**
 * What a connection is given while one piece of the program runs (a handler and all that follows it at once) leaves in one
 * write, not in one for each command. It leaves before anything else is handled, so that no command waits for its company.
 */
export function writeOncePerTurn(redis: Server, trips?: RoundTrips): Server {
  // Each time it is made anew. It can go when the client gathers commands without changing the slots and errors of each.
  const { connector } = redis as unknown as { connector: { connect(onError: unknown): Promise<Writable> } }
  const connect = connector.connect.bind(connector)
  const sent = trips && timing(redis as unknown as Commands, trips)
  const { options } = redis
  connector.connect = async onError => {
    // Where somebody has cleared its folder away there is still the port.
    if (options.path !== undefined && !existsSync(options.path)) delete options.path
    return gather(await connect(onError), sent)
  }
  return redis
}

/** What is counted of the writes of a connection. */
export interface RoundTrips {
  readonly writes: { inc(): void }
  readonly seconds: { observe(seconds: number): void }
}

/** The client's commands without an answer, in the order in which they were sent. */
interface Commands {
  readonly commandQueue: { peekBack(): { readonly command: { readonly promise: Promise<unknown> } } | undefined }
}

/** Counts each write, and times one at a time: from here to the answer of the last command in it. */
function timing(redis: Commands, { writes, seconds }: RoundTrips): () => void {
  let isTiming = false
  return () => {
    writes.inc()
    if (isTiming) return
    const last = redis.commandQueue.peekBack()
    if (!last) return
    isTiming = true
    const startedAt = performance.now()
    last.command.promise.then(
      () => {
        isTiming = false
        seconds.observe((performance.now() - startedAt) / 1000)
      },
      () => {
        isTiming = false
      },
    )
  }
}

function gather(stream: Writable, sent?: () => void): Writable {
  // ioredis 6.0.0 listens by `prependListener`, which Node 20 does not count: each answer would be laid aside and handed over
  // in another tick. It can go when the client listens by `on`; one-write-per-turn.test.ts will say so.
  stream.on("data", () => {})
  const write = stream.write.bind(stream) as (...args: unknown[]) => boolean
  let isGathering = false
  const send = () => {
    isGathering = false
    stream.uncork()
    sent?.()
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
