import type { z } from "zod"
import type { Snowflake } from "../../contract/core/fields.ts"
import {
  VoiceAnswer,
  VoiceCandidate,
  VoiceConnect,
  VoiceOffer,
  VoiceQuality,
  VoiceSpeaking,
  VoiceStateRequest,
} from "../../contract/voice/voice.ts"
import { withDeafness } from "../../domain/voice/voice.ts"
import { FrameRefused } from "../protocol/frames.ts"
import type { SessionHandlers } from "./handlers.ts"
import type { Session } from "../state/session.ts"
import { VoiceCalls, type VoiceCallsOptions } from "./voice-calls.ts"
import { VoiceEndings, type VoiceEndingsOptions } from "./voice-endings.ts"
import { VoiceSignals, type VoiceSignalsOptions } from "./voice-signals.ts"

type VoiceOp =
  | "VOICE_STATE_UPDATE"
  | "VOICE_CONNECT"
  | "VOICE_DISCONNECT"
  | "VOICE_SDP_OFFER"
  | "VOICE_SDP_ANSWER"
  | "VOICE_ICE_CANDIDATE"
  | "VOICE_SPEAKING"
  | "VOICE_QUALITY"

export interface VoiceOptions {
  readonly calls: Omit<VoiceCallsOptions, "endings">
  readonly signals: VoiceSignalsOptions
  readonly endings: Omit<VoiceEndingsOptions, "page">
}

/** The requests of a session, handled one after another. */
interface Line {
  last: Promise<void>
  length: number
}

/**
 * Frames of one session that may wait; more are ignored. Signals have a lower bound, so that
 * leaving is never ignored because of them.
 */
const maxWaiting = 256
const maxSignalsWaiting = 64
/** Calls that a sweep reads in one page. */
const sweepPage = 10_000

/**
 * Voice on the gateway: ops 4 and 20 to 26. The owner of the server decides who is in which call.
 * This reads what clients ask for, and has it done in order. It keeps:
 *   CALL1  Requests of one session are handled in order.
 *   CALL2  A signal reaches only users who are, at that moment, in the channel of its sender's
 *       session.
 *   CALL3  A call ends with the session that holds it, on whichever worker that session was last.
 */
export class Voice {
  readonly #lines = new WeakMap<Session, Line>()
  readonly #calls: VoiceCalls
  readonly #signals: VoiceSignals
  readonly #endings: VoiceEndings

  readonly handlers: Pick<SessionHandlers, VoiceOp> = {
    VOICE_CONNECT: (session, d) => {
      const { channel_id } = parsed(VoiceConnect, d)
      return this.#inOrder(session, () => this.#calls.join(session, channel_id))
    },

    VOICE_DISCONNECT: session => this.#inOrder(session, () => this.#calls.leave(session)),

    VOICE_STATE_UPDATE: (session, d) => {
      const { channel_id, ...said } = parsed(VoiceStateRequest, d)
      if (channel_id === null) return this.#inOrder(session, () => this.#calls.leave(session))
      const flags = withDeafness({
        self_mute: said.self_mute ?? false,
        self_deaf: said.self_deaf ?? false,
        self_video: said.self_video ?? false,
        self_stream: said.self_stream ?? false,
      })
      return this.#inOrder(session, () => this.#calls.update(session, channel_id, flags))
    },

    VOICE_SDP_OFFER: (session, d) => {
      const { channel_id, sdp, type, ...to } = parsed(VoiceOffer, d)
      return this.#relay(session, "VOICE_SDP_OFFER", channel_id, to, session_id => ({
        channel_id,
        user_id: session.user,
        sdp,
        type: type ?? "offer",
        session_id,
      }))
    },

    VOICE_SDP_ANSWER: (session, d) => {
      const { channel_id, sdp, ...to } = parsed(VoiceAnswer, d)
      return this.#relay(session, "VOICE_SDP_ANSWER", channel_id, to, session_id => ({
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
      return this.#relay(session, "VOICE_ICE_CANDIDATE", channel_id, asked, () => ({
        channel_id,
        user_id: session.user,
        ...candidate,
      }))
    },

    VOICE_SPEAKING: (session, d) => {
      const asked = VoiceSpeaking.safeParse(d)
      if (!asked.success) return
      const { channel_id, speaking } = asked.data
      if (!this.#signals.maySpeak(session, channel_id)) return
      const speak = () => this.#signals.speak(session, channel_id, Boolean(speaking))
      return this.#inOrder(session, speak, maxSignalsWaiting)
    },

    VOICE_QUALITY: (session, d) => {
      const asked = VoiceQuality.safeParse(d)
      if (!asked.success || asked.data.channel_id !== session.voice?.channel) return
      this.#calls.hint(session, asked.data.quality_level, asked.data.target_bitrate)
    },
  }

  constructor({ calls, signals, endings }: VoiceOptions) {
    this.#endings = new VoiceEndings({ ...endings, page: sweepPage })
    this.#calls = new VoiceCalls({ ...calls, endings: this.#endings })
    this.#signals = new VoiceSignals(signals)
  }

  stop(): void {
    this.#calls.stop()
    this.#endings.stop()
  }

  /** The session has come here from another worker. CALL3 */
  moved(session: Session): void {
    this.#endings.moved(session)
  }

  /** The session has ended for good. CALL3 */
  ended(session: Session): void {
    if (session.voice) this.#endings.end(session.user, session.voice)
  }

  /** A worker was declared dead. CALL3 */
  noteDeath(): void {
    this.#endings.noteDeath()
  }

  /** Relays a signal to all others in the channel, or to the one user that it names. */
  #relay(
    session: Session,
    op: "VOICE_SDP_OFFER" | "VOICE_SDP_ANSWER" | "VOICE_ICE_CANDIDATE",
    channel: Snowflake,
    to: Targets,
    frame: (voiceSession: string) => object,
  ): Promise<void> | void {
    const target = to.target_user_id ?? to.peer_user_id ?? undefined
    if (target === undefined || target === session.user) return
    const relay = () => this.#signals.relay(session, op, channel, target, frame)
    return this.#inOrder(session, relay, maxSignalsWaiting)
  }

  /** CALL1 */
  #inOrder(session: Session, action: () => Promise<void>, most = maxWaiting): Promise<void> | void {
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
    if (!line) this.#lines.set(session, (line = { last: Promise.resolve(), length: 0 }))
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

/** Both spellings, because clients read either. */
function candidateOf(asked: VoiceCandidate) {
  const inner = typeof asked.candidate === "object" && asked.candidate !== null ? asked.candidate : undefined
  const text = inner ? inner.candidate : (asked.candidate as string | null)
  const mid = asked.sdp_mid ?? asked.sdpMid ?? inner?.sdp_mid ?? inner?.sdpMid ?? null
  const index = asked.sdp_mline_index ?? asked.sdpMLineIndex ?? inner?.sdp_mline_index ?? inner?.sdpMLineIndex ?? null
  return { candidate: text ?? "", sdp_mid: mid, sdp_mline_index: index, sdpMid: mid, sdpMLineIndex: index }
}
