import type { Snowflake } from "../../contract/core/fields.ts"
import type { Account } from "./accounts.ts"
import type { Shown } from "../core/presences.ts"
import type { CallState } from "../voice/voice.ts"
import { defaultPresence } from "../core/presences.ts"
import { Facts } from "../core/facts.ts"

/** What a user's home keeps in memory. */
export interface UserState extends Account {
  id: Snowflake
  sessions: Map<Snowflake, SessionState>
  /** The presence that the user chose, whether they are connected or not. */
  presence: Shown
  call: CallState | null
  /** Seconds in voice by day, of calls that are over. */
  voiceSeconds: Map<number, number>
  /** What subjects remember, only as far as commands needed it. */
  readonly facts: Facts
}

export interface SessionState {
  id: Snowflake
  /** SHA-256 of the token's secret, in hex. */
  token_hash: string
  created_at: number
  expires_at: number
}

/** A user's home that remembers nothing yet. */
export function newUserState(parts: {
  account: Account & { id: Snowflake }
  sessions: UserState["sessions"]
  presence?: Shown | undefined
  call?: UserState["call"]
  voiceSeconds?: UserState["voiceSeconds"]
}): UserState {
  const { account, sessions, presence = defaultPresence, call = null, voiceSeconds = new Map() } = parts
  return {
    ...account,
    sessions,
    presence,
    call,
    voiceSeconds,
    facts: new Facts(),
  }
}
