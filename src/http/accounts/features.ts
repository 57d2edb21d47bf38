import { featuresOf } from "../../actors/accounts/account.ts"
import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import type { routes } from "../../contract/accounts/features.ts"
import { tierAt } from "../../domain/accounts/accounts.ts"
import { badgeOf, badges, isBadge } from "../../domain/accounts/badges.ts"
import { secondsAt } from "../../std/clock.ts"
import { defaultTier, limitsOf, tiers } from "../../domain/accounts/tiers.ts"
import type { Handlers } from "../server/handlers.ts"
import { own } from "./sign-in.ts"
import type { Http } from "../shared/http.ts"

export const features = (http: Http<"users">): Handlers<typeof routes> => {
  const { ask, storage, clock } = http
  const now = () => secondsAt(clock())
  const requireTier = (name: string | undefined) => {
    if (name !== undefined && !tiers.has(name)) throw fail("unknown_tier")
  }
  return {
    async getMyFeatures({ caller }) {
      const user = await own(http, caller.user_id)
      const tier = tierAt(user, now())
      return { badges: user.badges.map(badgeOf), tier, tier_limits: limitsOf(tier) }
    },

    async getUserFeatures({ params: { user_id } }) {
      const user = await storage.users.find(user_id)
      if (!user || user.deletion_status === "purged") throw fail("user_not_found")
      return featuresOf(user, now())
    },

    editUserFeatures({ params: { user_id }, body: { rate_limit_tier: tier, expires_at, notes } }) {
      requireTier(tier)
      return ask(userActor, user_id, { type: "setTier", tier, expires_at, notes })
    },

    async setTier({ params: { user_id }, body: { tier, expires_at } }) {
      requireTier(tier)
      return { ...(await ask(userActor, user_id, { type: "setTier", tier, expires_at })), success: true }
    },

    async addBadge({ params: { user_id, badge } }) {
      if (!isBadge(badge)) throw fail("invalid_badge")
      return { ...(await ask(userActor, user_id, { type: "giveBadge", badge })), success: true }
    },

    removeBadge: async ({ params: { user_id, badge } }) => ({
      ...(await ask(userActor, user_id, { type: "takeBadge", badge })),
      success: true,
    }),

    listTiers: () => ({ tiers: Object.fromEntries(tiers), default: defaultTier }),
    listBadges: () => ({ badges: [...badges] }),
  }
}
