import { accessTokensStorage } from "./service/access-tokens.ts"
import { accessUsesStorage } from "./service/access-uses.ts"
import { accountDeletionStorage } from "./account-deletion.ts"
import { addressBlocksStorage } from "./service/address-blocks.ts"
import { auditLogStorage } from "./communities/audit-log.ts"
import { avatarsStorage } from "./accounts/avatars.ts"
import { automodStorage } from "./communities/automod.ts"
import { automodSettingsStorage } from "./service/automod-settings.ts"
import { bansStorage } from "./communities/bans.ts"
import { botsStorage } from "./accounts/bots.ts"
import { channelsStorage } from "./communities/channels.ts"
import type { Metrics } from "../observability/metrics.ts"
import { bounded, inTransaction, observing, openPool, within, type Observe, type PoolOptions } from "./core/database.ts"
import { deliveriesStorage } from "./messages/deliveries.ts"
import { directsStorage } from "./social/directs.ts"
import { emojisStorage } from "./communities/emojis.ts"
import { exportsStorage } from "./accounts/exports.ts"
import { feedbackStorage } from "./service/feedback.ts"
import { fileBlocksStorage } from "./messages/file-blocks.ts"
import { filesStorage } from "./messages/files.ts"
import { guildMembersStorage } from "./communities/guild-members.ts"
import { lineageStorage } from "./core/lineage.ts"
import { iconsStorage } from "./communities/icons.ts"
import { invitesStorage } from "./communities/invites.ts"
import { Fenced, Lane } from "./core/lanes.ts"
import { mailsStorage } from "./accounts/mails.ts"
import { mentionsStorage } from "./messages/mentions.ts"
import { messagesStorage } from "./messages/messages.ts"
import { messagingSettingsStorage } from "./accounts/messaging-settings.ts"
import { migrationsStorage } from "./core/migrate.ts"
import { notificationSettingsStorage } from "./accounts/notification-settings.ts"
import { notificationsStorage } from "./accounts/notifications.ts"
import { oauthStorage } from "./accounts/oauth.ts"
import { oneTimeTokensStorage } from "./accounts/one-time-tokens.ts"
import { operatorRequestsStorage } from "./service/operator-requests.ts"
import { operatorFailuresStorage } from "./operators/failures.ts"
import { operatorSignInStorage } from "./operators/sign-in.ts"
import { operatorsStorage } from "./operators/operators.ts"
import { operatorOverviewStorage } from "./operators/overview.ts"
import { PoolWaits } from "./core/pool-waits.ts"
import { operatorTrailStorage } from "./operators/trail.ts"
import { placementStorage } from "./core/placement.ts"
import { pollsStorage } from "./messages/polls.ts"
import { presencesStorage } from "./social/presences.ts"
import { reactionsStorage } from "./messages/reactions.ts"
import { readStateStorage } from "./messages/read-state.ts"
import { relationshipsStorage } from "./social/relationships.ts"
import { reportsStorage } from "./messages/reports.ts"
import { searchSettings, searchStorage } from "./messages/search.ts"
import { listUnread, searchIndexStorage, searchLagStorage } from "./messages/search-index.ts"
import { serversStorage } from "./communities/servers.ts"
import { serverStatusStorage } from "./service/server-status.ts"
import { sessionsStorage } from "./accounts/sessions.ts"
import { settingsStorage } from "./accounts/settings.ts"
import { storedPicturesStorage } from "./communities/stored-pictures.ts"
import { thumbnailsStorage } from "./messages/thumbnails.ts"
import { stickersStorage } from "./communities/stickers.ts"
import { tellsStorage } from "./core/tells.ts"
import { telemetryStorage } from "./service/telemetry.ts"
import { uploadContentsStorage } from "./messages/upload-contents.ts"
import { uploadSessionsStorage } from "./messages/upload-sessions.ts"
import { uploadsStorage } from "./messages/uploads.ts"
import { bannedUsernamesStorage } from "./accounts/banned-usernames.ts"
import { userDirectoryStorage } from "./operators/user-directory.ts"
import { userNotesStorage } from "./accounts/user-notes.ts"
import { usersStorage } from "./accounts/users.ts"
import { voiceStorage } from "./voice/voice.ts"
import { webhooksStorage } from "./messages/webhooks.ts"

export type StorageOptions = Omit<PoolOptions, "connections" | "onLoss"> & {
  readConnections: number
  /** Nothing is counted without. */
  metrics?: Pick<Metrics, "pools">
}

/** Statements of searches at once, and the milliseconds that one may take. */
export const searchConnections = 2
const searchTimeoutMs = 1_500
/** PostgreSQL ends them first: nothing goes on for nobody. */
const slack = 250
/** The most that one step of the search index takes, and holds shards of it. */
const stepTimeoutMs = 20_000

