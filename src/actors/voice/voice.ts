import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { expireVoice } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import { voiceStateUpdate, type Participant, type VoiceState as ShownVoiceState } from "../../contract/voice/voice.ts"
import { eitherViewersOf, userOnly, viewersOf } from "../../domain/core/audience.ts"
import { tierAt } from "../../domain/accounts/accounts.ts"
import { secondsAt } from "../../std/clock.ts"
import { voiceAllowance } from "../../domain/accounts/tiers.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import {
  type CallState,
  type VoiceState,
  absentObject,
  dayOf,
  hasSameFlags,
  holdsVoice,
  noFlags,
  orderAbove,
  participantObject,
  secondsByDay,
  usedUpAt,
  voiceStateObject,
  withDeafness,
  type SelfFlags,
} from "../../domain/voice/voice.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import {
  addVoiceUsage,
  deleteVoiceCall,
  deleteVoiceState,
  putVoiceCall,
  putVoiceState,
} from "../../storage/voice/voice.ts"
import { Access, accessOf, mayView } from "../shared/access.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { tellsOf } from "../shared/tells.ts"

/**
 * Voice. A server's home says who is in its channels, a user's home which of their calls is the
 * newest and how much of the day's limit they have used. They keep:
 *   VOICE1  A user is in at most one channel of a server and, soon after the last join, in one
 *       channel overall: the one joined last, in whatever order the joins arrive.
 *   VOICE2  Every second in a channel is counted once, however its call ends.
 *   VOICE3  A call ends by its voice session: a late message ends nothing else.
 */
export interface VoiceChannelCommands {
  /**
   * Joins, moves here, or begins a new voice session; null: the channel is full. Flags that are not
   * given stay.
   */
  joinVoice(input: {
    user: Snowflake
    voice_session_id: string
    worker: string
    gateway_session_id: string
    flags?: SelfFlags | undefined
  }): { server_id: Snowflake; bitrate: number } | null
  /** Null: the user is not in this channel. */
  setVoiceFlags(input: { user: Snowflake; flags: SelfFlags }): {
    holder: { worker: string; gateway_session_id: string } | null
  }
  /** Leaves the voice channel of the server that the user is in. */
  leaveVoice(input: { user: Snowflake }): { left: boolean }
  /** VOICE3; with `worker`, only while that worker holds it. */
  endVoice(input: { user: Snowflake; voice_session_id: string; worker?: string | undefined }): { ended: boolean }
  /** The gateway session that holds the call lives on another worker now. */
  holdVoice(input: { user: Snowflake; voice_session_id: string; worker: string }): { held: boolean }
  /** Null: not in a voice channel of this server. */
  readVoiceState(input: { user: Snowflake }): { state: ShownVoiceState | null }
  readVoice(input: { user: Snowflake }): { bitrate: number; participants: Participant[] }
  /**
   * Where the gateway sessions of one other in this channel are, or of all; null unless the asking
   * session holds a call here and there is somebody.
   */
  findVoice(input: { user: Snowflake; gateway_session_id: string; target?: Snowflake | undefined }): {
    voice_session_id: string
    holders: [worker: string, sessions: string[]][]
  } | null
}

export interface VoiceServerCommands {
  /** Sent by the server's own home: a user who may not stay in their voice channel leaves it. */
  recheckVoice(input: { users: readonly Snowflake[] }): void
}

export interface VoiceUserCommands {
  /**
   * Whether anything is left of the user's daily limit; the channel of their newest call; and what
   * makes a voice session newer than those before.
   */
  askForVoice(input: object): { allowed: boolean; call: Snowflake | null; order: Snowflake }
  /** Told by a server's home after its commit. */
  voiceChanged(input: { ended?: Stint | undefined; began?: Omit<CallState, "ends_at"> | undefined }): void
  /** A server's home tells this when it knows nothing of the call. */
  forgetCall(input: { voice_session_id: string }): void
  /** Ends the call if the day's allowance is used up; says when to look again if it is not. */
  expireVoice(input: object): { ended: boolean }
}

/** The time that a user spent in voice: its beginning and end in Unix milliseconds. */
interface Stint {
  voice_session_id: string
  from: number
  to: number
}

type Server = Readonlied<ServerState>
type Voice = Readonlied<VoiceState>

const tellUser = <K extends keyof VoiceUserCommands>(
  user: Snowflake,
  type: K,
  input: Parameters<VoiceUserCommands[K]>[0],
) => tellsOf<VoiceUserCommands>("user")<K>(user, { type, ...input } as never)
const tellEnd = (
  { channel_id, voice_session_id }: Pick<CallState, "channel_id" | "voice_session_id">,
  user: Snowflake,
) =>
  tellsOf<VoiceChannelCommands>("channel")(channel_id, {
    type: "endVoice",
    user,
    voice_session_id,
  })

