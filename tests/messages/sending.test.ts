import type { CallOf } from "../../src/contract/core/registry.ts"
import type { createMessage } from "../../src/contract/messages/messages.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt } from "../kit/person.ts"
import { fileOf, png } from "../kit/pictures.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

async function scene(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(shared.east)
  const upload = (content = "hello", filename = "note.txt") =>
    rest.uploadAttachment({ channel_id, file: fileOf(Buffer.from(content), filename, "text/plain") })
  const post = (input: Omit<CallOf<typeof createMessage>, "channel_id">) => rest.createMessage({ channel_id, ...input })
  return { ada, lin, server_id: server.id, channel_id, rest, upload, post }
}

test("embeds and attachments are in the answer, in the event, live and after a resume, and in every later read", async ({
  shared,
}) => {
  const { ada, lin, channel_id, upload, post } = await scene(shared)
  const [inbox, away] = [await lin.listen(shared.west), await lin.listen(shared.east)]
  away.drop()
  const [one, two] = [await upload("one", "eins.txt"), await upload("two", "zwei.txt")]
  const embed = {
    title: "Tide table",
    color: "#0af",
    kept: { as: ["it", "comes"] },
    fields: [{ name: "a", value: "b" }],
  }
  const sent = await post({
    content: "look",
    embeds: [embed, {}],
    attachments: [one, { id: two.id, filename: "lie.exe" }],
  })
  expect(sent.embeds).toEqual([
    { ...embed, type: "rich", color: "#00AAFF", fields: [{ name: "a", value: "b", inline: false }] },
    { type: "rich" },
  ])
  expect(sent.attachments).toEqual(
    [one, two].map(({ filename, content_type, size, hash, url }, i) => ({
      id: sent.attachments[i]!.id,
      filename,
      content_type,
      size,
      hash,
      metadata: null,
      width: null,
      height: null,
      thumbhash: null,
      thumbnails: null,
      url: expect.stringMatching(new RegExp(`^${url.replaceAll(".", "\\.")}\\?exp=\\d+&sig=[\\w-]+$`)) as string,
    })),
  )
  const ids = sent.attachments.map(({ id }) => id)
  expect(new Set([...ids, sent.id, one.id, two.id]).size).toBe(5)
  for (const id of ids) expect(BigInt(id)).toBeGreaterThan(BigInt(sent.id))
  const seen = { ...sent, read: false }
  await away.reconnect(shared.east.url)
  for (const client of [inbox, away]) expect(await client.next("MESSAGE_CREATE")).toEqual(seen)
  for (const place of [shared.east, shared.west]) {
    expect(await lin.on(place).getMessage({ channel_id, message_id: sent.id })).toEqual(seen)
    expect(await lin.on(place).listMessages({ channel_id })).toEqual([seen])
  }
  // An edit keeps what stands beside the text.
  const edited = await ada.on(shared.west).editMessage({ channel_id, message_id: sent.id, content: "look again" })
  expect(edited).toMatchObject({ content: "look again", embeds: sent.embeds, attachments: sent.attachments })
  expect(await inbox.next("MESSAGE_UPDATE")).toEqual({ ...edited, read: false })
  expect(await lin.on(shared.east).getMessage({ channel_id, message_id: sent.id })).toEqual({ ...edited, read: false })
})

test("any one of text, embeds and attachments is enough; without text there is none", async ({ shared }) => {
  const { channel_id, rest, upload, post } = await scene(shared)
  const embeds = [{ description: "only this" }]
  for (const input of [
    { embeds },
    { embeds, content: null },
    { embeds, content: "" },
    { attachments: [await upload()] },
  ]) {
    const sent = await post(input)
    expect(sent.content).toBeNull()
    expect(await rest.getMessage({ channel_id, message_id: sent.id })).toEqual(sent)
  }
  expect((await post({ embeds, content: " " })).content).toBe(" ")
  for (const nothing of [{}, { embeds: [] }, { attachments: [] }, { attachments: null, embeds: null, content: null }])
    expect(await refusal(post(nothing))).toBe("empty_message")
  expect(await refusal(post({ content: " \n", embeds: [], attachments: [] }))).toBe("invalid_content")
  // What had no text may be given one.
  const [first] = await rest.listMessages({ channel_id, limit: "1" })
  expect(await rest.editMessage({ channel_id, message_id: first!.id, content: "now" })).toMatchObject({
    content: "now",
  })
  for (const [content, code] of [
    ["", "empty_message"],
    [" ", "invalid_content"],
  ] as const)
    expect(await refusal(rest.editMessage({ channel_id, message_id: first!.id, content }))).toBe(code)
})

