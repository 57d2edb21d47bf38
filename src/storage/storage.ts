import { accessTokensStorage } from "./service/access-tokens.ts"
import { accessUsesStorage } from "./service/access-uses.ts"
import { accountDeletionStorage } from "./account-deletion.ts"
import { addressBlocksStorage } from "./service/address-blocks.ts"
import { auditLogStorage } from "./communities/audit-log.ts"
import { avatarsStorage } from "./accounts/avatars.ts"
import { automodStorage } from "./communities/automod.ts"
import { automodSettingsStorage } from "./service/automod-settings.ts"
import { bansStorage } from "./communities/bans.ts"
import { connectionCapacityStorage } from "./core/connection-capacity.ts"
import { botsStorage } from "./accounts/bots.ts"
import { channelsStorage } from "./communities/channels.ts"
import type { Metrics } from "../observability/metrics.ts"
import {
  bounded,
  inTransaction,
  observing,
  openPool,
  within,
  type Observe,
  type PoolOptions,
  type Sql,
} from "./core/database.ts"
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
import { importsStorage, openImport } from "./imports.ts"
import { invitesStorage } from "./communities/invites.ts"
import { Fenced, Lane } from "./core/lanes.ts"
import { Listener, type ListenerOptions } from "./core/listener.ts"
import { mailsStorage } from "./accounts/mails.ts"
import { mentionsStorage } from "./messages/mentions.ts"
import { messagesStorage } from "./messages/messages.ts"
import { messagingSettingsStorage } from "./accounts/messaging-settings.ts"
import { migrationsStorage } from "./core/migrate.ts"
import { notificationSettingsStorage } from "./accounts/notification-settings.ts"
import { notificationsStorage } from "./accounts/notifications.ts"
import { oauthStorage } from "./accounts/oauth.ts"
import { passkeysStorage } from "./accounts/passkeys.ts"
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
import { pushSubscriptionsStorage } from "./accounts/push-subscriptions.ts"
import { reactionsStorage } from "./messages/reactions.ts"
import { readStateStorage } from "./messages/read-state.ts"
import { relationshipsStorage } from "./social/relationships.ts"
import { reportsStorage } from "./messages/reports.ts"
import { searchSettings, searchStorage } from "./messages/search.ts"
import { endOldIndex, keepingSettings } from "./messages/search-blocks.ts"
import { listUnread, searchIndexStorage, searchLagStorage } from "./messages/search-index.ts"
import { serversStorage } from "./communities/servers.ts"
import { serverStatusStorage } from "./service/server-status.ts"
import { arrivalsStorage } from "./messages/arrivals.ts"
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
import { walStorage } from "./core/wal.ts"
import { webhooksStorage } from "./messages/webhooks.ts"

export type StorageOptions = Omit<PoolOptions, "connections" | "onLoss"> & {
  readConnections: number
  /** Nothing is counted without. */
  metrics?: Pick<Metrics, "pools">
}

/** Connections that a process has at most. */
export function connectionsOf(readConnections: number, role: "web" | "job" | "primary"): number {
  // A lane of its own and what operators say, or the search index; the primary keeps none.
  return readConnections + searchConnections + { web: 2, job: 1, primary: 0 }[role]
}

/** Statements of searches at once, and the milliseconds that one may take. */
export const searchConnections = 2
export const searchTimeoutMs = 1_500
/** PostgreSQL ends them first: nothing goes on for nobody. */
const slack = 250
/** The most that one step of the search index takes, and holds shards of it. */
const stepTimeoutMs = 20_000

/**
 * Counts the begin and the end of whatever may write: while the count stays, this process has committed
 * nothing.
 */
class Work {
  #count = 0
  readonly #note = () => void this.#count++

  get count(): number {
    return this.#count
  }

