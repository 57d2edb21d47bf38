/** The simulated store against the real PostgreSQL: the same calls, the same answers, the same refusals. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"
import { afterAll, beforeAll, expect, test } from "vitest"
import { newMember as memberFrom } from "../../src/domain/communities/servers.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { shardCount } from "../../src/domain/core/snowflake.ts"
import { deleteBan, putBan } from "../../src/storage/communities/bans.ts"
import {
  deleteChannel,
  forgetChannel,
  insertChannel,
  placeChannel,
  updateChannel,
} from "../../src/storage/communities/channels.ts"
import { isDatabaseUnavailable, isDataError } from "../../src/storage/core/database.ts"
import { deleteOverride, putOverride } from "../../src/storage/communities/overrides.ts"
import { putPresence, type PresenceAudience } from "../../src/storage/social/presences.ts"
import { deleteRelationship, putRelationship } from "../../src/storage/social/relationships.ts"
import { updateMember } from "../../src/storage/communities/guild-members.ts"
import {
  deleteInvite,
  endInvite,
  forgetEndedInvites,
  insertInvite,
  setInviteUses,
} from "../../src/storage/communities/invites.ts"
import { Fenced, type Lane } from "../../src/storage/core/lanes.ts"
import { deleteMessage, insertMessage, updateContent } from "../../src/storage/messages/messages.ts"
import {
  deleteMember,
  deleteServer,
  insertMember,
  deleteRole,
  insertRole,
  insertServer,
  setMemberCount,
  setMemberRoles,
  updateRole,
} from "../../src/storage/communities/servers.ts"
import { deleteSession, insertSession, touchSession } from "../../src/storage/accounts/sessions.ts"
import { openStorage, type Storage } from "../../src/storage/storage.ts"
import { markTell } from "../../src/storage/core/tells.ts"
import { newAccount } from "../../src/domain/accounts/accounts.ts"
import { insertUser } from "../../src/storage/accounts/users.ts"
import { putVoiceState } from "../../src/storage/voice/voice.ts"
import { defineWrite, type Write } from "../../src/storage/core/write.ts"
import { addEveryShard, cloneDatabase, type TestDatabase } from "../kit/database.ts"
import { lostAnswer, SimulatedStore, type Link } from "./store.ts"
import { knownWrites, pair, partitionOf, picked, type Tables } from "./tables.ts"

let database: TestDatabase
let real: Storage
beforeAll(async () => {
  database = await cloneDatabase()
  await addEveryShard(database.sql)
  real = openStorage({
    url: database.url,
    name: "real",
    readConnections: 4,
    statementTimeoutMs: 20_000,
    connectTimeoutMs: 20_000,
  })
})
afterAll(async () => {
  await real.close()
  await database.drop()
})

const immediate: Link = { call: async (_name, execute) => execute() }

// Ids long enough that PostgreSQL's numbers arrive as strings.
const id = (kind: number, i: number) => String(7_000_000_000_000_000n + BigInt(kind * 1000 + i))
const user = (i: number) => id(0, i)
const server = (i: number) => id(1, i)
const channel = (i: number) => id(2, i)
const role = (i: number) => id(3, i)
const session = (i: number) => id(4, i)
const message = (i: number) => id(5, i)
const incarnation = (i: number) => `w${i}`
const code = (i: number) => `code${i}`

const newUser = (i: number, name = i, email: number | null = i) =>
  insertUser({
    ...newAccount({
      username: name % 2 === 0 ? `User${name}` : `usER${name}`,
      email: email === null ? null : `U${email}@example.org`,
      password_hash: null,
      created_at: i,
      totp_enabled: true,
      badges: i === 1 ? ["early", "helper"] : [],
    }),
    id: user(i),
  })
const newSession = (i: number, of: number) =>
  insertSession({
    id: session(i),
    user_id: user(of),
    token_hash: `hash${i}`,
    ip_address: "127.0.0.1",
    user_agent: "x",
    created_at: i,
    expires_at: 100 + i,
    last_activity: i,
  })
const newServer = (i: number, owner: number) =>
  insertServer({
    id: server(i),
    name: `server ${i}`,
    description: i === 0 ? null : "words",
    icon_url: "ignored",
    owner_id: user(owner),
    member_count: 1,
    default_channel_id: null,
    verification_level: 3,
    default_message_notifications: 0,
    public: true,
    category: null,
    created_at: i,
  })
const newRole = (i: number, of: number) =>
  insertRole({
    id: role(i),
    server_id: server(of),
    name: `role ${i}`,
    color: "#000000",
    position: i,
    hoist: i === 0,
    mentionable: false,
    permissions: new Set(i === 0 ? [] : ["messages.send", "channels.view"]),
  })
const newMember = (of: number, i: number) =>
  insertMember({ ...memberFrom(user(i), i), server_id: server(of), nickname: "ignored" })
const channelFrom = (i: number, of: number) => ({
  id: channel(i),
  server_id: server(of),
  name: `channel ${i}`,
  channel_type: "text" as const,
  topic: i === 0 ? null : "topic",
  position: i,
  category_id: null,
  nsfw: i === 1,
  slowmode_seconds: i,
  read_receipts_enabled: true,
  user_limit: 0,
  bitrate: 64_000,
  created_at: i,
})
const newChannel = (i: number, of: number) => insertChannel(channelFrom(i, of))
const newInvite = (i: number, of: number) =>
  insertInvite({
    code: code(i),
    server_id: server(of),
    channel_id: null,
    inviter_id: user(0),
    max_age: 0,
    max_uses: 0,
    temporary: false,
    uses: 0,
    created_at: i,
    expires_at: i === 0 ? null : 100 + i,
    ended_at: null,
  })
const newMessage = (of: number, i: number, author: number, nonce: string | null) =>
  insertMessage({
    channel_id: channel(of),
    id: message(i),
    server_id: server(0),
    author_id: user(author),
    content: `text ${i}`,
    reply_to_id: i === 2 ? message(0) : null,
    nonce,
  })
const newMark = (shard: number, number: number, item: number) =>
  markTell({ shard, source: 5, number, item, home: server(0) })

const n = fc.nat({ max: 3 })
/** Of what there is more of. */
const many = fc.nat({ max: 9 })
const bit = fc.nat({ max: 1 })
const nonce = fc.constantFrom(null, "n0", "n1")
const count = fc.nat({ max: 50 })
/** Every kind of write, of rows that are few enough to meet. */
const write: fc.Arbitrary<Write> = fc.oneof(
  fc.tuple(n, n, fc.option(n)).map(parts => newUser(...parts)),
  fc.tuple(n, n).map(parts => newSession(...parts)),
  n.map(i => deleteSession({ id: session(i) })),
  // No two end in one second: they would come in any order.
  fc
    .tuple(n, count)
    .map(([i, at]) => touchSession({ id: session(i), expires_at: 100 + 4 * at + i, last_activity: at })),
  fc.tuple(n, n).map(parts => newServer(...parts)),
  n.map(i => deleteServer({ id: server(i) })),
  fc.tuple(n, count).map(([i, member_count]) => setMemberCount({ id: server(i), member_count })),
  fc.tuple(n, n).map(parts => newRole(...parts)),
  fc.tuple(n, fc.boolean()).map(([i, hoist]) =>
    updateRole({
      id: role(i),
      name: `changed ${i}`,
      color: "#ffffff",
      position: i + 1,
      hoist,
      mentionable: true,
      permissions: new Set(hoist ? ["administrator"] : []),
    }),
  ),
  n.map(i => deleteRole({ id: role(i) })),
  fc
    .tuple(n, n, fc.uniqueArray(n))
    .map(([of, i, roles]) => setMemberRoles({ server_id: server(of), user_id: user(i), roles: roles.map(role) })),
  fc.tuple(n, n, fc.boolean()).map(([of, i, isRole]) =>
    putOverride({
      channel_id: channel(of),
      server_id: server(0),
      target_id: isRole ? role(i) : user(i),
      type: isRole ? "role" : "member",
      allow: isRole ? 0 : maskOf(["channels.view", "administrator"]),
      deny: maskOf(["messages.send"]),
    }),
  ),
  fc.tuple(n, n).map(([of, i]) => deleteOverride({ channel_id: channel(of), target_id: role(i) })),
  fc
    .tuple(n, n, count)
    .map(([of, i, at]) =>
      putBan({ server_id: server(of), user_id: user(i), reason: `${at}`, banned_by: user(0), banned_at: at }),
    ),
  fc.tuple(n, n).map(([of, i]) => deleteBan({ server_id: server(of), user_id: user(i) })),
  fc.tuple(n, bit, fc.option(n, { nil: undefined })).map(([i, isText, activity]) =>
    putPresence({
      user_id: user(i),
      status: isText ? "dnd" : "invisible",
      custom_status: isText ? `text ${i}` : null,
      custom_emoji: null,
      // Its keys stand as jsonb orders them.
      activities: activity === undefined ? undefined : [{ name: `game ${activity}`, type: "playing" }],
    }),
  ),
  fc
    .tuple(n, fc.integer({ min: 1, max: 3 }), fc.constantFrom("friend", "blocked", "pending_incoming"), count)
    .map(([i, apart, status, at]) =>
      putRelationship({
        user_id: user(i),
        other_id: user((i + apart) % 4),
        status,
        message: status === "pending_incoming" ? `text ${at}` : null,
        created_at: at,
      }),
    ),
  fc
    .tuple(n, fc.integer({ min: 1, max: 3 }))
    .map(([i, apart]) => deleteRelationship({ user_id: user(i), other_id: user((i + apart) % 4) })),
  fc.tuple(n, n).map(parts => newMember(...parts)),
  fc.tuple(n, n, count).map(([of, i, at]) =>
    updateMember({
      ...memberFrom(user(i), i),
      server_id: server(of),
      nickname: at % 2 ? `nick ${at}` : null,
      timeout_until: at,
      timeout_reason: `${at}`,
      temporary: at % 2 === 0,
    }),
  ),
  fc.tuple(n, n).map(([of, i]) => deleteMember({ server_id: server(of), user_id: user(i) })),
  fc.tuple(n, n, n).map(([of, i, place]) =>
    putVoiceState({
      server_id: server(of),
      user_id: user(i),
      channel_id: channel(place),
      voice_session_id: `call ${i}`,
      worker: incarnation(0),
      gateway_session_id: "x",
      self_mute: place === 0,
      self_deaf: false,
      self_video: false,
      self_stream: false,
      suppress: false,
      joined_at: i,
    }),
  ),
  fc.tuple(n, n).map(parts => newChannel(...parts)),
  fc
    .tuple(n, n, count)
    .map(([i, of, at]) =>
      updateChannel({ ...channelFrom(i, of), name: `renamed ${at}`, nsfw: at % 2 === 0, user_limit: at }),
    ),
  fc
    .tuple(n, n, count)
    .map(([i, of, at]) => placeChannel({ id: channel(i), position: at, category_id: at % 2 ? channel(of) : null })),
  n.map(i => deleteChannel({ id: channel(i) })),
  fc.tuple(n, n).map(([i, of]) => forgetChannel({ id: channel(i), server_id: server(of) })),
  fc.tuple(n, n).map(parts => newInvite(...parts)),
  fc.tuple(n, count).map(([i, uses]) => setInviteUses({ code: code(i), uses })),
  n.map(i => deleteInvite({ code: code(i) })),
  fc.tuple(n, count).map(([i, uses]) => endInvite({ code: code(i), uses, ended_at: uses })),
  n.map(of => forgetEndedInvites({ server_id: server(of) })),
  { arbitrary: fc.tuple(n, many, n, nonce).map(parts => newMessage(...parts)), weight: 4 },
  fc
    .tuple(n, many, count)
    .map(([of, i, at]) =>
      updateContent({ channel_id: channel(of), id: message(i), content: `edited ${at}`, edited_at: at }),
    ),
  // Of one message either all deletions leave a row or none.
  fc.tuple(n, many).map(([of, i]) => deleteMessage({ channel_id: channel(of), id: message(i), isLeft: i % 2 > 0 })),
  fc.tuple(bit, bit, bit).map(parts => newMark(...parts)),
)

