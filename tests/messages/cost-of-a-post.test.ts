/**
 * What a post costs a worker, in measures that no machine changes: how often its content is written as JSON, how many
 * promises it takes, and how many bytes are allocated for it. One post goes through everything but sockets, PostgreSQL and
 * Redis: the handler of its route, the router, the host, the turn, the rows of its batch, the answer. Who raises a
 * ceiling here says in the commit what is gained by it.
 */
import { afterAll, expect, test } from "vitest"
import { channelActor } from "../../src/actors/channel.ts"
import { memberFacts } from "../../src/actors/shared/member-facts.ts"
import { newChannel } from "../../src/actors/communities/channel-list.ts"
import { newMember, newServerState } from "../../src/domain/communities/servers.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { epochMs, idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { messages } from "../../src/http/messages/messages.ts"
import { Encoded } from "../../src/http/server/handlers.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import type { ActorKind, Ask, Asked } from "../../src/runtime/actor.ts"
import { CommitQueue } from "../../src/runtime/commit-queue.ts"
import { Homes } from "../../src/runtime/home.ts"
import { Host } from "../../src/runtime/host.ts"
import { Router, type RouterOptions } from "../../src/runtime/router.ts"
import { messagesIn, readRowBody, rowBody, type RowItem } from "../../src/runtime/row.ts"
import { Shard } from "../../src/runtime/shard.ts"
import { groupWrites } from "../../src/storage/core/write.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { allocatedBytes, leastPromises } from "../kit/costs.ts"

const ids = Array.from({ length: 3 }, (_, sequence) => idOf(7, { ms: epochMs + 9_000_000_000, sequence }))
const [server_id, channel_id, user] = ids as [string, string, string]
const metrics = createMetrics()

const everyone = { name: "@everyone", color: "#000000", position: 0, hoist: false, mentionable: false }
function loaded() {
  const home = newServerState({
    server: {
      id: server_id,
      name: "Harbour",
      description: null,
      icon_url: null,
      owner_id: "1",
      member_count: 2,
      default_channel_id: channel_id,
      verification_level: 0,
      default_message_notifications: 0,
      public: false,
      category: null,
      created_at: 0,
    },
    roles: new Map([[server_id, { id: server_id, ...everyone, permissions: grantedAtCreation }]]),
    channels: new Map([[channel_id, newChannel({ id: channel_id, server_id, name: "quay", position: 0 })]]),
  })
  memberFacts.of(home).set(user, newMember(user, 0))
  return home
}

