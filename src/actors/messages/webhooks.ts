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
import { isPublicUrl } from "../../domain/core/public-addresses.ts"
import { nothingIn, type MessageState } from "../../domain/messages/messages.ts"
import { secondsOf } from "../../domain/core/snowflake.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import { type WebhookState, executionObject, listedWebhook, webhookObject } from "../../domain/messages/webhooks.ts"
import { nonceKey } from "../../storage/messages/messages.ts"
import { deleteWebhook, insertWebhook, updateWebhook } from "../../storage/messages/webhooks.ts"
import { Access, accessOf, requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { ban, banFacts } from "../communities/membership.ts"
import type { ChannelDeletion } from "../communities/channel-settings.ts"
import { posting } from "./messages.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { nonce, nonceFacts } from "./message-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { allWebhooks, allWebhooksKey, webhookFacts } from "./webhook-facts.ts"

/**
 * Webhooks: made where their messages go, kept by their server. They keep:
 *   HOOK1  Only the user who created a webhook or renewed its token has seen the token: the
 *       server stores its hash.
 *   HOOK2  A webhook message uses the token and the channel of that moment.
 *   HOOK3  A nonce of a webhook makes one message in a channel, however often it is sent.
 *   HOOK4  A webhook sends nothing while the user who was given its token is banned, was kicked, or
 *       is a member who may not manage webhooks in its channel. It works on when they have left.
 */
export interface WebhookChannelCommands {
  createWebhook(input: AuditContext & { name: string; avatar_url?: string | undefined; token_hash: string }): Webhook
  listChannelWebhooks(input: { user: Snowflake }): ListedWebhook[]
}

/** Who sends, as the route found it. */
interface WebhookSender {
  webhook_id: Snowflake
  channel_id: Snowflake
  /** The user who was given the token. */
  holder_id: Snowflake
  token_hash: string
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
        /** `""`: no address. */
        avatar_url?: string | undefined
      }
    },
  ): Webhook
  deleteWebhook(input: AuditContext & { webhook_id: Snowflake }): { deleted: true }
  setWebhookToken(input: AuditContext & { webhook_id: Snowflake; token_hash: string }): Webhook
  /** Fails where the webhook would send nothing, whatever the message. */
  checkWebhook(input: WebhookSender): { may_send: true }
  executeWebhook(
    input: WebhookSender & {
      content?: string | undefined
      /** Shown instead of the webhook's own. */
      username?: string | undefined
      avatar_url?: string | undefined
      embeds?: readonly Embed[] | undefined
      nonce?: string | undefined
    },
  ): WebhookExecution
}

type Server = Readonlied<ServerState>
type Known = Readonlied<WebhookState>
const managing = "webhooks.manage"

