import { z } from "zod"
import { Snowflake } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

/** An id in a frame: a string of digits, or an integer whose digits are exact. */
const Id = z.union([z.string(), z.int()]).transform(String).pipe(Snowflake)
const Flag = z.boolean().nullish()
const Target = Id.nullish()

/** `d` of VOICE_CONNECT (op 20). */
export const VoiceConnect = z.object({ channel_id: Id })

/**
 * `d` of VOICE_STATE_UPDATE (op 4). `channel_id` null leaves; flags that are left out are false.
 */
export const VoiceStateRequest = z.object({
  channel_id: z.union([Id, z.null()]),
  self_mute: Flag,
  self_deaf: Flag,
  self_video: Flag,
  self_stream: Flag,
})

const Sdp = z.string().max(limits.sdpCharacters)

/** `d` of VOICE_SDP_OFFER (op 22). Without a target nobody gets it. */
export const VoiceOffer = z.object({
  channel_id: Id,
  sdp: Sdp,
  type: z.enum(["offer", "answer", "pranswer", "rollback"]).nullish().describe("Default `offer`"),
  target_user_id: Target,
  peer_user_id: Target.describe("Alias of `target_user_id`. If both are given, `target_user_id` counts"),
})

/** `d` of VOICE_SDP_ANSWER (op 23). */
export const VoiceAnswer = z.object({ channel_id: Id, sdp: Sdp, target_user_id: Target, peer_user_id: Target })

const CandidateText = z.string().max(limits.candidateCharacters).nullable()
const Mid = z.string().max(256).nullish()
const LineIndex = z.int().min(0).max(65_535).nullish()
const candidatePlace = { sdp_mid: Mid, sdpMid: Mid, sdp_mline_index: LineIndex, sdpMLineIndex: LineIndex }

/**
 * `d` of VOICE_ICE_CANDIDATE (op 24), as text or as a browser's object. An empty candidate or null
 * says that no more follow.
 */
export const VoiceCandidate = z.object({
  channel_id: Id,
  candidate: z.union([CandidateText, z.object({ candidate: CandidateText.optional(), ...candidatePlace })]),
  ...candidatePlace,
  target_user_id: Target,
  peer_user_id: Target,
})
export type VoiceCandidate = z.output<typeof VoiceCandidate>

/** `d` of VOICE_SPEAKING (op 25). */
export const VoiceSpeaking = z.object({ channel_id: Id, speaking: z.union([z.boolean(), z.int()]) })

/** `d` of VOICE_QUALITY (op 26). */
export const VoiceQuality = z.object({
  channel_id: Id,
  target_bitrate: z.int().nullish(),
  quality_level: z.string().max(64).nullish(),
})

const from = { channel_id: Snowflake, user_id: Snowflake.describe("The sender") }
const session_id = z.string().describe("The voice session of the sender")

/** `d` of the frames that others in the channel are sent. */
export const RelayedOffer = z.object({ ...from, sdp: z.string(), type: z.string(), session_id })
export const RelayedAnswer = z.object({ ...from, type: z.literal("answer"), sdp: z.string(), session_id })
export const RelayedCandidate = z.object({
  ...from,
  candidate: z.string().describe("Empty string: no more candidates"),
  sdp_mid: z.string().nullable(),
  sdp_mline_index: z.int().nullable(),
  sdpMid: z.string().nullable(),
  sdpMLineIndex: z.int().nullable(),
})
export const RelayedSpeaking = z.object({ ...from, speaking: z.boolean() })

export const IceServer = z
  .object({ urls: z.array(z.string()), username: z.string().optional(), credential: z.string().optional() })
  .meta({ id: "IceServer" })
export type IceServer = z.infer<typeof IceServer>

/** `mute` and `deaf` are the server's doing, the others the user's own. */
export const Participant = z
  .object({
    user_id: Snowflake,
    self_mute: z.boolean(),
    self_deaf: z.boolean(),
    mute: z.boolean(),
    deaf: z.boolean(),
    suppress: z.boolean().describe("In a stage channel: whether the user only listens"),
    self_video: z.boolean(),
    self_stream: z.boolean(),
  })
  .meta({ id: "VoiceParticipant" })
export type Participant = z.infer<typeof Participant>

export const VoiceState = Participant.extend({
  channel_id: Snowflake.nullable().describe("Null: not in a voice channel of this server"),
  guild_id: Snowflake.nullable(),
  server_id: Snowflake.nullable().describe("Null: not in a voice channel. This is the response to a refused join"),
})
export type VoiceState = z.infer<typeof VoiceState>

export const getIceServers = defineRoute({
  method: "GET",
  path: "/voice/ice-servers",
  summary:
    "Get the STUN servers for calls; a caller who is in a call also gets the TURN servers, with credentials that end after some minutes",
  tag: "Voice",
  auth: "user",
  reply: z.object({ ice_servers: z.array(IceServer) }),
  fails: [],
})

export const getVoiceInfo = defineRoute({
  method: "GET",
  path: "/voice/channels/:channel_id/info",
  summary: "Get the participants of a voice channel and the data a client needs to join",
  tag: "Voice",
  auth: "user",
  permission: ["channels.view"],
  params: z.object({ channel_id: Snowflake }),
  reply: z.object({
    channel_id: Snowflake,
    session_id: z.string().describe("Each call returns a new id. Joining creates its own"),
    ice_servers: z.array(IceServer),
    bitrate: z.int(),
    participants: z.array(Participant),
  }),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "not_a_voice_channel"],
})

export const routes = { getIceServers, getVoiceInfo }

export const voiceStateUpdate = defineEvent({
  name: "VOICE_STATE_UPDATE",
  intent: "GUILD_VOICE_STATES",
  delivery: "stored",
  summary:
    "A user joined, moved between or left voice channels, or changed their flags. A user whose join was refused receives it too",
  data: VoiceState,
})

export const voiceServerUpdate = defineEvent({
  name: "VOICE_SERVER_UPDATE",
  intent: null,
  delivery: "ephemeral",
  summary: "This connection holds the call from now on. Sent after VOICE_STATE_UPDATE, only to this connection",
  data: z.object({
    endpoint: z.string().nullable().describe("The media server. Null if there is none: clients connect to each other"),
    token: z.string(),
    ice_servers: z.array(IceServer),
    session_id: z.string().describe("The id of the voice session, 32 hexadecimal digits"),
    channel_id: Snowflake,
    user_id: Snowflake,
    server_id: Snowflake,
    guild_id: Snowflake,
    bitrate: z.int(),
  }),
})