const stint = ({ voice_session_id, joined_at }: Voice, now: number): Stint => ({
  voice_session_id,
  from: joined_at,
  to: Math.max(joined_at, now),
})

/**
 * The end of a user's call: its row, who is told, and how much of the day they have used. VOICE2
 */
export function voiceEnding(server: Server, state: Voice, now: number) {
  const { user_id, channel_id } = state
  const absent = absentObject(user_id, server.id)
  const caller = memberFacts.of(server).get(user_id)
  const seesItself = caller && mayView(server, channel_id, caller)
  return {
    apply: (draft: ServerState) => {
      draft.voice.delete(user_id)
    },
    write: [deleteVoiceState({ server_id: server.id, user_id })],
    publish: [
      voiceStateUpdate.to(viewersOf(server.id, channel_id), absent),
      ...(seesItself ? [] : [voiceStateUpdate.to(userOnly(user_id), absent)]),
      tellUser(user_id, "voiceChanged", { ended: stint(state, now) }),
    ],
  }
}

/**
 * Ends the calls of a server that is deleted. Users in a call learn it from the event of the
 * deletion.
 */
export const voiceOver = (server: Server, now: number): Publication[] =>
  [...server.voice.values()].map(state => tellUser(state.user_id, "voiceChanged", { ended: stint(state, now) }))

/** Members that one turn looks at. */
const lookupBatchSize = 100

/**
 * After a change of permissions the users in voice whom it concerns are checked, in turns of their
 * own.
 */
export function voiceRechecks(server: Server, isConcerned: (state: Voice) => boolean = () => true): Publication[] {
  const users = [...server.voice.values()].filter(state => isConcerned(state)).map(({ user_id }) => user_id)
  const rechecks: Publication[] = []
  for (let i = 0; i < users.length; i += lookupBatchSize)
    rechecks.push(
      tellsOf<VoiceServerCommands>("server")(server.id, {
        type: "recheckVoice",
        users: users.slice(i, i + lookupBatchSize),
      }),
    )
  return rechecks
}

const mayStay = (
  server: Server,
  state: Voice,
  caller: Readonlied<MemberState> | null | undefined,
  now: number,
): boolean =>
  caller !== null && caller !== undefined && new Access(server, state.channel_id, caller, now).sees("voice.connect")

/** Whether a channel is full. */
function isFull(server: Server, channel: Readonlied<ChannelState>): boolean {
  if (channel.user_limit === 0) return false
  let present = 0
  for (const { channel_id } of server.voice.values()) if (channel_id === channel.id) present++
  return present >= channel.user_limit
}