/** Everything kept in PostgreSQL: one pool of plain statements, and lanes for what turns write. */
export function openStorage(options: StorageOptions) {
  const { readConnections, metrics, ...rest } = options
  const lossListeners: (() => void)[] = []
  const pool = {
    ...rest,
    onLoss() {
      for (const listener of lossListeners) listener()
    },
  }
  const sql = openPool({ ...pool, connections: readConnections })
  const searching = openPool({
    ...pool,
    connections: searchConnections,
    statementTimeoutMs: searchTimeoutMs,
    name: `${pool.name} search`,
    settings: searchSettings,
  })
  const waits = new PoolWaits(readConnections)
  const observe: Observe = metrics ? observing(metrics, "read", () => true, waits) : query => query
  const observeLane: Observe = metrics
    ? observing(metrics, "lane", error => !(error instanceof Fenced))
    : query => query
  const asked = <Group extends object>(group: Group) => bounded(group, options.statementTimeoutMs, observe)
  return {
    users: asked(usersStorage(sql)),
    userDirectory: asked(userDirectoryStorage(sql)),
    userNotes: asked(userNotesStorage(sql)),
    bannedUsernames: asked(bannedUsernamesStorage(sql)),
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
    automodSettings: asked(automodSettingsStorage(sql)),
    emojis: asked(emojisStorage(sql)),
    stickers: asked(stickersStorage(sql)),
    icons: asked(iconsStorage(sql)),
    storedPictures: asked(storedPicturesStorage(sql)),
    thumbnails: asked(thumbnailsStorage(sql)),
    avatars: asked(avatarsStorage(sql)),
    files: asked(filesStorage(sql)),
    uploads: asked(uploadsStorage(sql)),
    uploadContents: asked(uploadContentsStorage(sql)),
    uploadSessions: asked(uploadSessionsStorage(sql)),
    fileBlocks: asked(fileBlocksStorage(sql)),
    reports: asked(reportsStorage(sql)),
    feedback: asked(feedbackStorage(sql)),
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
    placement: asked(placementStorage(sql, listUnread)),
    lineage: asked(lineageStorage(sql)),
    migrations: asked(migrationsStorage(sql)),
    tells: asked(tellsStorage(sql)),
    voice: asked(voiceStorage(sql)),
    webhooks: asked(webhooksStorage(sql)),
    serverStatus: asked(serverStatusStorage(sql)),
    addressBlocks: asked(addressBlocksStorage(sql)),
    accessTokens: asked(accessTokensStorage(sql)),
    accessUses: asked(accessUsesStorage(sql)),
    operatorRequests: asked(operatorRequestsStorage(sql)),
    operators: asked({ ...operatorsStorage(sql), ...operatorSignInStorage(sql), ...operatorFailuresStorage(sql) }),
    operatorOverview: { ...asked(operatorOverviewStorage(sql)), waits: () => waits.figures },
    telemetry: asked(telemetryStorage(sql)),
    operatorTrail: asked(operatorTrailStorage(sql)),
    /** Searches have connections of their own: what takes long keeps nothing else waiting. */
    search: bounded(searchStorage(searching), searchTimeoutMs + slack, observe),
    searchLag: asked(searchLagStorage(sql)),
    /** What keeps the search index, on one connection: each step of it is a transaction. */
    openSearchIndex() {
      const indexing = openPool({
        ...pool,
        connections: 1,
        name: `${pool.name} index`,
        settings: searchSettings,
        idleInTransactionTimeoutMs: stepTimeoutMs,
      })
      type Step = ReturnType<typeof searchIndexStorage>
      return {
        step: <T>(act: (step: Step) => Promise<T>): Promise<T> =>
          within(
            inTransaction(indexing, sql => act(asked(searchIndexStorage(sql)))),
            stepTimeoutMs,
            "a step of the search index",
          ),
        close: () => indexing.end({ timeout: 1 }),
      }
    },
    openLane: (incarnation: string, lane: number, generation: number) =>
      new Lane({ ...pool, incarnation, lane, generation, name: `${pool.name} lane ${lane}`, observe: observeLane }),
    /** Has a function called whenever a connection is lost: PostgreSQL may be another one when it is back. */
    onLoss(listener: () => void): void {
      lossListeners.push(listener)
    },
    close: async () => {
      await Promise.all([sql.end({ timeout: 1 }), searching.end({ timeout: 1 })])
    },
  }
}

export type Storage = ReturnType<typeof openStorage>
export type SearchIndexStorage = Omit<ReturnType<Storage["openSearchIndex"]>, "close">
/** What is asked within a step. */
export type SearchIndexStep = ReturnType<typeof searchIndexStorage>
