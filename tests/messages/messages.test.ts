import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { permissionNames } from "../../src/contract/core/permissions.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt } from "../kit/person.ts"
import { plantMessage, plantServer, sharedServer } from "../kit/seeds.ts"
import { awkwardStrings } from "../kit/strings.ts"
import { expect, test } from "../kit/test.ts"

test("P2, P4: a message is on every worker at once and reaches each session exactly once", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const inboxes = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west, { encoding: "msgpack" }),
    ada.listen(shared.west),
  ])
  const sent = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "hello 🐦", nonce: "n" })
  expect(sent).toEqual({
    id: sent.id,
    channel_id: channel.id,
    server_id: server.id,
    guild_id: server.id,
    author_id: ada.id,
    author_username: ada.username,
    author_avatar_url: `/api/v1/avatars/users/${ada.id}`,
    author_badges: [],
    author_bot: false,
    content: "hello 🐦",
    created_at: sent.created_at,
    edited_at: null,
    reply_to_id: null,
    attachments: [],
    embeds: [],
    pinned: false,
    status: "sent",
    delivery_count: 0,
    read_count: 0,
    read: true,
    read_by: [],
    reactions: [],
    nonce: "n",
    metadata: null,
    poll: null,
    poll_results: null,
  })
  expect(Math.abs(sent.created_at - Date.now() / 1000)).toBeLessThan(60)
  const message = { channel_id: channel.id, message_id: sent.id }
  for (const place of [shared.east, shared.west]) {
    expect(await ada.on(place).getMessage(message)).toEqual(sent)
    expect(await lin.on(place).getMessage(message)).toEqual({ ...sent, read: false })
  }
  for (const inbox of inboxes) expect(await inbox.next("MESSAGE_CREATE")).toEqual({ ...sent, read: false })
  await shared.settle()
  for (const inbox of inboxes) expect(inbox.rest()).toEqual([])
})

test("a bot is marked as one in what it writes and where it is a member", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const bot = await botOf(shared, shared.east, lin)
  const inbox = await ada.listen(shared.west)
  const robot = clientAt(shared.east, bot.token)
  await robot.joinByInvite({ invite_code: (await ada.on(shared.west).createInvite({ channel_id: channel.id })).code })
  const joined = await inbox.next("GUILD_MEMBER_ADD")
  expect(joined).toMatchObject({
    server_id: server.id,
    bot: true,
    user: { avatar_url: `/api/v1/avatars/users/${bot.id}` },
  })
  const sent = await robot.createMessage({ channel_id: channel.id, content: "beep" })
  const marked = { id: sent.id, author_avatar_url: `/api/v1/avatars/users/${bot.id}`, author_bot: true }
  expect(sent).toMatchObject(marked)
  expect(await inbox.next("MESSAGE_CREATE")).toMatchObject(marked)
  const own = await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "not a beep" })
  // The first page is the database's, the ones after it are the home's.
  for (let i = 0; i < 3; i++)
    expect(await lin.on(shared.east).listMessages({ channel_id: channel.id })).toMatchObject([
      { id: own.id, author_bot: false },
      marked,
    ])
  await robot.editMessage({ channel_id: channel.id, message_id: sent.id, content: "boop" })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject(marked)

  const members = await ada.on(shared.west).listMembers({ server_id: server.id })
  expect(members.flatMap(({ user_id, bot }) => (bot ? [user_id] : []))).toEqual([bot.id])
  await ada.on(shared.west).editMember({ server_id: server.id, member_id: bot.id, nickname: "Beep" })
  expect(await inbox.next("GUILD_MEMBER_UPDATE")).toMatchObject({ user_id: bot.id, bot: true })
  inbox.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server.id } })
  const { members: asked } = await inbox.next("GUILD_MEMBERS_CHUNK")
  expect(asked.flatMap(({ user_id, bot }) => (bot ? [user_id] : []))).toEqual([bot.id])
})

