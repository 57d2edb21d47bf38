import { randomBytes } from "node:crypto"
import type { z } from "zod"
import { channelActor } from "../actors/channel.ts"
import type { Ask } from "../actors/runtime/actor.ts"
import { userActor } from "../actors/user.ts"
import type { Bus } from "../cluster/bus.ts"
import type { DeliveryLogs } from "../cluster/delivery-log.ts"
import { Failure } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { ServerOp } from "../contract/gateway-codes.ts"
import {
  VoiceAnswer,
  VoiceCandidate,
  VoiceConnect,
  VoiceOffer,
  VoiceQuality,
  voiceServerUpdate,
  VoiceSpeaking,
  VoiceStateRequest,
  voiceStateUpdate,
} from "../contract/voice.ts"
import type { Clock, Timer } from "../domain/clock.ts"
import {
  absentObject,
  hintedBitrate,
  mediaEndpoint,
  withDeafness,
  type IceServersFor,
  type SelfFlags,
  type VoicePolicy,
} from "../domain/voice.ts"
import type { Log } from "../observability/log.ts"
import type { Storage } from "../storage/storage.ts"
import type { HeldCall } from "../storage/voice.ts"
import { FrameRefused, plainFrame, type Encoding, type Payload } from "./frames.ts"
import type { Listeners } from "./listeners.ts"
import { isPassing } from "./patience.ts"
import type { Reader } from "./reader.ts"
import type { SessionHandlers } from "./requests.ts"
import type { Session } from "./session.ts"

type VoiceOp =
  | "VOICE_STATE_UPDATE"
  | "VOICE_CONNECT"
  | "VOICE_DISCONNECT"
  | "VOICE_SDP_OFFER"
  | "VOICE_SDP_ANSWER"
  | "VOICE_ICE_CANDIDATE"
  | "VOICE_SPEAKING"
  | "VOICE_QUALITY"

/** A call that a gateway session holds, as far as its worker knows. */
export interface VoiceHold {
  readonly channel: Snowflake
  readonly voiceSession: string
}

export interface VoiceOptions {
  readonly ask: Ask
  readonly bus: Bus
  readonly self: string
  /** Ids of the web workers that live, this one among them. */
  readonly webWorkers: () => readonly string[]
  readonly storage: Pick<Storage, "voice">
  readonly listeners: Listeners
  readonly reader: Pick<Reader, "tell">
  readonly logs: Pick<DeliveryLogs, "lastPosition">
  /** What others need to know of the session has changed. */
  readonly save: (session: Session) => void
  readonly policy: VoicePolicy
  readonly iceServers: IceServersFor
  readonly resumeWindow: number
  /** Unsent bytes of a socket. Above half of them it is relayed nothing. */
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

/** What a session has asked for and what is done one after another; and what only its worker needs to know. */
interface Line {
  last: Promise<void>
  length: number
  speakingSince: number
  spoken: number
  /** Bits per second that its client's line takes, as far as it said. */
  bitrate: number | undefined
}

/** The others in the channel, all of them. */
const everybody = Symbol("everybody")
/** Frames of one session that wait; what is more is ignored. Signals leave room for leaving. */
const mostWaiting = 256
const mostSignalsWaiting = 64
/** Frames about speaking of one session in a second. */
const mostSpoken = 10
/** Milliseconds that a session may take to come to the head of its log before it is told of its call. */
const tellWithin = 10_000
/** Calls that one sweep ends, and how many at a time. */
const sweepPage = 1_000
/** Calls of this worker that one sweep looks at. */
const mostHeld = 50_000
const sweptAtOnce = 16

/**
 * Voice on the gateway: ops 4 and 20 to 26. Who is where is decided by the server's home; this is who asks it, who sends
 * signals on to the workers that hold the others' sessions, and who ends the calls of sessions that are over. It keeps:
 *   G1  What one session asks is done in its order.
 *   G2  A signal reaches only who is in the channel, at that moment, that its sender's session is in.
 *   G3  A call ends with the session that holds it, whichever worker that has last lived on.
 */
export class Voice {
  readonly #options: VoiceOptions
  readonly #lines = new WeakMap<Session, Line>()
  readonly #sweeper: Timer
  /** Calls whose sessions are not here, with when that was first seen. */
  #missing: ReadonlyMap<string, number> = new Map()
  #stopped = false

