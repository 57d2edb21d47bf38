import type { Snowflake } from "../contract/fields.ts"
import { securityLogout } from "../contract/server-status.ts"
import { expireSession } from "../contract/jobs.ts"
import { presenceUpdate, type Activity, type Status } from "../contract/presence.ts"
import type { UserState } from "../domain/states.ts"
import { userOnly } from "../domain/audience.ts"
import { defaultPresence, looksSame, type Shown } from "../domain/presences.ts"
import { compareIds } from "../domain/snowflake.ts"
import { putPresence } from "../storage/presences.ts"
import { deleteSession, insertSession, touchSession } from "../storage/sessions.ts"
import { insertUser, type UserRow } from "../storage/users.ts"
import { pairFacts, relationshipCommands, type RelationshipCommands } from "./relationships.ts"
import { voiceUserCommands, type VoiceUserCommands } from "./voice.ts"
import { control, defineActor, revoke, type HomeKind, type Publication } from "./runtime/actor.ts"

/**
 * One user: his account and his sessions. It keeps:
 *   U1  At most `sessionsPerUser` sessions; the one that was quiet longest makes room.
 *   U2  A session that has ended is accepted nowhere once the command that ended it is answered.
 */
export interface UserCommands extends RelationshipCommands, VoiceUserCommands {
  /** Makes the account and its first session. The name and the address are made unique by the database. */
  register(input: { user: Omit<UserRow, "id">; session: NewSession }): { user: UserRow; session_id: Snowflake }
  startSession(input: { session: NewSession }): { session_id: Snowflake }
  /** Idempotent: ending what has ended is a success. */
  endSession(input: { session_id: Snowflake }): { ended: boolean }
  /**
   * Ends all of the user's sessions, or those up to an id. The operator's `message` goes to the connections that this closes;
   * null: they have been told.
   */
  endAllSessions(input: { message: string | null; until?: Snowflake }): { ended: number }
  /** Ends the session if its time is over; says when to look again if it was extended. */
  expireSession(input: { session_id: Snowflake }): { ended: boolean }
  /** Activity: moves `last_activity` and, close to its end, the session's expiry. */
  touchSession(input: { session_id: Snowflake; expires_at: number }): { expires_at: number }
  /** What he shows from now on; what is left out stays as it is. */
  setPresence(input: {
    status: Status
    custom_status?: string | null | undefined
    custom_emoji?: string | null | undefined
    activities?: readonly Activity[] | undefined
    /** The gateway session that asked: it knows. */
    by?: string
  }): Shown
  /** Told by a server's home after its commit. */
  membershipChanged(input: { server: Snowflake; member: boolean }): void
}

export interface NewSession {
  token_hash: string
  ip_address: string
  user_agent: string
  expires_at: number
  sessionsPerUser: number
}

export const userHome: HomeKind<UserState> = {
  name: "user",
  load: (id, storage) => storage.users.load(id),
  facts: [pairFacts],
}

