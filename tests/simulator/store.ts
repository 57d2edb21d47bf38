import { clientFingerprint } from "../../src/cluster/tokens.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import { channelObject } from "../../src/domain/core/channels.ts"
import type { Override } from "../../src/domain/core/overrides.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"
import type { Pair, Side } from "../../src/domain/social/relationships.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import { defaultPresence } from "../../src/domain/core/presences.ts"
import type { MessageState } from "../../src/domain/messages/messages.ts"
import { tierAt } from "../../src/domain/accounts/accounts.ts"
import { Fenced, type Batch, type Lane, type OutboxRow } from "../../src/storage/core/lanes.ts"
import { insertMessage, nonceKey } from "../../src/storage/messages/messages.ts"
import type { ShardRow } from "../../src/storage/core/placement.ts"
import { newServerState } from "../../src/domain/communities/servers.ts"
import type { ServerOutline } from "../../src/storage/communities/servers.ts"
import type { Storage } from "../../src/storage/storage.ts"
import { accountOf, type Membership, type UserRow } from "../../src/storage/accounts/users.ts"
import type { HeldCall } from "../../src/storage/voice/voice.ts"
import { groupWrites, type Write } from "../../src/storage/core/write.ts"
import { applyGroup, pair, picked, Tables, tellKey } from "./tables.ts"
import { Facts } from "../../src/domain/core/facts.ts"

/**
 * The way from one worker to the store. It decides when a statement is executed, and when its answer comes or whether
 * it is lost; the store itself has no time and no chance. `execute` is one atomic step, done at most once; what it throws
 * is the answer. A link without a fault: `call: async (_name, execute) => execute()`.
 */
export interface Link {
  call<T>(name: string, execute: () => T): Promise<T>
}

/** What a caller sees whose connection was lost, or whose answer did not come: `isDatabaseUnavailable` is true of it. */
export const lostAnswer = (code: "CONNECTION_CLOSED" | "CONNECTION_ENDED" | "NO_ANSWER" = "CONNECTION_CLOSED"): Error =>
  Object.assign(new Error(`simulated: ${code}`), { code })

export interface SimulatedStoreOptions {
  /** The numbers of the shards that exist. */
  shards: readonly number[]
  /** The database's own clock, in milliseconds: what is a day old is forgotten. */
  now?: () => number
}

type Group = ReturnType<typeof groupWrites>[number]

const day = 86_400_000

/**
 * PostgreSQL in memory, for as much of it as turns, homes, gateways and sweeps read and write. It keeps:
 *   T1  A statement sees and changes rows at one moment; what takes several statements in SQL takes several calls here.
 *   T2  A batch is written whole or not at all, in the order of `groupWrites`; the fence is looked at in the same step.
 *   T3  What is refused is refused with PostgreSQL's code and the constraint's own name.
 *   T4  Rows are copied on the way in, when a function is called, and on the way out.
 */
export class SimulatedStore {
  /** What stands, for checkers. Rows are not to be changed. */
  readonly tables: Tables
  #drawn = 2 ** 30

  constructor({ shards, now = () => 0 }: SimulatedStoreOptions) {
    this.tables = new Tables(now)
    this.tables.shards.insert(shards.map(shard => ({ shard, owner: null, epoch: 0 })))
  }

