import { secondsAt } from "./clock.ts"
import type { InviteState } from "./states.ts"

/** Whether nobody can join by it any longer; `now` in Unix milliseconds. */
export const isOver = (
  { expires_at, max_uses, uses }: Readonly<Pick<InviteState, "expires_at" | "max_uses" | "uses">>,
  now: number,
): boolean => (expires_at !== null && expires_at <= secondsAt(now)) || (max_uses > 0 && uses >= max_uses)
