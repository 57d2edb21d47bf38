import { expect, test } from "vitest"
import { collectGarbage } from "../../../tests/kit/heap.ts"
import { Embeds } from "../../contract/messages/embeds.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { grantedAtCreation } from "../../domain/core/permissions.ts"
import { newMember, newServerState } from "../../domain/communities/servers.ts"
import { idOf } from "../../domain/core/snowflake.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import type { Storage } from "../../storage/storage.ts"
import { newChannel } from "../communities/channel-list.ts"
import { forget, keep } from "./kept-messages.ts"
import { memberFacts } from "../shared/member-facts.ts"
import { message, messageFacts, nonceFacts } from "./message-facts.ts"
import type { Need } from "../../runtime/facts.ts"
import { Home } from "../../runtime/home.ts"
import { Shard } from "../../runtime/shard.ts"
import { historyVersion, nameHistory, renameAuthor } from "./history-version.ts"
import { renamesUnderWay } from "./renames.ts"
import type { SizedMap } from "../../domain/core/sized-map.ts"

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
  const now = begin
  const moment = () => ({ now, newId: () => idAt(now) })
  return {
    state,
    home,
    reads,
    moment,
    load: (...needs: readonly Need<never>[]) => home.loadMissing(needs, storage, now),
  }
}

const bytesIn = (map: ReadonlyMap<string, unknown>): number => (map as SizedMap<unknown>).bytes

const messageAt = (ms: number, more: Partial<MessageState> = {}): MessageState => ({
  id: idAt(ms),
  channel_id,
  server_id,
  author_id: ada,
  author_username: "ada",
  author_bot: false,
  author_badges: [],
  content: "words",
  edited_at: null,
  reply_to_id: null,
  nonce: null,
  ...more,
})

test("the heaviest that one person may send fills a home no further than its bounds", () => {
  const { state, home } = scene()
  const heaviest = JSON.stringify([
    { title: "a", x: Array.from({ length: limits.embed.allValues - 6 }, () => ({})), y: "ж".repeat(22_000) },
  ])
  expect(Embeds.safeParse(JSON.parse(heaviest)).success).toBe(true)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 300; i++) {
    const poll = { id: "1", question: "?", options: [] } as unknown as MessageState["poll"]
    keep(state, messageAt(begin + i, { embeds: JSON.parse(heaviest) as unknown[], nonce: `${i}`, poll: poll! }))
    if (home.overfull) home.forgetOldFacts()
  }
  collectGarbage()
  const held = (process.memoryUsage().heapUsed - before) / 2 ** 20
  const counted = [messageFacts, nonceFacts].reduce((sum, fact) => sum + bytesIn(fact.of(state)), 0) / 2 ** 20
  // Each takes an eighth of a MiB: all of them would be 38.
  expect(held).toBeLessThan(8)
  expect(counted).toBeGreaterThan(held / 2)
  for (const sent of nonceFacts.of(state).values())
    expect(sent).not.toMatchObject({ embeds: expect.anything() as unknown })
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

test("a message that is read while its author is renamed has the new name", async () => {
  const { state, reads, load } = scene()
  const [one, other] = [messageAt(begin), messageAt(begin + 1)]
  const loaded = load(message(channel_id, one.id), message(channel_id, other.id), message(channel_id, "7"))
  renameAuthor(state, ada, "countess", ["star"])
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

test("HIST1: whatever changes what a page shows changes the version of its channel, and of no other", () => {
  const { state } = scene()
  const [first, other] = [messageAt(begin), messageAt(begin + 1, { channel_id: "12288" })]
  const versionsNow = () => [channel_id, "12288"].map(channel => historyVersion(state, channel, "unnamed"))
  nameHistory(state, "a")
  nameHistory(state, "b")
  const seen = [versionsNow()]
  const differsIn = (act: () => void) => {
    const before = seen.at(-1)!
    act()
    const after = versionsNow()
    seen.push(after)
    return after.map((version, i) => version !== before[i])
  }
  expect(differsIn(() => keep(state, first))).toEqual([true, false])
  expect(differsIn(() => keep(state, { ...first, reactions: [] }))).toEqual([true, false])
  expect(differsIn(() => keep(state, other))).toEqual([false, true])
  expect(differsIn(() => forget(state, first))).toEqual([true, false])
  expect(differsIn(() => renameAuthor(state, ada, "countess", []))).toEqual([true, true])
  expect(new Set(seen.map(([version]) => version)).size).toBe(5)
  expect(seen.flat().every(version => version.startsWith("a "))).toBe(true)
  // A home that is loaded again has another version.
  expect(historyVersion(scene().state, channel_id, "c")).not.toBe(seen[0]![0])
})
