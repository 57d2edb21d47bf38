import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { sendPush } from "../../contract/core/jobs.ts"
import { limits, type PushSubscription } from "../../contract/accounts/push-subscriptions.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { deletePushSubscription, putPushSubscription } from "../../storage/accounts/push-subscriptions.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * The browsers to which a user has notifications pushed, among the commands of their home. They keep:
 *   PUSH1  A user has at most `pushSubscriptions` of them under concurrent requests.
 *   PUSH2  A subscription ends with the session that made it: its row refers to that of the session.
 */
export interface PushSubscriptionCommands {
  /** An endpoint that the user has named before gets the new keys and settings. */
  subscribePush(input: {
    session_id: Snowflake
    endpoint: string
    keys: { readonly p256dh: string; readonly auth: string }
    directs: boolean
    mentions: boolean
    hides_content: boolean
  }): PushSubscription
  unsubscribePush(input: { subscription_id: Snowflake }): { deleted: true }
  testPush(input: { subscription_id: Snowflake }): { asked: true }
}

interface KnownSubscription {
  readonly id: Snowflake
  readonly session_id: Snowflake
  readonly created_at: number
}
/** By endpoint. */
type Known = ReadonlyMap<string, KnownSubscription>

/** All of them are one fact of the home, under this key. */
const all = "all"
const subscriptionFacts = defineFact<UserState, Known>({
  keep: 1,
  async load(storage, user, _keys, _home, now) {
    const rows = await storage.pushSubscriptions.ofUser(user, secondsAt(now))
    return new Map([[all, new Map(rows.map(({ endpoint, ...row }) => [endpoint, row]))]])
  },
})
const needed = () => [subscriptionFacts.need(all)]

/** Those of sessions that have ended are gone. */
const subscriptionsOf = (user: Readonlied<UserState>): Map<string, KnownSubscription> =>
  new Map(
    [...(subscriptionFacts.of(user).get(all) ?? [])].filter(([, { session_id }]) => user.sessions.has(session_id)),
  )

function endpointOf(known: Known, subscription: Snowflake): string {
  for (const [endpoint, { id }] of known) if (id === subscription) return endpoint
  throw fail("push_subscription_not_found")
}

export const pushSubscriptionCommands: ActorKind<UserState, UserState, PushSubscriptionCommands>["commands"] = {
  subscribePush: {
    needs: needed,
    turn({ state: user, now, newId }, { session_id, endpoint, keys, ...choice }) {
      if (!user.sessions.has(session_id)) throw fail("revoked_token") // PUSH2
      const known = subscriptionsOf(user)
      const before = known.get(endpoint)
      if (!before && known.size >= limits.pushSubscriptions) throw fail("push_subscription_limit") // PUSH1
      const { id, created_at } = before ?? { id: newId(), created_at: secondsAt(now) }
      known.set(endpoint, { id, session_id, created_at })
      return {
        apply: draft => {
          subscriptionFacts.of(draft).set(all, known)
        },
        // Written again even if nothing changed: somebody else may have named the endpoint meanwhile.
        write: [
          putPushSubscription({
            id,
            user_id: user.id,
            session_id,
            endpoint,
            p256dh: keys.p256dh,
            auth: keys.auth,
            ...choice,
            created_at,
          }),
        ],
        reply: { id, endpoint, ...choice, created_at, current: true },
      }
    },
  },

  unsubscribePush: {
    needs: needed,
    turn({ state: user }, { subscription_id }) {
      const known = subscriptionsOf(user)
      known.delete(endpointOf(known, subscription_id))
      return {
        apply: draft => {
          subscriptionFacts.of(draft).set(all, known)
        },
        write: [deletePushSubscription({ id: subscription_id, user_id: user.id })],
        reply: { deleted: true },
      }
    },
  },

  testPush: {
    needs: needed,
    turn({ state: user, now, newId }, { subscription_id }) {
      endpointOf(subscriptionsOf(user), subscription_id)
      const job = { subscription_id, message: null, since: now }
      return { publish: [sendPush.at(job, { key: `push:${newId()}` })], reply: { asked: true } }
    },
  },
}
