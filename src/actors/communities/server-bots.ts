import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { RoleState, ServerState } from "../../domain/communities/servers.ts"
import { requireMember, requirePermission } from "../shared/access.ts"
import { audit, memberTarget } from "../shared/audit.ts"
import { combine } from "../shared/effects.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { ban, banFacts, joins, leftTimeout, type Joining } from "./membership.ts"
import { requireGrantable, roleCreation } from "./roles.ts"
import { takeViewChange, type PacedContext } from "./view-changes.ts"

/**
 * Bots that members add to a server, among its home's commands. They keep:
 *   ADD1  Who adds a bot manages the server, and the bot is granted nothing that they lack. Its role
 *       is the lowest, so it ranks above nobody who has a role.
 */
export interface ServerBotCommands {
  /** `role_id` is null where nothing is granted. */
  addBot(input: PacedContext & Omit<Joining, "user"> & { bot: Joining["user"]; permissions: readonly Permission[] }): {
    role_id: Snowflake | null
  }
}

export const serverBotCommands: ActorKind<ServerState, ServerState, ServerBotCommands>["commands"] = {
  addBot: {
    needs: ({ user, bot }) => [member(user), member(bot.id), ban(bot.id), leftTimeout(bot.id)],
    turn(context, { user, reason, isLimited, bot, permissions, workers, isFull }) {
      const { state: server, newId, now } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "server.manage")
      const granted = new Set(permissions)
      requireGrantable(server, caller, granted) // ADD1
      if (memberFacts.of(server).get(bot.id)) throw fail("already_member")
      if (banFacts.of(server).get(bot.id)) throw fail("bot_banned")
      const by = { ...context, user, reason }
      const own: RoleState | undefined =
        granted.size === 0
          ? undefined
          : {
              id: newId(),
              name: bot.username,
              color: "#000000",
              position: 0,
              hoist: false,
              mentionable: false,
              permissions: granted,
              bot_id: bot.id,
            }
      const made = own && roleCreation(server, own, () => false, by)
      // Nobody has the role yet, and the bot alone views other channels by it.
      const events = made?.moved.length ?? 0
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews: false, events })
      const withRole = made ? { ...server, roles: new Map(server.roles).set(made.placed.id, made.placed) } : server
      const joined = joins(withRole, { user: bot, workers, isFull }, context, { roles: made ? [made.placed.id] : [] })
      const changes = { permissions: { old: null, new: [...granted].toSorted() } }
      audit(by, "BOT_ADD", { ...memberTarget(bot.id), name: bot.username }, changes)
      return {
        ...combine({ apply: draft => take?.(draft) }, made, joined),
        interest: joined.interest,
        reply: { role_id: made?.placed.id ?? null },
      }
    },
  },
}
