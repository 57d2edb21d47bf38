import { randomBytes } from "node:crypto"
import { channelActor } from "../../actors/channel.ts"
import { userActor } from "../../actors/user.ts"
import { unavailable } from "../../contract/core/errors.ts"
import type { routes } from "../../contract/voice/voice.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy, Uses } from "../shared/http.ts"
import type { IceServersFor } from "../../domain/voice/voice.ts"

type VoiceNeeds = Http & Policy<{ readonly voice_enabled: boolean }> & Uses<{ readonly iceServers: IceServersFor }>

export const voice = ({ ask, policy, integrations: { iceServers } }: VoiceNeeds): Handlers<typeof routes> => ({
  async getIceServers({ caller: { user_id } }) {
    if (!policy.voice_enabled) throw unavailable("voice is switched off", switchedOff)
    const { call } = await ask(userActor, user_id, { type: "askForVoice" })
    return { ice_servers: iceServers(user_id, call === null ? "discovery" : "call") }
  },

  async getVoiceInfo({ params: { channel_id }, caller }) {
    if (!policy.voice_enabled) throw unavailable("voice is switched off", switchedOff)
    const { bitrate, participants } = await ask(channelActor, channel_id, { type: "readVoice", user: caller.user_id })
    const isInCall = participants.some(({ user_id }) => user_id === caller.user_id)
    const ice_servers = iceServers(caller.user_id, isInCall ? "call" : "discovery")
    return { channel_id, session_id: randomBytes(16).toString("hex"), ice_servers, bitrate, participants }
  },
})

/** Seconds until it is worth asking again: the operator has to start the server anew. */
const switchedOff = 60
