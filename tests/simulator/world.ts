import type { Redis } from "ioredis"
import { clusterConfig } from "../../cluster.config.ts"
import { channelActor } from "../../src/actors/channel.ts"
import type { Party } from "../../src/actors/social/relationships.ts"
import { serverActor } from "../../src/actors/server.ts"
import { userActor } from "../../src/actors/user.ts"
import { isRedisUnavailable } from "../../src/cluster/unavailable.ts"
import type { AccessSession } from "../../src/cluster/tokens.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { Failure } from "../../src/contract/core/errors.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import type { Override } from "../../src/domain/core/overrides.ts"
import { putOverride } from "../../src/storage/communities/overrides.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"
import { newMember } from "../../src/domain/communities/servers.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { grantedAtCreation, holdsIn } from "../../src/domain/core/permissions.ts"
import { lowerOf } from "../../src/domain/social/relationships.ts"
import { compareIds, idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { type Actor as PersonOf, newAccount } from "../../src/domain/accounts/accounts.ts"
import { silentLog, type Log } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { isDatabaseUnavailable } from "../../src/storage/core/database.ts"
import { insertChannel } from "../../src/storage/communities/channels.ts"
import { insertInvite } from "../../src/storage/communities/invites.ts"
import { insertMember, insertRole, insertServer } from "../../src/storage/communities/servers.ts"
import { insertSession } from "../../src/storage/accounts/sessions.ts"
import { insertUser } from "../../src/storage/accounts/users.ts"
import { breaches, misinformed, type Made } from "./checks.ts"
import { SimulatedClient, type Reads } from "./client.ts"
import { History, type Change, type Oddity, type Send } from "./history.ts"
import type { Action, Plan } from "./plan.ts"
import { directLink, SimulatedRedis, type Snapshot } from "./redis.ts"
import { SimulatedStore } from "./store.ts"
import { Timeline, type Actor } from "./timeline.ts"
import { SimulatedHost } from "./host-sockets.ts"
import { Probes } from "./probes.ts"
import { RedisPath, storePath, NetworkPath } from "./network-paths.ts"
import { SimulatedWorker, type WorkerParts } from "./worker.ts"
import { ordinary } from "../kit/ordinary-session.ts"

/** The shards that exist here; the program does not mind how many there are. */
const shards = [3, 217, 580, 901]
const keys = redisKeys("")
/** Shared by all runs: counting costs little, making the counters much. */
const metrics = createMetrics()

/** As in cluster.config.ts, with shorter time-outs where only waiting would be simulated. */
const topology = {
  membership: { renewEveryMs: 500, serveForMs: 1_500, deadAfterMs: 2_500 },
  handover: { shardsAtATime: 2, rebalanceEveryMs: 500 },
  bus: { askTimeoutMs: 4_000, maxPendingAsks: 1_000, sockets: { maxUntaken: 20_000, stuckAfterMs: 2_000 } },
  actors: {
    mailbox: 200,
    homes: 100,
    inFlight: 500,
    sleepAfterMs: 3_000,
    batch: 20,
    unpublishedBatches: 8,
    notReadyAfterMs: 3_000,
    outboxKeepMs: 15_000,
    outboxSweepEveryMs: 1_000,
  },
  log: { keepMs: 120_000, maxBytes: 10_000_000, memoryBytes: 2_000, markEveryMs: 1_000, readCount: 5 },
  resumeWindowMs: 12_000,
  presence: { ...clusterConfig.presence, flushEveryMs: 500, settleAfterMs: 4_000, members: 2 },
  gateway: {
    heartbeatIntervalMs: 4_000,
    resumeWindowMs: 12_000,
    positionAfterMs: 3_000,
    connectionsPerUser: 50,
    typingTimeoutMs: 10_000,
    resumeReplayBytes: 10_000_000,
    classesPerAudience: 2,
    sockets: {
      sliceBytes: 600,
      budgetBytes: 1_200,
      stuckAfterMs: 8_000,
      maxPerAddress: 10_000,
      maxUnidentifiedPerAddress: 10_000,
    },
    identify: { maxConcurrent: 4, maxWaiting: 100, timeoutMs: 8_000 },
    frames: {
      allPerMinute: 100_000,
      perMinute: 10_000,
      signalsPerMinute: 10_000,
      maxBytes: 65_536,
      maxInflatedBytes: 262_144,
    },
    drain: { perSecond: 10_000, withinMs: 1_000 },
    deliveries: { cursorsEveryMs: 1_000 },
  },
}

/** As in cluster.config.ts. */
const { drainTimeoutMs } = clusterConfig.processes

const noneOf = { friend: 0, pending_incoming: 0, pending_outgoing: 0, blocked: 0 }
const noCounts = { mine: noneOf, theirs: noneOf }

interface SimulatedServer {
  readonly id: Snowflake
  readonly channels: Snowflake[]
  readonly code: string
  roles?: { readonly crew: Snowflake; readonly muted: Snowflake }
  /** Somebody's access is being changed. */
  isBusy: boolean
}

const overriding = (type: "role" | "member", target_id: Snowflake, sees: boolean): Override => {
  const view = maskOf(["channels.view"])
  return { target_id, type, allow: sees ? view : 0, deny: sees ? 0 : view }
}

/** A request that was answered by nobody: it may have been done. */
class Maybe extends Error {}

interface Person {
  readonly actor: PersonOf
  readonly clients: SimulatedClient[]
  /** Servers that they never leave. */
  readonly resident: boolean
}

export interface RunResult {
  readonly breaches: readonly Oddity[]
  readonly counters: ReadonlyMap<string, number>
  readonly steps: number
}

export interface RunOptions {
  readonly trace?: ((line: string) => void) | undefined
  /** Breaks every worker, before it starts. */
  readonly plant?: ((parts: WorkerParts) => void) | undefined
}

/** One simulated history: people, workers, faults, and then everything in peace again. */
export async function run(plan: Plan, options: RunOptions = {}): Promise<RunResult> {
  const world = new World(plan, options)
  return world.live()
}

class World {
  readonly #plan: Plan
  readonly #plant: RunOptions["plant"]
  readonly #timeline: Timeline
  readonly #history = new History()
  readonly #redis: SimulatedRedis
  readonly #store: SimulatedStore
  readonly #network: Actor = { name: "network", dead: false, pausedUntil: 0 }
  readonly #outside: Actor = { name: "outside", dead: false, pausedUntil: 0 }
  readonly #log: Log
  readonly #trace: (line: string) => void
  readonly #workers: SimulatedWorker[] = []
  readonly #paths = new Map<string, { redis: RedisPath; store: NetworkPath }>()
  readonly #pending = new Map<SimulatedWorker, Set<() => void>>()
  readonly #people: Person[] = []
  readonly #servers: SimulatedServer[] = []
  readonly #extraServers: Snowflake[] = []
  readonly #revoked = new Set<Snowflake>()
  readonly #tokens = new Map<string, { user: PersonOf; session: Snowflake }>()
  readonly #direct: Redis
  /** Those whose workers have sockets. */
  readonly #hosts = new Map<string, SimulatedHost>()
  readonly #probes: Probes
  #storePausedUntil = 0
  #incarnations = 0
  #contents = 0
  #inPeace = false
  #logsLost = false
  #ids = 0
  #errors: string[] = []

  constructor(plan: Plan, { trace = () => {}, plant }: RunOptions) {
    this.#plan = plan
    this.#plant = plant
    this.#timeline = new Timeline(plan.seed)
    this.#trace = line => trace(`${this.#timeline.now.toFixed(1).padStart(9)}  ${line}`)
    this.#probes = new Probes(this.#timeline, this.#history)
    if (plan.seed % 4 > 0)
      for (const slot of [0, 1]) this.#hosts.set(this.#hostOf(slot), new SimulatedHost(this.#timeline))
    const clock = this.#timeline.clockOf(this.#network)
    this.#redis = new SimulatedRedis({ now: clock.now })
    this.#direct = this.#redis.connect(directLink()).redis
    this.#store = new SimulatedStore({ shards, now: clock.now })
    this.#log = logInto(line => {
      this.#trace(line)
      if (line.startsWith("error") || line.startsWith("fatal")) this.#errors.push(line)
    })
  }

  async live(): Promise<RunResult> {
    const timeline = this.#timeline
    this.#settle()
    for (let slot = 0; slot < this.#plan.workers; slot++) this.#spawn(slot)
    for (const person of this.#people) for (const client of person.clients) client.connect()
    await timeline.run(1_500)
    if (this.#plan.steps.some(({ action }) => action.do === "fail over")) this.#copy()
    let at = timeline.now
    for (const { afterMs, action } of this.#plan.steps) {
      at += afterMs
      if (action.do === "wait") at += action.lastsMs
      timeline.at(at, this.#outside, () => this.#act(action))
    }
    await timeline.run(at)
    await this.#makePeace()
    const result = [...breaches(this.#history, this.#outcome()), ...this.#unrest()]
    for (const line of this.#errors) result.push({ promise: "P18", what: line })
    return { breaches: result, counters: this.#history.counters, steps: timeline.steps }
  }

  /** What a copy of Redis holds, as it follows. */
  #copy(): void {
    if (this.#inPeace) return
    this.#snapshots.push({ at: this.#timeline.now, snapshot: this.#redis.snapshot() })
    if (this.#snapshots.length > 10) this.#snapshots.shift()
    this.#timeline.after(100, this.#outside, () => this.#copy())
  }

  // How it begins.

  #id(shard: number): Snowflake {
    return idOf(shard, { ms: 1_704_067_200_000 + 1_000, sequence: ++this.#ids })
  }

  #settle(): void {
    const names = ["ada", "lin", "bob", "eve"]
    const people = names.map((username, i): PersonOf => ({
      id: this.#id(shards[i % shards.length]!),
      username,
      bot: false,
      badges: [],
    }))
    for (const [i, actor] of people.entries()) {
      this.#store.seed(
        insertUser({
          ...newAccount({
            username: actor.username,
            email: `${actor.username}@example.org`,
            password_hash: "",
            created_at: 0,
          }),
          id: actor.id,
        }),
      )
      const person: Person = { actor, clients: [], resident: i < 2 }
      this.#people.push(person)
      const sessions = i < 2 ? 2 : 1
      for (let k = 0; k < sessions; k++) this.#addClient(person, `${actor.username}-${k}`)
    }
    const [ada, lin] = people as [PersonOf, PersonOf]
    this.#addServer(shards[1]!, ada, [ada, lin, people[2]!], 2)
    this.#addServer(shards[3]!, lin, [lin, ada], 1)
  }

  #addClient(person: Person, name: string): void {
    const { actor } = person
    const session = this.#id(shardOf(actor.id))
    const token = `token-${name}-${session}`
    this.#tokens.set(token, { user: actor, session })
    this.#store.seed(
      insertSession({
        id: session,
        user_id: actor.id,
        token_hash: token,
        ip_address: "127.0.0.1",
        user_agent: "",
        created_at: 0,
        expires_at: 2 ** 40,
        last_activity: 0,
      }),
    )
    person.clients.push(
      new SimulatedClient({
        name,
        user: actor.id,
        token,
        accessSession: session,
        timeline: this.#timeline,
        history: this.#history,
        reads: this.#reads,
        somewhere: () => this.#somewhere(),
        mayBeRefused: awayForMs => this.#logsLost || awayForMs > topology.resumeWindowMs - 2_500,
      }),
    )
  }

  #addServer(shard: number, owner: PersonOf, members: readonly PersonOf[], channels: number): void {
    const id = this.#id(shard)
    const server: SimulatedServer = { id, channels: [], code: `code${this.#servers.length}`, isBusy: false }
    this.#store.seed(
      insertServer({
        id,
        name: `server ${this.#servers.length}`,
        description: null,
        icon_url: null,
        owner_id: owner.id,
        member_count: members.length,
        default_channel_id: null,
        verification_level: 0,
        default_message_notifications: 0,
        public: false,
        category: null,
        created_at: 0,
      }),
      insertRole({
        id,
        server_id: id,
        name: "@everyone",
        color: "#000000",
        position: 0,
        hoist: false,
        mentionable: false,
        permissions: grantedAtCreation,
      }),
      ...members.map(({ id: user_id }) => insertMember({ server_id: id, ...newMember(user_id, 0) })),
    )
    for (let i = 0; i < channels; i++) {
      const channel = this.#id(shard)
      server.channels.push(channel)
      this.#store.seed(
        insertChannel({
          id: channel,
          server_id: id,
          name: `channel-${i}`,
          channel_type: "text",
          topic: null,
          position: i,
          category_id: null,
          nsfw: false,
          slowmode_seconds: 0,
          read_receipts_enabled: true,
          user_limit: 0,
          bitrate: 64_000,
          created_at: 0,
        }),
      )
    }
    this.#store.seed(
      insertInvite({
        code: server.code,
        server_id: id,
        channel_id: server.channels[0]!,
        inviter_id: owner.id,
        max_age: 0,
        max_uses: 0,
        temporary: false,
        uses: 0,
        created_at: 0,
        expires_at: null,
        ended_at: null,
      }),
    )
    if (this.#plan.steps.some(({ action }) => action.do === "bar")) this.#addRoles(server)
    this.#servers.push(server)
  }

  /** One that an override may concern, and one that hides every channel. */
  #addRoles(server: SimulatedServer): void {
    const [crew, muted] = [1, 2].map(position => {
      const id = this.#id(shardOf(server.id))
      const facts = { color: "#000000", hoist: false, mentionable: false, permissions: new Set<Permission>() }
      this.#store.seed(insertRole({ id, server_id: server.id, name: `role ${position}`, position, ...facts }))
      return id
    }) as [Snowflake, Snowflake]
    server.roles = { crew, muted }
    for (const channel_id of server.channels)
      this.#store.seed(putOverride({ ...overriding("role", muted, false), channel_id, server_id: server.id }))
  }

  /** What clients read over REST, as it stands in the store now. */
  readonly #reads: Reads = {
    channelsOf: (server, user_id) => {
      const { servers, members, roles, channelOverrides } = this.#store.tables
      const row = servers.get(server)
      const member = members.of("server", server).find(member => member.user_id === user_id)
      if (!row || !member) return []
      const held = roles
        .of("server", server)
        .map(role => [role.id, { permissions: new Set(role.permissions) }] as const)
      const rules = { id: server, owner_id: row.owner_id, roles: new Map(held) }
      const overridesOf = (channel: Snowflake) =>
        channelOverrides.of("server", server).filter(({ channel_id }) => channel_id === channel)
      const channels = this.#servers.find(({ id }) => id === server)?.channels ?? []
      return channels.filter(channel => holdsIn(rules, overridesOf(channel), member, "channels.view"))
    },
    madeIn: channel => this.#made(channel).length,
    messagesOf: channel =>
      new Map(this.#made(channel).flatMap(({ id, content, deleted }) => (deleted ? [] : [[id, content] as const]))),
    relationshipsOf: user =>
      new Map(this.#store.tables.relationships.of("user", user).map(({ other_id, status }) => [other_id, status])),
  }

  // Workers.

  /** One host without sockets, one with them, which is so in half of the histories, or two. */
  #hostOf(slot: number): string {
    return this.#plan.seed % 4 === 3 ? `h${slot % 2}` : "h"
  }

  #spawn(slot: number): void {
    const timeline = this.#timeline
    const id = `w${slot}.${++this.#incarnations}`
    let pending = new Set<() => void>()
    const worker: SimulatedWorker = new SimulatedWorker({
      self: { id, role: "web", host: this.#hostOf(slot), slot },
      timeline,
      openSockets: () => this.#hosts.get(this.#hostOf(slot))?.socketsOf(id, worker),
      ready: () => this.#probes.begin(worker),
      connect: purpose => paths.redis.open(purpose),
      openRecords: () => paths.redis.open("records"),
      openStorage: () =>
        this.#store.connect(
          storePath({
            timeline,
            worker,
            network: this.#network,
            path: paths.store,
            pausedUntil: () => this.#storePausedUntil,
          }),
        ),
      addJob: async key => {
        await this.#crossing(worker)
        this.#history.jobs.set(key, (this.#history.jobs.get(key) ?? 0) + 1)
      },
      revoke: async sessions => {
        for (const { clients } of this.#people)
          for (const client of clients) if (sessions.includes(client.accessSession)) this.#showToken(client, 3)
        await this.#crossing(worker)
        for (const session of sessions) this.#revoked.add(session)
        return [...this.#tokens].flatMap(([token, { session }]) => (sessions.includes(session) ? [token] : []))
      },
      verify: async token => {
        await this.#crossing(worker)
        const found = this.#tokens.get(token)
        if (!found || this.#revoked.has(found.session)) return "revoked"
        return {
          session_id: found.session,
          user_id: found.user.id,
          username: found.user.username,
          badges: [],
          tier: "free",
          ...ordinary,
          token_hash: token,
          expires_at: 2 ** 40,
          last_activity: 0,
        }
      },
      answered: () => new Promise(resolve => timeline.after(timeline.between(0.05, 20), worker, resolve)),
      topology,
      anyShard: () => timeline.pick(shards)!,
      plant: this.#plant,
      log: this.#log,
      metrics,
      ended: why => {
        this.#trace(`${id} ended: ${why}`)
        paths.redis.processEnded()
        this.#hosts.get(this.#hostOf(slot))?.processEnded(worker)
        this.#workers.splice(this.#workers.indexOf(worker), 1)
        for (const forget of pending) forget()
        pending = new Set()
        // Its primary has seen it end; or its host has gone with it, and the others find out.
        if (timeline.chance(0.5)) timeline.after(timeline.between(20, 150), this.#outside, () => this.#declareDead(id))
        timeline.after(timeline.between(100, 900), this.#outside, () => this.#spawn(slot))
      },
    })
    const paths = {
      redis: new RedisPath({
        timeline,
        redis: this.#redis,
        worker,
        network: this.#network,
        path: new NetworkPath(timeline, [0.05, 0.6], this.#inPeace ? 0 : this.#plan.loss),
      }),
      store: new NetworkPath(timeline, [0.2, 2], this.#inPeace ? 0 : this.#plan.loss),
    }
    this.#paths.set(id, paths)
    this.#pending.set(worker, pending)
    this.#workers.push(worker)
    this.#history.count("workers started")
    worker.start().catch((error: unknown) => worker.end(`start failed: ${String(error)}`))
  }

  /** What a primary does for its dead. */
  #declareDead(id: string): void {
    if (this.#timeline.now < this.#storePausedUntil) return
    const { tables } = this.#store
    const row = tables.incarnations.get(id)
    if (!row || row.died_at !== null) return
    const direct = this.#store.connect({ call: async (_name, execute) => execute() })
    direct.placement.declareDead(id).catch(() => {})
    this.#direct.hdel(keys.members, id).catch(() => {})
    this.#history.count("deaths declared by the primary")
  }

  /** A trip to Redis and back that is not simulated in detail: it takes its time, and fails while the path is cut. */
  #crossing(worker: SimulatedWorker): Promise<void> {
    const { path } = this.#paths.get(worker.id)!.redis
    return new Promise((resolve, reject) => {
      const isLost = path.isCut || path.isLost() || this.#redis.paused
      this.#timeline.after(path.delayMs(), worker, () => (isLost ? reject(new Failure("unavailable", {})) : resolve()))
    })
  }

  #somewhere(): SimulatedWorker | undefined {
    return this.#timeline.pick(this.#workers.filter(worker => worker.sockets.isListening))
  }

  #worker(number: number): SimulatedWorker | undefined {
    return this.#workers[number % Math.max(1, this.#workers.length)]
  }

  // People.

  /** A request to some worker; rejects with a `Failure`, or with `Maybe` when nobody answers. */
  #request<T>(action: (worker: SimulatedWorker) => Promise<T>): Promise<T> {
    const timeline = this.#timeline
    const worker = this.#somewhere()
    return new Promise((resolve, reject) => {
      if (!worker) return void timeline.after(50, this.#outside, () => reject(new Maybe("nobody listens")))
      const pending = this.#pending.get(worker)!
      const forget = () => void timeline.after(timeline.between(0.1, 5), this.#outside, () => reject(new Maybe("gone")))
      pending.add(forget)
      const late = timeline.after(6_000, this.#outside, () => {
        pending.delete(forget)
        reject(new Maybe("late"))
      })
      const answer = (act: () => void) => {
        pending.delete(forget)
        timeline.after(timeline.between(0.1, 2), this.#outside, () => {
          late.stop()
          act()
        })
      }
      timeline.after(timeline.between(0.1, 2), worker, () => {
        action(worker).then(
          value => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error instanceof Error ? error : new Error(String(error)))),
        )
      })
    })
  }

  /** Asks until there is an answer. @returns undefined when it was refused, or when nobody ever answered */
  async #insist<T>(tries: number, action: (worker: SimulatedWorker) => Promise<T>): Promise<T | undefined> {
    for (let attempt = 0; attempt < tries; attempt++) {
      try {
        return await this.#request(action)
      } catch (error) {
        if (error instanceof Failure && error.code !== "unavailable") {
          if (error.code === "internal") this.#history.note("P18", `answered with ${error.code}`)
          return undefined
        }
        // The HTTP server answers these with 503.
        const isTemporary = error instanceof Maybe || isDatabaseUnavailable(error) || isRedisUnavailable(error)
        if (!(error instanceof Failure) && !isTemporary) this.#history.note("P18", `${(error as Error).stack}`)
        await new Promise<void>(resolve =>
          this.#timeline.after(this.#timeline.between(20, 400), this.#outside, resolve),
        )
      }
    }
    return undefined
  }

  async #post(person: Person, channel: Snowflake, tries = 8): Promise<boolean> {
    const number = ++this.#contents
    const content = `m${number}`
    const isOnce = tries < 100 && number % 2 === 0
    const send: Send = { channel, author: person.actor.id, content, invokedAt: this.#timeline.now, isOnce }
    this.#history.sends.push(send)
    const message = await this.#insist(isOnce ? 1 : tries, ({ node }) =>
      node.ask(channelActor, channel, {
        type: "createMessage",
        author: person.actor,
        content,
        nonce: isOnce ? undefined : content,
        takesName: true,
      }),
    )
    if (!message) return false
    if ("sentBefore" in message) this.#history.count("answers named")
    else if (!("id" in message)) return false
    send.id = "id" in message ? message.id : message.sentBefore
    send.endedAt = this.#timeline.now
    this.#history.count("acknowledged")
    return true
  }

  async #change(
    change: Change,
    tries: number,
    action: (worker: SimulatedWorker) => Promise<unknown>,
  ): Promise<boolean> {
    this.#history.changes.push(change)
    let attempts = 0
    const done = await this.#insist(tries, worker => {
      attempts++
      return action(worker).catch((error: unknown) => {
        change.isRefused = attempts === 1 && error instanceof Failure && error.code !== "unavailable"
        throw error
      })
    })
    if (done !== undefined) change.endedAt = this.#timeline.now
    return done !== undefined
  }

  /** A guest loses access in one of many ways, and gets it back. One after the other in each server. */
  async #bar({ server: number, channel: which, how, lastsMs }: Extract<Action, { do: "bar" }>): Promise<void> {
    const server = this.#servers[number % this.#servers.length]!
    const owner = this.#people[this.#servers.indexOf(server)]!.actor
    const guest = this.#people[2 + this.#servers.indexOf(server)]!.actor
    if (server.isBusy) return
    server.isBusy = true
    const channel = server.channels[which % server.channels.length]!
    const user = owner.id
    const tries = 12
    const wait = () => new Promise<void>(resolve => this.#timeline.after(lastsMs, this.#outside, resolve))
    const change = (type: Change["type"], ofChannel = false): Change => {
      const about = { user: guest.id, server: server.id, invokedAt: this.#timeline.now }
      return { type, ...about, ...(ofChannel && { channel }) }
    }
    const join = () =>
      this.#change(change("join"), tries, async ({ node }) => {
        const workers = await node.router.workersOf(guest.id)
        return node.ask(serverActor, server.id, {
          type: "join",
          user: guest,
          code: server.code,
          workers,
          isFull: false,
        })
      })
    const hides = (type: "hide" | "show", act: (worker: SimulatedWorker) => Promise<unknown>) =>
      this.#change(change(type, true), tries, act)
    const override =
      (kind: "role" | "member", target_id: Snowflake, sees: boolean) =>
      ({ node }: SimulatedWorker) =>
        node.ask(channelActor, channel, {
          type: "setOverride",
          user,
          isLimited: false,
          kind,
          target_id,
          allow: sees ? ["channels.view"] : [],
          deny: sees ? [] : ["channels.view"],
        })
    const role =
      (role_id: Snowflake, held: boolean) =>
      ({ node }: SimulatedWorker): Promise<unknown> =>
        node.ask(serverActor, server.id, {
          type: held ? "giveRole" : "takeRole",
          user,
          member_id: guest.id,
          role_id,
          shown: guest,
        })
    const clear = ({ node }: SimulatedWorker): Promise<unknown> =>
      node.ask(channelActor, channel, { type: "deleteOverride", user, isLimited: false, target_id: guest.id })
    const transfer =
      (from: Snowflake, to: Snowflake) =>
      ({ node }: SimulatedWorker) =>
        node.ask(serverActor, server.id, {
          type: "transferServer",
          user: from,
          heir: { id: to, mayOwn: true },
          isFull: false,
        })
    const { crew, muted } = server.roles!
    /** Whether access was taken away for sure. */
    let isBarred = false
    await join()
    switch (how) {
      case "kick":
        isBarred = await this.#change(change("kick"), tries, ({ node }) =>
          node.ask(serverActor, server.id, { type: "kick", user, member_id: guest.id }),
        )
        await wait()
        await join()
        break
      case "ban": {
        const target = { target_id: guest.id, username: guest.username }
        isBarred = await this.#change(change("ban"), tries, ({ node }) =>
          node.ask(serverActor, server.id, { type: "ban", user, ...target, reason: "", days: 0 }),
        )
        await wait()
        await this.#insist(tries, ({ node }) => node.ask(serverActor, server.id, { type: "unban", user, ...target }))
        await join()
        break
      }
      case "member override":
        isBarred = await hides("hide", override("member", guest.id, false))
        await wait()
        await hides("show", override("member", guest.id, true))
        break
      case "role override":
        // An override of the member would outweigh it.
        await hides("show", clear)
        await this.#insist(tries, role(crew, true))
        isBarred = await hides("hide", override("role", crew, false))
        await wait()
        await hides("show", override("role", crew, true))
        break
      case "role":
        await hides("show", clear)
        await this.#insist(tries, role(crew, false))
        isBarred = await hides("hide", role(muted, true))
        await wait()
        await hides("show", role(muted, false))
        break
      case "owner":
        await hides("hide", override("member", guest.id, false))
        await hides("show", transfer(user, guest.id))
        await wait()
        isBarred = await hides("hide", transfer(guest.id, user))
        await wait()
        await hides("show", override("member", guest.id, true))
    }
    if (isBarred) this.#history.count(`${how} over`)
    server.isBusy = false
  }

  #act(action: Action): void {
    const timeline = this.#timeline
    this.#trace(`> ${JSON.stringify(action)}`)
    this.#history.count(action.do)
    switch (action.do) {
      case "post": {
        const channels = this.#servers.flatMap(({ channels }) => channels)
        const channel = channels[action.channel % channels.length]!
        for (let i = 0; i < action.count; i++)
          this.#started(this.#post(this.#people[(action.person + i) % this.#people.length]!, channel))
        return
      }
      case "edit":
      case "delete": {
        const mine = this.#history.sends.filter(({ id }) => id !== undefined)
        const send = mine[(action.person * 7) % Math.max(1, mine.length)]
        // Nothing is left of a message without a nonce that is deleted, and what was made is counted by what is there.
        if (!send || (action.do === "delete" && send.isOnce)) return
        const change: Change = { type: action.do, user: send.author, message: send.id!, invokedAt: timeline.now }
        const content = `${send.content} e${++this.#contents}`
        this.#started(
          this.#change(change, 4, ({ node }) =>
            action.do === "edit"
              ? node.ask(channelActor, send.channel, {
                  type: "editMessage",
                  author: this.#people.find(({ actor }) => actor.id === send.author)!.actor,
                  message_id: send.id!,
                  content,
                })
              : node.ask(channelActor, send.channel, {
                  type: "deleteMessage",
                  user: send.author,
                  message_id: send.id!,
                }),
          ),
        )
        return
      }
      case "leave":
      case "join": {
        const server = this.#servers[action.server % this.#servers.length]!
        const guest = this.#people[2 + (action.server % 2)]!
        const change: Change = {
          type: action.do,
          user: guest.actor.id,
          server: server.id,
          invokedAt: timeline.now,
        }
        this.#started(
          this.#change(change, 5, async ({ node }) => {
            if (action.do === "leave") return node.ask(serverActor, server.id, { type: "leave", user: guest.actor.id })
            const workers = await node.router.workersOf(guest.actor.id)
            return node.ask(serverActor, server.id, {
              type: "join",
              user: guest.actor,
              code: server.code,
              workers,
              isFull: false,
            })
          }),
        )
        return
      }
      case "bar":
        return this.#started(this.#bar(action))
      case "relate": {
        const one = this.#people[action.person % this.#people.length]!
        const others = this.#people.filter(person => person !== one)
        const both = [one, others[action.other % others.length]!] as const
        const [first, second] = both.map(({ actor: { id, username } }) => ({
          id,
          username,
          avatar_url: null,
          presence: null,
        })) as [Party, Party]
        for (const { by, verb: type } of action.verbs) {
          const two = by === 0 ? { by: first, other: second } : { by: second, other: first }
          this.#started(
            this.#insist(4, ({ node }) =>
              node.ask(userActor, lowerOf(first.id, second.id), { type, ...two, message: null, counts: noCounts }),
            ).then(done => done && this.#history.count("relationships changed")),
          )
        }
        return
      }
      case "logout": {
        const guest = this.#people[3]!
        const client = guest.clients.find(({ isWanted }) => isWanted)
        if (!client) return
        const change: Change = {
          type: "logout",
          user: guest.actor.id,
          session: client.accessSession,
          invokedAt: timeline.now,
        }
        // Some workers know it already, others look it up just then (`revoke`); afterwards it is shown once more.
        this.#showToken(client, 100, 0.5)
        this.#started(
          this.#change(change, 6, ({ node }) =>
            node.ask(userActor, guest.actor.id, { type: "endSession", session_id: client.accessSession }),
          ).then(done => {
            if (done) this.#showToken(client, 0, 1, holder => this.#takenAfterLogout(client, holder))
          }),
        )
        client.loggedOut()
        return
      }
      case "create server": {
        const [ada] = this.#people as [Person]
        this.#started(
          this.#insist(4, async ({ node }) => {
            const workers = await node.router.workersOf(ada.actor.id)
            return node.create(serverActor, {
              type: "createServer",
              owner: ada.actor,
              name: "new",
              description: null,
              workers,
            })
          }).then(server => {
            if (server) this.#extraServers.push(server.id)
          }),
        )
        return
      }
      case "delete server": {
        const server = this.#extraServers.shift()
        const [ada] = this.#people as [Person]
        if (!server) return
        this.#started(
          this.#insist(4, ({ node }) =>
            node.ask(serverActor, server, { type: "deleteServer", user: ada.actor.id }),
          ).then(done => {
            if (done) this.#promisedJobs.push(`purge:${server}`)
          }),
        )
        return
      }
      case "break off":
        return this.#client(action.client).breakOff(action.awayForMs)
      case "slow": {
        const client = this.#client(action.client)
        client.pace = action.pace
        timeline.after(action.lastsMs, this.#outside, () => (client.pace = 0))
        return
      }
      case "kill":
        return this.#worker(action.worker)?.end("killed")
      case "kill all":
        for (const worker of this.#workers.slice()) worker.end("killed")
        return
      case "pause": {
        const worker = this.#worker(action.worker)
        if (worker) worker.pausedUntil = Math.max(worker.pausedUntil, timeline.now + action.lastsMs)
        return
      }
      case "drain": {
        const worker = this.#worker(action.worker)
        if (!worker?.isReady || worker.isDraining) return
        worker.drain().catch((error: unknown) => worker.end(`drain failed: ${String(error)}`))
        // As its primary does.
        timeline.after(drainTimeoutMs, this.#outside, () => worker.end("did not end in time"))
        return
      }
      case "start":
        if (this.#workers.length < 4) this.#spawn(this.#plan.workers + this.#incarnations)
        return
      case "cut": {
        const paths = this.#pathsOf(action.worker)
        if (action.path === "redis") paths?.redis.cut(action.lastsMs)
        else if (paths) paths.store.cutUntil = Math.max(paths.store.cutUntil, timeline.now + action.lastsMs)
        return
      }
      case "break sockets": {
        const worker = this.#worker(action.worker)
        if (!worker) return
        for (const host of this.#hosts.values()) this.#history.count("sockets broken", host.breakOff(worker))
        return
      }
      case "slow path": {
        const paths = this.#pathsOf(action.worker)
        if (!paths) return
        const path = action.path === "redis" ? paths.redis.path : paths.store
        path.slowByMs = action.byMs
        path.slowUntil = timeline.now + action.lastsMs
        return
      }
      case "pause redis":
        this.#redis.pause()
        timeline.after(action.lastsMs, this.#outside, () => this.#redis.resume())
        return
      case "pause store":
        this.#storePausedUntil = Math.max(this.#storePausedUntil, timeline.now + action.lastsMs)
        return
      case "copy redis":
        // The log of a worker that ends before it has moved cannot be told from one without its last writes.
        this.#logsLost = true
        this.#redis.copied()
        return
      case "flush redis":
        this.#logsLost = true
        this.#redis.flushAll()
        return
      case "replace redis":
        this.#logsLost = true
        this.#redis.flush()
        for (const { redis } of this.#paths.values()) redis.cut(timeline.between(5, 300))
        return
      case "fail over": {
        const behind = this.#snapshots.findLast(({ at }) => at <= timeline.now - action.behind)
        if (!behind) return
        this.#logsLost = true
        this.#redis.rollback(behind.snapshot)
        for (const { redis } of this.#paths.values()) redis.cut(timeline.between(5, 300))
        return
      }
      case "skew": {
        const worker = this.#worker(action.worker)
        if (worker) worker.skew += action.byMs
        return
      }
      case "wait":
    }
  }

  /** To a share of the workers, by requests that come within so long. */
  #showToken(
    { token }: SimulatedClient,
    withinMs: number,
    share = 1,
    answered: (holder: AccessSession | string) => void = () => {},
  ): void {
    for (const worker of this.#workers)
      this.#timeline.after(this.#timeline.between(0, withinMs), worker, () => {
        if (worker.isReady && this.#timeline.chance(share)) worker.holderOf(token).then(answered, () => {})
      })
  }

  #takenAfterLogout({ name }: SimulatedClient, holder: AccessSession | string): void {
    if (holder === "revoked") this.#history.count("tokens refused")
    else this.#history.note("P12", `the token of ${name} is good after its logout`)
  }

  readonly #promisedJobs: string[] = []
  readonly #snapshots: { at: number; snapshot: Snapshot }[] = []
  readonly #running = new Set<Promise<unknown>>()

  #started(what: Promise<unknown>): void {
    this.#running.add(what)
    what
      .catch((error: unknown) => this.#history.note("P18", `unexpected: ${String((error as Error).stack)}`))
      .finally(() => this.#running.delete(what))
  }

  #client(number: number): SimulatedClient {
    const clients = this.#people.flatMap(({ clients }) => clients)
    return clients[number % clients.length]!
  }

  #pathsOf(number: number) {
    const worker = this.#worker(number)
    return worker && this.#paths.get(worker.id)
  }

  // How it ends.

  /** Every fault ends; then all that people wait for comes within a bounded time. */
  async #makePeace(): Promise<void> {
    const timeline = this.#timeline
    this.#trace("peace")
    this.#inPeace = true
    for (const { redis, store } of this.#paths.values())
      for (const path of [redis.path, store]) {
        path.loss = 0
        path.cutUntil = Math.min(path.cutUntil, timeline.now)
        path.slowUntil = 0
      }
    this.#storePausedUntil = Math.min(this.#storePausedUntil, timeline.now)
    this.#redis.resume()
    for (const person of this.#people) for (const client of person.clients) client.pace = 0
    const peaceAt = timeline.now
    await timeline.run(peaceAt + 30_000, () => this.#running.size === 0 && this.#allLive(peaceAt))
    if (this.#running.size > 0) this.#history.note("P8", `${this.#running.size} requests still run`)
    // One more message everywhere: every live session has it soon, and everything before it.
    const residents = this.#people.filter(({ resident }) => resident)
    let acknowledged = 0
    for (const { channels } of this.#servers)
      for (const channel of channels)
        this.#started(this.#post(residents[0]!, channel, 100).then(ok => (acknowledged += Number(ok))))
    await timeline.run(timeline.now + 10_000, () => this.#running.size === 0)
    const wanted = this.#servers.reduce((sum, { channels }) => sum + channels.length, 0)
    if (acknowledged < wanted)
      this.#history.note("P8", `only ${acknowledged} of ${wanted} channels take messages in peace`)
    const postedAt = timeline.now
    // Twice: who has just lost its worker does not know it yet.
    do {
      await timeline.run(postedAt + 30_000, () => this.#allLive(postedAt))
      await timeline.run(timeline.now + 700)
    } while (!this.#allLive(postedAt) && timeline.now < postedAt + 30_000)
    // What homes tell one another arrives without anybody waiting for it.
    const isNotified = () => [...misinformed(this.#history, { relationships: this.#relationships() })].length === 0
    await timeline.run(timeline.now + 10_000, isNotified)
    await this.#lookAtPresences()
    // What was not reached of Redis in the end may be.
    if (!this.#logsLost) this.#probes.noteLost(this.#workers)
  }

  /** A user with a session is there; a user without one is not, a window after the last one. */
  async #lookAtPresences(): Promise<void> {
    const timeline = this.#timeline
    const isThere = ({ clients }: Person) => clients.some(({ isWanted }) => isWanted)
    if (!this.#people.every(isThere)) await timeline.run(timeline.now + topology.resumeWindowMs + 5_000)
    const ids = this.#people.map(({ actor }) => actor.id)
    const ask = async (worker: SimulatedWorker) => {
      const seen = await worker.node.presences.of(ids)
      // A logout that nobody has confirmed may not have happened.
      const unsure = new Set(
        this.#history.changes.flatMap(change =>
          change.type === "logout" && change.endedAt === undefined ? [change.user] : [],
        ),
      )
      for (const person of this.#people) {
        const { id, username } = person.actor
        if (unsure.has(id)) continue
        if (isThere(person) !== seen.has(id))
          this.#history.note("P14", `${username} is ${seen.get(id)?.status ?? "offline"} in peace`)
      }
      this.#history.count("presences looked at")
    }
    const worker = this.#somewhere()
    if (!worker) return this.#history.note("P14", "nobody can be asked who is there")
    // Workers may be about to connect anew.
    const again = () =>
      new Promise<void>(resolve => timeline.after(3_000, this.#outside, resolve)).then(() => ask(worker))
    this.#started(
      ask(worker)
        .catch(again)
        .catch((error: unknown) => this.#history.note("P14", `presences are not known: ${String(error)}`)),
    )
    await timeline.run(timeline.now + 10_000, () => this.#running.size === 0)
  }

  #allLive(since: number): boolean {
    // One that was declared dead answers until it hears of it.
    const { incarnations } = this.#store.tables
    if (this.#workers.some(({ id }) => incarnations.get(id)?.died_at !== null)) return false
    return this.#people.every(({ clients }) => clients.every(client => !client.isWanted || client.isLiveSince(since)))
  }

  /** What has not come to rest though nothing disturbs it. */
  *#unrest(): Iterable<Oddity> {
    for (const { clients } of this.#people)
      for (const client of clients)
        if (client.isWanted && !client.isLiveSince(this.#timeline.now - 10_000))
          yield { promise: "P6", what: `${client.name} never came back` }
    for (const key of this.#promisedJobs)
      if (!this.#history.jobs.has(key)) yield { promise: "P15", what: `the job ${key} was never added` }
  }

  #made(channel: Snowflake): Made[] {
    return this.#store.tables.messages
      .of("channel", channel)
      .map(row => ({
        id: row.id,
        channel,
        content: row.content ?? "",
        deleted: row.deleted,
      }))
      .toSorted((a, b) => compareIds(a.id, b.id))
  }

  #outcome() {
    const channels = new Map<Snowflake, Snowflake[]>()
    const made: Made[] = []
    for (const server of this.#servers)
      for (const channel of server.channels) {
        const mine = this.#made(channel)
        channels.set(
          channel,
          mine.map(({ id }) => id),
        )
        made.push(...mine)
      }
    return { made, channels, relationships: this.#relationships() }
  }

  #relationships(): Map<Snowflake, ReadonlyMap<Snowflake, RelationshipStatus>> {
    return new Map(this.#people.map(({ actor: { id } }) => [id, this.#reads.relationshipsOf(id)]))
  }
}

/** A log whose lines are words; the program needs these few methods of it. */
function logInto(write: (line: string) => void): Log {
  const at = (level: string) => (facts: object, words: string) => {
    const { err, ...rest } = facts as { err?: Error }
    write(`${level} ${words} ${JSON.stringify(rest)}${err ? ` ${err.stack ?? err.message}` : ""}`)
  }
  const log = Object.create(silentLog) as Log
  for (const level of ["debug", "info", "warn", "error", "fatal"] as const) log[level] = at(level) as never
  return log
}
