import { Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { SentinelConnector, type Redis, type SentinelAddress } from "ioredis"

/** Milliseconds from the address to the first answer: as long as a connection for commands waits for them. */
const answerWithinMs = 4_000
/** A sentinel that has not answered for so many milliseconds is not waited for alone. */
const askNextAfterMs = 200

type Emit = Parameters<SentinelConnector["connect"]>[0]
type Stream = Awaited<ReturnType<SentinelConnector["connect"]>>
type Place = Partial<SentinelAddress>
/** What the client has beside what it declares. */
interface Inside {
  readonly sentinelIterator: { readonly sentinels: readonly Place[] }
  connectToSentinel(...args: unknown[]): Redis
  /** Asks a sentinel for the master; null where it knows none of the name. */
  resolve(sentinel: Place): Promise<Place | null>
}

/**
 * Makes connections to the master that sentinels name. It keeps:
 *   MASTER1  A connection that is told to go while the sentinels are asked, such as by a fail-over that is announced, is
 *       made all the same. The client alone would take itself for closed, and never connect again.
 *   MASTER2  A master that accepts the connection and does not answer is given up, however long commands may take.
 *   MASTER3  A sentinel that does not answer delays nobody: after a moment the others are asked as well.
 */
export class MasterConnector extends SentinelConnector {
  #late: NodeJS.Timeout | undefined

  /** By the client itself, also for a copy of a connection. */
  constructor(options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0])
    const inside = this as unknown as Inside
    const connectToSentinel = inside.connectToSentinel.bind(this)
    // Those that wait for announcements connect again by themselves; the client writes each failed attempt to stderr.
    inside.connectToSentinel = (...args) => connectToSentinel(...args).on("error", () => {})
    const resolve = inside.resolve.bind(this)
    inside.resolve = sentinel => firstAnswer(sentinel, inside.sentinelIterator.sentinels, resolve)
  }

  override async connect(emit: Emit): Promise<Stream> {
    clearTimeout(this.#late)
    let stream: Stream
    try {
      stream = await super.connect(emit)
    } catch (error) {
      emit("error", error as Error)
      // To the client it is a connection that broke: it makes another, unless it was closed for good.
      return new Socket().destroy()
    }
    const late = setTimeout(() => stream.destroy(new Error("the master does not answer")), answerWithinMs)
    stream.once("close", () => clearTimeout(late))
    this.#late = late
    return stream
  }

  /** The master has answered. */
  override check(info: { role?: string }): boolean {
    clearTimeout(this.#late)
    return super.check(info)
  }
}

/** MASTER3. One is asked first; what it answers counts, also that it knows no such master. */
async function firstAnswer(
  first: Place,
  all: readonly Place[],
  ask: (sentinel: Place) => Promise<Place | null>,
): Promise<Place | null> {
  const answer = ask(first)
  const isLate = Symbol("late")
  if ((await Promise.race([answer, sleep(askNextAfterMs, isLate)])) !== isLate) return answer
  const others = all.filter(one => one.host !== first.host || one.port !== first.port)
  return Promise.any([answer, ...others.map(ask)]).catch(() => answer)
}
