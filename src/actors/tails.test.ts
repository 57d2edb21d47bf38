import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, test } from "vitest"
import { Embeds } from "../contract/embeds.ts"
import { limits } from "../contract/limits.ts"
import type { Snowflake } from "../contract/fields.ts"
import { grantedAtCreation } from "../domain/permissions.ts"
import { newMember, type ServerState, newServerState } from "../domain/servers.ts"
import { idOf } from "../domain/snowflake.ts"
import type { ChannelState } from "../domain/channels.ts"
import type { MessageState } from "../domain/messages.ts"
import { messageKey } from "../storage/messages.ts"
import type { Storage } from "../storage/storage.ts"
import type { AuditContext } from "./audit.ts"
import { channelSettingsCommands } from "./channel-settings.ts"
import { newChannel } from "./channel-list.ts"
import { forget, keep } from "./kept-messages.ts"
import { memberFacts } from "./communities/member-facts.ts"
import { message, messageFacts, nonceFacts } from "./messages/message-facts.ts"
import type { Need } from "./runtime/facts.ts"
import type { Command } from "./runtime/actor.ts"
import { Home } from "./runtime/home.ts"
import { Shard } from "./runtime/shard.ts"
import {
  historyDeletion,
  hotPage,
  noteRead,
  renameInTails,
  tailNeeds,
  historyReads,
  tailFacts,
  tailsUnderWay,
} from "./tails.ts"
import { renamesUnderWay } from "./renames.ts"
import type { SizedMap } from "../domain/core/sized-map.ts"

const [server_id, channel_id, ada, lin] = ["4096", "8192", "1", "2"]
const begin = 1_800_000_000_000
const idAt = (ms: number): Snowflake => idOf(1, { ms, sequence: 0 })

/** A home in memory whose reads of messages answer when they are told to. */
function scene() {
  const reads: ((rows: readonly MessageState[]) => void)[] = []
  const held = () => new Promise<readonly MessageState[]>(resolve => reads.push(resolve))
  const byId = async () => new Map((await held()).map(row => [row.id, row]))
  const everyone = { id: server_id, name: "", color: "#000000", position: 0, hoist: false, mentionable: false }
  const state = newServerState({
    server: {
      id: server_id,
      name: "",
      description: null,
      icon_url: null,
      owner_id: ada,
      member_count: 2,
      default_channel_id: null,
      verification_level: 0,
      default_message_notifications: 0,
      public: false,
      category: null,
      created_at: 0,
    },
    roles: new Map([[server_id, { ...everyone, permissions: grantedAtCreation }]]),
    channels: new Map([[channel_id, newChannel({ id: channel_id, server_id, name: "x", position: 0 })]]),
  })
  for (const user of [ada, lin]) memberFacts.of(state).set(user, newMember(user, 0))
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  const home = new Home(server_id, shard, state, 0)
  const storage = { messages: { page: held, find: byId } } as unknown as Storage
  let now = begin
  const moment = () => ({ now, newId: () => idAt(now) })
  return {
    state,
    home,
    reads,
    moment,
    pass: (ms: number) => void (now += ms),
    load: (...needs: readonly Need<never>[]) => home.loadMissing(needs, storage, now),
    page: (limit = 50) => hotPage(state, channel_id, { limit }, moment()),
    read: () => noteRead(state, channel_id, now, undefined),
    async tail(rows: readonly MessageState[]) {
      const loaded = home.loadMissing(tailNeeds(state, channel_id), storage, now)
      reads.pop()!(rows)
      await loaded
    },
  }
}

const bytesIn = (map: ReadonlyMap<string, unknown>): number => (map as SizedMap<unknown>).bytes

const messageAt = (ms: number, more: Partial<MessageState> = {}): MessageState => ({
  id: idAt(ms),
  channel_id,
  server_id,
  author_id: ada,
  author_username: "ada",
  author_badges: [],
  content: "words",
  edited_at: null,
  reply_to_id: null,
  nonce: null,
  ...more,
})

test("the heaviest that one person may send fills a home no further than its bounds", () => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  const { state, home } = scene()
  const heaviest = JSON.stringify([
    { title: "a", x: Array.from({ length: limits.embed.allValues - 6 }, () => ({})), y: "ж".repeat(60_000) },
  ])
  expect(Embeds.safeParse(JSON.parse(heaviest)).success).toBe(true)
  noteRead(state, channel_id, begin, undefined)
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 300; i++) {
    const poll = { id: "1", question: "?", options: [] } as unknown as MessageState["poll"]
    keep(state, messageAt(begin + i, { embeds: JSON.parse(heaviest) as unknown[], nonce: `${i}`, poll: poll! }))
    if (home.overfull) home.forgetOldFacts()
  }
  collect()
  const held = (process.memoryUsage().heapUsed - before) / 2 ** 20
  const counted =
    [messageFacts, nonceFacts, tailFacts].reduce((sum, fact) => sum + bytesIn(fact.of(state)), 0) / 2 ** 20
  // Each takes a fifth of a MiB: all of them would be 60.
  expect(held).toBeLessThan(8)
  expect(counted).toBeGreaterThan(held / 2)
  for (const sent of nonceFacts.of(state).values())
    expect(sent).not.toMatchObject({ embeds: expect.anything() as unknown })
})

test("what is remembered of somebody who has left is no older in a tail than the tail", async () => {
  const { state, read, tail, page } = scene()
  const sent = messageAt(begin)
  keep(state, sent)
  read()
  await tail([{ ...sent, author_username: "renamed" }])
  // As a reaction does.
  const known = messageFacts.of(state).get(messageKey(channel_id, sent.id))!
  keep(state, { ...known, reactions: [] })
  expect(page()!.messages.map(({ author_username }) => author_username)).toEqual(["renamed"])
})

