/**
 * P2: one author and nonce make one message in a channel, for ever. What
 * tests/messages/messages.test.ts leaves open: answers that get lost, owners that are killed,
 * everything a message can have on it, nonces of every kind, and refusals that do not last.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { idOf, secondsOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { openLink } from "../chaos/proxy.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { fileOf } from "../kit/pictures.ts"
import { startProcesses } from "../kit/processes.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const idsIn = async (person: Person, place: Worker, channel_id: string) =>
  (await person.on(place).listMessages({ channel_id, limit: "100" })).map(({ id }) => id)

test("an answer that gets lost is given again: by the same worker, by another, and to several at once", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const inbox = await lin.listen(shared.west)
  const link = await openLink("east", () => ({ host: "127.0.0.1", port: Number(new URL(shared.east.url).port) }))
  try {
    const far = ada.on({ url: `http://127.0.0.1:${link.port}` })
    const message = { channel_id, content: "Did you get this?", nonce: "lost" }
    link.set({ lost: "replies" })
    const unanswered = far.createMessage(message).then(
      () => "answered",
      () => "lost",
    )
    await until("the answer is lost", () => link.counts.lostBytes > 0)
    link.set({})
    expect(await unanswered).toBe("lost")
    const again = await Promise.all(
      [far, ada.on(shared.east), ada.on(shared.west)].map(one => one.createMessage(message)),
    )
    const [first] = await ada.on(shared.west).listMessages({ channel_id })
    for (const answer of again) expect(answer).toEqual(first)
    expect(await idsIn(ada, shared.east, channel_id)).toEqual([first!.id])
    await shared.settle()
    expect(inbox.rest()).toMatchObject([{ name: "MESSAGE_CREATE", data: { id: first!.id, nonce: "lost" } }])
  } finally {
    await link.close()
  }
})

test("a repeat tells of everything on the message, as it is by now; after its deletion of nothing", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const east = ada.on(shared.east)
  const inbox = await lin.listen(shared.west, {})
  const target = await lin.on(shared.west).createMessage({ channel_id, content: "What shall we do?" })
  const upload = await east.uploadAttachment({
    channel_id,
    file: fileOf(Buffer.from("a plan"), "plan.txt", "text/plain"),
  })
  const message = {
    channel_id,
    content: "This, or that?",
    reply_to_id: target.id,
    attachments: [upload],
    embeds: [{ title: "Both" }],
    poll: { question: "Which?", options: ["This", "That"] },
    nonce: "everything",
  }
  const first = await east.createMessage(message)
  expect(first).toMatchObject({
    reply_to_id: target.id,
    attachments: [{ filename: "plan.txt" }],
    embeds: [{ title: "Both" }],
    poll: { question: "Which?" },
  })
  const ids = { channel_id, message_id: first.id }
  const repeats = () => Promise.all([shared.east, shared.west].map(place => ada.on(place).createMessage(message)))
  const now = async () => ada.on(shared.west).getMessage(ids)
  // The upload is used up, and the target may have gone: neither matters to what was said already.
  await lin.on(shared.west).deleteMessage({ channel_id, message_id: target.id })
  for (const repeat of await repeats()) expect(repeat).toEqual(await now())
  await ada.on(shared.west).addReaction({ ...ids, emoji: "👍" })
  await ada.on(shared.west).votePoll({ poll_id: first.poll!.id, option_ids: [first.poll!.options[1]!.id] })
  await lin.on(shared.east).ackMessages(ids)
  await until("it is read", async () => (await now()).read_count === 1)
  const seen = await now()
  expect(seen).toMatchObject({ reactions: [{ emoji: "👍", count: 1, me: true }], status: "read" })
  expect(seen.poll_results!.options.map(option => option.vote_count)).toEqual([0, 1])
  for (const repeat of await repeats()) expect(repeat).toEqual(seen)

  await ada.on(shared.west).deleteMessage(ids)
  for (const repeat of await repeats())
    expect(repeat).toMatchObject({
      id: first.id,
      nonce: "everything",
      content: null,
      attachments: [],
      embeds: [],
      poll: null,
      poll_results: null,
      reactions: [],
      reply_to_id: null,
    })
  expect(await idsIn(ada, shared.west, channel_id)).toEqual([])
  await shared.settle()
  expect(inbox.rest().filter(({ name }) => name === "MESSAGE_CREATE")).toHaveLength(2)
})

test("a nonce is remembered after a year, in servers and outside them, also one of a deleted message", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const direct = await dmBetween(ada, lin, shared.east)
  const yearAgo = Date.now() - 365 * 86_400_000
  for (const [i, place] of [
    { channel_id: channel.id, home: server.id, server_id: server.id },
    { channel_id: direct, home: direct, server_id: null },
  ].entries()) {
    const id = (n: number) => idOf(shardOf(place.home), { ms: yearAgo, sequence: 2 * i + n })
    await shared.sql`
      INSERT INTO messages (channel_id, id, author_id, server_id, content, nonce, deleted) VALUES
        (${place.channel_id}, ${id(0)}, ${ada.id}, ${place.server_id}, 'long ago', 'old', false),
        (${place.channel_id}, ${id(1)}, ${ada.id}, ${place.server_id}, NULL, 'gone', true)`
    const send = (worker: Worker, nonce: string) =>
      ada.on(worker).createMessage({ channel_id: place.channel_id, content: "anew", nonce })
    const [old, oldToo, gone, other] = await Promise.all([
      send(shared.east, "old"),
      send(shared.west, "old"),
      send(shared.east, "gone"),
      send(shared.west, "new"),
    ])
    expect([old.id, old.content, oldToo.id, gone.id, gone.content]).toEqual([id(0), "long ago", id(0), id(1), null])
    expect(old.created_at).toBe(secondsOf(old.id))
    expect(await idsIn(lin, shared.west, place.channel_id)).toEqual([other.id, old.id])
  }
})

/** Each is a nonce of its own, however alike two may look. */
const exotic = [
  "a",
  "A",
  "a ",
  " a",
  " ",
  "a:b",
  ":",
  "::",
  "1:1",
  "é",
  "e\u0301",
  "\uFEFFa",
  "a\u200B",
  "\u202Ea",
  "\u2028",
  "\u0001",
  "👩‍👩‍👧‍👦",
  "🐦".repeat(63),
  "🐦".repeat(64),
  "__proto__",
  "constructor",
  "null",
  "'; --",
  "\\",
  "%00",
  "{}",
  "0",
  "00",
]