  readonly observe: Observe = query => {
    this.#note()
    query.then(this.#note, this.#note)
    return query
  }
}

/** How statements are counted. */
function observers(metrics: StorageOptions["metrics"], readConnections: number) {
  const waits = new PoolWaits(readConnections, { onWaited: seconds => metrics?.pools.waitSeconds.observe(seconds) })
  const observe = (group: string): Observe =>
    metrics ? observing(metrics, { pool: "read", isFailure: () => true, waits, group }) : query => query
  const work = new Work()
  const countLane: Observe = metrics
    ? observing(metrics, { pool: "lane", isFailure: error => !(error instanceof Fenced) })
    : query => query
  const observeLane: Observe = query => countLane(work.observe(query))
  return { work, waits, observe, observeLane }
}

/** What keeps the search index, on one connection: each step of it is a transaction. */
function openSearchIndex(pool: Omit<PoolOptions, "connections">, observe: Observe, work: Work) {
  const indexing = openPool({
    ...pool,
    connections: 1,
    name: `${pool.name} index`,
    settings: { ...searchSettings, ...keepingSettings },
    idleInTransactionTimeoutMs: stepTimeoutMs,
  })
  type Step = ReturnType<typeof searchIndexStorage>
  return {
    step: <T>(act: (step: Step) => Promise<T>): Promise<T> =>
      within(
        work.observe(
          inTransaction(indexing, sql => act(bounded(searchIndexStorage(sql), pool.statementTimeoutMs, observe))),
        ),
        stepTimeoutMs,
        "a step of the search index",
      ),
    /** The index of three characters each, which blocks take the place of. */
    endOldIndex: async (): Promise<void> => {
      await endOldIndex(indexing)
    },
    close: () => indexing.end({ timeout: 1 }),
  }
}

/** A connection on which is heard what the triggers of migration 0018 announce. */
function listenToService(
  connection: ListenerOptions["connection"],
  sql: Sql,
  listening: Pick<ListenerOptions, "onAnnounced" | "onTurn" | "clock" | "log">,
) {
  const channel = "starling_service"
  const announce = async (text: string) => sql`SELECT pg_notify(${channel}, ${text})`
  const listener = new Listener({ connection, channel, announce, ...listening })
  return {
    /** Whether a change is heard of at once. */
    get hears() {
      return listener.hears
    },
    /** As `serverStatus.look`; it shows that the connection stands. */
    look: () => listener.ask(own => serverStatusStorage(own).look()),
    stop: () => listener.stop(),
  }
}

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
  const { work, waits, observe, observeLane } = observers(metrics, readConnections)
  /** Only asks whether anything has changed. */
  const looked = <Group extends object>(name: string, group: Group) =>
    bounded(group, options.statementTimeoutMs, observe(name))
  const asked = <Group extends object>(name: string, group: Group) => {
    const seen = observe(name)
    return bounded(group, options.statementTimeoutMs, query => seen(work.observe(query)))
  }
  const { epochs, ping, ...placement } = placementStorage(sql, listUnread)
  const { look, ...serverStatus } = serverStatusStorage(sql)
  return {
    users: asked("users", usersStorage(sql)),
    userDirectory: asked("userDirectory", userDirectoryStorage(sql)),
    userNotes: asked("userNotes", userNotesStorage(sql)),
    bannedUsernames: asked("bannedUsernames", bannedUsernamesStorage(sql)),
    sessions: asked("sessions", sessionsStorage(sql)),
    arrivals: asked("arrivals", arrivalsStorage(sql)),
    oneTimeTokens: asked("oneTimeTokens", oneTimeTokensStorage(sql)),
    passkeys: asked("passkeys", passkeysStorage(sql)),
    oauth: asked("oauth", oauthStorage(sql)),
    directs: asked("directs", directsStorage(sql)),
    deliveries: asked("deliveries", deliveriesStorage(sql)),
    messagingSettings: asked("messagingSettings", messagingSettingsStorage(sql)),
    settings: asked("settings", settingsStorage(sql)),
    notifications: asked("notifications", notificationsStorage(sql)),
    pushSubscriptions: asked("pushSubscriptions", pushSubscriptionsStorage(sql)),
    notificationSettings: asked("notificationSettings", notificationSettingsStorage(sql)),
    servers: asked("servers", serversStorage(sql)),
    guildMembers: asked("guildMembers", guildMembersStorage(sql)),
    auditLog: asked("auditLog", auditLogStorage(sql)),
    automod: asked("automod", automodStorage(sql)),
    automodSettings: asked("automodSettings", automodSettingsStorage(sql)),
    emojis: asked("emojis", emojisStorage(sql)),
    stickers: asked("stickers", stickersStorage(sql)),
    icons: asked("icons", iconsStorage(sql)),
    storedPictures: asked("storedPictures", storedPicturesStorage(sql)),
    thumbnails: asked("thumbnails", thumbnailsStorage(sql)),
    avatars: asked("avatars", avatarsStorage(sql)),
    files: asked("files", filesStorage(sql)),
    uploads: asked("uploads", uploadsStorage(sql)),
    uploadContents: asked("uploadContents", uploadContentsStorage(sql)),
    uploadSessions: asked("uploadSessions", uploadSessionsStorage(sql)),
    fileBlocks: asked("fileBlocks", fileBlocksStorage(sql)),
    reports: asked("reports", reportsStorage(sql)),
    feedback: asked("feedback", feedbackStorage(sql)),
    bans: asked("bans", bansStorage(sql)),
    bots: asked("bots", botsStorage(sql)),
    channels: asked("channels", channelsStorage(sql)),
    imports: asked("imports", importsStorage(sql)),
    invites: asked("invites", invitesStorage(sql)),
    messages: asked("messages", messagesStorage(sql)),
    reactions: asked("reactions", reactionsStorage(sql)),
    mentions: asked("mentions", mentionsStorage(sql)),
    polls: asked("polls", pollsStorage(sql)),
    readState: asked("readState", readStateStorage(sql)),
    relationships: asked("relationships", relationshipsStorage(sql)),
    presences: asked("presences", presencesStorage(sql)),
    mails: asked("mails", mailsStorage(sql)),
    accountDeletion: asked("accountDeletion", accountDeletionStorage(sql)),
    exports: asked("exports", exportsStorage(sql)),
    placement: { ...asked("placement", placement), ...looked("placement", { epochs, ping }) },
    lineage: looked("lineage", lineageStorage(sql)),
    migrations: asked("migrations", migrationsStorage(sql)),
    connections: asked("connections", connectionCapacityStorage(sql)),
    wal: asked("wal", walStorage(sql)),
    tells: asked("tells", tellsStorage(sql)),
    voice: asked("voice", voiceStorage(sql)),
    webhooks: asked("webhooks", webhooksStorage(sql)),
    serverStatus: { ...asked("serverStatus", serverStatus), ...looked("serverStatus", { look }) },
    addressBlocks: asked("addressBlocks", addressBlocksStorage(sql)),
    accessTokens: asked("accessTokens", accessTokensStorage(sql)),
    accessUses: asked("accessUses", accessUsesStorage(sql)),
    operatorRequests: asked("operatorRequests", operatorRequestsStorage(sql)),
    operators: asked("operators", {
      ...operatorsStorage(sql),
      ...operatorSignInStorage(sql),
      ...operatorFailuresStorage(sql),
    }),
    operatorOverview: { ...asked("operatorOverview", operatorOverviewStorage(sql)), waits: () => waits.figures },
    telemetry: asked("telemetry", telemetryStorage(sql)),
    operatorTrail: asked("operatorTrail", operatorTrailStorage(sql)),
    /** Searches have connections of their own: what takes long keeps nothing else waiting. */
    search: bounded(searchStorage(searching), searchTimeoutMs + slack, observe("search")),
    searchLag: asked("searchLag", searchLagStorage(sql)),
    openSearchIndex: () => openSearchIndex(pool, observe("searchIndex"), work),
    openImport: () => openImport(pool),
    /** Hears what operators say of the service. */
    listenToService: (listening: Pick<ListenerOptions, "onAnnounced" | "onTurn" | "clock" | "log">) =>
      listenToService({ ...pool, name: `${pool.name} listening` }, sql, listening),
    openLane: (incarnation: string, lane: number, generation: number) =>
      new Lane({ ...pool, incarnation, lane, generation, name: `${pool.name} lane ${lane}`, observe: observeLane }),
    /** Changes with everything that this process asks which may write, when it begins and when it ends. */
    work: () => work.count,
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
export type ImportSteps = Pick<ReturnType<Storage["openImport"]>, "step">
export type SearchIndexStorage = Omit<ReturnType<Storage["openSearchIndex"]>, "close">
/** What is asked within a step. */
export type SearchIndexStep = ReturnType<typeof searchIndexStorage>
