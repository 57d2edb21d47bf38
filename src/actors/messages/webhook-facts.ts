import type { ServerState } from "../../domain/communities/servers.ts"
import type { WebhookState } from "../../domain/messages/webhooks.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { updateWebhook } from "../../storage/messages/webhooks.ts"
import type { Kicking } from "../communities/membership.ts"
import { defineFact } from "../shared/facts.ts"

/** A server has few: they are loaded all at once, under one key. */
export const webhookFacts = defineFact<ServerState, readonly WebhookState[]>({
  keep: 1,
  load: async (storage, server) => new Map([[allWebhooksKey, await storage.webhooks.ofServer(server)]]),
})
export const allWebhooksKey = "all"
export const allWebhooks = webhookFacts.need(allWebhooksKey)

/** HOOK4: webhooks whose token a user was given stop when that user is kicked. */
export const webhooksSuspension: Kicking = {
  needs: [allWebhooks],
  effects(server, user) {
    const known: readonly Readonlied<WebhookState>[] = webhookFacts.of(server).get(allWebhooksKey) ?? []
    const after = known.map(webhook => (webhook.holder_id === user ? { ...webhook, holder_kicked: true } : webhook))
    return {
      apply: draft => {
        webhookFacts.of(draft).set(allWebhooksKey, after)
      },
      write: after.filter(({ holder_id }) => holder_id === user).map(webhook => updateWebhook(webhook)),
    }
  },
}