test("text comes back letter by letter, over REST and in both encodings of the gateway", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const [json, msgpack] = await Promise.all([lin.listen(shared.west), lin.listen(shared.east, { encoding: "msgpack" })])
  const sent: string[] = []
  for (const [i, content] of awkwardStrings.entries()) {
    const message = await ada.on(i % 2 ? shared.east : shared.west).createMessage({ channel_id: channel.id, content })
    expect(message.content).toBe(content)
    expect((await json.next("MESSAGE_CREATE")).content).toBe(content)
    expect((await msgpack.next("MESSAGE_CREATE")).content).toBe(content)
    sent.push(message.id)
  }
  const stored = await lin.on(shared.west).listMessages({ channel_id: channel.id, limit: "100" })
  expect(stored.reverse().map(({ id, content }) => [id, content])).toEqual(sent.map((id, i) => [id, awkwardStrings[i]]))

  const [first] = sent
  for (const [i, content] of awkwardStrings.entries()) {
    const place = i % 2 ? shared.west : shared.east
    const edited = await ada.on(place).editMessage({ channel_id: channel.id, message_id: first!, content })
    expect(edited.content).toBe(content)
    expect((await json.next("MESSAGE_UPDATE")).content).toBe(content)
    expect((await msgpack.next("MESSAGE_UPDATE")).content).toBe(content)
  }
})

test("a text has at most 4000 code points and something to see", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const { createMessage, editMessage } = ada.on(shared.east)
  const channel_id = channel.id
  const { id: message_id } = await createMessage({ channel_id, content: "🐦".repeat(4000) })
  for (const content of ["x".repeat(4001), "🐦".repeat(4001), `${"🐦".repeat(4000)}x`]) {
    expect(await refusal(createMessage({ channel_id, content }))).toBe("validation_failed")
    expect(await refusal(editMessage({ channel_id, message_id, content }))).toBe("validation_failed")
  }
  for (const facts of [{}, { content: null }, { content: "" }, { nonce: "n" }])
    expect(await refusal(createMessage({ channel_id, ...facts }))).toBe("empty_message")
  for (const content of [" ", "\n\t", "\u00a0\u2003\u3000"]) {
    expect(await refusal(createMessage({ channel_id, content }))).toBe("invalid_content")
    expect(await refusal(editMessage({ channel_id, message_id, content }))).toBe("invalid_content")
    expect(await refusal(createMessage({ channel_id, content, embeds: [{ title: content }] }))).toBe("invalid_content")
  }
  for (const embed of [{}, { type: "image" }, { description: " ", fields: [] }])
    expect(await refusal(createMessage({ channel_id, embeds: [embed] }))).toBe("empty_message")
  expect(await createMessage({ channel_id, embeds: [{}, { color: 1 }] })).toMatchObject({ content: null })
  expect(await refusal(editMessage({ channel_id, message_id, content: "" }))).toBe("empty_message")
  expect(await refusal(editMessage({ channel_id, message_id, content: null as never }))).toBe("validation_failed")
})

test("P2: parallel sends of one nonce on both workers are one message and one event", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.west)
  const channel_id = channel.id
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, i) => {
      const { createMessage } = ada.on(i % 2 ? shared.east : shared.west)
      return i % 3
        ? createMessage({ channel_id, content: `try ${i}`, nonce: "once" })
        : createMessage({ channel_id, content: `try ${i}` }, { idempotencyKey: "once" })
    }),
  )
  const first = await ada.on(shared.west).listMessages({ channel_id })
  expect(first).toHaveLength(1)
  for (const reply of replies) expect(reply).toEqual(first[0])
  await shared.settle()
  expect(inbox.rest()).toMatchObject([{ name: "MESSAGE_CREATE", data: { id: first[0]!.id, nonce: "once" } }])
})

