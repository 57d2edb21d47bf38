import type { UserState } from "../../domain/accounts/user-state.ts"
import { isOfAccount } from "../../storage/accounts/users.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { renew, type Publication } from "../../runtime/actor.ts"
import { wrapTurns, type UserCommandTable } from "../shared/wrapped-turns.ts"

/** Makes gateway and HTTP reload all sessions of a user. */
export const renewed = (user: Readonlied<UserState>): Publication[] =>
  user.sessions.size === 0 ? [] : [renew(...user.sessions.keys())]

/**
 * The same commands. A command that writes the account makes gateway and HTTP forget what they
 * cached with its sessions before it is answered, because `GET /users/@me` is answered from that
 * cache.
 */
export const renewSessions = <Some extends UserCommandTable>(commands: Some): Some =>
  wrapTurns(commands, (_, turn) => (context, input) => {
    const effects = turn(context, input)
    if ("lookUp" in effects || "load" in effects || !effects.write?.some(isOfAccount)) return effects
    return { ...effects, publish: [...renewed(context.state), ...(effects.publish ?? [])] }
  })