export const userActor = defineActor<UserState, UserState, UserCommands>({
  kind: "user",
  home: userHome,
  find: home => home,
  missing: "user_not_found",
  commands: {
    register: {
      create({ id, now, newId }, { user, session }) {
        const row: UserRow = { ...user, id }
        const started = newSession(newId(), id, session, now)
        return {
          home: {
            ...row,
            sessions: new Map([[started.id, started]]),
            presence: defaultPresence,
            pairs: new Map(),
            call: null,
            voiceSeconds: new Map(),
          },
          write: [insertUser(row), insertSession(started)],
          publish: [expiry(started)],
          reply: { user: row, session_id: started.id },
        }
      },
    },

    startSession: {
      turn({ state: user, now, newId }, { session }) {
        const started = newSession(newId(), user.id, session, now)
        const kept = [...user.sessions.values()].toSorted(
          (a, b) => b.last_activity - a.last_activity || compareIds(b.id, a.id),
        )
        const ended = kept.slice(Math.max(0, session.sessionsPerUser - 1)) // U1
        return {
          apply: draft => {
            for (const { id } of ended) draft.sessions.delete(id)
            draft.sessions.set(started.id, started)
          },
          write: [...ended.map(({ id }) => deleteSession({ id })), insertSession(started)],
          publish: [...ended.flatMap(({ id }) => sessionEnded(user.id, id)), expiry(started)],
          reply: { session_id: started.id },
        }
      },
    },

    endSession: {
      turn: ({ state: user }, { session_id }) => endSession(user, session_id),
    },

    endAllSessions: {
      turn({ state: user }, { message, until }) {
        const ended = [...user.sessions.keys()].filter(id => until === undefined || compareIds(id, until) <= 0)
        if (ended.length === 0) return { reply: { ended: 0 } }
        const told = message === null ? [] : [securityLogout.to(userOnly(user.id), { user_id: user.id, message })]
        return {
          apply: draft => {
            for (const id of ended) draft.sessions.delete(id)
          },
          write: ended.map(id => deleteSession({ id })),
          publish: [...told, ...ended.flatMap(id => sessionEnded(user.id, id))],
          reply: { ended: ended.length },
        }
      },
    },

    expireSession: {
      turn({ state: user, now }, { session_id }) {
        const session = user.sessions.get(session_id)
        if (session && session.expires_at > Math.floor(now / 1000))
          return { publish: [expiry({ ...session, user_id: user.id })], reply: { ended: false } }
        return endSession(user, session_id)
      },
    },

    touchSession: {
      turn({ state: user, now }, { session_id, expires_at }) {
        const session = user.sessions.get(session_id)
        if (!session) return { reply: { expires_at: 0 } }
        const touched = {
          id: session_id,
          expires_at: Math.max(session.expires_at, expires_at),
          last_activity: Math.floor(now / 1000),
        }
        return {
          apply: draft => {
            Object.assign(draft.sessions.get(session_id)!, touched)
          },
          write: [touchSession(touched)],
          reply: { expires_at: touched.expires_at },
        }
      },
    },

    ...relationshipCommands,
    ...voiceUserCommands,

    setPresence: {
      turn({ state: user }, { status, custom_status, custom_emoji, activities, by }) {
        const before = user.presence
        const presence: Shown = {
          status,
          custom_status: custom_status === undefined ? before.custom_status : custom_status || null,
          custom_emoji: custom_emoji === undefined ? before.custom_emoji : custom_emoji || null,
        }
        // His own other sessions are told what he really chose, every time; others what they may see, if that is news.
        const except = by === undefined ? [] : [by]
        const publish = [presenceUpdate.to(userOnly(user.id), { user_id: user.id, ...presence }, { except })]
        if (activities === undefined && looksSame(before, presence)) return { publish, reply: presence }
        return {
          apply: draft => {
            draft.presence = presence
          },
          write: [putPresence({ user_id: user.id, ...presence, activities })],
          publish,
          presence: true,
          reply: presence,
        }
      },
    },

    membershipChanged: {
      forListeners: true,
      turn: ({ state: user }, { server, member }) => ({
        publish: [control(userOnly(user.id), { type: "membershipsChanged", user: user.id, server, member })],
        reply: undefined,
      }),
    },
  },
})

function newSession(id: Snowflake, user: Snowflake, session: NewSession, nowMs: number) {
  const now = Math.floor(nowMs / 1000)
  const { token_hash, ip_address, user_agent, expires_at } = session
  return { id, user_id: user, token_hash, ip_address, user_agent, created_at: now, expires_at, last_activity: now }
}

function endSession(
  user: { readonly id: Snowflake; readonly sessions: ReadonlyMap<Snowflake, unknown> },
  session_id: Snowflake,
) {
  if (!user.sessions.has(session_id)) return { reply: { ended: false } }
  return {
    apply: (draft: UserState) => {
      draft.sessions.delete(session_id)
    },
    write: [deleteSession({ id: session_id })],
    publish: sessionEnded(user.id, session_id),
    reply: { ended: true },
  }
}

const sessionEnded = (user: Snowflake, session: Snowflake): Publication[] => [
  revoke(session), // U2, over REST
  control(userOnly(user), { type: "sessionEnded", user, session }), // U2, on the gateway
]

const expiry = (session: { id: Snowflake; user_id: Snowflake; expires_at: number }) =>
  expireSession.at(
    { user_id: session.user_id, session_id: session.id },
    { key: `session:${session.id}:${session.expires_at}`, runAtMs: session.expires_at * 1000 },
  )
