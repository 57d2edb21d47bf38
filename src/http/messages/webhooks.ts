import { channelActor } from "../../actors/channel.ts"
import type { Answer, Asked } from "../../runtime/actor.ts"
import { serverActor, type ServerCommands } from "../../actors/server.ts"
import type { Budgets, Spending } from "../../cluster/budgets.ts"
import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes, Webhook } from "../../contract/messages/webhooks.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { webhookSecret, webhookToken, type WebhookState } from "../../domain/messages/webhooks.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Uses } from "../shared/http.ts"
import type { ServiceFacts } from "../service/system.ts"

const secretBytes = 48

const messageBudget = { capacity: limits.webhookBurstMessages, perSecond: limits.webhookMessagesPerSecond }
const byteBudget = { capacity: limits.webhookBurstBytes, perSecond: limits.webhookBytesPerSecond }

/** What a message of a webhook takes from the budgets of its server and of the token's holder. */
const costsOf = (body: { readonly content?: unknown; readonly embeds?: unknown }): Spending[] => [
  { name: "webhook-messages", amount: 1, budget: messageBudget },
  {
    name: "webhook-bytes",
    amount: Buffer.byteLength(JSON.stringify([body.content, body.embeds])),
    budget: byteBudget,
  },
]

/**
 * A webhook is found by its row, which names the server that keeps it; whatever counts is decided
 * there.
 */
export function webhooks({
  ask,
  storage,
  service: { publicUrl },
  integrations: { budgets },
}: Http<"webhooks"> &
  Uses<{ readonly budgets: Budgets }> & { readonly service: Pick<ServiceFacts, "publicUrl"> }): Handlers<
  typeof routes
> {
  async function find(id: Snowflake): Promise<WebhookState & { payer_id: Snowflake }> {
    const found = await storage.webhooks.find(id)
    if (!found) throw fail("webhook_not_found")
    return found
  }

  async function askHomeOf<K extends keyof ServerCommands>(
    { server_id }: Pick<WebhookState, "server_id">,
    command: Asked<ServerCommands, K>,
  ): Promise<Answer<ServerCommands, K>> {
    try {
      return await ask(serverActor, server_id, command)
    } catch (error) {
      // The server went after the look; its webhooks went with it.
      if (error instanceof Failure && error.code === "server_not_found") throw fail("webhook_not_found")
      throw error
    }
  }

  /** The only answer that ever shows a token. */
  function withToken(webhook: Webhook, secret: string): Webhook {
    const token = webhookToken(webhook.id, secret)
    return { ...webhook, token, url: `${publicUrl.replace(/\/+$/, "")}/webhooks/${webhook.id}/${token}` }
  }

  return {
    async createWebhook({ body: { channel_id, ...body }, caller, reason }) {
      const secret = newSecret(secretBytes)
      const token_hash = hashSecret(secret)
      const command = { type: "createWebhook", user: caller.user_id, reason, token_hash, ...body } as const
      return withToken(await ask(channelActor, channel_id, command), secret)
    },

    async getWebhook({ params: { webhook_id }, caller }) {
      return askHomeOf(await find(webhook_id), { type: "readWebhook", user: caller.user_id, webhook_id })
    },

    async editWebhook({ params: { webhook_id }, body: patch, caller, reason }) {
      const command = { type: "editWebhook", user: caller.user_id, reason, webhook_id, patch } as const
      return askHomeOf(await find(webhook_id), command)
    },

    async deleteWebhook({ params: { webhook_id }, caller, reason }) {
      const command = { type: "deleteWebhook", user: caller.user_id, reason, webhook_id } as const
      await askHomeOf(await find(webhook_id), command)
      return success
    },

    async regenerateWebhookToken({ params: { webhook_id }, caller, reason }) {
      const secret = newSecret(secretBytes)
      const token_hash = hashSecret(secret)
      const command = { type: "setWebhookToken", user: caller.user_id, reason, webhook_id, token_hash } as const
      return withToken(await askHomeOf(await find(webhook_id), command), secret)
    },

    listServerWebhooks: ({ params, caller }) =>
      ask(serverActor, params.server_id, { type: "listServerWebhooks", user: caller.user_id }),

    listChannelWebhooks: ({ params, caller }) =>
      ask(channelActor, params.channel_id, { type: "listChannelWebhooks", user: caller.user_id }),

    async executeWebhook({ params: { webhook_id, token }, query, body, idempotencyKey }) {
      const found = await find(webhook_id)
      const secret = webhookSecret(webhook_id, token)
      const token_hash = secret === undefined ? "" : hashSecret(secret)
      // After the token: a client that knows only the id cannot use up what others may send.
      if (!sameHash(found.token_hash, token_hash)) throw fail("invalid_webhook_token")
      const { channel_id, holder_id } = found
      const sender = { webhook_id, channel_id, holder_id, token_hash }
      // Before anything is spent: who may not send cannot use up what the server's other webhooks
      // may.
      await askHomeOf(found, { type: "checkWebhook", ...sender })
      await budgets.spend([`webhooks-of:${found.payer_id}`, `server:${found.server_id}`], costsOf(body))
      const { content, username, avatar_url, embeds } = body
      const sent = await askHomeOf(found, {
        type: "executeWebhook",
        ...sender,
        content,
        username,
        avatar_url,
        embeds,
        nonce: idempotencyKey,
      })
      return query.wait === true ? sent : success
    },
  }
}
