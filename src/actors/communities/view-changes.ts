import { fail } from "../../contract/core/errors.ts"
import { changeTaken, weightOfEvents, type ChangeBudget } from "../../domain/communities/view-changes.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineMemory } from "../../runtime/facts.ts"
import type { AuditContext } from "../shared/audit.ts"

/** Who changes what decides who views channels. */
export interface PacedContext extends AuditContext {
  /** False: rate limits do not hold for them. */
  readonly isLimited?: boolean | undefined
}

/** A home that moves or wakes begins with a full budget. */
const budgets = defineMemory<ServerState, { budget: ChangeBudget | undefined }>(() => ({ budget: undefined }))

interface Costs {
  /** Who views what is another then. */
  readonly changesViews: boolean
  /** So many events it sends to all who view a channel, or all members. */
  readonly events: number
}

/**
 * Takes what a change costs from the server's budget. If it decides who views channels, every worker with sessions of its
 * members has to find out what they see now; and events for thousands of sessions each take their time, however cheap one is.
 */
export function takeViewChange(
  server: Readonlied<ServerState>,
  { user, isLimited }: PacedContext,
  now: number,
  { changesViews, events }: Costs,
): ((draft: ServerState) => void) | undefined {
  const weight = (changesViews ? 1 : 0) + weightOfEvents(events)
  if (isLimited !== true || weight === 0) return undefined
  const taken = changeTaken(budgets.of(server).budget, { user, isOwner: user === server.owner_id, weight }, now)
  if ("waitSeconds" in taken)
    throw fail("rate_limited", { retry_after: taken.waitSeconds, extra: { global: false, scope: "resource" } })
  return draft => {
    budgets.of(draft).budget = taken
  }
}