export const webhookChannelCommands: ActorKind<ServerState, ChannelState, WebhookChannelCommands>["commands"] = {
  createWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn(context, { user, reason, name, avatar_url = "", token_hash }) {
      const { state: channel, home: server, now, newId } = context
      accessOf(server, channel.id, user, now).require(managing)
      requirePublic(avatar_url)
      requireBelowLimit(server, channel)
      if (webhooksOf(server).length >= limits.webhooksPerServer) throw fail("webhook_limit")
      const id = newId()
      const created: WebhookState = {
        id,
        server_id: server.id,
        channel_id: channel.id,
        creator_id: user,
        holder_id: user,
        holder_kicked: false,
        name,
        avatar_url: avatar_url === "" ? null : avatar_url,
        token_hash, // HOOK1
        created_at: secondsOf(id),
      }
      audit({ ...context, user, reason }, "WEBHOOK_CREATE", targetOf(created), webhookChanges(null, created))
      return {
        apply: draft => keep(draft, [...webhooksOf(server), created]),
        write: [insertWebhook(created)],
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
    turn(context, { user, reason, webhook_id, patch }) {
      const { state: server, now } = context
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
        requireBelowLimit(server, channel)
      }
      requirePublic(patch.avatar_url ?? "")
      const changes = webhookChanges(found, edited)
      if (Object.keys(changes).length === 0) return { reply: webhookObject(found) }
      audit({ ...context, user, reason }, "WEBHOOK_UPDATE", targetOf(edited), changes)
      return {
        apply: draft => keep(draft, replaced(server, edited)),
        write: [updateWebhook(edited)],
        publish: webhooksChanged(server.id, found.channel_id, edited.channel_id),
        reply: webhookObject(edited),
      }
    },
  },

  deleteWebhook: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn(context, { user, reason, webhook_id }) {
      const { state: server, now } = context
      const found = managed(server, webhook_id, user, now)
      audit({ ...context, user, reason }, "WEBHOOK_DELETE", targetOf(found), webhookChanges(found, null))
      return {
        apply: draft =>
          keep(
            draft,
            webhooksOf(server).filter(({ id }) => id !== webhook_id),
          ),
        write: [deleteWebhook({ id: webhook_id })],
        publish: webhooksChanged(server.id, found.channel_id),
        reply: { deleted: true },
      }
    },
  },

  setWebhookToken: {
    needs: ({ user }) => [member(user), allWebhooks],
    turn(context, { user, reason, webhook_id, token_hash }) {
      const { state: server, now } = context
      const found = managed(server, webhook_id, user, now)
      const edited: WebhookState = { ...found, token_hash, holder_id: user, holder_kicked: false }
      audit({ ...context, user, reason }, "WEBHOOK_UPDATE", targetOf(edited), {
        token_regenerated: { old: false, new: true },
      })
      return {
        apply: draft => keep(draft, replaced(server, edited)),
        write: [updateWebhook(edited)],
        publish: webhooksChanged(server.id, found.channel_id),
        reply: webhookObject(edited),
      }
    },
  },

  checkWebhook: {
    needs: ({ holder_id }) => [allWebhooks, member(holder_id), ban(holder_id)],
    turn({ state: server, now }, sender) {
      sending(server, sender, now)
      return { reply: { may_send: true } }
    },
  },

  executeWebhook: {
    needs: ({ webhook_id, channel_id, holder_id, nonce: sent }, { suspect }) => [
      allWebhooks,
      member(holder_id),
      ban(holder_id),
      // As with people's messages: newer nonces are in memory, older ones are caught by their
      // unique index.
      ...(sent !== undefined && suspect ? [nonce(channel_id, webhook_id, sent)] : []),
    ],
    turn(context, { content = "", nonce: sent, ...execution }) {
      const { state: server, now, newId } = context
      const { webhook_id, channel_id, ...shown } = execution
      const webhook = sending(server, execution, now)
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
        author_bot: false,
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
 * The event for those who may manage the webhooks of channels, when webhooks have changed or end
 * with their channel. It is sent before the channel ends.
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
 * All webhooks of a server; the command needs `allWebhooks`. Webhooks of deleted channels are left
 * out.
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

/** The webhook, if it may send now. */
function sending(server: Server, sender: WebhookSender, now: number): Known {
  const webhook = webhookIn(server, sender.webhook_id)
  if (!sameHash(webhook.token_hash, sender.token_hash)) throw fail("invalid_webhook_token") // HOOK2
  if (webhook.channel_id !== sender.channel_id || webhook.holder_id !== sender.holder_id)
    throw unavailable("the webhook has just changed")
  if (!mayHold(server, webhook, now)) throw fail("webhook_suspended") // HOOK4
  return webhook
}

/** HOOK4 */
function mayHold(server: Server, { holder_id, holder_kicked, channel_id }: Known, now: number): boolean {
  const holder = memberFacts.of(server).get(holder_id)
  if (!holder) return !holder_kicked && !banFacts.of(server).get(holder_id)
  return new Access(server, channel_id, holder, now).sees(managing)
}

/** Refuses a channel that takes no messages, or has as many webhooks as it may have. */
function requireBelowLimit(server: Server, channel: Readonlied<ChannelState>): void {
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
