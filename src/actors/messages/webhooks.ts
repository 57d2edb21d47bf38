import type { Embed } from "../../contract/messages/embeds.ts"
import { fail, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import {
  webhooksUpdate,
  type ListedWebhook,
  type Webhook,
  type WebhookExecution,
} from "../../contract/messages/webhooks.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { viewersHolding } from "../../domain/core/audience.ts"
import { holdsMessages, type ChannelState } from "../../domain/core/channels.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { nothingIn, type MessageState } from "../../domain/messages/messages.ts"
import { secondsOf } from "../../domain/core/snowflake.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import {
  type WebhookState,
  executionObject,
  isPublicUrl,
  listedWebhook,
  webhookObject,
} from "../../domain/messages/webhooks.ts"
import { nonceKey } from "../../storage/messages/messages.ts"
import { deleteWebhook, insertWebhook, updateWebhook } from "../../storage/messages/webhooks.ts"
import { Access, accessOf, requireMember, requirePermission } from "../shared/access.ts"
import { auditEntry, type AuditContext } from "../shared/audit.ts"
import type { ChannelDeletion } from "../communities/channel-settings.ts"
import { posting } from "./messages.ts"
import { member } from "../shared/member-facts.ts"
import { nonce, nonceFacts } from "./message-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * Webhooks: made where their messages go, kept by their server. They keep:
 *   HOOK1  Only the user who created a webhook or renewed its token has seen the token: the
 *       server stores its hash.
 *   HOOK2  A webhook message uses the token and the channel of that moment.
 *   HOOK3  A nonce of a webhook makes one message in a channel, however often it is sent.
 */
export interface WebhookChannelCommands {
  createWebhook(input: AuditContext & { name: string; avatar_url?: string | undefined; token_hash: string }): Webhook
  listChannelWebhooks(input: { user: Snowflake }): ListedWebhook[]
}

export interface WebhookServerCommands {
  listServerWebhooks(input: { user: Snowflake }): ListedWebhook[]
  readWebhook(input: { user: Snowflake; webhook_id: Snowflake }): Webhook
  editWebhook(
    input: AuditContext & {
      webhook_id: Snowflake
      patch: {
        channel_id?: Snowflake | undefined
        name?: string | undefined
        /** `""`: none. */
        avatar_url?: string | undefined
      }
    },
  ): Webhook
  deleteWebhook(input: AuditContext & { webhook_id: Snowflake }): { deleted: true }
  setWebhookToken(input: AuditContext & { webhook_id: Snowflake; token_hash: string }): Webhook
  executeWebhook(input: {
    webhook_id: Snowflake
    /** The webhook's channel, as the route found it. */
    channel_id: Snowflake
    token_hash: string
    content?: string | undefined
    /** Instead of the webhook's own. */
    username?: string | undefined
    avatar_url?: string | undefined
    embeds?: readonly Embed[] | undefined
    nonce?: string | undefined
  }): WebhookExecution
}

type Server = Readonlied<ServerState>
type Known = Readonlied<WebhookState>
const managing = "webhooks.manage"

/** A server has few: they are loaded all at once, under one key. */
const webhookFacts = defineFact<ServerState, readonly WebhookState[]>({
  keep: 1,
  load: async (storage, server) => new Map([[allWebhooksKey, await storage.webhooks.ofServer(server)]]),
})
export const allWebhooksKey = "all"
const allWebhooks = webhookFacts.need(allWebhooksKey)

export const webhookChannelCommands: ActorKind<ServerState, ChannelState, WebhookChannelCommands>["commands"] = {
  createWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: channel, home: server, now, newId }, { user, reason, name, avatar_url = "", token_hash }) {
      accessOf(server, channel.id, user, now).require(managing)
      requirePublic(avatar_url)
      requireRoom(server, channel)
      if (webhooksOf(server).length >= limits.webhooksPerServer) throw fail("webhook_limit")
      const id = newId()
      const created: WebhookState = {
        id,
        server_id: server.id,
        channel_id: channel.id,
        creator_id: user,
        name,
        avatar_url: avatar_url === "" ? null : avatar_url,
        token_hash, // HOOK1
        created_at: secondsOf(id),
      }
      return {
        apply: draft => keep(draft, [...webhooksOf(server), created]),
        write: [
          insertWebhook(created),
          auditEntry(
            { now, newId, server: server.id, user, reason },
            "WEBHOOK_CREATE",
            targetOf(created),
            webhookChanges(null, created),
          ),
        ],
        publish: webhooksChanged(server.id, channel.id),
        reply: webhookObject(created),
      }
    },
  },

  listChannelWebhooks: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: channel, home: server, now }, { user }) {
      accessOf(server, channel.id, user, now).require(managing)
      return { reply: webhooksIn(server, channel.id).map(listedWebhook) }
    },
  },
}

