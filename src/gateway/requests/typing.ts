import type { Ask } from "../../runtime/actor.ts"
import { channelActor } from "../../actors/channel.ts"
import type { Bus } from "../../cluster/bus.ts"
import type { AccessSession } from "../../cluster/tokens.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { Typing } from "../../contract/core/gateway.ts"
import type { Clock } from "../../std/clock.ts"
import type { SessionHandlers } from "./handlers.ts"
import { setNewest } from "../../std/bounded-map.ts"

export interface TypingOptions {
  readonly ask: Ask
  /** What is known of an access session now: what its user is called may have changed since it identified. */
  readonly known: (session: Snowflake) => Promise<AccessSession | undefined>
  readonly bus: Pick<Bus, "notify" | "onNotice">
  readonly self: string
  /** Workers that hold gateway sessions of a user. */
  readonly workersOf: (user: Snowflake) => Promise<readonly string[]>
  /** Milliseconds after which somebody who has not typed again has stopped. */
  readonly timeoutMs: number
  readonly clock: Clock
  /** A request that nobody waits for has failed. */
  readonly trouble: (error: unknown) => void
}

/** Channels in which one user types at once, as far as it is remembered. */
const mostChannels = 32

/**
 * Ops 40 and 41: somebody types, or has stopped. Where a user types is remembered while it lasts, so that it can be taken
 * back when his last socket ends.
 */
export class TypingRequests {
  readonly #options: TypingOptions
  /** By user: where he types, with when he last said so. */
  readonly #typing = new Map<Snowflake, Map<Snowflake, number>>()
  /** By user: the latest of what is being asked for him. */
  readonly #asking = new Map<Snowflake, Promise<unknown>>()
  readonly handlers: Pick<SessionHandlers, "TYPING_START" | "TYPING_STOP">

  constructor(options: TypingOptions) {
    this.#options = options
    const { ask, known, bus, timeoutMs } = options
    this.handlers = {
      TYPING_START: async (session, d) => {
        const asked = Typing.safeParse(d)
        if (!asked.success) return
        const { channel_id } = asked.data
        this.#note(session.user, channel_id)
        await this.#inTurn(session.user, async () => {
          const access = await known(session.accessSession)
          if (!access) return
          const user = { id: session.user, username: access.username, badges: [] }
          const hidden = access.typing_indicators === false
          await ask(channelActor, channel_id, { type: "startTyping", user, hidden })
        })
      },
      TYPING_STOP: async (session, d) => {
        const asked = Typing.safeParse(d)
        if (!asked.success) return
        const { channel_id } = asked.data
        this.#typing.get(session.user)?.delete(channel_id)
        await this.#inTurn(session.user, () =>
          ask(channelActor, channel_id, { type: "stopTyping", user: session.user, timeout: timeoutMs }),
        )
      },
    }
    bus.onNotice<{ user: Snowflake; channels: Snowflake[] }>("typing", ({ user, channels }) => {
      for (const channel of channels.slice(0, mostChannels)) this.#note(user, channel)
    })
  }

  /** He has said over REST that he types: whichever worker serves his last socket takes it back. */
  async said(user: Snowflake, channel: Snowflake): Promise<void> {
    const { bus, self, workersOf, trouble } = this.#options
    const workers = await workersOf(user).catch((error: unknown) => {
      trouble(error)
      return []
    })
    for (const worker of workers)
      if (worker === self) this.#note(user, channel)
      else bus.notify(worker, "typing", { user, channels: [channel] })
  }

  /** One of a user's sockets has ended; his others are on these workers. */
  ended(user: Snowflake, others: readonly string[]): void {
    const { ask, bus, self, timeoutMs, trouble } = this.#options
    if (others.includes(self)) return
    const channels = this.#fresh(user)
    this.#typing.delete(user)
    if (channels.length === 0) return
    // Whoever serves his last socket takes it back.
    if (others.length > 0) return bus.notify(others[0]!, "typing", { user, channels })
    for (const channel of channels)
      this.#inTurn(user, () => ask(channelActor, channel, { type: "stopTyping", user, timeout: timeoutMs })).catch(
        trouble,
      )
  }

  sweep(): void {
    for (const user of this.#typing.keys()) if (this.#fresh(user).length === 0) this.#typing.delete(user)
  }

  /** What a user says is asked in the order in which he says it. */
  #inTurn<T>(user: Snowflake, work: () => Promise<T>): Promise<T> {
    const before = this.#asking.get(user) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#asking.set(user, mine)
    const forget = () => {
      if (this.#asking.get(user) === mine) this.#asking.delete(user)
    }
    mine.then(forget, forget)
    return mine
  }

  #note(user: Snowflake, channel: Snowflake): void {
    let channels = this.#typing.get(user)
    if (!channels) this.#typing.set(user, (channels = new Map()))
    setNewest(channels, channel, this.#options.clock.monotonic(), mostChannels)
  }

  #fresh(user: Snowflake): Snowflake[] {
    const since = this.#options.clock.monotonic() - this.#options.timeoutMs
    return [...(this.#typing.get(user) ?? [])].flatMap(([channel, at]) => (at > since ? [channel] : []))
  }
}