  /** One worker's storage. */
  connect(link: Link): Storage {
    return {
      ...readers(this.tables, link),
      openLane: (incarnation: string, lane: number, generation: number) =>
        new SimulatedLane({ tables: this.tables, link, incarnation, lane, generation, draw: () => this.#draw() }),
      close: () => Promise.resolve(),
    } as unknown as Storage
  }

  /** Writes without a lane: how a story begins. */
  seed(...writes: readonly Write[]): void {
    const groups = groupsOf([{ home: "seed", writes }])
    this.tables.atomically(() => {
      for (const group of groups) applyGroup(this.tables, group)
    })
  }

  /** The real ones are random: no two are the same, nor one more than the other for a while. */
  #draw(): number {
    return (this.#drawn += 1024)
  }
}

/** The rows as they are now: an actor may change its own a moment later. */
function groupsOf(turns: Batch["turns"]): Group[] {
  return groupWrites(turns).map(({ kind, rows }) => ({ kind, rows: rows.map(row => sent(row as object)) }))
}

function sent(row: object): object {
  const copy: Record<string, unknown> = { ...row }
  for (const key in copy) {
    const value = copy[key]
    if (Array.isArray(value) || value instanceof Set) copy[key] = [...(value as Iterable<unknown>)]
    else if (value === undefined) copy[key] = null
  }
  return copy
}

const { kind: insertMessageKind } = insertMessage({} as Parameters<typeof insertMessage>[0])

interface SimulatedLaneOptions {
  tables: Tables
  link: Link
  incarnation: string
  lane: number
  generation: number
  draw: () => number
}

/** Behaves as `Lane` does, step by step. */
class SimulatedLane implements Pick<Lane, "commit" | "raise" | "close"> {
  readonly #options: SimulatedLaneOptions
  #generation: number
  #drawn: number | undefined
  #closed = false

  constructor(options: SimulatedLaneOptions) {
    this.#options = options
    this.#generation = options.generation
  }

  /** What is still on its way when the lane is raised comes before the raise or is fenced; when it is closed, never. */
  commit(batch: Batch): Promise<void> {
    const { tables, link } = this.#options
    const groups = groupsOf(batch.turns)
    const outbox = batch.outbox.map(row => ({ ...row }))
    const isOneStatement = groups.length === 1 && groups[0]!.kind === insertMessageKind
    const generation = this.#generation
    return link.call("lane.commit", () => {
      this.#mustBeOpen()
      if (this.#row?.generation !== generation) throw new Fenced()
      tables.atomically(() => {
        // In one statement PostgreSQL runs the later WITH query first.
        if (isOneStatement) tables.outbox.insert(outbox)
        for (const group of groups) applyGroup(tables, group)
        if (!isOneStatement) tables.outbox.insert(outbox)
      })
    })
  }

  async raise(): Promise<void> {
    const { tables, link, incarnation, lane } = this.#options
    const from = this.#generation
    const drawn = (this.#drawn ??= this.#options.draw())
    await link.call("lane.raise", () => {
      this.#mustBeOpen()
      const current = this.#row?.generation
      if (current !== from && current !== drawn) throw new Fenced()
      tables.lanes.update(pair(incarnation, lane), { generation: drawn })
    })
    this.#generation = drawn
    this.#drawn = undefined
  }

  close(): Promise<void> {
    this.#closed = true
    return Promise.resolve()
  }

  get #row() {
    const { tables, incarnation, lane } = this.#options
    return tables.lanes.get(pair(incarnation, lane))
  }

  #mustBeOpen(): void {
    if (this.#closed) throw lostAnswer("CONNECTION_ENDED")
  }
}

function readers(tables: Tables, link: Link): Omit<Storage, "openLane" | "close"> {
  const {
    incarnations,
    lanes,
    shards,
    outbox,
    users,
    presences,
    relationships,
    sessions,
    servers,
    roles,
    members,
    channels,
    invites,
    messages,
  } = tables
  const isLiving = (id: string | null) => id !== null && incarnations.get(id)?.died_at === null
  const ask = <T>(name: string, execute: () => T): Promise<T> => link.call(name, execute)

  const userRow = (id: Snowflake) => {
    const user = users.get(id)
    return (
      user && {
        ...accountOf(user),
        badges: [...user.badges],
        permissions: [...user.permissions],
        backup_codes: [...user.backup_codes],
      }
    )
  }
  const shownBy = (id: Snowflake) => {
    const row = presences.get(id)
    return row && picked(row, "status", "custom_status", "custom_emoji")
  }
  const rolesOf = (server: Snowflake) =>
    roles.of("server", server).map(role => ({ ...role, permissions: new Set(role.permissions) }))
  const overridesOf = (server: Snowflake) => {
    const found = new Map<Snowflake, Override[]>()
    const rows = tables.channelOverrides.of("server", server).toSorted((a, b) => compareIds(a.target_id, b.target_id))
    for (const { channel_id, target_id, type, allow, deny } of rows) {
      const override = { target_id, type, allow, deny }
      found.set(channel_id, [...(found.get(channel_id) ?? []), override])
    }
    return found
  }
  const membershipsOf = (user: Snowflake): Membership[] =>
    members
      .of("user", user)
      .filter(({ server_id }) => servers.has(server_id))
      .map(({ server_id, roles }) => ({ server_id, roles: [...roles] }))
      .toSorted((a, b) => compareIds(a.server_id, b.server_id))
  /** The sessions that there are, with their users. */
  const heldBy = (ids: readonly Snowflake[]) =>
    ids.flatMap(id => {
      const session = sessions.get(id)
      const user = session && users.get(session.user_id)
      return user ? [{ id, session, user }] : []
    })
  const barsOf = (user: UserRow) => {
    const owner = user.owner_id === null ? undefined : users.get(user.owner_id)
    const locked = owner && owner.locked_until > user.locked_until ? owner : user
    return {
      ...picked(locked, "locked_until", "lock_reason"),
      ...picked(user, "must_rename", "rename_reason"),
      is_deleted: user.deletion_status !== "active" || (owner !== undefined && owner.deletion_status !== "active"),
    }
  }
  const receivedIn = (places: readonly Pick<Membership, "server_id">[]) =>
    places.flatMap(({ server_id: home_id }) => {
      const newest = outboxOf(shardOf(home_id)).at(-1)
      return newest ? [{ home_id, is_direct: false, message_id: newest.last_id }] : []
    })
  const heldAfter = (rows: readonly HeldCall[], after: HeldCall | undefined): HeldCall[] => {
    const order = (a: HeldCall, b: HeldCall) => compareIds(a.server_id, b.server_id) || compareIds(a.user_id, b.user_id)
    return rows
      .filter(row => !after || order(row, after) > 0)
      .toSorted(order)
      .map(row => picked(row, "server_id", "user_id", "channel_id", "voice_session_id", "worker", "gateway_session_id"))
  }
  const voiceOf = (user: Snowflake) => {
    const { user_id: _, ...call } = tables.voiceCalls.get(user) ?? { user_id: user }
    const days = tables.voiceUsage.of("user", user).toSorted((a, b) => b.day - a.day)
    return {
      call: "voice_session_id" in call ? call : null,
      voiceSeconds: new Map(days.slice(0, 2).map(({ day, seconds }) => [day, seconds])),
    }
  }
  /** Joined with its author; of one who is not known only the id is left. */
  const messageState = (row: ReturnType<typeof messages.get>): MessageState | undefined => {
    if (!row) return undefined
    const author = users.get(row.author_id)
    return {
      ...row,
      author_username: author?.username ?? row.webhook_name ?? `User ${row.author_id}`,
      author_bot: author?.bot ?? false,
      author_badges: [...(author?.badges ?? [])],
    }
  }

  return {
    migrations: { require: unsupported("migrations.require") },
    // The simulated PostgreSQL loses nothing.
    lineage: { state: unsupported("lineage.state"), shardBehind: unsupported("lineage.shardBehind") },
    connections: { capacity: unsupported("connections.capacity") },
    wal: { written: unsupported("wal.written"), replayed: unsupported("wal.replayed") },
    onLoss() {},
    work: () => 0,
    // The simulated workers have no operator.
    listenToService() {
      throw new Error("the simulated store announces nothing")
    },
    serverStatus: {
      look: unsupported("service.look"),
      setState: unsupported("service.setState"),
      claimSecretKey: unsupported("service.claimSecretKey"),
      forgetSecretKey: unsupported("service.forgetSecretKey"),
    },
    // The simulated people only talk in servers.
    deliveries: {
      move: rows =>
        ask("deliveries.move", () => {
          const hidden = new Set<Snowflake>()
          for (const row of rows) {
            const { home_id, user_id, message_id } = row
            const status = tables.presences.get(user_id)?.status
            const key = pair(home_id, user_id)
            const old = tables.deliveries.get(key)
            if (status === "invisible" || status === "offline") hidden.add(user_id)
            else if (!members.has(key)) continue
            else if (!old) tables.deliveries.insert([{ ...row }])
            else if (compareIds(old.message_id, message_id) < 0) tables.deliveries.update(key, { message_id })
          }
          return [...hidden]
        }),
      before(ids) {
        const asked = [...ids]
        return ask("deliveries.before", () => new Map(asked.map(user => [user, receivedIn(members.of("user", user))])))
      },
      viewing: unsupported("deliveries.viewing"),
      ofServers: unsupported("deliveries.ofServers"),
      ofDirects: unsupported("deliveries.ofDirects"),
    },
    directs: {
      load: async () => undefined,
      find: async () => undefined,
      list: unsupported("directs.list"),
      latestIn: unsupported("directs.latestIn"),
    },
    messagingSettings: { find: unsupported("messagingSettings.find") },
    settings: {
      list: unsupported("settings.list"),
      find: unsupported("settings.find"),
      keys: unsupported("settings.keys"),
      forgetFocus: unsupported("settings.forgetFocus"),
    },
    notificationSettings: {
      ofUser: async () => new Map(),
      find: unsupported("notificationSettings.find"),
    },
    pushSubscriptions: {
      ofUser: unsupported("pushSubscriptions.ofUser"),
      takersOf: unsupported("pushSubscriptions.takersOf"),
      find: unsupported("pushSubscriptions.find"),
      namesOf: unsupported("pushSubscriptions.namesOf"),
      keepKeys: unsupported("pushSubscriptions.keepKeys"),
    },
    mentions: {
      called: unsupported("mentions.called"),
      readBy: unsupported("mentions.readBy"),
      due: unsupported("mentions.due"),
      purgeGone: unsupported("mentions.purgeGone"),
      end: unsupported("mentions.end"),
    },
    readState: {
      states: () => ask("readState.states", () => new Map()),
      readers: () => ask("readState.readers", () => []),
      newest: unsupported("readState.newest"),
      reachable: unsupported("readState.reachable"),
      hasUncounted: unsupported("readState.hasUncounted"),
      range: unsupported("readState.range"),
      unreadIn: unsupported("readState.unreadIn"),
      unread: unsupported("readState.unread"),
      channelsAhead: unsupported("readState.channelsAhead"),
      outlines: unsupported("readState.outlines"),
      purge: unsupported("readState.purge"),
    },
    // Nobody there asks anybody anything.
    polls: {
      find: unsupported("polls.find"),
      channelOf: unsupported("polls.channelOf"),
      votes: unsupported("polls.votes"),
      due: unsupported("polls.due"),
      gone: unsupported("polls.gone"),
      isGone: unsupported("polls.isGone"),
      setGone: unsupported("polls.setGone"),
      forgetVotes: unsupported("polls.forgetVotes"),
      forget: unsupported("polls.forget"),
    },
    notifications: {
      page: unsupported("notifications.page"),
      unreadCount: unsupported("notifications.unreadCount"),
      states: unsupported("notifications.states"),
      about: unsupported("notifications.about"),
      unreadIn: unsupported("notifications.unreadIn"),
      purge: unsupported("notifications.purge"),
    },
    mails: {
      request: unsupported("mails.request"),
      take: unsupported("mails.take"),
      putBack: unsupported("mails.putBack"),
      settle: unsupported("mails.settle"),
      waiting: unsupported("mails.waiting"),
      forgetOld: unsupported("mails.forgetOld"),
    },
    addressBlocks: {
      list: unsupported("addressBlocks.list"),
      block: unsupported("addressBlocks.block"),
      unblock: unsupported("addressBlocks.unblock"),
    },
    operators: unsupportedAll("operators"),
    operatorOverview: unsupportedAll("operatorOverview"),
    operatorTrail: unsupportedAll("operatorTrail"),
    telemetry: unsupportedAll("telemetry"),
    automodSettings: unsupportedAll("automodSettings"),
    operatorRequests: {
      forceLogout: unsupported("operatorRequests.forceLogout"),
      logoutAll: unsupported("operatorRequests.logoutAll"),
      take: unsupported("operatorRequests.take"),
      keep: unsupported("operatorRequests.keep"),
      putBack: unsupported("operatorRequests.putBack"),
      answer: unsupported("operatorRequests.answer"),
      answerTo: unsupported("operatorRequests.answerTo"),
      usersWithSessions: unsupported("operatorRequests.usersWithSessions"),
      command: unsupported("operatorRequests.command"),
      takeCommand: unsupported("operatorRequests.takeCommand"),
      keepCommand: unsupported("operatorRequests.keepCommand"),
      putCommandBack: unsupported("operatorRequests.putCommandBack"),
      answerCommand: unsupported("operatorRequests.answerCommand"),
      answerToCommand: unsupported("operatorRequests.answerToCommand"),
    },
    accessTokens: {
      list: unsupported("accessTokens.list"),
      listShown: unsupported("accessTokens.listShown"),
      find: unsupported("accessTokens.find"),
      scopesOf: unsupported("accessTokens.scopesOf"),
      create: unsupported("accessTokens.create"),
      change: unsupported("accessTokens.change"),
      rotate: unsupported("accessTokens.rotate"),
      revoke: unsupported("accessTokens.revoke"),
      addScope: unsupported("accessTokens.addScope"),
      removeScope: unsupported("accessTokens.removeScope"),
    },
    accessUses: {
      note: unsupported("accessUses.note"),
      of: unsupported("accessUses.of"),
      forgetEvents: unsupported("accessUses.forgetEvents"),
      forgetAddresses: unsupported("accessUses.forgetAddresses"),
    },
    userNotes: { of: unsupported("userNotes.of") },
    userDirectory: {
      search: unsupported("userDirectory.search"),
      find: unsupported("userDirectory.find"),
      scheduled: unsupported("userDirectory.scheduled"),
    },
    bannedUsernames: {
      version: unsupported("bannedUsernames.version"),
      list: unsupported("bannedUsernames.list"),
      ban: unsupported("bannedUsernames.ban"),
      isFull: unsupported("bannedUsernames.isFull"),
      lift: unsupported("bannedUsernames.lift"),
    },
    accountDeletion: {
      due: unsupported("accountDeletion.due"),
      purgedAfter: unsupported("accountDeletion.purgedAfter"),
      eraseRows: unsupported("accountDeletion.eraseRows"),
      eraseExportParts: unsupported("accountDeletion.eraseExportParts"),
      eraseLeft: unsupported("accountDeletion.eraseLeft"),
      botsOf: unsupported("accountDeletion.botsOf"),
      ownedServers: unsupported("accountDeletion.ownedServers"),
      isOwner: unsupported("accountDeletion.isOwner"),
      serversKnowing: unsupported("accountDeletion.serversKnowing"),
      channelsNaming: unsupported("accountDeletion.channelsNaming"),
      related: unsupported("accountDeletion.related"),
      deserted: unsupported("accountDeletion.deserted"),
      eraseDirects: unsupported("accountDeletion.eraseDirects"),
    },
    exports: {
      latest: unsupported("exports.latest"),
      latestTwo: unsupported("exports.latestTwo"),
      tables: unsupported("exports.tables"),
      part: unsupported("exports.part"),
      rows: unsupported("exports.rows"),
      messages: unsupported("exports.messages"),
      addPart: unsupported("exports.addPart"),
      touch: unsupported("exports.touch"),
      forgetOtherAttempts: unsupported("exports.forgetOtherAttempts"),
      forgetEarlier: unsupported("exports.forgetEarlier"),
      takeStuck: unsupported("exports.takeStuck"),
      forgetExpired: unsupported("exports.forgetExpired"),
    },
    bots: { ownedBy: unsupported("bots.ownedBy"), list: unsupported("bots.list"), find: unsupported("bots.find") },
    users: {
      find: unsupported("users.find"),
      findByLogin: unsupported("users.findByLogin"),
      findByName: unsupported("users.findByName"),
      onlookers: unsupported("users.onlookers"),
      namesOf: unsupported("users.namesOf"),
      exists: unsupported("users.exists"),
      isAddressTaken: unsupported("users.isAddressTaken"),
      async load(id) {
        const [user, own, presence, voice] = await Promise.all([
          ask("users.load/users", () => userRow(id)),
          ask("users.load/sessions", () =>
            sessions.of("user", id).map(session => picked(session, "id", "token_hash", "created_at", "expires_at")),
          ),
          ask("users.load/presences", () => shownBy(id)),
          ask("users.load/voice", () => voiceOf(id)),
        ])
        if (!user) return undefined
        const kept = new Map(own.map(session => [session.id, session]))
        return {
          ...user,
          sessions: kept,
          presence: presence ?? defaultPresence,
          facts: new Facts(),
          ...voice,
        }
      },
      memberships(ids) {
        const asked = [...new Set(ids)].toSorted(compareIds)
        return ask("users.memberships", () => {
          const found = new Map<Snowflake, Membership[]>()
          for (const id of asked) {
            const list = membershipsOf(id)
            if (list.length > 0) found.set(id, list)
          }
          return found
        })
      },
    },

    arrivals: {
      find: ids =>
        ask("arrivals.find", () =>
          heldBy(ids).map(({ id, session, user }) => ({
            session_id: id,
            ...picked(session, "user_id", "token_hash"),
            ...picked(user, "username", "bot"),
            badges: [...user.badges],
            ...barsOf(user),
            memberships: membershipsOf(user.id),
            received: receivedIn(membershipsOf(user.id)),
          })),
        ),
    },

    sessions: {
      find: ids =>
        ask("sessions.find", () =>
          heldBy(ids).map(({ id, session, user }) => ({
            session_id: id,
            ...picked(session, "user_id", "token_hash", "expires_at", "last_activity"),
            ...picked(user, "username", "bot", "owner_id"),
            typing_indicators: tables.messagingSettings.get(user.id)?.typing_indicators_enabled ?? true,
            read_receipts: tables.messagingSettings.get(user.id)?.read_receipts_enabled ?? true,
            account: picked(
              user,
              "email",
              "created_at",
              "email_verified",
              "age_verified",
              "totp_enabled",
              "deletion_status",
              "deletion_at",
            ),
            tier: tierAt(user, Math.floor(tables.now() / 1000)),
            tier_expires_at: (user.tier_expires_at ?? 0) * 1000 > tables.now() ? user.tier_expires_at : null,
            badges: [...user.badges],
            permissions: [...user.permissions],
            ...barsOf(user),
            origin: clientFingerprint(session.ip_address, session.user_agent),
          })),
        ),
      holders: unsupported("sessions.holders"),
      expired: (now, limit) =>
        ask("sessions.expired", () =>
          [...sessions.values()]
            .filter(({ expires_at }) => expires_at <= now)
            .toSorted((a, b) => a.expires_at - b.expires_at)
            .slice(0, limit)
            .map(({ id, user_id }) => ({ id, user_id })),
        ),
      ofUser: unsupported("sessions.ofUser"),
      noteUses: unsupported("sessions.noteUses"),
      isLocked: unsupported("sessions.isLocked"),
      countFailure: unsupported("sessions.countFailure"),
      takeBackFailure: unsupported("sessions.takeBackFailure"),
      clearFailures: unsupported("sessions.clearFailures"),
      forgetFailures: unsupported("sessions.forgetFailures"),
    },

    oauth: {
      begin: unsupported("oauth.begin"),
      waitOf: unsupported("oauth.waitOf"),
      take: unsupported("oauth.take"),
      forgetExpired: unsupported("oauth.forgetExpired"),
      userOf: unsupported("oauth.userOf"),
    },

    passkeys: { find: unsupported("passkeys.find"), ofUser: async () => [] },

    oneTimeTokens: {
      find: unsupported("oneTimeTokens.find"),
      ofUser: unsupported("oneTimeTokens.ofUser"),
      forgetExpired: unsupported("oneTimeTokens.forgetExpired"),
    },

    servers: {
      ofRoles: unsupported("servers.ofRoles"),
      async load(id) {
        const [server, ownRoles, ownChannels, overrides, voice] = await Promise.all([
          ask("servers.load/servers", () => servers.get(id)),
          ask("servers.load/roles", () => rolesOf(id)),
          ask("servers.load/channels", () => channels.of("server", id).map(channel => ({ ...channel }))),
          ask("servers.load/overrides", () => overridesOf(id)),
          ask("servers.load/voice", () => tables.voiceStates.of("server", id)),
        ])
        if (!server) return undefined
        return newServerState({
          server,
          roles: new Map(ownRoles.map(role => [role.id, role])),
          channels: new Map(ownChannels.map(channel => [channel.id, channel])),
          overrides,
          voice: new Map(voice.map(({ server_id: _server, ...state }) => [state.user_id, state])),
        })
      },
      rulesIn: unsupported("servers.rulesIn"),
      outlineBytes: ids =>
        ask("servers.outlineBytes", () => new Map(ids.flatMap(id => (servers.get(id) ? [[id, 1_000]] : [])))),
      outlines(ids) {
        if (ids.length === 0) return Promise.resolve([])
        const asked = [...new Set(ids)]
        return ask("servers.outlines", () =>
          asked.flatMap((id): ServerOutline[] => {
            const server = servers.get(id)
            if (!server) return []
            const overrides = overridesOf(id)
            return [
              {
                ...picked(server, "id", "name", "owner_id"),
                row: Math.max(0, ...outbox.of("shard", String(shardOf(id))).map(({ number }) => number)),
                roles: new Map(rolesOf(id).map(({ id: role, permissions }) => [role, { permissions }])),
                channels: new Map(
                  channels
                    .of("server", id)
                    .map(channel => [
                      channel.id,
                      { channel: channelObject(channel), overrides: overrides.get(channel.id) ?? [] },
                    ]),
                ),
              },
            ]
          }),
        )
      },
      find: unsupported("servers.find"),
      ofUser: unsupported("servers.ofUser"),
      countsOf: unsupported("servers.countsOf"),
      sharedWithOwner: unsupported("servers.sharedWithOwner"),
      purgeLeft: unsupported("servers.purgeLeft"),
      named: unsupported("servers.named"),
      members(server, ids) {
        const asked = [...new Set(ids)]
        return ask(
          "servers.members",
          () =>
            new Map(
              asked.flatMap(id => {
                const member = members.get(pair(server, id))
                if (!member) return []
                const { server_id: _, ...facts } = member
                return [[id, { ...facts, roles: [...facts.roles] }] as const]
              }),
            ),
        )
      },
    },

    emojis: {
      ofServer: () => ask("emojis.ofServer", () => []),
      uploaders: unsupported("emojis.uploaders"),
      usableBy: unsupported("emojis.usableBy"),
      file: unsupported("emojis.file"),
    },
    search: {
      outlinesFor: unsupported("search.outlinesFor"),
      directsOf: unsupported("search.directsOf"),
      participates: unsupported("search.participates"),
      homesOf: unsupported("search.homesOf"),
      channelsNamed: unsupported("search.channelsNamed"),
      usersNamed: unsupported("search.usersNamed"),
      stems: unsupported("search.stems"),
      walk: unsupported("search.walk"),
      expected: unsupported("search.expected"),
      newestIn: unsupported("search.newestIn"),
      newest: unsupported("search.newest"),
      matching: unsupported("search.matching"),
      messages: unsupported("search.messages"),
      tail: unsupported("search.tail"),
      walkTexts: unsupported("search.walkTexts"),
      matchingTexts: unsupported("search.matchingTexts"),
      usersBeginning: unsupported("search.usersBeginning"),
      publicServers: unsupported("search.publicServers"),
    },
    searchLag: { waitingFor: unsupported("searchLag.waitingFor") },
    imports: {
      list: unsupported("imports.list"),
      find: unsupported("imports.find"),
      isUnclaimed: unsupported("imports.isUnclaimed"),
      unclaimed: unsupported("imports.unclaimed"),
    },
    openImport() {
      throw new Error("nobody imports into the simulated store")
    },
    openSearchIndex() {
      throw new Error("nobody searches the simulated store")
    },
    stickers: {
      packs: () => ask("stickers.packs", () => []),
      serverOf: unsupported("stickers.serverOf"),
      file: unsupported("stickers.file"),
      isOwnMessage: unsupported("stickers.isOwnMessage"),
      suggested: unsupported("stickers.suggested"),
    },
    avatars: { find: () => ask("avatars.find", () => undefined), shown: unsupported("avatars.shown") },
    icons: { find: () => ask("icons.find", () => undefined), shown: unsupported("icons.shown") },
    storedPictures: {
      asUploaded: unsupported("storedPictures.asUploaded"),
      leaveAsUploaded: unsupported("storedPictures.leaveAsUploaded"),
    },
    thumbnails: {
      find: unsupported("thumbnails.find"),
      keep: unsupported("thumbnails.keep"),
      due: unsupported("thumbnails.due"),
      putOff: unsupported("thumbnails.putOff"),
      forgetRequest: unsupported("thumbnails.forgetRequest"),
    },
    files: {
      announce: unsupported("files.announce"),
      areHeld: unsupported("files.areHeld"),
      unusedOf: unsupported("files.unusedOf"),
      unused: unsupported("files.unused"),
      putOff: unsupported("files.putOff"),
      forget: unsupported("files.forget"),
    },
    uploads: {
      count: unsupported("uploads.count"),
      uncount: unsupported("uploads.uncount"),
      forgetCounts: unsupported("uploads.forgetCounts"),
      insert: unsupported("uploads.insert"),
      find: unsupported("uploads.find"),
      contentOf: unsupported("uploads.contentOf"),
      channelsShowing: unsupported("uploads.channelsShowing"),
      channelsShowingHash: unsupported("uploads.channelsShowingHash"),
      isShown: unsupported("uploads.isShown"),
      end: unsupported("uploads.end"),
      endOf: unsupported("uploads.endOf"),
      endUnusedContents: unsupported("uploads.endUnusedContents"),
    },
    uploadContents: {
      contentsAfter: unsupported("uploadContents.contentsAfter"),
      noteMissing: unsupported("uploadContents.noteMissing"),
      missing: unsupported("uploadContents.missing"),
      unhashed: unsupported("uploadContents.unhashed"),
      unhashedOf: unsupported("uploadContents.unhashedOf"),
      putPhash: unsupported("uploadContents.putPhash"),
    },
    uploadSessions: {
      insert: unsupported("uploadSessions.insert"),
      find: unsupported("uploadSessions.find"),
      activeOf: unsupported("uploadSessions.activeOf"),
      chunk: unsupported("uploadSessions.chunk"),
      putChunk: unsupported("uploadSessions.putChunk"),
      countChunks: unsupported("uploadSessions.countChunks"),
      beginCompleting: unsupported("uploadSessions.beginCompleting"),
      completing: unsupported("uploadSessions.completing"),
      completingBefore: unsupported("uploadSessions.completingBefore"),
      finish: unsupported("uploadSessions.finish"),
      refuse: unsupported("uploadSessions.refuse"),
      cancel: unsupported("uploadSessions.cancel"),
      cancelAllOf: unsupported("uploadSessions.cancelAllOf"),
      endExpired: unsupported("uploadSessions.endExpired"),
    },
    fileBlocks: {
      reasonAgainst: unsupported("fileBlocks.reasonAgainst"),
      blockHash: unsupported("fileBlocks.blockHash"),
      blockAlike: unsupported("fileBlocks.blockAlike"),
      unblockHash: unsupported("fileBlocks.unblockHash"),
      blockedHash: unsupported("fileBlocks.blockedHash"),
      blockedHashes: unsupported("fileBlocks.blockedHashes"),
      blockReported: unsupported("fileBlocks.blockReported"),
      pendingReportsOf: unsupported("fileBlocks.pendingReportsOf"),
      latestReport: unsupported("fileBlocks.latestReport"),
      hashReports: unsupported("fileBlocks.hashReports"),
      hashReportCounts: unsupported("fileBlocks.hashReportCounts"),
      reportedHash: unsupported("fileBlocks.reportedHash"),
      blockAsReported: unsupported("fileBlocks.blockAsReported"),
      clearAsReported: unsupported("fileBlocks.clearAsReported"),
      dismissHashReport: unsupported("fileBlocks.dismissHashReport"),
      blockUploader: unsupported("fileBlocks.blockUploader"),
      unblockUploader: unsupported("fileBlocks.unblockUploader"),
      isBlockedUploader: unsupported("fileBlocks.isBlockedUploader"),
      blockedUploaders: unsupported("fileBlocks.blockedUploaders"),
      forgetBlockedUploaders: unsupported("fileBlocks.forgetBlockedUploaders"),
    },
    reports: unsupportedAll("reports"),
    feedback: unsupportedAll("feedback"),
    guildMembers: {
      countHolders: unsupported("guildMembers.countHolders"),
      isLargerThan: unsupported("guildMembers.isLargerThan"),
      pieces: unsupported("guildMembers.pieces"),
      piece: unsupported("guildMembers.piece"),
      onlyPiece: unsupported("guildMembers.onlyPiece"),
      page: unsupported("guildMembers.page"),
      leftTimeouts: () => ask("guildMembers.leftTimeouts", () => new Map()),
      temporary: users =>
        ask("guildMembers.temporary", () =>
          [...members.values()]
            .filter(
              ({ server_id, user_id, temporary }) => temporary && users.includes(user_id) && servers.has(server_id),
            )
            .map(({ server_id, user_id }) => ({ server_id, user_id })),
        ),
      some: unsupported("guildMembers.some"),
      blocked: unsupported("guildMembers.blocked"),
    },

    auditLog: { page: unsupported("auditLog.page") },
    automod: {
      violations: unsupported("automod.violations"),
      unjudged: unsupported("automod.violation"),
      violation: unsupported("automod.violation"),
      membersWith: unsupported("automod.membersWith"),
      recentPosts: unsupported("automod.recentPosts"),
      forgetOld: unsupported("automod.forgetOld"),
      reputations: unsupported("automod.reputations"),
      rules: unsupported("automod.rules"),
      serverOf: unsupported("automod.serverOf"),
      judged: unsupported("automod.judged"),
    },
    webhooks: { find: unsupported("webhooks.find"), ofServer: async () => [] },

    bans: {
      find(server, ids) {
        const asked = [...new Set(ids)]
        return ask(
          "bans.find",
          () =>
            new Map(
              asked.flatMap(id => {
                const ban = tables.bans.get(pair(server, id))
                return ban ? [[id, picked(ban, "user_id", "reason", "banned_by", "banned_at")] as const] : []
              }),
            ),
        )
      },
      list: unsupported("bans.list"),
    },

    channels: {
      homeOf: channel => ask("channels.homeOf", () => channels.get(channel)?.server_id),
      ofServer: unsupported("channels.ofServer"),
    },

    invites: {
      find: unsupported("invites.find"),
      withServer: unsupported("invites.withServer"),
      count: server =>
        ask(
          "invites.count",
          () =>
            [...invites.values()].filter(({ server_id, ended_at }) => server_id === server && ended_at === null).length,
        ),
      list: unsupported("invites.list"),
      ofServer(server, codes) {
        const asked = [...new Set(codes)]
        return ask(
          "invites.ofServer",
          () =>
            new Map(
              asked.flatMap(code => {
                const invite = invites.get(code)
                return invite?.server_id === server ? [[code, { ...invite }] as const] : []
              }),
            ),
        )
      },
      expired: (now, limit) =>
        ask("invites.expired", () =>
          [...invites.values()]
            .filter(({ expires_at, ended_at }) => expires_at !== null && expires_at <= now && ended_at === null)
            .toSorted((a, b) => a.expires_at! - b.expires_at!)
            .slice(0, limit)
            .map(({ code, server_id }) => ({ code, server_id })),
        ),
    },

    // Nobody there reacts to anything.
    reactions: {
      among: unsupported("reactions.among"),
      ownIn: unsupported("reactions.ownIn"),
      reactors: unsupported("reactions.reactors"),
      ofUser: unsupported("reactions.ofUser"),
      purge: unsupported("reactions.purge"),
      named: unsupported("reactions.named"),
    },
    messages: {
      ofAuthor: unsupported("messages.ofAuthor"),
      channelsNamed: unsupported("messages.channelsNamed"),
      deletionsDue: unsupported("messages.deletionsDue"),
      endDeletion: unsupported("messages.endDeletion"),
      page: unsupported("messages.page"),
      newestWithin: unsupported("messages.newestWithin"),
      pinned: unsupported("messages.pinned"),
      pins: unsupported("messages.pins"),
      find(channel, ids) {
        const asked = [...new Set(ids)]
        return ask("messages.find", () => {
          const found = new Map<Snowflake, MessageState>()
          for (const id of asked) {
            const state = messageState(messages.get(pair(channel, id)))
            if (state && !state.deleted) found.set(id, state)
          }
          return found
        })
      },
      authorOf: unsupported("messages.authorOf"),
      lastPosts(channel, authors, since) {
        const asked = [...new Set(authors)]
        return ask("messages.lastPosts", () => {
          const found = new Map<Snowflake, Snowflake>()
          for (const author of asked)
            for (const { id } of messages.of("author", pair(channel, author)))
              if (compareIds(id, found.get(author) ?? since) > 0) found.set(author, id)
          return found
        })
      },
      purge(ofChannels, limit) {
        const asked = [...new Set(ofChannels)]
        return ask("messages.purge", () => {
          const gone = asked.flatMap(channel => messages.of("channel", channel)).slice(0, limit)
          for (const { channel_id, id } of gone) messages.delete(pair(channel_id, id))
          return gone.length
        })
      },
      // Nobody searches here.
      purgeSearched: () => ask("messages.purgeSearched", () => 0),
      byNonces(keys) {
        const asked = keys.map(({ channel, author, nonce }) => nonceKey(channel, author, nonce))
        return ask("messages.byNonces", () => {
          const found = new Map<string, MessageState>()
          for (const key of asked) {
            const state = messageState(messages.by("nonce", key))
            if (state) found.set(key, state)
          }
          return found
        })
      },
    },

    presences: {
      chosen(ids) {
        const asked = [...new Set(ids)]
        return ask(
          "presences.chosen",
          () => new Map(asked.flatMap(id => (users.has(id) ? [[id, shownBy(id) ?? defaultPresence] as const] : []))),
        )
      },
      audiences(ids, largest) {
        const asked = [...new Set(ids)]
        return ask(
          "presences.audiences",
          () =>
            new Map(
              asked.map(id => {
                const own = membershipsOf(id).filter(({ server_id }) => servers.get(server_id)!.member_count <= largest)
                const rows = relationships.of("user", id)
                const those = (status: RelationshipStatus) =>
                  rows.flatMap(row => (row.status === status ? [row.other_id] : []))
                const blockedBy = relationships
                  .of("other", id)
                  .flatMap(({ status, user_id }) => (status === "blocked" ? [user_id] : []))
                const shared = new Set(own.map(({ server_id }) => server_id))
                const isFellow = (user: Snowflake) => membershipsOf(user).some(({ server_id }) => shared.has(server_id))
                return [
                  id,
                  {
                    servers: own.map(({ server_id }) => server_id),
                    friends: those("friend"),
                    // Nobody opens a DM here.
                    partners: [],
                    blocked: [...new Set([...those("blocked"), ...blockedBy])].filter(isFellow),
                  },
                ] as const
              }),
            ),
        )
      },
      lastSeen: id => ask("presences.lastSeen", () => presences.get(id)?.last_seen ?? null),
      noteLastSeen(ids, at) {
        const asked = [...new Set(ids)]
        return ask("presences.noteLastSeen", () => {
          for (const user_id of asked) {
            const known = presences.get(user_id)
            if (known) presences.update(user_id, { last_seen: Math.max(known.last_seen ?? at, at) })
            else if (users.has(user_id) && users.get(user_id)!.deletion_status !== "purged")
              presences.insert([{ user_id, ...defaultPresence, activities: [], last_seen: at }])
          }
        })
      },
      isVisible: unsupported("presences.isVisible"),
    },

    placement: {
      enrol({ id, host, slot, role }, count) {
        return ask("placement.enrol", () => {
          incarnations.insert([{ id, host, slot, role, died_at: null, lives: 0, log_at: null }])
          lanes.insert(Array.from({ length: count }, (_, lane) => ({ incarnation: id, lane, generation: 1 })))
        })
      },
      isDead: incarnation => ask("placement.isDead", () => !isLiving(incarnation)),
      living: () =>
        ask("placement.living", () =>
          [...incarnations.values()]
            .filter(({ died_at }) => died_at === null)
            .map(({ id, host, slot, role }) => ({ id, host, slot, role })),
        ),
      declareDead: incarnation =>
        ask("placement.declareDead", () => {
          for (const { lane, generation } of lanes.of("incarnation", incarnation))
            lanes.update(pair(incarnation, lane), { generation: generation + 1 })
          if (!isLiving(incarnation)) return false
          incarnations.update(incarnation, { died_at: tables.now() })
          return true
        }),
      declareSilent: (incarnation, silentLives) =>
        ask("placement.declareSilent", () => {
          const row = incarnations.get(incarnation)
          if (!row || row.died_at !== null) return undefined
          if (row.lives !== silentLives) return row.lives
          for (const { lane, generation } of lanes.of("incarnation", incarnation))
            lanes.update(pair(incarnation, lane), { generation: generation + 1 })
          incarnations.update(incarnation, { died_at: tables.now() })
          return undefined
        }),
      revive: incarnation =>
        ask("placement.revive", () => {
          const row = incarnations.get(incarnation)
          if (!row || row.died_at !== null) return undefined
          incarnations.update(incarnation, { lives: row.lives + 1 })
          return row.lives + 1
        }),
      noteLog: (incarnation, at) =>
        ask("placement.noteLog", () => {
          if (!isLiving(incarnation)) return false
          incarnations.update(incarnation, { log_at: at })
          return true
        }),
      hasLog: (incarnation, at) => ask("placement.hasLog", () => incarnations.get(incarnation)?.log_at === at),
      diedLately: () =>
        ask("placement.diedLately", () =>
          [...incarnations.values()].flatMap(({ id, role, died_at }) =>
            role === "web" && died_at !== null && died_at > tables.now() - 3_600_000 ? [id] : [],
          ),
        ),
      dead: () =>
        ask("placement.dead", () =>
          [...incarnations.values()].flatMap(({ id, died_at }) => (died_at === null ? [] : [id])),
        ),
      forgetDead: () =>
        ask("placement.forgetDead", () => {
          const owners = new Set([...shards.values()].map(({ owner }) => owner))
          for (const { id, died_at } of incarnations.values())
            if (died_at !== null && died_at < tables.now() - day && !owners.has(id)) incarnations.delete(id)
        }),
      shards(only) {
        const asked = only && [...new Set(only)]
        return ask("placement.shards", () => {
          const rows = asked ? asked.map(shard => shards.get(String(shard))) : [...shards.values()]
          return rows.flatMap(row => (row ? [{ ...row }] : []))
        })
      },
      epochs: () =>
        ask("placement.epochs", () => {
          const sum = [...shards.values()].reduce((all, { epoch }) => all + epoch, 0)
          return `${shards.size} ${sum}`
        }),
      take(seen, taker) {
        const asked = seen.map(({ shard, epoch }) => ({ shard, epoch }))
        return ask("placement.take", () => {
          if (!isLiving(taker)) return []
          const taken: ShardRow[] = []
          for (const { shard, epoch } of asked) {
            const row = shards.get(String(shard))
            if (row?.epoch !== epoch || isLiving(row.owner)) continue
            taken.push({ shard, owner: taker, epoch: epoch + 1 })
            shards.update(String(shard), { owner: taker, epoch: epoch + 1 })
          }
          return taken
        })
      },
      handOver(seen, owner, taker) {
        const asked = seen.map(({ shard, epoch }) => ({ shard, epoch }))
        return ask("placement.handOver", () => {
          const next = isLiving(taker) ? taker : null
          const handed: ShardRow[] = []
          for (const { shard, epoch } of asked) {
            const row = shards.get(String(shard))
            if (row?.epoch !== epoch || row.owner !== owner) continue
            handed.push({ shard, owner: next, epoch: epoch + 1 })
            shards.update(String(shard), { owner: next, epoch: epoch + 1 })
          }
          return handed
        })
      },
      outbox(of) {
        const asked = [...new Set(of)].toSorted((a, b) => a - b)
        return ask("placement.outbox", () => asked.flatMap(shard => outboxOf(shard).map(row => ({ ...row }))))
      },
      wasWritten: (shard, number) => ask("placement.wasWritten", () => (outboxOf(shard).at(-1)?.number ?? 0) >= number),
      sweep(rows) {
        const asked = rows.map(({ shard, number }) => pair(shard, number))
        return ask("placement.sweep", () => {
          for (const key of asked) outbox.delete(key)
        })
      },
      redisOrigin: id => ask("placement.redisOrigin", () => (tables.redisOrigin ??= id)),
      ping: () => ask("placement.ping", () => undefined),
    },

    relationships: {
      pairs(lower, higher) {
        const asked = [...new Set(higher)]
        return ask("relationships.pairs", () => {
          const sideOf = (one: Snowflake, other: Snowflake): Side | null => {
            const row = relationships.get(pair(one, other))
            return row ? picked(row, "status", "message", "created_at") : null
          }
          const found = new Map<Snowflake, Pair>()
          for (const other of asked) {
            const both = { lower: sideOf(lower, other), higher: sideOf(other, lower) }
            if (both.lower || both.higher) found.set(other, both)
          }
          return found
        })
      },
      status: unsupported("relationships.status"),
      counts: unsupported("relationships.counts"),
      list: unsupported("relationships.list"),
    },
    voice: {
      leftBehind: (window, after, limit) =>
        ask("voice.leftBehind", () => {
          const before = tables.now() - window
          const isOver = (worker: string) =>
            (incarnations.get(worker)?.died_at ?? Infinity) < before || !incarnations.has(worker)
          return heldAfter(
            [...tables.voiceStates.values()].filter(({ worker }) => isOver(worker)),
            after,
          ).slice(0, limit)
        }),
      heldBy: (worker, after, limit) =>
        ask("voice.heldBy", () => heldAfter(tables.voiceStates.of("worker", worker), after).slice(0, limit)),
      expired: unsupported("voice.expired"),
      forgetUsage: unsupported("voice.forgetUsage"),
    },

    tells: {
      wasSeen(mark) {
        const key = tellKey(mark)
        return ask("tells.wasSeen", () => tables.tellsSeen.has(key))
      },
      forgetOld: limit =>
        ask("tells.forgetOld", () => {
          const before = tables.now() - day
          const old = [...tables.tellsSeen.values()].filter(({ seen_at }) => seen_at < before).slice(0, limit)
          for (const mark of old) tables.tellsSeen.delete(tellKey(mark))
          return old.length
        }),
    },
  }

  function outboxOf(shard: number): Readonly<OutboxRow>[] {
    return outbox.of("shard", String(shard)).sort((a, b) => a.number - b.number)
  }
}

/** What only REST's handlers ask for. */
const unsupportedAll = <Name extends keyof Storage>(group: Name): Storage[Name] =>
  new Proxy({}, { get: (_, name) => unsupported(`${group}.${String(name)}`) }) as Storage[Name]
const unsupported = (name: string) => () => Promise.reject(new Error(`the simulated store does not answer ${name}`))
