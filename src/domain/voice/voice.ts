import type { Snowflake } from "../../contract/core/fields.ts"
import type { IceServer, Participant, VoiceState as ShownVoiceState } from "../../contract/voice/voice.ts"
import type { ChannelState } from "../core/channels.ts"
import { secondsAt } from "../../std/clock.ts"

/** Somebody in a voice channel. */
export interface VoiceState {
  user_id: Snowflake
  channel_id: Snowflake
  /** New with every join. */
  voice_session_id: string
  /** Holds the gateway session that holds the call. */
  worker: string
  gateway_session_id: string
  self_mute: boolean
  self_deaf: boolean
  self_video: boolean
  self_stream: boolean
  suppress: boolean
  /** Unix milliseconds at which this voice session began. */
  joined_at: number
}

/** A user's newest call, as their home knows it; times are Unix milliseconds. */
export interface CallState {
  server_id: Snowflake
  channel_id: Snowflake
  voice_session_id: string
  began_at: number
  /** When the allowance of the day ends it; null: never. */
  ends_at: number | null
}

/** What the operator decides about voice. The names are those of the configuration. */
export interface VoicePolicy {
  readonly voice_enabled: boolean
  readonly voice_stun_urls: readonly string[]
  readonly voice_turn_urls: readonly string[]
  readonly voice_turn_secret?: string | undefined
  readonly voice_turn_username?: string | undefined
  readonly voice_turn_credential?: string | undefined
  readonly voice_turn_ttl: number
  readonly voice_media_url?: string | undefined
}

/**
 * 32 hex digits. A user's ids rise with their joins, so that the newer of two is known: `order` is
 * an id that their home made when it was asked, `random` 16 hex digits.
 */
export const voiceSessionId = (order: Snowflake, random: string): string =>
  BigInt(order).toString(16).padStart(16, "0") + random

/**
 * Such an order, above that of a voice session before, whatever the clocks of those who made them
 * say.
 */
export function orderAbove(before: string | undefined, order: Snowflake): Snowflake {
  if (before === undefined) return order
  const next = BigInt(`0x${before.slice(0, 16)}`) + 1n
  return next > BigInt(order) ? next.toString() : order
}

/** The flags that a user sets for themselves. */
export type SelfFlags = Pick<VoiceState, "self_mute" | "self_deaf" | "self_video" | "self_stream">
export const noFlags: SelfFlags = { self_mute: false, self_deaf: false, self_video: false, self_stream: false }

export const hasSameFlags = (one: SelfFlags, other: SelfFlags): boolean =>
  one.self_mute === other.self_mute &&
  one.self_deaf === other.self_deaf &&
  one.self_video === other.self_video &&
  one.self_stream === other.self_stream

export const holdsVoice = (channel: Pick<ChannelState, "channel_type">) =>
  channel.channel_type === "voice" || channel.channel_type === "stage"

/** Who hears nothing says nothing. */
export const withDeafness = (flags: SelfFlags): SelfFlags => ({
  ...flags,
  self_mute: flags.self_mute || flags.self_deaf,
})

export const participantObject = (state: Readonly<VoiceState>): Participant => ({
  user_id: state.user_id,
  self_mute: state.self_mute,
  self_deaf: state.self_deaf,
  mute: false,
  deaf: false,
  suppress: state.suppress,
  self_video: state.self_video,
  self_stream: state.self_stream,
})

export const voiceStateObject = (server: Snowflake, state: Readonly<VoiceState>): ShownVoiceState => ({
  ...participantObject(state),
  channel_id: state.channel_id,
  guild_id: server,
  server_id: server,
})

/** Somebody who is in no voice channel of a server, or in none at all. */
export const absentObject = (user: Snowflake, server: Snowflake | null): ShownVoiceState => ({
  user_id: user,
  ...noFlags,
  mute: false,
  deaf: false,
  suppress: false,
  channel_id: null,
  guild_id: server,
  server_id: server,
})

const dayMs = 86_400_000
/** A day of UTC, counted from 1970. */
export const dayOf = (ms: number): number => Math.floor(ms / dayMs)

/** Seconds of each day between two moments; what has begun counts. */
export function secondsByDay(from: number, to: number): [day: number, seconds: number][] {
  const pieces: [number, number][] = []
  for (let at = from; at < to;) {
    const end = Math.min(to, (dayOf(at) + 1) * dayMs)
    pieces.push([dayOf(at), Math.ceil((end - at) / 1000)])
    at = end
  }
  return pieces
}

/**
 * When a user who talks from a moment on has used up the daily limit; every day begins with the
 * whole limit. Null: never.
 */
export function usedUpAt(allowance: number | null, usedOf: (day: number) => number, from: number): number | null {
  if (allowance === null) return null
  for (let day = dayOf(from), at = from; ; day++) {
    const midnight = (day + 1) * dayMs
    const end = at + Math.max(0, allowance - usedOf(day)) * 1000
    if (end < midnight || allowance * 1000 >= dayMs) return end
    at = midnight
  }
}

/**
 * STUN servers that a user's clients are told of, and with `call` TURN servers and credentials:
 * those relay traffic at the operator's cost, so they are for users in a call.
 */
export type IceServersFor = (user: Snowflake, use: "call" | "discovery") => IceServer[]

/**
 * TURN servers take a name that says when it ends, with a password that only who knows the secret
 * can make (the TURN REST API, draft-uberti-behave-turn-rest). `hmac` is HMAC-SHA1, in base64.
 */
export function iceServersFor(
  policy: VoicePolicy,
  reader: { readonly user: Snowflake; readonly isInCall: boolean; readonly nowMs: number },
  hmac: (secret: string, text: string) => string,
): IceServer[] {
  const { voice_turn_secret, voice_turn_username, voice_turn_credential, voice_turn_ttl } = policy
  const servers: IceServer[] = []
  if (policy.voice_stun_urls.length > 0) servers.push({ urls: [...policy.voice_stun_urls] })
  if (policy.voice_turn_urls.length === 0 || !reader.isInCall) return servers
  const urls = [...policy.voice_turn_urls]
  if (voice_turn_secret !== undefined) {
    const username = `${secondsAt(reader.nowMs) + voice_turn_ttl}:${reader.user}`
    servers.push({
      urls,
      username,
      credential: hmac(voice_turn_secret, username),
    })
  } else if (voice_turn_username !== undefined && voice_turn_credential !== undefined)
    servers.push({ urls, username: voice_turn_username, credential: voice_turn_credential })
  else servers.push({ urls })
  return servers
}

/** Where a client's media goes; null without a media server. */
export function mediaEndpoint({ voice_media_url }: VoicePolicy, channel: Snowflake, user: Snowflake): string | null {
  if (voice_media_url === undefined) return null
  const url = new URL(voice_media_url)
  url.searchParams.set("roomId", `voice_${channel}`)
  url.searchParams.set("peerId", `user_${user}`)
  return url.href
}

const bands: ReadonlyMap<string, readonly [lowest: number, highest: number]> = new Map([
  ["excellent", [128_000, 384_000]],
  ["good", [64_000, 128_000]],
  ["fair", [32_000, 64_000]],
  ["poor", [16_000, 32_000]],
  ["critical", [8_000, 16_000]],
])

/**
 * Bits per second for a client's line: what it asks for, within the band of the quality that it
 * names.
 */
export function hintedBitrate(level: string | null | undefined, bitrate: number | null | undefined): number {
  const [lowest, highest] = bands.get(level ?? "") ?? bands.get("good")!
  return Math.min(highest, Math.max(lowest, bitrate ?? highest))
}