const turn = fc.record({ home: fc.constantFrom("a", "b"), writes: fc.array(write, { maxLength: 3 }) })
const messagesOnly = fc.record({
  home: fc.constantFrom("a", "b"),
  writes: fc.array(
    fc.tuple(n, many, n, nonce).map(parts => newMessage(...parts)),
    { minLength: 1, maxLength: 2 },
  ),
})
const next = 0
const numbered = fc.record({
  shard: n,
  /** The one that follows, or one that may be taken or leave a hole. */
  number: fc.oneof({ arbitrary: fc.constant(next), weight: 5 }, fc.integer({ min: 1, max: 4 })),
})
const numbersOfShards = fc.array(n, { maxLength: 4 })
const ids = fc.array(n, { maxLength: 3 })
const worker: fc.Arbitrary<number> = fc.constantFrom(0, 0, 0, 1, 1, 2)
/** A lane and, under the same name, its twin that knows nothing of a raised generation. */
const lane = fc.record({ worker, twin: fc.constantFrom(false, false, false, true) })
const op = <Type extends string, Parts>(type: Type, parts: { [Key in keyof Parts]: fc.Arbitrary<Parts[Key]> }) =>
  fc.record({ type: fc.constant(type), ...parts }) as unknown as fc.Arbitrary<{ type: Type } & Parts>