/** A worker that owns everything, whose commits and publications are done as soon as they are asked for. */
const batches: { bodies: string[]; rows: unknown[] }[] = []
const shard = new Shard({ number: 7, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
const shards = new Map([[shard.number, shard]])
const homes = new Homes()
const queue = new CommitQueue({
  lane: {
    async commit({ turns, outbox }) {
      const groups = groupWrites(turns)
      batches[0] = { bodies: outbox.map(({ body }) => body), rows: groups.flatMap(({ rows }) => rows) }
    },
    raise: () => Promise.resolve(),
  },
  publisher: { behind: 0, publish: (_rows, published) => published() },
  bounds: { batch: 64, unpublishedBatches: 10 },
  wasWritten: () => Promise.resolve(false),
  dropHome: home => homes.drop(home),
  onDisowned: () => {},
  onFenced: () => {},
  clock: systemClock,
  log: silentLog,
  metrics,
})
/** Its server is made here instead of being loaded. */
const hosted = {
  ...channelActor,
  home: { name: "server", load: () => Promise.resolve(loaded()) },
  homeOf: () => Promise.resolve(server_id),
}
const host = new Host({
  application: {
    actors: [hosted],
    source: {},
    extensions: {},
    lookups: {},
    signedPath: file => file,
  },
  homes,
  shards,
  queue,
  outbox: {
    touch() {},
    dropInterest() {},
    notified: () => Promise.resolve(),
    isWhole: true,
    behind: 0,
    unconfirmed: 0,
    stuckForMs: 0,
  },
  logs: { places: () => "" },
  ephemeral: { append() {}, tell() {} },
  view: { untilAble: () => undefined },
  bounds: { mailbox: 64, homes: 10, inFlight: 64, sleepAfterMs: 60_000, answerKeepMs: 60_000 },
  clock: systemClock,
  log: silentLog,
  metrics,
})
type Handler = (body: never, from: string, id: string, timeoutMs: number) => Promise<unknown>
const answers = new Map<string, Handler>()
const router = new Router({
  bus: {
    newId: () => "r1",
    handle: (kind: string, handler: Handler) => void answers.set(kind, handler),
    onNotice() {},
  },
  directory: { lacks: () => false, ownerOf: () => "here" },
  view: { self: { id: "here" }, isDead: () => false },
  askTimeoutMs: 5_000,
  clock: systemClock,
  log: silentLog,
  metrics,
} as unknown as RouterOptions)
router.serve({ host, onMissing() {}, wasSeen: () => Promise.resolve(false) })
afterAll(() => {
  router.stop()
  host.stop()
  metrics.close()
})

let requests = 0
/** As one worker asks another: over a wire of JSON, with an id under which the answer is kept. */
const askOverBus = (async (
  actor: ActorKind<unknown, unknown, object>,
  id: string,
  { type, ...input }: Asked<Record<string, (input: object) => unknown>, string>,
) => {
  const request = JSON.stringify({ actor: actor.kind, id, shard: shardOf(id), command: type, input })
  const reply = await answers.get("ask")!(JSON.parse(request) as never, "there", `there.${++requests}`, 5_000)
  return (JSON.parse(JSON.stringify(["answer", reply])) as unknown[])[1]
}) as unknown as Ask

/** What the route answers, as it goes to the socket. */
const postsBy = (ask: Ask) => {
  const uses = { ask, storage: {}, views: {}, service: { moderation: () => ({ isOff: false, backends: [] }) } }
  const { createMessage } = messages(uses as never)
  return async (content: string, nonce: string): Promise<string> => {
    const caller = { user_id: user, username: "ada", bot: false, badges: [] }
    const call = { params: { channel_id }, body: { content, nonce }, caller, idempotencyKey: undefined }
    const reply = await createMessage(call as never)
    return reply instanceof Encoded ? (reply.json as string) : JSON.stringify(reply)
  }
}
const post = postsBy(router.ask)
const postElsewhere = postsBy(askOverBus)

/** How often JSON is made during some work: in all, and of something that holds a text. */
async function serializations(text: string, work: () => Promise<unknown>) {
  const { stringify } = JSON
  let [all, ofText] = [0, 0]
  JSON.stringify = ((...given: Parameters<typeof stringify>) => {
    const made = stringify(...given)
    all++
    if (made?.includes(text)) ofText++
    return made
  }) as typeof stringify
  try {
    await work()
  } finally {
    JSON.stringify = stringify
  }
  return { all, ofText }
}

test("the content of a post is written as JSON once, for its event, the outbox and its answer", async () => {
  await post("first", "n0") // wakes the home
  let answer = ""
  const made = await serializations("gulls over the harbour", async () => {
    answer = await post("gulls over the harbour", "n1")
  })
  expect(made.ofText).toBe(1)
  // Its parts: texts that people choose, flags, the head of the item and what it is about.
  expect(made.all).toBeLessThanOrEqual(8)
  const message = JSON.parse(answer) as { id: string }
  expect(message).toMatchObject({ content: "gulls over the harbour", nonce: "n1", author_id: user, read: true })
  expect(batches[0]!.rows).toMatchObject([{ id: message.id, content: "gulls over the harbour", nonce: "n1" }])
  const [, , , name, , told] = (JSON.parse(batches[0]!.bodies[0]!) as { items: unknown[][] }).items[0]!
  expect([name, told]).toEqual(["MESSAGE_CREATE", { ...message, read: false }])

  // Where another worker asks, its request and the answer that is sent hold it, too. What is kept of the answer does not.
  let answered = ""
  const asked = await serializations("boats under the bridge", async () => {
    answered = await postElsewhere("boats under the bridge", "n2")
  })
  expect(asked.ofText).toBe(3)
  const { id } = JSON.parse(answered) as { id: string }
  const { answers: kept } = JSON.parse(batches[0]!.bodies[0]!) as { answers: unknown[] }
  expect(kept).toEqual([["there.1", { sentBefore: id, server_id }]])
  expect(await shard.answered.get("there.1")!.reply).toEqual({ sentBefore: id, server_id })
})

test("what a row of another version has of a message in short is made again word for word, and names the message as it stands", async () => {
  const author = { id: user, username: 'a "d" a', bot: true, badges: ["early"] }
  const asked = { type: "createMessage", author, takesText: true }
  const { id } = JSON.parse(await post("asked", "s1")) as { id: string }
  for (const sent of [
    { content: "gulls over the harbour, as people write of them", nonce: "w1" },
    { content: '"quoted" \\ 漢字 \u{1F30A}\n\u2028 </script>' },
    { content: "an answer", reply_to_id: id, nonce: '"' },
  ]) {
    await router.ask(channelActor, channel_id, { ...asked, ...sent } as never)
    const { bodies } = batches[0]!
    const [[, home, audience, name, except, , about]] = (JSON.parse(bodies[0]!) as { items: [unknown[]] }).items
    const { content, reply_to_id = null, nonce = null } = sent
    const values = [author.id, author.username, author.bot, author.badges, content, reply_to_id, nonce]
    const short = JSON.stringify({
      items: [["s", home, audience, name, except, ["message", values], about]],
      answers: [],
    })
    expect(rowBody(readRowBody(short).items, [])).toBe(bodies[0])
    // Who looks for messages alone makes nothing.
    const kept = (JSON.parse(short) as { items: RowItem[] }).items
    expect(messagesIn(kept)).toEqual([{ channel_id, message_id: (about as string[])[1] }])
  }
})

test("a post takes few promises", async () => {
  await post("first", "p0")
  const least = await leastPromises(10, i => post("how many are there?", `p${i + 1}`))
  // With those that `await` makes under a hook; 20 when this was written, with those of its batch; 30 once.
  expect(least).toBeLessThanOrEqual(21)
})

test("a post leaves little to collect", async () => {
  // As under load: many share a batch.
  const together = 32
  const run = async (name: string, count: number) => {
    for (let i = 0; i < count; i += together) {
      const nth = (n: number) => post(`message ${n} of an ordinary length, as people write them`, `${name}${n}`)
      await Promise.all(Array.from({ length: together }, (_, n) => nth(i + n)))
    }
  }
  // Until nearly all of it is compiled.
  await run("warm", 6_400)
  const counted = 3_200
  const bytes = await allocatedBytes(() => run("counted", counted))
  // 12,300 when this was written.
  expect(bytes / counted).toBeLessThan(15_000)
})