test("nonces of every kind are told apart, and from those of others, of other channels and of conversations", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const second = await ada.on(shared.east).createChannel({ server_id: server.id, name: "second" })
  const notes = await ada.on(shared.east).getNotes()
  const direct = await dmBetween(ada, lin, shared.east)
  const places: [Person, string][] = [
    [ada, channel.id],
    [lin, channel.id],
    [ada, second.id],
    [ada, direct],
    [lin, direct],
    [ada, notes.id],
  ]
  const round = (content: string) =>
    Promise.all(
      places.flatMap(([person, channel_id], i) =>
        (i === 0 ? exotic : exotic.slice(0, 6)).map(async nonce => {
          const message = await person
            .on(i % 2 ? shared.east : shared.west)
            .createMessage({ channel_id, content, nonce })
          expect([message.nonce, message.author_id, message.channel_id]).toEqual([nonce, person.id, channel_id])
          return message
        }),
      ),
    )
  const first = await round("first")
  expect(new Set(first.map(({ id }) => id)).size).toBe(first.length)
  const again = await round("again")
  expect(again.map(({ id, content }) => [id, content])).toEqual(first.map(({ id }) => [id, "first"]))
  for (const nonce of ["🐦".repeat(65), "a\u0000", "\uD800"])
    expect(await refusal(ada.on(shared.east).createMessage({ channel_id: channel.id, content: "x", nonce }))).toBeOneOf(
      ["validation_failed", "unsafe_text"],
    )
})