test("P2: a nonce means its first message for ever: after edits, after its deletion, on another owner", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2)
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const channel_id = channel.id
  const repeat = (content: string) => ada.on(west!).createMessage({ channel_id, content, nonce: "ever" })
  const first = await ada.on(east!).createMessage({ channel_id, content: "first", nonce: "ever" })
  const message = { channel_id, message_id: first.id }
  expect(await repeat("again")).toEqual(first)
  const edited = await ada.on(east!).editMessage({ ...message, content: "edited" })
  expect(edited).toMatchObject({ id: first.id, content: "edited", nonce: "ever", created_at: first.created_at })
  expect(edited.edited_at).toBeGreaterThanOrEqual(first.created_at)
  expect(await repeat("again")).toEqual(edited)

  await ada.on(west!).deleteMessage(message)
  expect(await repeat("again")).toMatchObject({ id: first.id, nonce: "ever" })
  // Its home is loaded anew by another worker.
  await west!.drain()
  const [place] = await cluster.boot(1)
  await east!.drain()
  const again = await ada.on(place!).createMessage({ channel_id, content: "again", nonce: "ever" })
  expect(again).toMatchObject({ id: first.id, nonce: "ever" })
  expect(await ada.on(place!).listMessages({ channel_id })).toEqual([])
  // Another's nonce, and the same in another channel, are others.
  const other = await lin.on(place!).createMessage({ channel_id, content: "Lin's", nonce: "ever" })
  expect(other.id).not.toBe(first.id)
  expect((await ada.on(place!).listMessages({ channel_id })).map(({ id }) => id)).toEqual([other.id])
})

test("P2: after a take-over, too, a repeat is the first message, whatever would be said of a new one by then", async ({
  cluster,
}) => {
  const [first] = await cluster.boot(1)
  const { server, channel, ada, lin } = await cluster.seed(sharedServer)
  const { server: ruled, channel: judged, lin: max, ada: eva } = await cluster.seed(sharedServer)
  const owner = ada.on(first!)
  const slow = await owner.createChannel({ server_id: server.id, name: "slow", slowmode_seconds: 600 })
  const quiet = await owner.createChannel({ server_id: server.id, name: "quiet" })
  const target = await owner.createMessage({ channel_id: channel.id, content: "target" })
  const repeats = [
    [lin, { channel_id: slow.id, content: "unhurried", nonce: "once" }],
    [lin, { channel_id: channel.id, content: "reply", reply_to_id: target.id, nonce: "once" }],
    [lin, { channel_id: quiet.id, content: "while allowed", nonce: "once" }],
    [max, { channel_id: judged.id, content: "badword", nonce: "once" }],
  ] as const
  const sent = []
  for (const [person, message] of repeats) sent.push(await person.on(first!).createMessage(message))
  await owner.deleteMessage({ channel_id: channel.id, message_id: target.id })
  const silenced = { channel_id: quiet.id, target_id: lin.id, type: "member" as const }
  await owner.setOverride({ ...silenced, allow: [], deny: ["messages.send"] })
  await eva.on(first!).createAutomodRule({
    server_id: ruled.id,
    name: "Words",
    rule_type: "keyword",
    config: { keywords: ["badword"] },
    actions: [{ action_type: "delete_message" }],
  })
  const [second] = await cluster.boot(1)
  await first!.drain()
  for (const [i, [person, message]] of repeats.entries())
    expect(await person.on(second!).createMessage(message), message.content).toEqual(sent[i])
  const anew = repeats.map(([person, message]) =>
    refusal(person.on(second!).createMessage({ ...message, nonce: "another" })),
  )
  expect(await Promise.all(anew)).toEqual(["slowmode", "message_not_found", "permission_denied", "message_blocked"])
  expect(await eva.on(second!).listAutomodViolations({ server_id: ruled.id })).toHaveLength(1)
})