const operation = fc.oneof(
  {
    arbitrary: op("commit", {
      lane,
      turns: fc.oneof(fc.array(turn, { maxLength: 3 }), fc.array(messagesOnly, { minLength: 1, maxLength: 2 })),
      outbox: fc.uniqueArray(numbered, { maxLength: 2, selector: ({ shard }) => shard }),
    }),
    weight: 16,
  },
  { arbitrary: op("raise", { lane }), weight: 2 },
  { arbitrary: op("enrol", { worker, lanes: fc.integer({ min: 0, max: 2 }) }), weight: 2 },
  op("declareDead", { worker }),
  op("isDead", { worker: n }),
  op("living", {}),
  { arbitrary: op("take", { shards: numbersOfShards, taker: worker, off: fc.constantFrom(0, 0, 0, 1) }), weight: 3 },
  {
    arbitrary: op("handOver", {
      shards: numbersOfShards,
      owner: worker,
      taker: worker,
      off: fc.constantFrom(0, 0, 0, 1),
    }),
    weight: 2,
  },
  op("shards", { shards: fc.option(numbersOfShards) }),
  op("outbox", { shards: numbersOfShards }),
  op("wasWritten", { shard: n, number: fc.integer({ min: 1, max: 5 }) }),
  op("sweep", { rows: fc.array(fc.record({ shard: n, number: fc.integer({ min: 1, max: 4 }) }), { maxLength: 3 }) }),
  op("age", {}),
  op("forgetDead", {}),
  op("forgetOld", {}),
  op("wasSeen", { shard: bit, number: bit, item: bit }),
  op("loads", { i: n, ids }),
  op("messages", { channel: n, i: n, ids: fc.array(many, { maxLength: 5 }) }),
  op("expired", { now: count.map(at => 90 + 4 * at), limit: fc.integer({ min: 1, max: 5 }) }),
  op("purge", { channels: ids }),
)
type Operation = typeof operation extends fc.Arbitrary<infer Op> ? Op : never

