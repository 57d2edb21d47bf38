import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, Success } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

/** Web Push: browsers and devices of a user, over all of their sessions. */
export const limits = { pushSubscriptions: 10, pushEndpointCharacters: 2048 } as const
export const limitNotes: LimitNotes<typeof limits> = {
  pushSubscriptions: refused("push subscriptions", "push_subscription_limit"),
  pushEndpointCharacters: refused("characters"),
}

const base64url = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .regex(/^[\w-]+=*$/, "must be base64url")

export const PushSubscription = z
  .object({
    id: Snowflake,
    endpoint: z.string().describe("The address that the browser's push service has given"),
    directs: z.boolean().describe("Whether it is sent new direct messages"),
    mentions: z.boolean().describe("Whether it is sent messages that mention the user"),
    hides_content: z.boolean().describe("Whether what is sent leaves out what was written"),
    created_at: Seconds,
    current: z.boolean().describe("Whether it was made in the session of this request"),
  })
  .meta({ id: "PushSubscriptionResponse" })
export type PushSubscription = z.infer<typeof PushSubscription>

const byId = z.object({ subscription_id: Snowflake })

export const listPushSubscriptions = defineRoute({
  method: "GET",
  path: "/users/@me/push-subscriptions",
  summary: "List the caller's push subscriptions, oldest first",
  tag: "Notifications",
  auth: "person",
  reply: z
    .object({ subscriptions: z.array(PushSubscription), limit: z.int() })
    .meta({ id: "PushSubscriptionListResponse" }),
  fails: [],
})

export const getPushKey = defineRoute({
  method: "GET",
  path: "/users/@me/push-subscriptions/public-key",
  summary: "Get the server's VAPID public key, which browsers take as `applicationServerKey`",
  tag: "Notifications",
  auth: "person",
  reply: z
    .object({ public_key: z.string().describe("A point of P-256, uncompressed, in base64url") })
    .meta({ id: "PushKeyResponse" }),
  fails: [],
})

export const createPushSubscription = defineRoute({
  method: "POST",
  path: "/users/@me/push-subscriptions",
  summary: `Have notifications pushed to a browser (RFC 8030, encrypted as RFC 8291 says). An endpoint that is known gets the new settings, and belongs to who named it last. It ends with the session that made it. A user has at most ${limits.pushSubscriptions}`,
  tag: "Notifications",
  auth: "person",
  body: z
    .object({
      endpoint: z.string().min(1).max(limits.pushEndpointCharacters).describe("An `https` address"),
      keys: z.object({
        p256dh: base64url(87, 88).describe("The browser's public key: 65 bytes in base64url"),
        auth: base64url(22, 24).describe("16 bytes in base64url"),
      }),
      directs: omittable(z.boolean()).describe("Default true"),
      mentions: omittable(z.boolean()).describe("Default true"),
      hides_content: omittable(z.boolean()).describe("Default false"),
    })
    .meta({ id: "PushSubscriptionRequest" }),
  example: {
    endpoint: sample.push,
    keys: {
      p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
      auth: "BTBZMqHH6r4Tts7J_aSIgg",
    },
  },
  reply: PushSubscription,
  fails: ["invalid_push_subscription", "private_address", "push_subscription_limit"],
})

export const deletePushSubscription = defineRoute({
  method: "DELETE",
  path: "/users/@me/push-subscriptions/:subscription_id",
  summary: "Delete one of the caller's push subscriptions",
  tag: "Notifications",
  auth: "person",
  params: byId,
  reply: Success,
  fails: ["invalid_subscription_id", "push_subscription_not_found"],
})

export const testPushSubscription = defineRoute({
  method: "POST",
  path: "/users/@me/push-subscriptions/:subscription_id/test",
  summary: "Send a test notification to one of the caller's push subscriptions. The answer does not wait for it",
  tag: "Notifications",
  auth: "person",
  params: byId,
  reply: Success,
  fails: ["invalid_subscription_id", "push_subscription_not_found"],
})

export const routes = {
  listPushSubscriptions,
  getPushKey,
  createPushSubscription,
  deletePushSubscription,
  testPushSubscription,
}
