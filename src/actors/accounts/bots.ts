import type { Bot } from "../../contract/accounts/bots.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Account } from "../../domain/accounts/accounts.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { ownBot } from "../../storage/accounts/bots.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { looksChanged } from "./account.ts"
import { becoming } from "./sign-in.ts"

/**
 * What an owner says of their bot, among the commands of the bot's own home. It keeps:
 *   BOT1  Only the owner changes a bot: whose it is never changes, and is asked in the turn.
 */
export interface BotCommands {
  /** What is left out stays as it is. */
  editBot(input: {
    owner: Snowflake
    username?: string | undefined
    permissions?: readonly Permission[] | undefined
    public?: boolean | undefined
  }): Bot
}

export const botCommands: ActorKind<UserState, UserState, BotCommands>["commands"] = {
  editBot: {
    turn({ state: bot, newId }, { owner, username, permissions, public: isPublic }) {
      if (!bot.bot || bot.owner_id !== owner || bot.deletion_status !== "active") throw fail("bot_not_found") // BOT1
      const isRenamed = username !== undefined && username !== bot.username
      const changes: Partial<Account> = {
        ...(isRenamed && { username }),
        ...(permissions && { bot_permissions: [...new Set(permissions)] }),
        ...(isPublic !== undefined && { bot_public: isPublic }),
      }
      const after = { ...bot, ...changes }
      const reply = ownBot({ ...after, owner_id: owner, has_token: bot.sessions.size > 0 })
      if (Object.keys(changes).length === 0) return { reply }
      return { ...becoming(bot, changes), publish: isRenamed ? looksChanged(after, newId) : [], reply }
    },
  },
}