/** One of the two stores with the lanes that are open to it. */
class Side {
  readonly storage: Storage
  readonly #tables: Tables
  readonly #age: () => Promise<void>
  readonly #lanes = new Map<string, Lane>()

  /** `tables`: what both are asked of what stands, such as the next number. */
  constructor(storage: Storage, tables: Tables, age: () => Promise<void>) {
    this.storage = storage
    this.#tables = tables
    this.#age = age
  }

  async close() {
    await Promise.all([...this.#lanes.values()].map(lane => lane.close()))
  }

  laneOf({ worker, twin }: { worker: number; twin: boolean }): Lane {
    const name = `${worker} ${twin}`
    const known = this.#lanes.get(name) ?? this.storage.openLane(incarnation(worker), 0, 1)
    this.#lanes.set(name, known)
    return known
  }

  async do(op: Operation): Promise<unknown> {
    const {
      relationships,
      placement,
      tells,
      users,
      presences,
      sessions,
      arrivals,
      servers,
      bans,
      channels,
      invites,
      messages,
    } = this.storage
    switch (op.type) {
      case "commit":
        return this.laneOf(op.lane).commit({
          turns: op.turns,
          outbox: op.outbox.map(({ shard, number }) => ({
            shard,
            number: number === next ? this.#lastRow(shard) + 1 : number,
            last_id: message(number),
            body: `{"é":${number}}`,
          })),
        })
      case "raise":
        return this.laneOf(op.lane).raise()
      case "enrol":
        return placement.enrol({ id: incarnation(op.worker), host: "h", slot: op.worker, role: "web" }, op.lanes)
      case "declareDead":
        return placement.declareDead(incarnation(op.worker))
      case "isDead":
        return placement.isDead(incarnation(op.worker))
      case "living":
        return sorted(await placement.living())
      case "take":
        return sorted(
          await placement.take(
            op.shards.map(shard => ({ shard, epoch: this.#tables.shards.get(String(shard))!.epoch + op.off })),
            incarnation(op.taker),
          ),
        )
      case "handOver":
        return sorted(
          await placement.handOver(
            op.shards.map(shard => ({ shard, epoch: this.#tables.shards.get(String(shard))!.epoch + op.off })),
            incarnation(op.owner),
            incarnation(op.taker),
          ),
        )
      case "shards":
        return { rows: sorted(await placement.shards(op.shards ?? undefined)), epochs: await placement.epochs() }
      case "outbox":
        return [...(await placement.outbox(op.shards))]
      case "wasWritten":
        return placement.wasWritten(op.shard, op.number)
      case "sweep":
        return placement.sweep(op.rows.map(row => ({ ...row, messages: [] })))
      case "age":
        return this.#age()
      case "forgetDead":
        return placement.forgetDead()
      case "forgetOld":
        return tells.forgetOld(1_000)
      case "wasSeen":
        return tells.wasSeen({ shard: op.shard, source: 5, number: op.number, item: op.item })
      case "loads":
        return Promise.all([
          placement.ping(),
          users.load(user(op.i)),
          users.memberships(op.ids.map(user)),
          presences.noteLastSeen(op.ids.map(user), 100 + op.i).then(() => presences.lastSeen(user(op.i))),
          presences.chosen(op.ids.map(user)),
          presences.audiences(op.ids.map(user), 1).then(inOneOrder),
          relationships.pairs(user(op.i), op.ids.filter(i => i > op.i).map(user)),
          sessions.find([session(op.i)]),
          arrivals.find([session(op.i)]),
          servers.load(server(op.i)),
          servers.outlines(op.ids.map(server)).then(sorted),
          servers.members(server(op.i), op.ids.map(user)),
          bans.find(server(op.i), op.ids.map(user)),
          channels.homeOf(channel(op.i)),
          invites.ofServer(server(op.i), op.ids.map(code)),
          invites.count(server(op.i)),
        ])
      case "messages":
        return Promise.all([
          messages.find(channel(op.channel), op.ids.map(message)),
          messages
            .lastPosts(channel(op.channel), [user(op.i), user(op.i + 1)], message(0))
            .then(found => sorted([...found])),
          messages.byNonces(
            ["n0", "n1", "n2"].map(nonce => ({ channel: channel(op.channel), author: user(op.i), nonce })),
          ),
        ])
      case "expired":
        return [[...(await sessions.expired(op.now, op.limit))], [...(await invites.expired(op.now, op.limit))]]
      case "purge":
        return messages.purge(op.channels.map(channel), 1_000)
    }
  }

  #lastRow(shard: number): number {
    return Math.max(0, ...this.#tables.outbox.of("shard", String(shard)).map(row => row.number))
  }
}

/** Lists in whatever order PostgreSQL made them. */
const inOneOrder = (audiences: ReadonlyMap<string, PresenceAudience>) =>
  new Map(
    [...audiences].map(([of, { servers, friends, partners, blocked }]) => [
      of,
      { servers: servers.toSorted(), friends: friends.toSorted(), partners, blocked: blocked.toSorted() },
    ]),
  )

const sorted = <Row>(rows: readonly Row[]): Row[] =>
  rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))

async function outcomeOf(answer: Promise<unknown>): Promise<unknown> {
  try {
    const value = await answer
    // What a statement without rows resolves with is nobody's business.
    return value === undefined || (Array.isArray(value) && value.length === 0) ? "done" : value
  } catch (error) {
    if (error instanceof Fenced) return "Fenced"
    if (isDataError(error)) return { code: error.code, constraint_name: error.constraint_name }
    throw error
  }
}

const storedTables = [
  "outbox",
  "users",
  "presences",
  "relationships",
  "sessions",
  "servers",
  "roles",
  "members",
  "bans",
  "channels",
  "invites",
  "messages",
] as const

/** Every row that stands, by table. */
async function realRows() {
  const { sql } = database
  const queries: Record<string, Promise<object[]>> = {
    ...Object.fromEntries(storedTables.map(name => [name, sql`SELECT * FROM ${sql(name)}`.execute()])),
    incarnations: sql`SELECT id, host, slot, role, died_at IS NOT NULL AS dead FROM incarnations`.execute(),
    lanes: sql`SELECT incarnation, lane, generation >= ${2 ** 30} AS raised FROM lanes`.execute(),
    channelOverrides: sql`SELECT * FROM channel_overrides`.execute(),
    // \`number\` is PostgreSQL's own.
    invites: sql`
      SELECT code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at, ended_at
      FROM invites`.execute(),
    voiceStates: sql`SELECT * FROM voice_states`.execute(),
    tellsSeen: sql`SELECT shard, source, number, item, home FROM tells_seen`.execute(),
  }
  const tables = await Promise.all(
    Object.entries(queries).map(async ([name, rows]) => [name, keyed(await rows)] as const),
  )
  return Object.fromEntries(tables)
}

function simulatedRows(tables: Tables) {
  const { incarnations, lanes, tellsSeen, ...asTheyAre } = tables
  return {
    ...Object.fromEntries(storedTables.map(name => [name, keyed(asTheyAre[name].values())])),
    incarnations: keyed(
      Array.from(incarnations.values(), row => ({
        ...picked(row, "id", "host", "slot", "role"),
        dead: row.died_at !== null,
      })),
    ),
    channelOverrides: keyed(asTheyAre.channelOverrides.values()),
    voiceStates: keyed(asTheyAre.voiceStates.values()),
    lanes: keyed(
      Array.from(lanes.values(), row => ({
        ...picked(row, "incarnation", "lane"),
        raised: row.generation >= 2 ** 30,
      })),
    ),
    tellsSeen: keyed(Array.from(tellsSeen.values(), row => picked(row, "shard", "source", "number", "item", "home"))),
  }
}

/** In one order, whatever the order of rows and columns. */
const keyed = (rows: Iterable<object>): string[] =>
  sorted([...rows].map(row => sorted(Object.entries(row)))).map(row => JSON.stringify(row))

const emptied = `
  DELETE FROM servers; DELETE FROM bans; DELETE FROM users; DELETE FROM messages; DELETE FROM outbox; DELETE FROM tells_seen;
  DELETE FROM incarnations; UPDATE shards SET owner = NULL, epoch = 0 WHERE epoch > 0;`

const beginning: Write[] = [
  [newUser(0), newUser(1), newSession(0, 0), newServer(0, 0), newServer(1, 1), newRole(0, 0), newRole(1, 0)],
  [newMember(0, 0), newMember(0, 1), newMember(1, 1), newChannel(0, 0), newChannel(1, 0), newInvite(0, 0)],
  [newMessage(0, 0, 0, null), newMessage(0, 1, 0, "n0"), newMark(0, 0, 0)],
].flat()

type Plant = (store: SimulatedStore) => Link | void

let comparing: Promise<unknown> = Promise.resolve()
/** One after another: a property whose time is over leaves its last comparison to itself. */
function compare(operations: readonly Operation[], plant?: Plant): Promise<void> {
  const mine = comparing.then(() => compareAlone(operations, plant))
  comparing = mine.catch(() => {})
  return mine
}

/** Does everything to both, from the same beginning, and compares answer by answer and at last all rows. */
async function compareAlone(operations: readonly Operation[], plant?: Plant): Promise<void> {
  let now = 1e12
  const store = new SimulatedStore({ shards: Array.from({ length: shardCount }, (_, shard) => shard), now: () => now })
  const link = plant?.(store) ?? immediate
  const simulated = new Side(store.connect(link), store.tables, async () => {
    now += 2 * 86_400_000
  })
  await database.sql.unsafe(emptied)
  // What both sides ask of the tables must be asked before either has acted.
  const reality = new Side(real, store.tables, async () => {
    await database.sql`UPDATE incarnations SET died_at = died_at - interval '2 days'`
    await database.sql`UPDATE tells_seen SET seen_at = seen_at - interval '2 days'`
  })
  try {
    for (const i of [0, 1])
      for (const side of [reality, simulated]) await side.do({ type: "enrol", worker: i, lanes: 1 })
    await reality
      .laneOf({ worker: 0, twin: false })
      .commit({ turns: [{ home: "seed", writes: beginning }], outbox: [] })
    store.seed(...beginning)
    await database.sql`INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at) VALUES (${server(0)}, ${user(3)}, '', ${user(0)}, 1)`
    store.tables.bans.insert([{ server_id: server(0), user_id: user(3), reason: "", banned_by: user(0), banned_at: 1 }])
    for (const operation of operations) {
      const expected = await outcomeOf(reality.do(operation))
      const got = await outcomeOf(simulated.do(operation))
      expect(got).toEqual(expected)
    }
    expect(simulatedRows(store.tables)).toEqual(await realRows())
  } finally {
    await reality.close()
  }
}

const operations = fc.array(operation, { minLength: 10, maxLength: 30, size: "max" })

test("the simulated store answers and refuses as PostgreSQL does, and keeps the same rows", async () => {
  await fc.assert(
    fc.asyncProperty(operations, list => compare(list)),
    { numRuns: 60, interruptAfterTimeLimit: 6_000 },
  )
}, 120_000)

test("the last of several changes to one row counts, however many a batch holds", async () => {
  const touch = (at: number) => touchSession({ id: session(0), expires_at: 100 + at, last_activity: at })
  const edit = (at: number) =>
    updateContent({ channel_id: channel(0), id: message(0), content: `${at}`, edited_at: at })
  const writes = [1, 2, 3].flatMap(at => [
    touch(at),
    edit(at),
    setMemberCount({ id: server(0), member_count: at }),
    setInviteUses({ code: code(0), uses: at }),
  ])
  const lane = { worker: 0, twin: false }
  // Whether PostgreSQL would take the first or the last of them depends on its plan.
  for (const list of [writes, [1, 2].map(touch), [1, 2, 3].map(touch), [1, 2].map(edit)])
    await compare([{ type: "commit", lane, turns: list.map(write => ({ home: "a", writes: [write] })), outbox: [] }])
})

const swallowing =
  (matches: (error: unknown) => boolean): Plant =>
  () => ({
    async call(_name, execute) {
      try {
        return execute()
      } catch (error) {
        if (!matches(error)) throw error
        return undefined as never
      }
    },
  })
const plants: Record<string, Plant> = {
  "a fence that does not hold": swallowing(error => error instanceof Fenced),
  "a nonce that may repeat": swallowing(error => isDataError(error) && /nonce/.test(error.constraint_name ?? "")),
  "a refused batch that is written half": store => {
    store.tables.atomically = action => action()
  },
  "a death that raises no generation": store => ({
    async call(name, execute) {
      const { lanes } = store.tables
      const before = [...lanes.values()]
      const answer = execute()
      if (name === "placement.declareDead")
        for (const { incarnation, lane, generation } of before) lanes.update(pair(incarnation, lane), { generation })
      return answer
    },
  }),
}

test.each(Object.keys(plants))(
  "the comparison finds %s",
  async name => {
    const found = await fc.check(
      fc.asyncProperty(operations, list => compare(list, plants[name])),
      { seed: 1, numRuns: 60, endOnFailure: true },
    )
    expect(found.failed).toBe(true)
  },
  120_000,
)

test("every kind of write that the program defines is known", () => {
  const folder = join(import.meta.dirname, "../../src")
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    file => /(?<!\.test)\.ts$/.test(file) && file !== join("storage", "core", "write.ts"),
  )
  const sources = files.map(file => readFileSync(join(folder, file), "utf8"))
  const definitions = sources.flatMap(source => source.match(/\bdefineWrite\s*[<(]/g) ?? [])
  // A definition that this does not read would be one that nobody misses.
  const names = sources.flatMap(source =>
    [...source.matchAll(/\bdefineWrite\s*(?:<[^"]*?>)?\(\s*"(\w+)"/g)].map(match => match[1]!),
  )
  expect(names).toHaveLength(definitions.length)
  expect(new Set(names)).toEqual(knownWrites)
})

test("a write that is not known is an error that names it, and nothing is written", async () => {
  const store = new SimulatedStore({ shards: [0] })
  const strange = defineWrite<object>("paintFence", sql => sql``)
  expect(() => store.seed(newUser(0), strange({}))).toThrow("the simulated store does not know the write paintFence")
  expect(store.tables.users.size).toBe(0)
  await expect(store.connect(immediate).users.exists("a", "b", 0)).rejects.toThrow("users.exists")
})

test("a channel's partition is PostgreSQL's", async () => {
  const channels = fc.sample(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), 200).map(String)
  const rows = await database.sql<{ id: string; part: number }[]>`
    SELECT c::text AS id, part FROM unnest(${channels}::bigint[]) AS c, generate_series(0, 15) AS part
    WHERE satisfies_hash_partition('messages'::regclass, 16, part, c)`
  expect(rows.map(({ id }) => partitionOf(id))).toEqual(rows.map(({ part }) => part))
  expect(rows).toHaveLength(channels.length)
})

/** Holds every call until the test executes and answers it. */
function heldLink() {
  const held: { name: string; execute: () => unknown; answer: () => void; lose: () => void }[] = []
  const link: Link = {
    call: <T>(name: string, execute: () => T) =>
      new Promise<T>((resolve, reject) => {
        let outcome = () => {}
        held.push({
          name,
          execute: () => {
            try {
              const value = execute()
              outcome = () => resolve(value)
            } catch (error) {
              outcome = () => reject(error instanceof Error ? error : new Error(String(error)))
            }
          },
          answer: () => outcome(),
          lose: () => reject(lostAnswer()),
        })
      }),
  }
  return { link, held }
}

async function openHeld() {
  const store = new SimulatedStore({ shards: [0] })
  await store.connect(immediate).placement.enrol({ id: "w", host: "h", slot: 0, role: "web" }, 1)
  const { link, held } = heldLink()
  const lane = store.connect(link).openLane("w", 0, 1)
  const batch = (i: number) => ({ turns: [{ home: "a", writes: [newUser(i)] }], outbox: [] })
  return { store, held, lane, batch }
}

test("a commit that is on its way comes before the raise, or is fenced", async () => {
  const { store, held, lane, batch } = await openHeld()
  const [early, late] = [lane.commit(batch(0)), lane.commit(batch(1))]
  const raised = lane.raise()
  held[0]!.execute()
  held[2]!.execute()
  held[1]!.execute()
  for (const call of held) call.answer()
  await Promise.all([early, raised])
  await expect(late).rejects.toThrow(Fenced)
  expect([...store.tables.users.values()].map(({ id }) => id)).toEqual([user(0)])
  const after = lane.commit(batch(2))
  held[3]!.execute()
  held[3]!.answer()
  await after
})

test("an answer that is lost takes nothing back: what was done is done, and a raise is recognised by the next", async () => {
  const { store, held, lane, batch } = await openHeld()
  const lost = lane.commit(batch(0))
  held[0]!.execute()
  held[0]!.lose()
  const error = await lost.catch((failure: unknown) => failure)
  expect(isDatabaseUnavailable(error)).toBe(true)
  expect(store.tables.users.size).toBe(1)
  for (const outcome of ["lose", "answer"] as const) {
    const raised = lane.raise().then(
      () => "answer",
      () => "lose",
    )
    held.at(-1)!.execute()
    held.at(-1)![outcome]()
    expect(await raised).toBe(outcome)
  }
})

test("nothing of a closed lane is executed", async () => {
  const { store, held, lane, batch } = await openHeld()
  const late = lane.commit(batch(0))
  await lane.close()
  held[0]!.execute()
  held[0]!.answer()
  expect(isDatabaseUnavailable(await late.catch((failure: unknown) => failure))).toBe(true)
  expect(store.tables.users.size).toBe(0)
})

test("rows are copied: a caller changes neither what they sent nor what stands", async () => {
  const { store, held, lane } = await openHeld()
  const storage = store.connect(immediate)
  const write = newUser(0)
  const late = lane.commit({ turns: [{ home: "a", writes: [write] }], outbox: [] })
  Object.assign(write.row as object, { username: "changed" })
  held[0]!.execute()
  held[0]!.answer()
  await late
  const read = await storage.users.load(user(0))
  expect(read!.username).toBe("User0")
  ;(read!.badges as string[]).push("mine")
  expect((await storage.users.load(user(0)))!.badges).toEqual([])
})