  readonly handlers: Pick<SessionHandlers, VoiceOp> = {
    VOICE_CONNECT: (session, d) => {
      const { channel_id } = parsed(VoiceConnect, d)
      return this.#inOrder(session, () => this.#join(session, channel_id))
    },

    VOICE_DISCONNECT: session => this.#inOrder(session, () => this.#leave(session)),

    VOICE_STATE_UPDATE: (session, d) => {
      const { channel_id, ...said } = parsed(VoiceStateRequest, d)
      if (channel_id === null) return this.#inOrder(session, () => this.#leave(session))
      const flags = withDeafness({
        self_mute: said.self_mute ?? false,
        self_deaf: said.self_deaf ?? false,
        self_video: said.self_video ?? false,
        self_stream: said.self_stream ?? false,
      })
      return this.#inOrder(session, () => this.#update(session, channel_id, flags))
    },

    VOICE_SDP_OFFER: (session, d) => {
      const { channel_id, sdp, type, ...to } = parsed(VoiceOffer, d)
      return this.#relay(session, "VOICE_SDP_OFFER", channel_id, targetOf(to), session_id => ({
        channel_id,
        user_id: session.user,
        sdp,
        type: type ?? "offer",
        session_id,
      }))
    },

    VOICE_SDP_ANSWER: (session, d) => {
      const { channel_id, sdp, ...to } = parsed(VoiceAnswer, d)
      return this.#relay(session, "VOICE_SDP_ANSWER", channel_id, targetOf(to), session_id => ({
        channel_id,
        user_id: session.user,
        type: "answer",
        sdp,
        session_id,
      }))
    },

    VOICE_ICE_CANDIDATE: (session, d) => {
      const asked = parsed(VoiceCandidate, d)
      const { channel_id } = asked
      const candidate = candidateOf(asked)
      return this.#relay(session, "VOICE_ICE_CANDIDATE", channel_id, targetOf(asked), () => ({
        channel_id,
        user_id: session.user,
        ...candidate,
      }))
    },

    VOICE_SPEAKING: (session, d) => {
      const asked = VoiceSpeaking.safeParse(d)
      if (!asked.success || !this.#maySpeak(session)) return
      const { channel_id } = asked.data
      const speaking = Boolean(asked.data.speaking)
      return this.#relay(session, "VOICE_SPEAKING", channel_id, everybody, () => ({
        channel_id,
        user_id: session.user,
        speaking,
      }))
    },

    VOICE_QUALITY: (session, d) => {
      const asked = VoiceQuality.safeParse(d)
      if (!asked.success || asked.data.channel_id !== session.voice?.channel) return
      this.#lineOf(session).bitrate = hintedBitrate(asked.data.quality_level, asked.data.target_bitrate)
    },
  }

  constructor(options: VoiceOptions) {
    this.#options = options
    options.bus.onNotice<Relay>("voiceRelay", relay => this.#deliver(relay))
    this.#sweeper = options.clock.every(Math.ceil(options.resumeWindow / 2), () => this.#sweep())
  }

  stop(): void {
    this.#stopped = true
    this.#sweeper.stop()
  }

  /** The session has come here from another worker. G3 */
  moved(session: Session): void {
    const { voice } = session
    if (!voice) return
    const { ask, self: worker } = this.#options
    const { channel, voiceSession: voice_session_id } = voice
    this.#untilDone(
      "voice not moved",
      () => this.#options.listeners.byId.get(session.id) === session,
      async () => {
        await ask(channelActor, channel, { type: "holdVoice", user: session.user, voice_session_id, worker })
      },
    )
  }

  /** The session is over for good. G3 */
  ended(session: Session): void {
    if (session.voice) this.#end(session.user, session.voice)
  }

  /** Sessions of a dead worker that nobody resumes end with the resume window. */
  noteDeath(): void {
    const { clock, resumeWindow } = this.#options
    clock.after(resumeWindow + 1_000, () => this.#sweep())
  }

  // Joining and leaving.

  async #join(session: Session, channel: Snowflake, flags?: SelfFlags): Promise<void> {
    const { ask, self: worker, policy, iceServers, listeners } = this.#options
    const user = session.user
    const voice_session_id = randomBytes(16).toString("hex")
    const { allowed } = await ask(userActor, user, { type: "askForVoice" })
    const hold = { channel, voiceSession: voice_session_id }
    let joined: { server_id: Snowflake; bitrate: number } | null = null
    if (allowed && policy.voice_enabled)
      try {
        const gateway_session_id = session.id
        const asked = { user, voice_session_id, worker, gateway_session_id, flags }
        joined = await ask(channelActor, channel, { type: "joinVoice", ...asked })
      } catch (error) {
        // It may have been done; nobody waits for it any longer.
        if (isPassing(error)) this.#end(user, hold)
        if (isPassing(error) || !(error instanceof Failure) || error.code === "internal") throw error
      }
    if (!joined) return this.#tellUnchanged(session)
    if (listeners.byId.get(session.id) !== session) return this.#end(user, hold)
    session.voice = hold
    this.#options.save(session)
    const hinted = this.#lineOf(session).bitrate
    await this.#tell(session, voiceServerUpdate.name, () => ({
      endpoint: mediaEndpoint(policy, channel, user),
      token: randomBytes(32).toString("base64url"),
      ice_servers: iceServers(user),
      session_id: voice_session_id,
      channel_id: channel,
      user_id: user,
      server_id: joined.server_id,
      guild_id: joined.server_id,
      bitrate: Math.min(joined.bitrate, hinted ?? joined.bitrate),
    }))
  }

  async #update(session: Session, channel: Snowflake, flags: SelfFlags): Promise<void> {
    const { ask } = this.#options
    try {
      const { isIn } = await ask(channelActor, channel, { type: "setVoiceFlags", user: session.user, flags })
      if (isIn) return
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "channel_not_found") throw error
    }
    await this.#join(session, channel, flags)
  }

  /** Whichever of the user's sessions holds the call. */
  async #leave(session: Session): Promise<void> {
    const { ask } = this.#options
    const { user, voice } = session
    session.voice = undefined
    if (voice) {
      this.#options.save(session)
      if (await this.#leaveAt(voice.channel, user)) return
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

  async #tellUnchanged(session: Session): Promise<void> {
    const { ask } = this.#options
    const { user } = session
    const { call } = await ask(userActor, user, { type: "askForVoice" })
    const state = call === null ? null : (await ask(channelActor, call, { type: "readVoiceState", user })).state
    await this.#tell(session, voiceStateUpdate.name, () => state ?? absentObject(user, null))
  }

  /** To this session alone, after everything that its log holds by now. */
  async #tell(session: Session, name: string, d: () => object): Promise<void> {
    const { logs, self, listeners, clock, reader } = this.#options
    const end = (await logs.lastPosition(self)) ?? 0
    for (const until = clock.monotonic() + tellWithin; ; await clock.sleep(5)) {
      if (this.#stopped || listeners.byId.get(session.id) !== session) return
      if (session.state === "live" && listeners.position >= end) break
      if (clock.monotonic() > until) return
    }
    reader.tell(session, name, JSON.stringify(d()), listeners.position)
  }

  #end(user: Snowflake, { channel, voiceSession }: VoiceHold): void {
    const { ask, self: worker } = this.#options
    this.#untilDone(
      "call not ended",
      () => true,
      async () => {
        await ask(channelActor, channel, { type: "endVoice", user, voice_session_id: voiceSession, worker })
      },
    )
  }

  /** Tries until it is answered, whatever the answer, or nobody wants it any longer. */
  #untilDone(what: string, isWanted: () => boolean, action: () => Promise<void>): void {
    const { clock, log } = this.#options
    const go = async () => {
      for (let attempt = 0; !this.#stopped && isWanted(); attempt++) {
        try {
          return await action()
        } catch (error) {
          if (!isPassing(error)) throw error
          await clock.sleep(Math.min(100 * 2 ** attempt, 5_000))
        }
      }
    }
    go().catch((error: unknown) => {
      // The channel is gone, and every call in it.
      if (!(error instanceof Failure) || error.code === "internal") log.warn({ err: error }, what)
    })
  }

  /** PostgreSQL knows every call: what nobody ends by itself is found there. G3 */
  #sweep(): void {
    const { webWorkers, self, log } = this.#options
    if (this.#stopped) return
    const sweeps = [this.#sweepOwn()]
    // One worker looks after the dead; another does no harm.
    if (webWorkers().toSorted()[0] === self) sweeps.push(this.#sweepDead())
    for (const sweep of sweeps)
      sweep.catch((error: unknown) => {
        // The next sweep finds them again.
        if (!this.#stopped && !isPassing(error)) log.warn({ err: error }, "calls that are over not ended")
      })
  }

  /** Calls that a dead worker held and nobody resumed. */
  async #sweepDead(): Promise<void> {
    const { storage, resumeWindow } = this.#options
    await this.#endAll(await storage.voice.leftBehind(resumeWindow, sweepPage))
  }

  /**
   * Calls of sessions that are not here: another worker claimed one and never had it, or a join was done though it was not
   * answered in time. It takes two resume windows until nobody can come back.
   */
  async #sweepOwn(): Promise<void> {
    const { storage, self, listeners, clock, resumeWindow } = this.#options
    const held = await storage.voice.heldBy(self, mostHeld)
    const now = clock.monotonic()
    const missing = new Map<string, number>()
    for (const { gateway_session_id, voice_session_id } of held)
      if (listeners.byId.get(gateway_session_id)?.voice?.voiceSession !== voice_session_id)
        missing.set(voice_session_id, this.#missing.get(voice_session_id) ?? now)
    this.#missing = missing
    await this.#endAll(
      held.filter(({ voice_session_id }) => (missing.get(voice_session_id) ?? now) <= now - 2 * resumeWindow),
    )
  }

  async #endAll(calls: readonly HeldCall[]): Promise<void> {
    const left = calls.values()
    const ending = Array.from({ length: sweptAtOnce }, async () => {
      for (const { user_id: user, channel_id, voice_session_id, worker } of left) {
        if (this.#stopped) return
        await this.#options.ask(channelActor, channel_id, { type: "endVoice", user, voice_session_id, worker })
      }
    })
    const failed = (await Promise.allSettled(ending)).find(({ status }) => status === "rejected")
    if (failed?.status === "rejected") throw failed.reason
  }

  // Signals.

  #relay(
    session: Session,
    op: ServerOp,
    channel: Snowflake,
    target: Snowflake | typeof everybody | undefined,
    frame: (voiceSession: string) => object,
  ): Promise<void> | void {
    if (target === undefined || target === session.user) return
    return this.#inOrder(
      session,
      async () => {
        if (session.voice?.channel !== channel) return
        const { ask, bus, self } = this.#options
        const found = await ask(channelActor, channel, {
          type: "findVoice",
          user: session.user,
          gateway_session_id: session.id,
          target: target === everybody ? undefined : target,
        }) // G2
        if (!found) return
        const d = frame(found.voice_session_id)
        for (const [worker, sessions] of found.holders)
          if (worker === self) this.#deliver({ sessions, op, d })
          else bus.notify(worker, "voiceRelay", { sessions, op, d } satisfies Relay)
      },
      mostSignalsWaiting,
    )
  }

  #deliver({ sessions, op, d }: Relay): void {
    const { listeners, budget } = this.#options
    const made = new Map<Encoding, Payload>()
    for (const id of sessions) {
      const connection = listeners.byId.get(id)?.connection
      // Who does not read what he is sent is sent no signals.
      if (!connection || connection.closed || connection.ws.getBufferedAmount() > budget / 2) continue
      const { encoding } = connection
      let payload = made.get(encoding)
      if (payload === undefined) made.set(encoding, (payload = plainFrame(encoding, op, d)))
      listeners.sendPayload(connection, payload)
    }
  }

  #maySpeak(session: Session): boolean {
    const line = this.#lineOf(session)
    const now = this.#options.clock.monotonic()
    if (now - line.speakingSince >= 1_000) {
      line.speakingSince = now
      line.spoken = 0
    }
    return ++line.spoken <= mostSpoken || !this.#options.limited
  }

  /** G1 */
  #inOrder(session: Session, action: () => Promise<void>, most = mostWaiting): Promise<void> | void {
    const line = this.#lineOf(session)
    if (line.length >= most) return
    line.length++
    const done = line.last.then(action)
    line.last = done
      .catch(() => {})
      .then(() => {
        line.length--
      })
    return done
  }

  #lineOf(session: Session): Line {
    let line = this.#lines.get(session)
    if (!line) {
      line = { last: Promise.resolve(), length: 0, speakingSince: -Infinity, spoken: 0, bitrate: undefined }
      this.#lines.set(session, line)
    }
    return line
  }
}

function parsed<S extends z.ZodType>(schema: S, d: unknown): z.output<S> {
  const asked = schema.safeParse(d)
  if (!asked.success) throw new FrameRefused("decode_error")
  return asked.data
}

interface Targets {
  readonly target_user_id?: Snowflake | null | undefined
  readonly peer_user_id?: Snowflake | null | undefined
}
const targetOf = ({ target_user_id, peer_user_id }: Targets) => target_user_id ?? peer_user_id ?? undefined

/** In both spellings, because clients read either. */
function candidateOf(asked: VoiceCandidate) {
  const inner = typeof asked.candidate === "object" && asked.candidate !== null ? asked.candidate : undefined
  const text = inner ? inner.candidate : (asked.candidate as string | null)
  const mid = asked.sdp_mid ?? asked.sdpMid ?? inner?.sdp_mid ?? inner?.sdpMid ?? null
  const index = asked.sdp_mline_index ?? asked.sdpMLineIndex ?? inner?.sdp_mline_index ?? inner?.sdpMLineIndex ?? null
  return { candidate: text ?? "", sdp_mid: mid, sdp_mline_index: index, sdpMid: mid, sdpMLineIndex: index }
}