export const webhookServerCommands: ActorKind<ServerState, ServerState, WebhookServerCommands>["commands"] = {
  listServerWebhooks: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: server, now }, { user }) {
      const caller = requireMember(server, user)
      requirePermission(server, caller, managing)
      const ofChannels = webhooksOf(server).filter(({ channel_id }) =>
        new Access(server, channel_id, caller, now).sees(managing),
      )
      return { reply: ofChannels.map(listedWebhook) }
    },
  },

  readWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: server, now }, { user, webhook_id }) {
      return { reply: webhookObject(managed(server, webhook_id, user, now)) }
    },
  },

  editWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: server, now, newId }, { user, reason, webhook_id, patch }) {
      const found = managed(server, webhook_id, user, now)
      const edited: WebhookState = {
        ...found,
        channel_id: patch.channel_id ?? found.channel_id,
        name: patch.name ?? found.name,
        avatar_url:
          patch.avatar_url === undefined ? found.avatar_url : patch.avatar_url === "" ? null : patch.avatar_url,
      }
      if (edited.channel_id !== found.channel_id) {
        const channel = server.channels.get(edited.channel_id)
        if (!channel) throw fail("channel_not_found")
        accessOf(server, channel.id, user, now).require(managing)
        requireRoom(server, channel)
      }
      requirePublic(patch.avatar_url ?? "")
      const changes = webhookChanges(found, edited)
      if (Object.keys(changes).length === 0) return { reply: webhookObject(found) }
      return {
        apply: draft => keep(draft, replaced(server, edited)),
        write: [
          updateWebhook(edited),
          auditEntry({ now, newId, server: server.id, user, reason }, "WEBHOOK_UPDATE", targetOf(edited), changes),
        ],
        publish: webhooksChanged(server.id, found.channel_id, edited.channel_id),
        reply: webhookObject(edited),
      }
    },
  },

  deleteWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: server, now, newId }, { user, reason, webhook_id }) {
      const found = managed(server, webhook_id, user, now)
      return {
        apply: draft =>
          keep(
            draft,
            webhooksOf(server).filter(({ id }) => id !== webhook_id),
          ),
        write: [
          deleteWebhook({ id: webhook_id }),
          auditEntry(
            { now, newId, server: server.id, user, reason },
            "WEBHOOK_DELETE",
            targetOf(found),
            webhookChanges(found, null),
          ),
        ],
        publish: webhooksChanged(server.id, found.channel_id),
        reply: { deleted: true },
      }
    },
  },

  setWebhookToken: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn({ state: server, now, newId }, { user, reason, webhook_id, token_hash }) {
      const found = managed(server, webhook_id, user, now)
      const edited: WebhookState = { ...found, token_hash }
      return {
        apply: draft => keep(draft, replaced(server, edited)),
        write: [
          updateWebhook(edited),
          auditEntry({ now, newId, server: server.id, user, reason }, "WEBHOOK_UPDATE", targetOf(edited), {
            token_regenerated: { old: false, new: true },
          }),
        ],
        publish: webhooksChanged(server.id, found.channel_id),
        reply: webhookObject(edited),
      }
    },
  },

  executeWebhook: {
    needs: ({ webhook_id, channel_id, nonce: sent }, { suspect }) => [
      allWebhooks,
      // As with people's messages: newer nonces are in memory, older ones are caught by their
      // unique index.
      ...(sent !== undefined && suspect ? [nonce(channel_id, webhook_id, sent)] : []),
    ],
    turn(context, { webhook_id, channel_id, token_hash, content = "", nonce: sent, ...shown }) {
      const { state: server, newId } = context
      const webhook = webhookIn(server, webhook_id)
      if (!sameHash(webhook.token_hash, token_hash)) throw fail("invalid_webhook_token") // HOOK2
      if (webhook.channel_id !== channel_id) throw unavailable("the webhook has just moved")
      const repeated = sent === undefined ? null : nonceFacts.of(server).get(nonceKey(channel_id, webhook_id, sent))
      if (repeated) return { reply: executionObject(repeated) } // HOOK3
      const { username = "", avatar_url = "", embeds = [] } = shown
      if (!holdsMessages(server.channels.get(channel_id)!)) throw fail("not_a_text_channel")
      if (embeds.length > limits.embedsPerMessage) throw fail("too_many_embeds")
      const nothing = nothingIn({ content, embeds })
      if (nothing) throw fail(nothing)
      requirePublic(avatar_url)
      const message: MessageState & { webhook_id: Snowflake; webhook_name: string } = {
        id: newId(),
        channel_id,
        server_id: server.id,
        author_id: webhook_id,
        author_username: username === "" ? webhook.name : username,
        author_badges: [],
        content: content === "" ? null : content,
        edited_at: null,
        reply_to_id: null,
        nonce: sent ?? null,
        webhook_id,
        webhook_name: username === "" ? webhook.name : username,
        webhook_avatar_url: avatar_url === "" ? webhook.avatar_url : avatar_url,
        embeds: embeds.length === 0 ? null : embeds,
      }
      return { ...posting(context, message, null), reply: executionObject(message) }
    },
  },
}

