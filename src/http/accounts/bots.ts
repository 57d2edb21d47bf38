import { accountOrders } from "../../actors/account-orders.ts"
import { userActor } from "../../actors/user.ts"
import { botTokenOf, hashSecret, newBotSecret } from "../../cluster/tokens.ts"
import type { routes } from "../../contract/accounts/bots.ts"
import { fail } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { newAccount } from "../../domain/accounts/accounts.ts"
import { ownBot, type BotRow } from "../../storage/accounts/bots.ts"
import { publicUser } from "../../storage/accounts/users.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { PictureNeeds } from "../shared/files.ts"
import type { Creates, Http } from "../shared/http.ts"
import { keepAvatar } from "./avatars.ts"
import { lackInTurn, underToken } from "./server-slots.ts"
import type { Names } from "./username-rules.ts"

type BotsNeeds = Http<"bots" | "sessions" | "users"> & Creates & Names & PictureNeeds

/** Bots as their owners make and change them. A token is in the answer that makes it, and nowhere else. */
export const bots = (http: BotsNeeds): Handlers<typeof routes> => {
  const { ask, create, storage, clock } = http
  const orders = accountOrders(http)

  /** The bot, if it is the caller's: whose it is never changes. */
  async function owned(bot: Snowflake, caller: Snowflake): Promise<BotRow> {
    const found = await storage.bots.find(bot)
    if (found?.owner_id !== caller) throw fail("bot_not_found")
    return found
  }

  async function requireName(name: string): Promise<void> {
    const refusal = (await http.usernames()).refusal(name)
    if (refusal) throw refusal
  }

  /** What was issued is the bot's only token, and the one before is accepted nowhere any more (STAT2). */
  async function issued(bot: Snowflake): Promise<string> {
    const secret = newBotSecret()
    await ask(userActor, bot, { type: "issueBotToken", token_hash: hashSecret(secret) })
    return botTokenOf(bot, secret)
  }

  /** Of several requests at once each counts those before it: see actors/accounts/server-slots.ts. */
  const withBotSlot = <T>(owner: Snowflake, act: () => Promise<T>): Promise<T> =>
    underToken(http, owner, async token => {
      const slot = { type: "askForServerSlot", token, owns: false, joins: false, makesBot: true } as const
      const lack = await lackInTurn(
        () => ask(userActor, owner, slot),
        async ({ bots: ahead = 0 }) => {
          const has = (await storage.bots.ownedBy(owner)).length
          return has + ahead >= limits.botsPerOwner ? "bot_limit" : undefined
        },
      )
      if (lack) throw fail(lack)
      return act()
    })

  return {
    listBots: async ({ caller }) => (await storage.bots.list(caller.user_id)).map(ownBot),

    getOwnBot: async ({ params, caller }) => ownBot(await owned(params.bot_id, caller.user_id)),

    async createBot({ body: { username, permissions = [], public: isPublic = false }, caller }) {
      await requireName(username)
      const owner = caller.user_id
      return withBotSlot(owner, async () => {
        const { user } = await create(userActor, {
          type: "register",
          user: newAccount({
            username,
            email: null,
            password_hash: null,
            created_at: secondsAt(clock()),
            bot: true,
            owner_id: owner,
            bot_permissions: [...new Set(permissions)],
            bot_public: isPublic,
          }),
          session: null,
        })
        // A purge of the owner that began before the bot was there has not found it.
        if ((await storage.users.find(owner))?.deletion_status === "purged") {
          await orders.purge(user.id)
          throw fail("account_deleted")
        }
        const token = await issued(user.id)
        return { ...ownBot({ ...user, owner_id: owner, has_token: true }), token }
      })
    },

    async editBot({ params: { bot_id }, body: { username, permissions, public: isPublic }, caller }) {
      const before = await owned(bot_id, caller.user_id)
      // A name that is written otherwise only in its letters' case was asked about when it was chosen.
      if (username !== undefined && username.toLowerCase() !== before.username.toLowerCase())
        await requireName(username)
      const owner = caller.user_id
      return ask(userActor, bot_id, { type: "editBot", owner, username, permissions, public: isPublic })
    },

    async deleteBot({ params: { bot_id }, caller }) {
      await owned(bot_id, caller.user_id)
      await orders.purge(bot_id)
      return success
    },

    async resetBotToken({ params: { bot_id }, caller }) {
      await owned(bot_id, caller.user_id)
      return { token: await issued(bot_id) }
    },

    async putBotAvatar({ params: { bot_id }, form, longer, caller }) {
      await owned(bot_id, caller.user_id)
      return keepAvatar(http, bot_id, { form, longer }, caller.user_id)
    },

    async deleteBotAvatar({ params: { bot_id }, caller }) {
      await owned(bot_id, caller.user_id)
      await ask(userActor, bot_id, { type: "deleteAvatar" })
      return success
    },

    async getOfferedBot({ params: { bot_id }, caller }) {
      const found = await storage.bots.find(bot_id)
      if (!found || !mayAdd(found, caller.user_id)) throw fail("bot_not_found")
      return {
        ...publicUser(found),
        owner: { id: found.owner_id, username: found.owner_name },
        permissions: [...found.bot_permissions],
      }
    },
  }
}

/** Who may add a bot to a server that they manage. */
export const mayAdd = (bot: BotRow & { is_active: boolean }, user: Snowflake): boolean =>
  bot.is_active && (bot.bot_public || bot.owner_id === user)
