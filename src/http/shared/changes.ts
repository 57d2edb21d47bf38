import type { Caller } from "../../cluster/admission.ts"
import type { PacedContext } from "../../actors/communities/view-changes.ts"
import type { Call } from "../server/handlers.ts"

/** Who changes what decides who views channels, as the commands take it. */
export const changedBy = (
  { user_id }: Caller,
  { reason, isLimited }: Pick<Call, "reason" | "isLimited">,
): PacedContext => ({ user: user_id, reason, isLimited })