test("the body's nonce beats the header, and both have at most 64 characters; an empty one is none", async ({
  shared,
}) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const { createMessage } = ada.on(shared.east)
  const channel_id = channel.id
  const both = await createMessage({ channel_id, content: "both", nonce: "body" }, { idempotencyKey: "header" })
  expect(both.nonce).toBe("body")
  expect((await createMessage({ channel_id, content: "header" }, { idempotencyKey: "header" })).id).not.toBe(both.id)
  const widest = "🐦".repeat(64)
  const wide = await createMessage({ channel_id, content: "wide", nonce: widest })
  expect(wide.nonce).toBe(widest)
  expect((await createMessage({ channel_id, content: "again", nonce: widest })).id).toBe(wide.id)
  const empty = { channel_id, content: "none", nonce: "" }
  expect((await createMessage(empty)).nonce).toBeNull()
  expect((await createMessage(empty, { idempotencyKey: "other" })).nonce).toBe("other")
  for (const nonce of ["x".repeat(65), "🐦".repeat(65)])
    expect(await refusal(createMessage({ channel_id, content: "x", nonce }))).toBe("validation_failed")
  expect(await refusal(createMessage({ channel_id, content: "x" }, { idempotencyKey: "x".repeat(65) }))).toBe(
    "validation_failed",
  )
  expect((await createMessage({ channel_id, content: "null", nonce: null })).nonce).toBeNull()
})

test("a reply names a message of its channel", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const other = await ada.on(shared.east).createChannel({ server_id: server.id, name: "other" })
  const first = await ada.on(shared.east).createMessage({ channel_id, content: "first" })
  const elsewhere = await ada.on(shared.east).createMessage({ channel_id: other.id, content: "elsewhere" })
  const reply = await lin.on(shared.west).createMessage({ channel_id, content: "reply", reply_to_id: first.id })
  expect(reply.reply_to_id).toBe(first.id)
  expect((await ada.on(shared.east).getMessage({ channel_id, message_id: reply.id })).reply_to_id).toBe(first.id)
  for (const reply_to_id of [elsewhere.id, "1", 1, channel_id])
    expect(await refusal(lin.on(shared.east).createMessage({ channel_id, content: "to whom?", reply_to_id }))).toBe(
      "message_not_found",
    )
  for (const reply_to_id of ["first", -1, 1.5, 2 ** 60, ""])
    expect(await refusal(lin.on(shared.east).createMessage({ channel_id, content: "to whom?", reply_to_id }))).toBe(
      "validation_failed",
    )
  await ada.on(shared.east).deleteMessage({ channel_id, message_id: first.id })
  expect((await lin.on(shared.west).getMessage({ channel_id, message_id: reply.id })).reply_to_id).toBe(first.id)
})

test("only its author edits a message; everybody sees the edit and its time", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const [eve, inbox] = await Promise.all([shared.person("eve"), ada.listen(shared.west, { encoding: "msgpack" })])
  const channel_id = channel.id
  const { id: message_id } = await lin.on(shared.east).createMessage({ channel_id, content: "draft" })
  const edited = await lin.on(shared.west).editMessage({ channel_id, message_id, content: "final" })
  expect(edited).toMatchObject({ content: "final", edited_at: expect.any(Number) as number, read: true })
  expect(await inbox.next("MESSAGE_UPDATE")).toEqual({ ...edited, read: false })
  expect(await ada.on(shared.east).getMessage({ channel_id, message_id })).toEqual({ ...edited, read: false })

  const edit = { channel_id, message_id, content: "mine now" }
  expect(await refusal(ada.on(shared.east).editMessage(edit))).toBe("not_author")
  expect(await refusal(eve.on(shared.east).editMessage(edit))).toBe("access_denied")
  expect(await refusal(lin.on(shared.east).editMessage({ ...edit, message_id: "1" }))).toBe("message_not_found")
  expect(await refusal(lin.on(shared.east).editMessage({ ...edit, message_id: "x" }))).toBe("invalid_message_id")
  expect(await refusal(lin.on(shared.east).editMessage({ ...edit, channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.east).editMessage({ ...edit, channel_id: "x" }))).toBe("invalid_channel_id")
})