test("what ordinary messages take has no bound but their number", () => {
  const { state, home } = scene()
  for (let i = 0; i < 2_000; i++) {
    keep(state, messageAt(begin + i, { content: "x".repeat(100), nonce: `${i}` }))
    expect(home.overfull).toBe(messageFacts.of(state).size > 400)
    if (home.overfull) home.forgetOldFacts()
    expect(messageFacts.of(state).size).toBeGreaterThanOrEqual(Math.min(i, 200))
  }
  expect([nonceFacts.of(state).size, messageFacts.of(state).size <= 400]).toEqual([2_000, true])
})

test("what turns do while a tail is read is in it, whatever the database answered", async () => {
  const { state, reads, moment, page, read, load } = scene()
  const [first, second, third, old] = [1, 2, 3, 0].map(i => messageAt(begin + i, i === 0 ? { author_id: lin } : {}))
  // Decided, and not committed yet.
  keep(state, third!)
  read()
  const loaded = load(...tailNeeds(state, channel_id))
  keep(state, { ...first!, content: "edited" })
  const fourth = messageAt(begin + 4)
  keep(state, fourth)
  forget(state, second!)
  renameInTails(state, lin, "lovelace", ["star"])
  renameInTails(state, ada, "countess", [])
  reads[0]!([second!, first!, old!])
  await loaded
  const found = hotPage(state, channel_id, { limit: 50 }, moment())!
  expect(found.messages.map(({ id, content, author_username }) => [id, content, author_username])).toEqual([
    [fourth.id, "words", "countess"],
    [third!.id, "words", "countess"],
    [first!.id, "edited", "countess"],
    [old!.id, "words", "lovelace"],
  ])
  expect(renamesUnderWay.of(state).size + tailsUnderWay.of(state).size).toBe(0)
  expect(page()!.messages).toHaveLength(4)
})

test("a message that is read while its author is called something else has his new name", async () => {
  const { state, reads, load } = scene()
  const [one, other] = [messageAt(begin), messageAt(begin + 1)]
  const loaded = load(message(channel_id, one.id), message(channel_id, other.id), message(channel_id, "7"))
  renameInTails(state, ada, "countess", ["star"])
  keep(state, { ...other, content: "edited", author_username: "countess" })
  reads[0]!([one, other])
  await loaded
  expect(messageFacts.of(state).get(messageKey(channel_id, one.id))).toMatchObject({
    author_username: "countess",
    author_badges: ["star"],
  })
  expect(messageFacts.of(state).get(messageKey(channel_id, other.id))).toMatchObject({ content: "edited" })
  expect(messageFacts.of(state).get(messageKey(channel_id, "7"))).toBeNull()
  expect(renamesUnderWay.of(state).size).toBe(0)
})

test("a tail has its age from when it was read, also if nobody was let in since", async () => {
  const { state, page, pass, read, tail } = scene()
  read()
  await tail([messageAt(begin)])
  expect(page()!.messages).toHaveLength(1)
  pass(9_999)
  expect(page()!.messages).toHaveLength(1)
  pass(1)
  expect(page()).toBeUndefined()
  read()
  expect(tailFacts.of(state).size).toBe(0)
})

test("a tail is gone with its readers, at the next message, and with its channel", async () => {
  const { state, moment, pass, read, tail, load, reads } = scene()
  read()
  await tail([messageAt(begin)])
  pass(59_999)
  keep(state, messageAt(moment().now))
  expect([tailFacts.of(state).size, historyReads.of(state).size]).toEqual([1, 1])
  pass(1)
  // It is an old message, and tells no time.
  keep(state, messageAt(begin, { content: "edited" }))
  expect(tailFacts.of(state).size).toBe(1)
  keep(state, messageAt(moment().now))
  expect([tailFacts.of(state).size, historyReads.of(state).size]).toEqual([0, 0])

  read()
  await tail([messageAt(begin)])
  const { turn } = channelSettingsCommands([historyDeletion]).deleteChannel as Command<
    ServerState,
    ChannelState,
    AuditContext,
    unknown
  >
  const { apply } = turn(
    { ...moment(), state: state.channels.get(channel_id)!, home: state, linkTo: () => "" },
    { user: ada },
  )
  apply!(state)
  expect([tailFacts.of(state).size, historyReads.of(state).size]).toEqual([0, 0])

  // One that is on its way by then is not kept.
  read()
  const loaded = load(...tailNeeds(state, channel_id))
  historyReads.of(state).delete(channel_id)
  reads.pop()!([messageAt(begin)])
  await loaded
  expect(tailFacts.of(state).get(channel_id)).toBeNull()
  read()
  expect(tailFacts.of(state).size).toBe(0)
})

test("a channel of long messages is not read into memory again and again", async () => {
  const { state, page, pass, read, tail } = scene()
  const long = Array.from({ length: 100 }, (_, i) =>
    messageAt(begin - i, { embeds: [{ x: "x".repeat(limits.embed.allLength - 100) }] }),
  )
  read()
  await tail(long)
  expect(bytesIn(tailFacts.of(state))).toBe(0)
  for (let i = 0; i < 5; i++) {
    expect(page()).toBeUndefined()
    read()
    expect(tailNeeds(state, channel_id).every(({ key }) => tailFacts.of(state).has(key))).toBe(true)
    keep(state, messageAt(begin + 1 + i))
    pass(11_000)
  }
  pass(6_000)
  read()
  expect(tailFacts.of(state).size).toBe(0)
})