test("a refusal that does not last leaves its nonce free", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const direct = await dmBetween(ada, lin, shared.east)
  const west = lin.on(shared.west)
  const inChannel = { channel_id: channel.id, content: "soon", nonce: "soon" }
  const silenced = { channel_id: channel.id, target_id: lin.id, type: "member" as const }
  await ada.on(shared.east).setOverride({ ...silenced, allow: [], deny: ["messages.send"] })
  expect(await refusal(west.createMessage(inChannel))).toBe("permission_denied")
  await ada.on(shared.east).deleteOverride(silenced)
  await ada.on(shared.east).editChannel({ channel_id: channel.id, slowmode_seconds: 600 })
  const first = await west.createMessage({ ...inChannel, nonce: "first" })
  expect(await refusal(west.createMessage(inChannel))).toBe("slowmode")
  await ada.on(shared.east).editChannel({ channel_id: channel.id, slowmode_seconds: 0 })
  const sent = await west.createMessage(inChannel)
  expect((await west.createMessage(inChannel)).id).toBe(sent.id)
  expect(await idsIn(ada, shared.east, channel.id)).toEqual([sent.id, first.id])

  await ada.on(shared.east).blockUser({ user_id: lin.id })
  const inDirect = { channel_id: direct, content: "please", nonce: "please" }
  expect(await refusal(west.createMessage(inDirect))).toBe("cannot_message")
  await ada.on(shared.east).deleteRelationship({ user_id: lin.id })
  const heard = await west.createMessage(inDirect)
  expect((await lin.on(shared.east).createMessage(inDirect)).id).toBe(heard.id)
  expect(await idsIn(ada, shared.west, direct)).toEqual([heard.id])
})

test("a worker is killed while it stores messages: what is sent again is there once", async ({ cluster }) => {
  const { databaseUrl } = cluster
  const program = await startProcesses({ DATABASE_URL: databaseUrl, WORKERS: "2" })
  try {
    const ada = await register(program)
    const rest = clientAt(program, ada)
    const server = await rest.createServer({ name: "Shared" })
    const [channel] = await rest.listChannels({ server_id: server.id })
    const channel_id = channel!.id
    const answers = new Map<string, string[]>()
    let unanswered = 0
    // As a client does that gets no answer: the same again, until there is one.
    const send = async (nonce: string) => {
      for (;;) {
        const sent = await rest.createMessage({ channel_id, content: nonce, nonce }).catch(() => undefined)
        if (sent) return void answers.set(nonce, [...(answers.get(nonce) ?? []), sent.id])
        unanswered++
        await sleep(50)
      }
    }
    const web = async () => (await program.workers()).filter(({ slot }) => slot.startsWith("web"))
    const killAll = async () => {
      for (const { pid } of await web()) {
        program.kill(pid, "SIGKILL")
        await until("another took its place", async () => {
          const now = await web()
          return now.length === 2 && now.every(process => process.pid !== pid)
        })
      }
    }
    const over = new AbortController()
    const killing = killAll().finally(() => over.abort())
    for (let round = 0; !over.signal.aborted; round++) {
      await Promise.all([0, 1, 2, 3].flatMap(i => [send(`${round} ${i}`), send(`${round} ${i}`)]))
      await sleep(20) // the kills are what takes time
    }
    await killing
    expect(unanswered).toBeGreaterThan(0)
    const stored = await cluster.sql<{ id: string; nonce: string }[]>`
      SELECT id, nonce FROM messages WHERE channel_id = ${channel_id} ORDER BY id`
    expect(new Map(stored.map(({ id, nonce }) => [nonce, [id, id]]))).toEqual(answers)
    expect(stored).toHaveLength(answers.size)
  } finally {
    await program.stop()
  }
})

async function register(place: { url: string }): Promise<string> {
  const { token } = await clientAt(place).register({
    username: "ada",
    email: "ada@example.com",
    password: "Correct-Horse-9",
  })
  return token!
}
