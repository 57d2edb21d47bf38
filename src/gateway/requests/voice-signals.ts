import { channelActor } from "../../actors/channel.ts"
import type { Ask } from "../../runtime/actor.ts"
import type { Bus } from "../../cluster/bus.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { ServerOp } from "../../contract/core/gateway-codes.ts"
import type { Clock } from "../../std/clock.ts"
import type { Log } from "../../observability/log.ts"
import { plainFrame, type Encoding, type Payload } from "../protocol/frames.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { isTransient } from "../../runtime/transient.ts"
import type { Session } from "../state/session.ts"

export interface VoiceSignalsOptions {
  readonly ask: Ask
  readonly bus: Pick<Bus, "notify" | "onNotice">
  readonly self: string
  readonly subscriptions: Subscriptions
  /** Unsent bytes of a socket. With more than half of them it is relayed nothing. */
  readonly budget: number
  readonly limited: boolean
  readonly clock: Clock
  readonly log: Log
}

/** A frame for gateway sessions of one worker. */
interface Relay {
  readonly sessions: readonly string[]
  readonly op: ServerOp
  readonly d: unknown
}

/** Whether a session says that it speaks in a channel. */
interface Speech {
  channel: Snowflake
  /** When the second began that is counted, and how many frames came in it. */
  since: number
  count: number
  /** What the session said last. */
  latest: boolean
  /** What the others were told last, when, and how many they were; undefined: not known. */
  told: boolean | undefined
  toldAt: number
  subscriptions: number
  /** The latest state is told when the pause is over. */
  isWaiting: boolean
}

/** All others in the channel. */
const everybody = Symbol("everybody")
/** Frames about speaking that one session may send in a second. */
const maxSpeakingFrames = 10
/**
 * With up to so many receivers each of those frames is sent on. More receivers are told of changes
 * only, with a pause of so many milliseconds.
 */
const smallCircle = 100
const speakingPauseMs = 1_000

/** Sends signals to the workers that hold the others' sessions; see CALL2. */
export class VoiceSignals {
  readonly #options: VoiceSignalsOptions
  readonly #speeches = new WeakMap<Session, Speech>()

  constructor(options: VoiceSignalsOptions) {
    this.#options = options
    options.bus.onNotice<Relay>("voiceRelay", relay => this.#deliver(relay))
  }

  /** Sends a signal to one other user in the channel. */
  async relay(
    session: Session,
    op: ServerOp,
    channel: Snowflake,
    target: Snowflake,
    frame: (voiceSession: string) => object,
  ): Promise<void> {
    await this.#send(session, op, channel, target, frame)
  }

  /** Tells all others in the channel. */
  async speak(session: Session, channel: Snowflake, speaking: boolean): Promise<void> {
    const speech = this.#speechOf(session, channel)
    if (speech.channel !== channel) {
      speech.channel = channel
      speech.subscriptions = 0
      speech.told = undefined
    }
    speech.latest = speaking
    if (speech.subscriptions <= smallCircle) return this.#tellSpeaking(session, speech)
    if (speech.isWaiting || speaking === speech.told) return
    const { clock, log } = this.#options
    const wait = speech.toldAt + speakingPauseMs - clock.monotonic()
    if (wait <= 0) return this.#tellSpeaking(session, speech)
    speech.isWaiting = true
    clock.after(wait, () => {
      speech.isWaiting = false
      if (speech.latest === speech.told) return
      this.#tellSpeaking(session, speech).catch((error: unknown) => {
        if (!isTransient(error) && !(error instanceof Failure)) log.warn({ err: error }, "speaking state not sent")
      })
    })
  }

  async #tellSpeaking(session: Session, speech: Speech): Promise<void> {
    const { channel, latest: speaking } = speech
    speech.told = undefined
    speech.toldAt = this.#options.clock.monotonic()
    const d = { channel_id: channel, user_id: session.user, speaking }
    speech.subscriptions = await this.#send(session, "VOICE_SPEAKING", channel, everybody, () => d)
    speech.told = speaking
  }

  maySpeak(session: Session, channel: Snowflake): boolean {
    const speech = this.#speechOf(session, channel)
    const now = this.#options.clock.monotonic()
    if (now - speech.since >= 1_000) {
      speech.since = now
      speech.count = 0
    }
    return ++speech.count <= maxSpeakingFrames || !this.#options.limited
  }

  /** @returns how many sessions it is for */
  async #send(
    session: Session,
    op: ServerOp,
    channel: Snowflake,
    target: Snowflake | typeof everybody,
    frame: (voiceSession: string) => object,
  ): Promise<number> {
    if (session.voice?.channel !== channel) return 0
    const { ask, bus, self } = this.#options
    const found = await ask(channelActor, channel, {
      type: "findVoice",
      user: session.user,
      gateway_session_id: session.id,
      target: target === everybody ? undefined : target,
    }) // CALL2
    if (!found) return 0
    const d = frame(found.voice_session_id)
    let count = 0
    for (const [worker, sessions] of found.holders) {
      count += sessions.length
      if (worker === self) this.#deliver({ sessions, op, d })
      else bus.notify(worker, "voiceRelay", { sessions, op, d } satisfies Relay)
    }
    return count
  }

  #deliver({ sessions, op, d }: Relay): void {
    const { subscriptions, budget } = this.#options
    const made = new Map<Encoding, Payload>()
    for (const id of sessions) {
      const connection = subscriptions.byId.get(id)?.connection
      // A session that does not read what it is sent is sent no signals.
      if (!connection || connection.closed || connection.ws.getBufferedAmount() > budget / 2) continue
      const { encoding } = connection
      let payload = made.get(encoding)
      if (payload === undefined) made.set(encoding, (payload = plainFrame(encoding, op, d)))
      subscriptions.sendPayload(connection, payload)
    }
  }

  #speechOf(session: Session, channel: Snowflake): Speech {
    let speech = this.#speeches.get(session)
    if (!speech) {
      const nothing = { told: undefined, toldAt: -Infinity, subscriptions: 0, isWaiting: false }
      this.#speeches.set(session, (speech = { channel, since: -Infinity, count: 0, latest: false, ...nothing }))
    }
    return speech
  }
}
