import { serverActor } from "../../actors/server.ts"
import type { routes } from "../../contract/communities/server-bots.ts"
import { fail } from "../../contract/core/errors.ts"
import { permissionOf } from "../../contract/core/permissions.ts"
import { tierAt } from "../../domain/accounts/accounts.ts"
import { secondsAt } from "../../std/clock.ts"
import { shownBadges } from "../../domain/accounts/badges.ts"
import { mayAdd } from "../accounts/bots.ts"
import { createServerSlots } from "../accounts/server-slots.ts"
import type { Handlers } from "../server/handlers.ts"
import { changedBy } from "../shared/changes.ts"
import type { Http, Live } from "../shared/http.ts"

type Needs = Http<"bots" | "users" | "servers"> & { readonly live: Pick<Live, "workersOf"> }

export const serverBots = (http: Needs): Handlers<typeof routes> => {
  const { ask, storage, live, clock } = http
  const withServerSlot = createServerSlots(http)
  return {
    async addBot({ params: { server_id, bot_id }, body, caller, ...how }) {
      // Before anything is said of the bot.
      await ask(serverActor, server_id, {
        type: "requirePermission",
        user: caller.user_id,
        permission: "server.manage",
      })
      const [found, account, workers] = await Promise.all([
        storage.bots.find(bot_id),
        storage.users.find(bot_id),
        live.workersOf(bot_id),
      ])
      if (!found || !account || !mayAdd(found, caller.user_id)) throw fail("bot_not_found")
      const { id, username, badges } = found
      const adding = {
        type: "addBot",
        ...changedBy(caller, how),
        bot: { id, username, bot: true, badges: shownBadges(badges) },
        permissions: body.permissions ?? found.bot_permissions.map(permissionOf).filter(name => name !== undefined),
        workers,
      } as const
      // The bot's own slot: it is in a bounded number of servers, as anybody.
      const slot = { user_id: id, tier: tierAt(account, secondsAt(clock())), bot: true }
      // Somebody with many servers takes few of them. Its owner may take them all.
      const isOwn = found.owner_id === caller.user_id
      const wanted = { owns: false, joins: true, ...(!isOwn && { sharedBy: server_id }) }
      const { role_id } = await withServerSlot(slot, wanted, lack => {
        if (lack === "bot_share_limit") throw fail(lack)
        return ask(serverActor, server_id, { ...adding, isFull: lack !== undefined })
      })
      return { success: true, server_id, role_id }
    },
  }
}