export const voiceChannelCommands: ActorKind<ServerState, ChannelState, VoiceChannelCommands>["commands"] = {
  joinVoice: {
    needs: ({ user }) => [member(user)],
    turn({ state: channel, home: server, now }, { user, voice_session_id, worker, gateway_session_id, flags }) {
      const access = accessOf(server, channel.id, user, now)
      if (!holdsVoice(channel)) throw fail("not_a_voice_channel")
      access.require("voice.connect")
      const before = server.voice.get(user)
      const stays = before?.channel_id === channel.id
      if (!stays && isFull(server, channel) && !access.may("voice.move_members")) return { reply: null }
      if (!before && server.voice.size >= limits.voiceMembersPerServer) return { reply: null }
      const joined: VoiceState = {
        ...noFlags,
        ...before,
        ...(flags && withDeafness(flags)),
        user_id: user,
        channel_id: channel.id,
        voice_session_id,
        worker,
        gateway_session_id,
        suppress: stays ? before.suppress : channel.channel_type === "stage",
        joined_at: now,
      }
      const audience =
        before && !stays ? eitherViewersOf(server.id, channel.id, before.channel_id) : viewersOf(server.id, channel.id)
      return {
        apply: draft => {
          draft.voice.set(user, joined)
        },
        write: [putVoiceState({ ...joined, server_id: server.id })],
        publish: [
          ...(stays && hasSameFlags(before, joined)
            ? []
            : [voiceStateUpdate.to(audience, voiceStateObject(server.id, joined))]),
          tellUser(user, "voiceChanged", {
            ended: before && stint(before, now),
            began: { server_id: server.id, channel_id: channel.id, voice_session_id, began_at: now },
          }),
        ],
        reply: { server_id: server.id, bitrate: channel.bitrate },
      }
    },
  },

  setVoiceFlags: {
    turn({ state: channel, home: server }, { user, flags }) {
      const before = server.voice.get(user)
      if (before?.channel_id !== channel.id) return { reply: { holder: null } }
      const after: VoiceState = { ...before, ...withDeafness(flags) }
      const { worker, gateway_session_id } = before
      return {
        apply: draft => {
          draft.voice.set(user, after)
        },
        write: [putVoiceState({ ...after, server_id: server.id })],
        publish: [voiceStateUpdate.to(viewersOf(server.id, channel.id), voiceStateObject(server.id, after))],
        reply: { holder: { worker, gateway_session_id } },
      }
    },
  },

  leaveVoice: {
    needs: ({ user }) => [member(user)],
    turn({ home: server, now }, { user }) {
      const state = server.voice.get(user)
      return state ? { ...voiceEnding(server, state, now), reply: { left: true } } : { reply: { left: false } }
    },
  },

  endVoice: {
    needs: ({ user }) => [member(user)],
    turn({ home: server, now }, { user, voice_session_id, worker }) {
      const state = server.voice.get(user)
      if (state?.voice_session_id !== voice_session_id)
        return { publish: [tellUser(user, "forgetCall", { voice_session_id })], reply: { ended: false } }
      if (worker !== undefined && state.worker !== worker) return { reply: { ended: false } }
      return { ...voiceEnding(server, state, now), reply: { ended: true } }
    },
  },

  holdVoice: {
    turn({ home: server }, { user, voice_session_id, worker }) {
      const state = server.voice.get(user)
      if (state?.voice_session_id !== voice_session_id) return { reply: { held: false } }
      if (state.worker === worker) return { reply: { held: true } }
      const moved: VoiceState = { ...state, worker }
      return {
        apply: draft => {
          draft.voice.set(user, moved)
        },
        write: [putVoiceState({ ...moved, server_id: server.id })],
        reply: { held: true },
      }
    },
  },

  readVoiceState: {
    turn({ home: server }, { user }) {
      const state = server.voice.get(user)
      return { reply: { state: state ? voiceStateObject(server.id, state) : null } }
    },
  },

  readVoice: {
    needs: ({ user }) => [member(user)],
    turn({ state: channel, home: server, now }, { user }) {
      accessOf(server, channel.id, user, now)
      if (!holdsVoice(channel)) throw fail("not_a_voice_channel")
      const present = [...server.voice.values()].filter(({ channel_id }) => channel_id === channel.id)
      return {
        reply: { bitrate: channel.bitrate, participants: present.map(state => participantObject(state)) },
      }
    },
  },

  findVoice: {
    turn({ state: channel, home: server }, { user, gateway_session_id, target }) {
      const own = server.voice.get(user)
      if (own?.channel_id !== channel.id || own.gateway_session_id !== gateway_session_id) return { reply: null }
      const other = target === undefined ? undefined : server.voice.get(target)
      const asked = target === undefined ? server.voice.values() : other ? [other] : []
      const holders = new Map<string, string[]>()
      for (const state of asked) {
        if (state.channel_id !== channel.id || state.user_id === user) continue
        const sessions = holders.get(state.worker)
        if (sessions) sessions.push(state.gateway_session_id)
        else holders.set(state.worker, [state.gateway_session_id])
      }
      return { reply: holders.size === 0 ? null : { voice_session_id: own.voice_session_id, holders: [...holders] } }
    },
  },
}

export const voiceServerCommands: ActorKind<ServerState, ServerState, VoiceServerCommands>["commands"] = {
  recheckVoice: {
    needs: ({ users }) => users.map(user => member(user)),
    turn({ state: server, now }, { users }) {
      const endings = users.flatMap(user => {
        const state = server.voice.get(user)
        return state && !mayStay(server, state, memberFacts.of(server).get(user), now)
          ? [voiceEnding(server, state, now)]
          : []
      })
      return {
        apply: draft => {
          for (const ending of endings) ending.apply(draft)
        },
        write: endings.flatMap(ending => ending.write),
        publish: endings.flatMap(ending => ending.publish),
        reply: undefined,
      }
    },
  },
}

/** Days that a user's home remembers. */
const daysKept = 2