test("its author or a moderator deletes a message, once", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const [eve, inbox] = await Promise.all([shared.person("eve"), lin.listen(shared.west)])
  const channel_id = channel.id
  const [byLin, byLinToo, byAda] = [
    await lin.on(shared.east).createMessage({ channel_id, content: "mine" }),
    await lin.on(shared.west).createMessage({ channel_id, content: "mine too" }),
    await ada.on(shared.west).createMessage({ channel_id, content: "Ada's" }),
  ]
  expect(await refusal(lin.on(shared.east).deleteMessage({ channel_id, message_id: byAda.id }))).toBe(
    "cannot_delete_message",
  )
  expect(await refusal(eve.on(shared.east).deleteMessage({ channel_id, message_id: byAda.id }))).toBe("access_denied")
  for (const [person, message] of [
    [lin, byLin],
    [ada, byLinToo],
  ] as const) {
    const gone = { channel_id, message_id: message.id }
    expect(await person.on(shared.west).deleteMessage(gone)).toEqual({ success: true })
    expect(await inbox.next("MESSAGE_DELETE")).toEqual({
      id: message.id,
      channel_id,
      server_id: server.id,
      guild_id: server.id,
    })
    for (const place of [shared.east, shared.west]) {
      expect(await refusal(person.on(place).deleteMessage(gone))).toBe("message_not_found")
      expect(await refusal(person.on(place).getMessage(gone))).toBe("message_not_found")
      expect(await refusal(lin.on(place).editMessage({ ...gone, content: "late" }))).toBe("message_not_found")
    }
  }
  expect((await lin.on(shared.east).listMessages({ channel_id })).map(({ id }) => id)).toEqual([byAda.id])
  const { deleteMessage } = ada.on(shared.east)
  expect(await refusal(deleteMessage({ channel_id, message_id: "x" }))).toBe("invalid_message_id")
  expect(await refusal(deleteMessage({ channel_id: "x", message_id: "1" }))).toBe("invalid_channel_id")
  expect(await refusal(deleteMessage({ channel_id: "1", message_id: "1" }))).toBe("channel_not_found")
})

test("parallel deletions of one message delete it once", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.east)
  const { id: message_id } = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "going" })
  const outcomes = await Promise.allSettled(
    [shared.east, shared.west, shared.east, shared.west].map(place =>
      ada.on(place).deleteMessage({ channel_id: channel.id, message_id }),
    ),
  )
  const refused = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason as Error] : []))
  for (const reason of refused) expect(await refusal(Promise.reject(reason))).toBe("message_not_found")
  expect(refused).toHaveLength(3)
  await shared.settle()
  expect(inbox.rest().map(({ name }) => name)).toEqual(["MESSAGE_CREATE", "MESSAGE_DELETE"])
})

test("each right has its permission: view, read, send, manage", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const granting = (...everyone: Parameters<typeof plantServer>[1]["everyone"] & {}) =>
    plantServer(shared, { owner: ada, members: [lin], everyone })
  const attempts = async ({ server_id, channel_id }: { server_id: string; channel_id: string }) => {
    const [own, others] = [
      await plantMessage(shared, { server_id, channel_id, author: lin, content: "Lin's" }),
      await plantMessage(shared, { server_id, channel_id, author: ada, content: "Ada's" }),
    ]
    const rest = lin.on(shared.west)
    const verdict = async (call: Promise<unknown>) => {
      const copy = call.then(() => "granted")
      return copy.catch(() => refusal(call))
    }
    return {
      read: await verdict(rest.getMessage({ channel_id, message_id: others })),
      list: await verdict(rest.listMessages({ channel_id })),
      send: await verdict(rest.createMessage({ channel_id, content: "hi" })),
      type: await verdict(rest.startTyping({ channel_id })),
      edit: await verdict(rest.editMessage({ channel_id, message_id: own, content: "edited" })),
      deleteOwn: await verdict(rest.deleteMessage({ channel_id, message_id: own })),
      deleteOther: await verdict(rest.deleteMessage({ channel_id, message_id: others })),
    }
  }
  const refusing = (code: string, ...names: string[]) => Object.fromEntries(names.map(name => [name, code]))
  const all = ["read", "list", "send", "type", "edit", "deleteOwn", "deleteOther"]
  const granted = refusing("granted", ...all)

  const withoutView = permissionNames.filter(name => name !== "channels.view" && name !== "administrator")
  expect(await attempts(await granting(...withoutView))).toEqual(refusing("access_denied", ...all))
  expect(await attempts(await granting("channels.view"))).toEqual({
    ...refusing("permission_denied", "read", "list", "send", "edit"),
    type: "granted",
    deleteOwn: "granted",
    deleteOther: "cannot_delete_message",
  })
  expect(await attempts(await granting("channels.view", "messages.read"))).toEqual({
    ...granted,
    ...refusing("permission_denied", "send", "edit"),
    deleteOther: "cannot_delete_message",
  })
  expect(await attempts(await granting("channels.view", "messages.read", "messages.send", "messages.manage"))).toEqual(
    granted,
  )
  expect(await attempts(await granting("administrator"))).toEqual(granted)
})

