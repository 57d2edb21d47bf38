import { accessTokensStorage } from "./access-tokens.ts"
import { accountDeletionStorage } from "./account-deletion.ts"
import { addressBlocksStorage } from "./address-blocks.ts"
import { auditLogStorage } from "./audit-log.ts"
import { automodStorage } from "./automod.ts"
import { bansStorage } from "./bans.ts"
import { botsStorage } from "./bots.ts"
import { channelsStorage } from "./channels.ts"
import type { Metrics } from "../observability/metrics.ts"
import { bounded, observing, openPool, type Observe, type PoolOptions } from "./database.ts"
import { deliveriesStorage } from "./deliveries.ts"
import { directsStorage } from "./directs.ts"
import { emojisStorage } from "./emojis.ts"
import { exportsStorage } from "./exports.ts"
import { filesStorage } from "./files.ts"
import { guildMembersStorage } from "./guild-members.ts"
import { iconsStorage } from "./icons.ts"
import { invitesStorage } from "./invites.ts"
import { Fenced, Lane } from "./lanes.ts"
import { mailsStorage } from "./mails.ts"
import { mentionsStorage } from "./mentions.ts"
import { messagesStorage } from "./messages.ts"
import { messagingSettingsStorage } from "./messaging-settings.ts"
import { migrationsStorage } from "./migrate.ts"
import { notificationSettingsStorage } from "./notification-settings.ts"
import { notificationsStorage } from "./notifications.ts"
import { oauthStorage } from "./oauth.ts"
import { oneTimeTokensStorage } from "./one-time-tokens.ts"
import { operatorRequestsStorage } from "./operator-requests.ts"
import { placementStorage } from "./placement.ts"
import { pollsStorage } from "./polls.ts"
import { presencesStorage } from "./presences.ts"
import { reactionsStorage } from "./reactions.ts"
import { readStateStorage } from "./read-state.ts"
import { relationshipsStorage } from "./relationships.ts"
import { searchIndexStorage, searchSettings, searchStorage } from "./search.ts"
import { serversStorage } from "./servers.ts"
import { serverStatusStorage } from "./server-status.ts"
import { sessionsStorage } from "./sessions.ts"
import { settingsStorage } from "./settings.ts"
import { stickersStorage } from "./stickers.ts"
import { tellsStorage } from "./tells.ts"
import { uploadsStorage } from "./uploads.ts"
import { usersStorage } from "./users.ts"
import { voiceStorage } from "./voice.ts"
import { webhooksStorage } from "./webhooks.ts"

export type StorageOptions = Omit<PoolOptions, "connections"> & {
  readConnections: number
  /** Nothing is counted without. */
  metrics?: Pick<Metrics, "pools">
}

/** Statements of searches at once, and the milliseconds that one may take. */
export const searchConnections = 2
const searchTimeout = 1_500
/** PostgreSQL ends them first: nothing goes on for nobody. */
const slack = 250

/** Everything kept in PostgreSQL: one pool of plain statements, and lanes for what turns write. */
export function openStorage(options: StorageOptions) {
  const { readConnections, metrics, ...pool } = options
  const sql = openPool({ ...pool, connections: readConnections })
  const searching = openPool({
    ...pool,
    connections: searchConnections,
    statementTimeout: searchTimeout,
    name: `${pool.name} search`,
    settings: searchSettings,
  })
  const observe: Observe = metrics ? observing(metrics, "read", () => true) : query => query
  const observeLane: Observe = metrics
    ? observing(metrics, "lane", error => !(error instanceof Fenced))
    : query => query
  const asked = <Group extends object>(group: Group) => bounded(group, options.statementTimeout, observe)
  return {
    users: asked(usersStorage(sql)),
    sessions: asked(sessionsStorage(sql)),
    oneTimeTokens: asked(oneTimeTokensStorage(sql)),
    oauth: asked(oauthStorage(sql)),
    directs: asked(directsStorage(sql)),
    deliveries: asked(deliveriesStorage(sql)),
    messagingSettings: asked(messagingSettingsStorage(sql)),
    settings: asked(settingsStorage(sql)),
    notifications: asked(notificationsStorage(sql)),
    notificationSettings: asked(notificationSettingsStorage(sql)),
    servers: asked(serversStorage(sql)),
    guildMembers: asked(guildMembersStorage(sql)),
    auditLog: asked(auditLogStorage(sql)),
    automod: asked(automodStorage(sql)),
    emojis: asked(emojisStorage(sql)),
    stickers: asked(stickersStorage(sql)),
    icons: asked(iconsStorage(sql)),
    files: asked(filesStorage(sql)),
    uploads: asked(uploadsStorage(sql)),
    bans: asked(bansStorage(sql)),
    bots: asked(botsStorage(sql)),
    channels: asked(channelsStorage(sql)),
    invites: asked(invitesStorage(sql)),
    messages: asked(messagesStorage(sql)),
    reactions: asked(reactionsStorage(sql)),
    mentions: asked(mentionsStorage(sql)),
    polls: asked(pollsStorage(sql)),
    readState: asked(readStateStorage(sql)),
    relationships: asked(relationshipsStorage(sql)),
    presences: asked(presencesStorage(sql)),
    mails: asked(mailsStorage(sql)),
    accountDeletion: asked(accountDeletionStorage(sql)),
    exports: asked(exportsStorage(sql)),
    placement: asked(placementStorage(sql)),
    migrations: asked(migrationsStorage(sql)),
    tells: asked(tellsStorage(sql)),
    voice: asked(voiceStorage(sql)),
    webhooks: asked(webhooksStorage(sql)),
    serverStatus: asked(serverStatusStorage(sql)),
    addressBlocks: asked(addressBlocksStorage(sql)),
    accessTokens: asked(accessTokensStorage(sql)),
    operatorRequests: asked(operatorRequestsStorage(sql)),
    /** Searches have connections of their own: what takes long keeps nothing else waiting. */
    search: bounded(searchStorage(searching), searchTimeout + slack, observe),
    /** What keeps the search index, on one connection. */
    openSearchIndex() {
      const indexing = openPool({ ...pool, connections: 1, name: `${pool.name} index`, settings: searchSettings })
      return { ...asked(searchIndexStorage(indexing)), close: () => indexing.end({ timeout: 1 }) }
    },
    openLane: (incarnation: string, lane: number, generation: number) =>
      new Lane({ ...pool, incarnation, lane, generation, name: `${pool.name} lane ${lane}`, observe: observeLane }),
    close: async () => {
      await Promise.all([sql.end({ timeout: 1 }), searching.end({ timeout: 1 })])
    },
  }
}

export type Storage = ReturnType<typeof openStorage>
export type SearchIndexStorage = Omit<ReturnType<Storage["openSearchIndex"]>, "close">