test("only own uploads are taken, found by id or by the path of their address; of the input nothing else counts", async ({
  shared,
}) => {
  const { ada, lin, channel_id, rest, upload, post } = await scene(shared)
  const file = await upload()
  const secret = await lin.on(shared.west).uploadAttachment({ channel_id, file: fileOf(await png(), "secret.png") })
  const verdict = (...attachments: object[]) => refusal(post({ content: "x", attachments }))
  for (const input of [
    { id: secret.id },
    { url: secret.url },
    secret,
    { id: "1" },
    { id: file.id.slice(0, 32) },
    { id: `../${file.id}` },
    { url: `https://elsewhere.example/${file.id}` },
    { url: `/api/v1/media/attachments/../${file.id}` },
    { filename: file.filename, size: file.size },
    {},
  ])
    expect([input, await verdict(input)]).toEqual([input, "invalid_attachment"])
  expect(await verdict(file, secret)).toBe("invalid_attachment")
  for (const wrong of ["x", 1, null, [file]])
    expect(await refusal(post({ attachments: [wrong] as never }))).toBe("validation_failed")
  for (const input of [
    { id: file.id },
    { url: file.url },
    { url: `https://chat.example${file.url}?exp=1&sig=x` },
    { id: "41771983423143937", url: file.url, size: 999, hash: "0", filename: "lie.png", content_type: "image/png" },
  ]) {
    const { attachments } = await post({ attachments: [input] })
    expect(attachments).toMatchObject([{ filename: "note.txt", content_type: "text/plain", size: 5, hash: file.hash }])
  }
  // In another channel, too: it is theirs.
  const other = await plantServer(shared, { owner: ada })
  expect((await rest.createMessage({ channel_id: other.channel_id, attachments: [file] })).attachments).toHaveLength(1)
  expect((await post({ attachments: Array.from({ length: 10 }, () => file) })).attachments).toHaveLength(10)
  expect(await verdict(...Array.from({ length: 11 }, () => file))).toBe("too_many_attachments")
  expect(await verdict(...Array.from({ length: 100 }, () => ({ id: "x" })))).toBe("too_many_attachments")
})

test("embeds have a shape and bounds, and at most ten are sent", async ({ shared }) => {
  const { post } = await scene(shared)
  expect((await post({ embeds: Array.from({ length: 10 }, () => ({ title: "x" })) })).embeds).toHaveLength(10)
  expect(await refusal(post({ embeds: Array.from({ length: 11 }, () => ({ title: "x" })) }))).toBe("too_many_embeds")
  for (const embed of [
    { title: "x".repeat(257) },
    { description: "x".repeat(4097) },
    { url: "javascript:alert(1)" },
    { color: "#12345" },
    { fields: Array.from({ length: 26 }, () => ({ name: "a", value: "b" })) },
    { type: "poll" },
    "x",
  ])
    expect(await refusal(post({ embeds: [embed] as never }))).toBe("validation_failed")
  const four = Array.from({ length: 2 }, () => ({ description: "x".repeat(3001) }))
  expect(await refusal(post({ embeds: four }))).toBe("validation_failed")
})

test("files need messages.attach_files and embeds messages.embed_links; bots may always embed", async ({ shared }) => {
  const { lin, server_id, channel_id, rest } = await scene(shared)
  const bot = await botOf(shared, shared.east, lin)
  const robot = clientAt(shared.west, bot.token)
  await robot.joinByInvite({ invite_code: (await rest.createInvite({ channel_id })).code })
  const lins = lin.on(shared.west)
  const file = fileOf(await png())
  const linsFile = await lins.uploadAttachment({ channel_id, file })
  const bots = await robot.uploadAttachment({ channel_id, file })
  const deny = ["messages.attach_files", "messages.embed_links"]
  for (const target_id of [lin.id, bot.id])
    await rest.setOverride({ channel_id, target_id, type: "member", allow: [], deny })
  const message = (call: Promise<unknown>) => call.catch((error: Error) => error.message)
  expect(await message(lins.createMessage({ channel_id, attachments: [linsFile] }))).toContain("messages.attach_files")
  expect(await message(robot.createMessage({ channel_id, attachments: [bots] }))).toContain("messages.attach_files")
  expect(await message(lins.createMessage({ channel_id, content: "x", embeds: [{ title: "x" }] }))).toContain(
    "messages.embed_links",
  )
  expect((await robot.createMessage({ channel_id, embeds: [{ title: "x" }] })).embeds).toHaveLength(1)
  await lins.createMessage({ channel_id, content: "text" })
  await rest.editMember({ server_id, member_id: lin.id, timeout_until: Math.floor(Date.now() / 1000) + 60 })
  expect(await refusal(lins.createMessage({ channel_id, attachments: [linsFile] }))).toBe("timed_out")
})

test("P2: a nonce stands for its message with its files, though they and what allowed them are gone", async ({
  shared,
}) => {
  const { lin, channel_id, rest } = await scene(shared)
  const send = (place = shared.west) =>
    lin.on(place).createMessage({ channel_id, attachments: [file], embeds: [{ title: "x" }], nonce: "n" })
  const file = await lin.on(shared.east).uploadAttachment({ channel_id, file: fileOf(await png()) })
  const replies = await Promise.all([send(), send(shared.east), send()])
  for (const reply of replies) expect(reply).toEqual(replies[0])
  const [uses] = await shared.sql`SELECT count(*)::int AS count FROM upload_uses WHERE file = ${file.id}`
  expect(uses).toEqual({ count: 1 })
  await rest.setOverride({
    channel_id,
    target_id: lin.id,
    type: "member",
    allow: [],
    deny: ["messages.attach_files", "messages.embed_links"],
  })
  expect(await send()).toEqual(replies[0])
  await rest.deleteMessage({ channel_id, message_id: replies[0].id })
  await shared.sql`DELETE FROM uploads WHERE file = ${file.id}`
  expect(await send()).toMatchObject({ id: replies[0].id, nonce: "n" })
})

test("a reply names a message of the same channel, whatever it carries", async ({ shared }) => {
  const { ada, rest, upload, post } = await scene(shared)
  const first = await post({ content: "first" })
  const reply = await post({ attachments: [await upload()], reply_to_id: first.id })
  expect(reply.reply_to_id).toBe(first.id)
  const other = await plantServer(shared, { owner: ada })
  const foreign = await rest.createMessage({ channel_id: other.channel_id, content: "there" })
  for (const reply_to_id of [foreign.id, "1"])
    expect(await refusal(post({ embeds: [{ title: "x" }], reply_to_id }))).toBe("message_not_found")
})