/**
 * What those who may manage the webhooks of channels are told when they have changed, or go with
 * their channel: before that goes.
 */
const webhooksChanged = (server: Snowflake, ...channels: readonly Snowflake[]): Publication[] =>
  [...new Set(channels)].map(channel_id =>
    webhooksUpdate.to(viewersHolding(server, channel_id, managing), {
      guild_id: server,
      server_id: server,
      channel_id,
    }),
  )

/** The webhooks of a channel end with it. */
export const webhooksDeletion: ChannelDeletion = {
  needs: [allWebhooks],
  effects: (server, channel) => ({
    publish: webhooksOf(server).some(({ channel_id }) => channel_id === channel)
      ? webhooksChanged(server.id, channel)
      : [],
  }),
}

/**
 * All webhooks of a server; the command needs `allWebhooks`. Those of a channel that is gone went
 * with it.
 */
const webhooksOf = (server: Server): readonly Known[] =>
  (webhookFacts.of(server).get(allWebhooksKey) ?? []).filter(({ channel_id }) => server.channels.has(channel_id))

const webhooksIn = (server: Server, channel: Snowflake): readonly Known[] =>
  webhooksOf(server).filter(({ channel_id }) => channel_id === channel)

function webhookIn(server: Server, id: Snowflake): Known {
  const found = webhooksOf(server).find(webhook => webhook.id === id)
  if (!found) throw fail("webhook_not_found")
  return found
}

/** A webhook that a user may manage. */
function managed(server: Server, id: Snowflake, user: Snowflake, now: number): Known {
  const found = webhookIn(server, id)
  const access = accessOf(server, found.channel_id, user, now)
  access.require(managing)
  return found
}

/** Whether a channel takes one more. */
function requireRoom(server: Server, channel: Readonlied<ChannelState>): void {
  if (!holdsMessages(channel)) throw fail("not_a_text_channel")
  if (webhooksIn(server, channel.id).length >= limits.webhooksPerChannel) throw fail("webhook_limit")
}

/** `""`: no address. */
function requirePublic(url: string): void {
  if (url !== "" && !isPublicUrl(url)) throw fail("private_address")
}

const replaced = (server: Server, edited: WebhookState): readonly Known[] =>
  webhooksOf(server).map(webhook => (webhook.id === edited.id ? edited : webhook))

function keep(draft: ServerState, webhooks: readonly Known[]): void {
  webhookFacts.of(draft).set(allWebhooksKey, webhooks)
}

const targetOf = ({ id, name }: Known) => ({ type: "webhook", id, name }) as const

const webhookChanges = (before: Known | null, after: Known | null): Changes =>
  changesOf(before, after, ["name", "channel_id", "avatar_url"])
