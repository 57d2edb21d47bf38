import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits, type routes } from "../../contract/accounts/push-subscriptions.ts"
import type { PushEndpoints, PushKeys } from "../../integrations/web-push.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Uses } from "../shared/http.ts"

type PushNeeds = Http<"pushSubscriptions"> &
  Uses<{ readonly pushKeys: Pick<PushKeys, "publicKey">; readonly pushEndpoints: Pick<PushEndpoints, "check"> }>

export const pushSubscriptions = ({ ask, storage, clock, integrations }: PushNeeds): Handlers<typeof routes> => ({
  async listPushSubscriptions({ caller }) {
    const rows = await storage.pushSubscriptions.ofUser(caller.user_id, secondsAt(clock()))
    const subscriptions = rows.map(row => ({
      id: row.id,
      endpoint: row.endpoint,
      directs: row.directs,
      mentions: row.mentions,
      hides_content: row.hides_content,
      created_at: row.created_at,
      current: row.session_id === caller.session_id,
    }))
    return { subscriptions, limit: limits.pushSubscriptions }
  },

  getPushKey: async () => ({ public_key: await integrations.pushKeys.publicKey() }),

  async createPushSubscription({
    body: { endpoint, keys, directs = true, mentions = true, hides_content = false },
    caller: { user_id, session_id },
  }) {
    const checked = await integrations.pushEndpoints.check(endpoint, keys)
    if ("problem" in checked)
      throw checked.problem === "private address"
        ? fail("private_address")
        : fail("invalid_push_subscription", { message: `Invalid push subscription: ${checked.problem}` })
    const choice = { keys, directs, mentions, hides_content }
    return ask(userActor, user_id, { type: "subscribePush", session_id, endpoint: checked.endpoint, ...choice })
  },

  async deletePushSubscription({ params: { subscription_id }, caller: { user_id } }) {
    await ask(userActor, user_id, { type: "unsubscribePush", subscription_id })
    return success
  },

  async testPushSubscription({ params: { subscription_id }, caller: { user_id } }) {
    await ask(userActor, user_id, { type: "testPush", subscription_id })
    return success
  },
})