export const voiceUserCommands: ActorKind<UserState, UserState, VoiceUserCommands>["commands"] = {
  askForVoice: {
    turn({ state: user, now, newId }) {
      const allowance = voiceAllowance(tierAt(user, secondsAt(now)))
      const running = user.call ? secondsByDay(user.call.began_at, now) : []
      const used = [...user.voiceSeconds, ...running].reduce(
        (sum, [day, seconds]) => (day === dayOf(now) ? sum + seconds : sum),
        0,
      )
      return {
        reply: {
          allowed: allowance === null || used < allowance,
          call: user.call?.channel_id ?? null,
          order: orderAbove(user.call?.voice_session_id, newId()),
        },
      }
    },
  },

  voiceChanged: {
    turn({ state: user, now }, { ended, began }) {
      const used = ended ? secondsByDay(ended.from, ended.to) : []
      const seconds = new Map(user.voiceSeconds)
      for (const [day, count] of used) seconds.set(day, (seconds.get(day) ?? 0) + count)
      for (const day of seconds.keys()) if (day <= dayOf(now) - daysKept) seconds.delete(day)
      const left = ended && user.call?.voice_session_id === ended.voice_session_id ? null : user.call
      // VOICE1
      const [newest, older] =
        began && left && began.voice_session_id < left.voice_session_id ? [left, began] : [began ?? left, began && left]
      // The newer call replaces the older one, which is told to end.
      const call = newest && { ...newest, ends_at: endOf(user, newest.began_at, seconds, now) }
      const isChanged = call?.voice_session_id !== user.call?.voice_session_id || call?.ends_at !== user.call?.ends_at
      return {
        apply: draft => {
          draft.voiceSeconds = seconds
          draft.call = call
        },
        write: [
          ...used.map(([day, count]) => addVoiceUsage({ user_id: user.id, day, seconds: count })), // VOICE2
          ...(isChanged ? [callRow(user.id, call)] : []),
        ],
        publish: [...(older ? [tellEnd(older, user.id)] : []), ...(call && isChanged ? expiry(user.id, call) : [])],
        reply: undefined,
      }
    },
  },

  forgetCall: {
    turn({ state: user }, { voice_session_id }) {
      if (user.call?.voice_session_id !== voice_session_id) return { reply: undefined }
      return {
        apply: draft => {
          draft.call = null
        },
        write: [deleteVoiceCall({ user_id: user.id })],
        reply: undefined,
      }
    },
  },

  expireVoice: {
    turn({ state: user, now }) {
      const { call } = user
      if (!call) return { reply: { ended: false } }
      const ends_at = endOf(user, call.began_at, user.voiceSeconds, now)
      if (ends_at !== null && ends_at <= now) return { publish: [tellEnd(call, user.id)], reply: { ended: true } }
      const longer: CallState = { ...call, ends_at }
      return {
        apply: draft => {
          draft.call = longer
        },
        write: [callRow(user.id, longer)],
        publish: expiry(user.id, longer),
        reply: { ended: false },
      }
    },
  },
}

/**
 * When to check a call: when the allowance of the day is used up or the user's tier ends, whichever
 * is first.
 */
function endOf(
  user: Readonlied<UserState>,
  from: number,
  seconds: ReadonlyMap<number, number>,
  now: number,
): number | null {
  const allowance = voiceAllowance(tierAt(user, secondsAt(now)))
  const usedUp = usedUpAt(allowance, day => seconds.get(day) ?? 0, from)
  const tierEnds = (user.tier_expires_at ?? 0) * 1000
  return tierEnds > now && (usedUp === null || tierEnds < usedUp) ? tierEnds : usedUp
}

/** The effects of a change of tier on the user's call. */
export function recounted(user: Readonlied<UserState>, now: number) {
  const ends_at = user.call && endOf(user, user.call.began_at, user.voiceSeconds, now)
  const call = user.call && user.call.ends_at !== ends_at ? { ...user.call, ends_at } : undefined
  return {
    apply: (draft: UserState) => {
      if (call) draft.call = call
    },
    write: call ? [callRow(user.id, call)] : [],
    publish: call ? expiry(user.id, call) : [],
  }
}

const callRow = (user_id: Snowflake, call: CallState | null) =>
  call ? putVoiceCall({ ...call, user_id }) : deleteVoiceCall({ user_id })

/**
 * Calls that end within the same stretch of this length share a job: a user who joins and leaves
 * often makes few jobs.
 */
const expiryGridMs = 5_000

function expiry(user_id: Snowflake, { ends_at }: CallState): Publication[] {
  if (ends_at === null) return []
  const runAtMs = Math.ceil(ends_at / expiryGridMs) * expiryGridMs
  return [expireVoice.at({ user_id }, { key: `voice:${user_id}:${runAtMs}`, runAtMs })]
}
