import { isTransient } from "../../runtime/transient.ts"
import { randomBytes } from "node:crypto"
import { channelActor } from "../../actors/channel.ts"
import type { Ask } from "../../runtime/actor.ts"
import { userActor } from "../../actors/user.ts"
import { WorkerGone, type Bus } from "../../cluster/bus.ts"
import type { DeliveryLogs } from "../../cluster/delivery-log.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { voiceServerUpdate, voiceStateUpdate } from "../../contract/voice/voice.ts"
import type { Clock } from "../../std/clock.ts"
import {
  absentObject,
  hintedBitrate,
  mediaEndpoint,
  voiceSessionId,
  type IceServersFor,
  type SelfFlags,
  type VoicePolicy,
} from "../../domain/voice/voice.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import type { CatchUpReader } from "../replay/catch-up-reader.ts"
import type { Session } from "../state/session.ts"
import type { VoiceEndings } from "./voice-endings.ts"

export interface VoiceCallsOptions {
  readonly ask: Ask
  readonly bus: Pick<Bus, "handle" | "request">
  readonly self: string
  /** Ids of the web workers that live, this one among them. */
  readonly webWorkers: () => readonly string[]
  readonly subscriptions: Subscriptions
  readonly reader: Pick<CatchUpReader, "tell">
  readonly logs: Pick<DeliveryLogs, "lastPosition">
  /** Writes the session's record, because it has changed. */
  readonly save: (session: Session) => void
  readonly endings: Pick<VoiceEndings, "end">
  /** What clients are told about how media are sent. */
  readonly media: { readonly policy: VoicePolicy; readonly iceServers: IceServersFor }
  readonly clock: Clock
}

/** The session and worker that hold a call. */
interface Holder {
  readonly worker: string
  readonly gateway_session_id: string
}

/**
 * A session has so many milliseconds to reach the head of its log before it is told of its call.
 */
const tellWithinMs = 10_000
/** Another worker has so many milliseconds to say whether a session has a socket. */
const answerWithinMs = 2_000

/**
 * Joining and leaving calls. The owner of the server decides. The session is told what it needs, or
 * that nothing has changed.
 */
export class VoiceCalls {
  readonly #options: VoiceCallsOptions
  /** Bits per second of a session's connection, as far as its client said. */
  readonly #hints = new WeakMap<Session, number>()
  #stopped = false

  constructor(options: VoiceCallsOptions) {
    this.#options = options
    options.bus.handle("voiceHolder", async (session: string) => this.#hasSocket(session))
  }

  stop(): void {
    this.#stopped = true
  }

  hint(session: Session, level: string | null | undefined, bitrate: number | null | undefined): void {
    this.#hints.set(session, hintedBitrate(level, bitrate))
  }

  async join(session: Session, channel: Snowflake, flags?: SelfFlags): Promise<void> {
    const { ask, self: worker, media, subscriptions, endings } = this.#options
    const { policy, iceServers } = media
    const { user } = session
    const { allowed, order } = await ask(userActor, user, { type: "askForVoice" })
    const voice_session_id = voiceSessionId(order, randomBytes(8).toString("hex"))
    const hold = { channel, voiceSession: voice_session_id }
    let joined: { server_id: Snowflake; bitrate: number } | null = null
    if (allowed && policy.voice_enabled)
      try {
        const gateway_session_id = session.id
        const asked = { user, voice_session_id, worker, gateway_session_id, flags }
        joined = await ask(channelActor, channel, { type: "joinVoice", ...asked })
      } catch (error) {
        // The request may have been carried out, but nobody waits for it any longer: the call ends.
        if (isTransient(error)) endings.end(user, hold)
        if (isTransient(error) || !(error instanceof Failure) || error.code === "internal") throw error
      }
    if (!joined) return this.#tellUnchanged(session)
    if (subscriptions.byId.get(session.id) !== session) return endings.end(user, hold)
    session.voice = hold
    this.#options.save(session)
    const hinted = this.#hints.get(session)
    await this.#tell(session, voiceServerUpdate.name, () => ({
      endpoint: mediaEndpoint(policy, channel, user),
      token: randomBytes(32).toString("base64url"),
      ice_servers: iceServers(user, "call"),
      session_id: voice_session_id,
      channel_id: channel,
      user_id: user,
      server_id: joined.server_id,
      guild_id: joined.server_id,
      bitrate: Math.min(joined.bitrate, hinted ?? joined.bitrate),
    }))
  }

  /**
   * Sets the flags of the present call. A session without a call joins, and takes over a call that
   * no session holds any longer.
   */
  async update(session: Session, channel: Snowflake, flags: SelfFlags): Promise<void> {
    const { ask } = this.#options
    try {
      const { holder } = await ask(channelActor, channel, { type: "setVoiceFlags", user: session.user, flags })
      if (holder && (await this.#isHeld(session, holder))) return
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "channel_not_found") throw error
    }
    await this.join(session, channel, flags)
  }

  /** Leaves the call, whichever of the user's sessions holds it. */
  async leave(session: Session): Promise<void> {
    const { ask, save } = this.#options
    const { user, voice } = session
    if (voice) {
      const left = await this.#leaveAt(voice.channel, user)
      session.voice = undefined
      save(session)
      if (left) return
    }
    const { call } = await ask(userActor, user, { type: "askForVoice" })
    if (call !== null) await this.#leaveAt(call, user)
  }

  async #leaveAt(channel: Snowflake, user: Snowflake): Promise<boolean> {
    try {
      const { left } = await this.#options.ask(channelActor, channel, { type: "leaveVoice", user })
      return left
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "channel_not_found") throw error
      return false
    }
  }

  /**
   * Whether the session itself holds the call, or another session that has a socket. After a page
   * was reloaded, the session of the page before has no socket.
   */
  async #isHeld(session: Session, { worker, gateway_session_id }: Holder): Promise<boolean> {
    const { bus, self, webWorkers } = this.#options
    if (gateway_session_id === session.id) return session.voice !== undefined
    if (worker === self) return this.#hasSocket(gateway_session_id)
    if (!webWorkers().includes(worker)) return false
    try {
      return await bus.request<boolean>(worker, "voiceHolder", gateway_session_id, answerWithinMs)
    } catch (error) {
      // The worker is dead or silent, but the asking session is connected.
      if (error instanceof WorkerGone || isTransient(error)) return false
      throw error
    }
  }

  #hasSocket(session: string): boolean {
    return this.#options.subscriptions.byId.get(session)?.connection !== undefined
  }

  async #tellUnchanged(session: Session): Promise<void> {
    const { ask } = this.#options
    const { user } = session
    const { call } = await ask(userActor, user, { type: "askForVoice" })
    const state = call === null ? null : (await ask(channelActor, call, { type: "readVoiceState", user })).state
    await this.#tell(session, voiceStateUpdate.name, () => state ?? absentObject(user, null))
  }

  /** Tells this session alone, after everything that its log holds by now. */
  async #tell(session: Session, name: string, d: () => object): Promise<void> {
    const { logs, self, subscriptions, clock, reader } = this.#options
    const end = (await logs.lastPosition(self)) ?? 0
    for (const until = clock.monotonic() + tellWithinMs; ; await clock.sleep(5)) {
      if (this.#stopped || subscriptions.byId.get(session.id) !== session) return
      if (session.state === "live" && subscriptions.position >= end) break
      if (clock.monotonic() > until) return
    }
    reader.tell(session, name, JSON.stringify(d()), subscriptions.placeOf(session))
  }
}