test("messages live in text channels; elsewhere there is nothing to read", async ({ shared }) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  for (const type of ["voice", "category", "stage"] as const) {
    const { id: channel_id } = await ada.on(shared.east).createChannel({ server_id: server.id, name: type, type })
    expect(await refusal(lin.on(shared.west).createMessage({ channel_id, content: "hi" }))).toBe("not_a_text_channel")
    expect(await lin.on(shared.west).listMessages({ channel_id })).toEqual([])
  }
  const news = await ada.on(shared.east).createChannel({ server_id: server.id, name: "news", type: "announcement" })
  expect((await lin.on(shared.west).createMessage({ channel_id: news.id, content: "hi" })).content).toBe("hi")
})

test("slow mode makes members wait, per author and channel, but not those who moderate it", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const slow = { server_id: server.id, name: "slow", slowmode_seconds: 60 }
  const { id: channel_id } = await ada.on(shared.east).createChannel(slow)
  const first = await lin.on(shared.east).createMessage({ channel_id, content: "one", nonce: "one" })
  for (const place of [shared.east, shared.west]) {
    const again = lin.on(place).createMessage({ channel_id, content: "two" })
    expect(await refusal(again)).toBe("slowmode")
    const { retryAfterSeconds } = (await again.catch((error: unknown) => error)) as { retryAfterSeconds: number }
    expect(retryAfterSeconds).toBeGreaterThan(50)
    expect(retryAfterSeconds).toBeLessThanOrEqual(60)
    // The repeat of what was sent is no second message.
    expect(await lin.on(place).createMessage({ channel_id, content: "one", nonce: "one" })).toEqual(first)
  }
  await lin.on(shared.west).createMessage({ channel_id: channel.id, content: "elsewhere" })
  for (let i = 0; i < 2; i++) await ada.on(shared.west).createMessage({ channel_id, content: `owner ${i}` })

  const bypass = await plantServer(shared, {
    owner: ada,
    members: [lin],
    everyone: ["channels.view", "messages.send", "messages.bypass_slowmode"],
    slowmode: 60,
  })
  for (let i = 0; i < 2; i++)
    await lin.on(shared.east).createMessage({ channel_id: bypass.channel_id, content: `${i}` })

  // What is sent while it is off counts once it is on again.
  await ada.on(shared.east).editChannel({ channel_id, slowmode_seconds: 0 })
  for (let i = 0; i < 10; i++) await lin.on(shared.east).createMessage({ channel_id, content: `${i}` })
  const before = Date.now()
  await lin.on(shared.east).createMessage({ channel_id, content: "last" })
  await ada.on(shared.east).editChannel({ channel_id, slowmode_seconds: 60 })
  const next = lin.on(shared.east).createMessage({ channel_id, content: "next" })
  expect(await refusal(next)).toBe("slowmode")
  const { retryAfterSeconds } = (await next.catch((error: unknown) => error)) as { retryAfterSeconds: number }
  expect(retryAfterSeconds).toBeGreaterThanOrEqual(60 - (Date.now() - before) / 1000)
})

