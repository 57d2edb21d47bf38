import { secondsAt } from "../../std/clock.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

export interface InviteState {
  code: string
  server_id: Snowflake
  channel_id: Snowflake | null
  inviter_id: Snowflake | null
  max_age: number
  max_uses: number
  temporary: boolean
  uses: number
  created_at: number
  expires_at: number | null
  /** When it expired or was used up, in Unix seconds. */
  ended_at: number | null
}

/** Whether nobody can join by it any longer; `now` in Unix milliseconds. */
export const isOver = (
  { expires_at, max_uses, uses }: Readonly<Pick<InviteState, "expires_at" | "max_uses" | "uses">>,
  now: number,
): boolean => (expires_at !== null && expires_at <= secondsAt(now)) || (max_uses > 0 && uses >= max_uses)
