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
  /**
   * What is known of an access session now: the user's name may have changed since the session
   * identified.
   */
  readonly known: (session: Snowflake) => Promise<AccessSession | undefined>
  readonly bus: Pick<Bus, "notify" | "onNotice">
  readonly self: string
  /** Workers that hold gateway sessions of a user. */
  readonly workersOf: (user: Snowflake) => Promise<readonly string[]>
  /** Users who have not typed again within so many milliseconds have stopped. */
  readonly timeoutMs: number
  readonly clock: Clock
  /** Called when a request fails that has no reply. */
  readonly trouble: (error: unknown) => void
}

/** Channels in which one user types at once, as far as this worker remembers them. */
const maxChannels = 32

/**
 * Ops 40 and 41: a user types, or has stopped. The channels in which a user types are remembered
 * meanwhile, so that typing ends with the user's last socket.
 */
export class TypingRequests {
  readonly #options: TypingOptions
  /** By user: the channels in which they type, and when they last said so. */
  readonly #typing = new Map<Snowflake, Map<Snowflake, number>>()
  /** By user: the latest request that is under way for them. */
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
          const user = { id: session.user, username: access.username, bot: access.bot, badges: [] }
          const hidden = !access.typing_indicators
          await ask(channelActor, channel_id, { type: "startTyping", user, hidden })
        })
      },
      TYPING_STOP: async (session, d) => {
        const asked = Typing.safeParse(d)
        if (!asked.success) return
        const { channel_id } = asked.data
        this.#typing.get(session.user)?.delete(channel_id)
        await this.#inTurn(session.user, () =>
          ask(channelActor, channel_id, { type: "stopTyping", user: session.user, timeoutMs }),
        )
      },
    }
    bus.onNotice<{ user: Snowflake; channels: Snowflake[] }>("typing", ({ user, channels }) => {
      for (const channel of channels.slice(0, maxChannels)) this.#note(user, channel)
    })
  }

  /**
   * A user has said over REST that they are typing: the worker that serves their last socket ends
   * it.
   */
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

  /** One of a user's sockets has ended; `others` are the workers that hold their other sockets. */
  ended(user: Snowflake, others: readonly string[]): void {
    const { ask, bus, self, timeoutMs, trouble } = this.#options
    if (others.includes(self)) return
    const channels = this.#fresh(user)
    this.#typing.delete(user)
    if (channels.length === 0) return
    // The worker that serves the user's last socket ends their typing.
    if (others.length > 0) return bus.notify(others[0]!, "typing", { user, channels })
    for (const channel of channels)
      this.#inTurn(user, () => ask(channelActor, channel, { type: "stopTyping", user, timeoutMs })).catch(trouble)
  }

  sweep(): void {
    for (const user of this.#typing.keys()) if (this.#fresh(user).length === 0) this.#typing.delete(user)
  }

  /** Sends what users say in the order in which they say it. */
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
    setNewest(channels, channel, this.#options.clock.monotonic(), maxChannels)
  }

  #fresh(user: Snowflake): Snowflake[] {
    const since = this.#options.clock.monotonic() - this.#options.timeoutMs
    return [...(this.#typing.get(user) ?? [])].flatMap(([channel, at]) => (at > since ? [channel] : []))
  }
}