test("slow mode counts what was deleted, also where only PostgreSQL knows of it", async ({ shared }) => {
  const [ada, lin, sam] = await Promise.all(["ada", "lin", "sam"].map(name => shared.person(name)))
  const { server_id, channel_id } = await plantServer(shared, { owner: ada!, members: [lin!, sam!], slowmode: 600 })
  for (const [author, ago] of [
    [lin!, 60_000],
    // Long enough ago.
    [sam!, 700_000],
  ] as const) {
    // As if its home had been loaded since: nobody has asked it yet who posted when.
    const id = idOf(shardOf(channel_id), { ms: Date.now() - ago, sequence: 1 })
    await shared.sql`
      INSERT INTO messages (channel_id, id, server_id, author_id, content) VALUES (${channel_id}, ${id}, ${server_id}, ${author.id}, 'x')`
    await author.on(shared.west).deleteMessage({ channel_id, message_id: id })
    expect(await refusal(author.on(shared.west).getMessage({ channel_id, message_id: id }))).toBe("message_not_found")
  }
  const again = lin!.on(shared.east).createMessage({ channel_id, content: "again" })
  expect(await refusal(again)).toBe("slowmode")
  const { retryAfterSeconds } = (await again.catch((error: unknown) => error)) as { retryAfterSeconds: number }
  expect(retryAfterSeconds).toBeGreaterThan(500)
  expect(retryAfterSeconds).toBeLessThanOrEqual(540)
  const sent = await sam!.on(shared.east).createMessage({ channel_id, content: "again" })
  expect(await lin!.on(shared.east).listMessages({ channel_id })).toMatchObject([{ id: sent.id }])
})

test("HOST1, P3: ids of a channel rise in the order of its history, no matter who sends from which worker", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.west)
  const sent = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      (i % 2 ? ada : lin)
        .on(i % 4 < 2 ? shared.east : shared.west)
        .createMessage({ channel_id: channel.id, content: `${i}` }),
    ),
  )
  const history = await ada.on(shared.east).listMessages({ channel_id: channel.id, after: "0", limit: "100" })
  const ids = history.map(({ id }) => id)
  expect(ids).toEqual(ids.toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)))
  expect(new Set(ids)).toEqual(new Set(sent.map(({ id }) => id)))
  await shared.settle()
  expect(inbox.rest().map(event => (event.data as { id: string }).id)).toEqual(ids)
})

test("reading one message: 400 for no id, 404 for what is not there, 403 for those outside", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const other = await ada.on(shared.east).createChannel({ server_id: server.id, name: "other" })
  const { id: message_id } = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "x" })
  const { getMessage } = lin.on(shared.west)
  expect(await refusal(getMessage({ channel_id: other.id, message_id }))).toBe("message_not_found")
  expect(await refusal(getMessage({ channel_id: channel.id, message_id: "1" }))).toBe("message_not_found")
  expect(await refusal(getMessage({ channel_id: channel.id, message_id: "x" }))).toBe("invalid_message_id")
  expect(await refusal(getMessage({ channel_id: "1", message_id }))).toBe("channel_not_found")
  expect(await refusal(getMessage({ channel_id: "x", message_id }))).toBe("invalid_channel_id")
  expect(await refusal(eve.on(shared.east).getMessage({ channel_id: channel.id, message_id }))).toBe("access_denied")
  const { createMessage } = eve.on(shared.east)
  expect(await refusal(createMessage({ channel_id: channel.id, content: "x" }))).toBe("access_denied")
  expect(await refusal(createMessage({ channel_id: "1", content: "x" }))).toBe("channel_not_found")
  expect(await refusal(createMessage({ channel_id: "x", content: "x" }))).toBe("invalid_channel_id")
})
