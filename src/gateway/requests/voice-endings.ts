import { isTransient } from "../../runtime/transient.ts"
import { channelActor } from "../../actors/channel.ts"
import type { Ask } from "../../runtime/actor.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"
import type { HeldCall } from "../../storage/voice/voice.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import type { Session, VoiceHold } from "../state/session.ts"
import { backoffMs } from "../../std/backoff.ts"

export interface VoiceEndingsOptions {
  readonly ask: Ask
  readonly self: string
  /** Ids of the web workers that live, this one among them. */
  readonly webWorkers: () => readonly string[]
  readonly storage: Pick<Storage, "voice">
  readonly subscriptions: Pick<Subscriptions, "byId">
  readonly resumeWindowMs: number
  /** Calls that a sweep reads in one page. */
  readonly page: number
  readonly clock: Clock
  readonly log: Log
}

/** With a channel every call in it is gone. */
const isChannelGone = (error: unknown) => error instanceof Failure && error.code === "channel_not_found"

/** Calls that a sweep ends at a time. */
const maxConcurrentEndings = 16

/** A call follows its session: to another worker, and to its end. See CALL3. */
export class VoiceEndings {
  readonly #options: VoiceEndingsOptions
  readonly #sweeper: Timer
  /** Calls whose sessions are not here, with when that was first seen. */
  #missing: ReadonlyMap<string, number> = new Map()
  #sweeping: Promise<void> | undefined
  #stopped = false

  constructor(options: VoiceEndingsOptions) {
    this.#options = options
    this.#sweeper = options.clock.every(Math.ceil(options.resumeWindowMs / 2), () => void this.sweep())
  }

  stop(): void {
    this.#stopped = true
    this.#sweeper.stop()
  }

  /** The session has come here from another worker. */
  moved(session: Session): void {
    const { voice } = session
    if (!voice) return
    const { ask, self: worker } = this.#options
    const { channel, voiceSession: voice_session_id } = voice
    this.#untilDone(
      "voice not moved",
      () => this.#options.subscriptions.byId.get(session.id) === session,
      async () => {
        await ask(channelActor, channel, { type: "holdVoice", user: session.user, voice_session_id, worker })
      },
    )
  }

  end(user: Snowflake, { channel, voiceSession }: VoiceHold): void {
    const { ask, self: worker } = this.#options
    this.#untilDone(
      "call not ended",
      () => true,
      async () => {
        await ask(channelActor, channel, { type: "endVoice", user, voice_session_id: voiceSession, worker })
      },
    )
  }

  /** Sessions of a dead worker that are not resumed end with the resume window. */
  noteDeath(): void {
    const { clock, resumeWindowMs } = this.#options
    clock.after(resumeWindowMs + 1_000, () => void this.sweep())
  }

  /**
   * PostgreSQL knows every call, so a sweep finds calls that nothing else ended. One sweep runs at
   * a time.
   */
  sweep(): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return (this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = undefined
    }))
  }

  async #sweepAll(): Promise<void> {
    const { webWorkers, self, log } = this.#options
    const sweeps = [this.#sweepOwn()]
    // One worker looks after calls of dead workers; a second one would do no harm.
    if (webWorkers().toSorted()[0] === self) sweeps.push(this.#sweepDead())
    for (const swept of await Promise.allSettled(sweeps))
      // The next sweep finds these calls again.
      if (swept.status === "rejected" && !this.#stopped && !isTransient(swept.reason))
        log.warn({ err: swept.reason }, "ended calls not removed")
  }

  /** Ends calls that a dead worker held and whose sessions were not resumed. */
  async #sweepDead(): Promise<void> {
    const { storage, resumeWindowMs, page } = this.#options
    await this.#sweepPages(
      after => storage.voice.leftBehind(resumeWindowMs, after, page),
      calls => calls,
    )
  }

  /**
   * Ends calls of sessions that are not here: another worker claimed a session and never had it, or
   * a join succeeded though its answer came too late. Only after two resume windows can none of
   * these sessions come back.
   */
  async #sweepOwn(): Promise<void> {
    const { storage, self, subscriptions, clock, resumeWindowMs, page } = this.#options
    const now = clock.monotonic()
    const missing = new Map<string, number>()
    const hasBeenMissing = ({ gateway_session_id, voice_session_id }: HeldCall) => {
      if (subscriptions.byId.get(gateway_session_id)?.voice?.voiceSession === voice_session_id) return false
      const since = this.#missing.get(voice_session_id) ?? now
      missing.set(voice_session_id, since)
      return since <= now - 2 * resumeWindowMs
    }
    try {
      await this.#sweepPages(
        after => storage.voice.heldBy(self, after, page),
        calls => calls.filter(hasBeenMissing),
      )
    } finally {
      this.#missing = missing
    }
  }

  /** Goes page by page. A call that cannot be ended does not stop the others from ending. */
  async #sweepPages(
    read: (after: HeldCall | undefined) => Promise<HeldCall[]>,
    overOf: (calls: readonly HeldCall[]) => readonly HeldCall[],
  ): Promise<void> {
    let failure: Error | undefined
    let calls: HeldCall[] = []
    do {
      calls = await read(calls.at(-1))
      const left = overOf(calls).values()
      const ending = Array.from({ length: maxConcurrentEndings }, async () => {
        for (const { user_id: user, channel_id, voice_session_id, worker } of left) {
          if (this.#stopped) return
          try {
            await this.#options.ask(channelActor, channel_id, { type: "endVoice", user, voice_session_id, worker })
          } catch (error) {
            if (!isChannelGone(error)) failure ??= error as Error
          }
        }
      })
      await Promise.all(ending)
    } while (calls.length === this.#options.page && !this.#stopped)
    if (failure) throw failure
  }

  /**
   * Tries until there is an answer, whatever it says, or until the action is not wanted any longer.
   */
  #untilDone(what: string, isWanted: () => boolean, action: () => Promise<void>): void {
    const { clock, log } = this.#options
    const go = async () => {
      for (let attempt = 0; !this.#stopped && isWanted(); attempt++) {
        try {
          return await action()
        } catch (error) {
          if (!isTransient(error)) throw error
          await clock.sleep(backoffMs(attempt, 100, 5_000))
        }
      }
    }
    go().catch((error: unknown) => {
      if (!isChannelGone(error)) log.warn({ err: error }, what)
    })
  }
}
