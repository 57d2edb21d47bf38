import { z } from "zod"
import { Snowflake } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

/** An id in a frame: a string of digits, or an integer whose digits are exact. */
const Id = z.union([z.string(), z.int()]).transform(String).pipe(Snowflake)
const Flag = z.boolean().nullish()
const Target = Id.nullish()

/** `d` of VOICE_CONNECT (op 20). */
export const VoiceConnect = z.object({ channel_id: Id })

/** `d` of VOICE_STATE_UPDATE (op 4). `channel_id` null leaves; flags that are left out are false. */
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
  type: z.enum(["offer", "answer", "pranswer", "rollback"]).nullish().describe("`offer` when left out"),
  target_user_id: Target,
  peer_user_id: Target.describe("Alias of `target_user_id`, which wins"),
})

/** `d` of VOICE_SDP_ANSWER (op 23). */
export const VoiceAnswer = z.object({ channel_id: Id, sdp: Sdp, target_user_id: Target, peer_user_id: Target })

const CandidateText = z.string().max(limits.candidateCharacters).nullable()
const Mid = z.string().max(256).nullish()
const LineIndex = z.int().min(0).max(65_535).nullish()
const candidatePlace = { sdp_mid: Mid, sdpMid: Mid, sdp_mline_index: LineIndex, sdpMLineIndex: LineIndex }

/** `d` of VOICE_ICE_CANDIDATE (op 24), as text or as a browser's object. An empty candidate or null says that no more follow. */
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

const from = { channel_id: Snowflake, user_id: Snowflake.describe("Who sent it") }
const session_id = z.string().describe("The voice session of who sent it")

/** `d` of the frames that others in the channel are sent. */
export const RelayedOffer = z.object({ ...from, sdp: z.string(), type: z.string(), session_id })
export const RelayedAnswer = z.object({ ...from, type: z.literal("answer"), sdp: z.string(), session_id })
export const RelayedCandidate = z.object({
  ...from,
  candidate: z.string().describe("Empty: no more follow"),
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
    suppress: z.boolean().describe("In a stage channel: listens only"),
    self_video: z.boolean(),
    self_stream: z.boolean(),
  })
  .meta({ id: "VoiceParticipant" })
export type Participant = z.infer<typeof Participant>

export const VoiceState = Participant.extend({
  channel_id: Snowflake.nullable().describe("null: in no voice channel of this server"),
  guild_id: Snowflake.nullable(),
  server_id: Snowflake.nullable().describe(
    "null: in no voice channel at all, as the answer to a join that was refused",
  ),
})
export type VoiceState = z.infer<typeof VoiceState>

export const getIceServers = defineRoute({
  method: "GET",
  path: "/voice/ice-servers",
  summary: "STUN and TURN servers for calls, with credentials of the caller's where TURN needs some",
  tag: "Voice",
  auth: "user",
  reply: z.object({ ice_servers: z.array(IceServer) }),
  fails: [],
})

export const getVoiceInfo = defineRoute({
  method: "GET",
  path: "/voice/channels/:channel_id/info",
  summary: "Who is in a voice channel, and what a client needs to join",
  tag: "Voice",
  auth: "user",
  permission: ["channels.view"],
  params: z.object({ channel_id: Snowflake }),
  reply: z.object({
    channel_id: Snowflake,
    session_id: z.string().describe("New with every call; joining gives one of its own"),
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
    "Somebody joined a voice channel, moved, changed his flags or left; also what whoever was refused a join is told of himself",
  data: VoiceState,
})

export const voiceServerUpdate = defineEvent({
  name: "VOICE_SERVER_UPDATE",
  intent: null,
  delivery: "ephemeral",
  summary: "The connection that joined holds the call from now on; after VOICE_STATE_UPDATE, and only to it",
  data: z.object({
    endpoint: z.string().nullable().describe("The media server; null without one: peers speak to one another"),
    token: z.string(),
    ice_servers: z.array(IceServer),
    session_id: z.string().describe("The voice session, 32 hex digits"),
    channel_id: Snowflake,
    user_id: Snowflake,
    server_id: Snowflake,
    guild_id: Snowflake,
    bitrate: z.int(),
  }),
})
