/**
 * Webhooks: who makes them, what they send, and that nobody sends through them who was not given
 * the token.
 */
import type { Message } from "../../src/contract/messages/messages.ts"
import { ApiError } from "../../client/rest.ts"
import { routes } from "../../src/contract/contract.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import { limits } from "../../src/contract/core/limits.ts"
import type { Webhook, WebhookExecution } from "../../src/contract/messages/webhooks.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { serverActor } from "../../src/actors/server.ts"
import { readRowBody } from "../../src/runtime/row.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Endpoint } from "../kit/person.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const picture = "https://cdn.example.com/crier.png"

/** Ada's server with a webhook in its first channel; Lin is a plain member. */
async function hooked(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [owner, member] = [ada.on(shared.east), lin.on(shared.west)]
  const channel_id = channel.id
  const webhook = await owner.createWebhook({ channel_id, name: "Crier", avatar_url: picture })
  return {
    ada,
    lin,
    owner,
    member,
    server_id: server.id,
    channel_id,
    webhook,
    webhook_id: webhook.id,
    ...sending(webhook),
  }
}

/** Sends through a webhook without any other right. */
const sending = ({ id, token }: Webhook) => ({
  token: token!,
  execute: (place: Endpoint, message: object, options: { idempotencyKey?: string } = {}) =>
    clientAt(place).executeWebhook({ webhook_id: id, token: token!, ...message }, options),
  awaited: async (place: Endpoint, message: object, options: { idempotencyKey?: string } = {}) =>
    (await clientAt(place).executeWebhook(
      { webhook_id: id, token: token!, wait: "true", ...message },
      options,
    )) as WebhookExecution,
})

/** The members of a new role that grants these. */
async function granted(shared: SharedCluster, server_id: string, owner: Cluster["people"][number], ...who: string[]) {
  const rest = owner.on(shared.east)
  const { id: role_id } = await rest.createRole({ server_id, name: "Crew", permissions: { "webhooks.manage": true } })
  for (const member_id of who) await rest.giveRole({ server_id, member_id, role_id })
  return role_id
}

/** Rows of webhooks of nobody's making, before the server's home wakes. */
const plantWebhooks = ({ sql }: Cluster, server_id: string, channel_id: string, count: number) => sql`
  INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
  SELECT id, ${server_id}, ${channel_id}, 1, 1, 'Planted', 'x', 1704153600
  FROM unnest(${Array.from({ length: count }, () => plantedId(shardOf(server_id)))}::bigint[]) AS id`

test("HOOK1: a webhook is made, read, changed and deleted; its token is shown to its creator, once", async ({
  shared,
}) => {
  const { ada, owner, server_id, channel_id, webhook, webhook_id, token } = await hooked(shared)
  expect(token).toMatch(new RegExp(`^webhook\\.${webhook_id}\\.[A-Za-z0-9_-]{64}$`))
  const config = { base_url: new URL(webhook.url!).origin }
  expect(webhook).toEqual({
    id: webhook_id,
    channel_id,
    server_id,
    guild_id: server_id,
    creator_id: ada.id,
    name: "Crier",
    avatar_url: picture,
    token,
    url: `${config.base_url}/webhooks/${webhook_id}/${token}`,
    created_at: webhook.created_at,
  })
  expect(shardOf(webhook_id)).toBe(shardOf(server_id))
  const { token: _, url: __, ...listed } = webhook
  const read = { ...listed, token: null, url: null }
  for (const place of [shared.east, shared.west]) {
    const rest = ada.on(place)
    expect(await rest.getWebhook({ webhook_id })).toEqual(read)
    expect(await rest.listServerWebhooks({ server_id })).toEqual([listed])
    expect(await rest.listChannelWebhooks({ channel_id })).toEqual([listed])
  }
  const [row] = await shared.sql`SELECT token_hash FROM webhooks WHERE id = ${webhook_id}`
  expect(row!["token_hash"]).toBe(hashSecret(token.split(".")[2]!))

  const name = "  <b>News & more</b> 🦉 "
  expect(await owner.editWebhook({ webhook_id, name })).toEqual({ ...read, name })
  expect(await owner.editWebhook({ webhook_id })).toEqual({ ...read, name })
  const other = "https://cdn.example.com/other.png"
  expect(await owner.editWebhook({ webhook_id, avatar_url: other })).toEqual({ ...read, name, avatar_url: other })
  expect(await owner.editWebhook({ webhook_id, avatar_url: "" })).toEqual({ ...read, name, avatar_url: null })
  expect(await ada.on(shared.west).getWebhook({ webhook_id })).toEqual({ ...read, name, avatar_url: null })

  expect(await owner.deleteWebhook({ webhook_id })).toEqual({ success: true })
  expect(await owner.listServerWebhooks({ server_id })).toEqual([])
  expect(await refusal(owner.getWebhook({ webhook_id }))).toBe("webhook_not_found")
  expect(await refusal(owner.deleteWebhook({ webhook_id }))).toBe("webhook_not_found")

  const log = await owner.listAuditLog({ server_id })
  const entries = log.filter(({ target_type }) => target_type === "webhook").toReversed()
  expect(entries.map(({ action, target_name, changes }) => [action, target_name, changes])).toEqual([
    [
      "WEBHOOK_CREATE",
      "Crier",
      {
        name: { old: null, new: "Crier" },
        channel_id: { old: null, new: channel_id },
        avatar_url: { old: null, new: picture },
      },
    ],
    ["WEBHOOK_UPDATE", name, { name: { old: "Crier", new: name } }],
    ["WEBHOOK_UPDATE", name, { avatar_url: { old: picture, new: other } }],
    ["WEBHOOK_UPDATE", name, { avatar_url: { old: other, new: null } }],
    ["WEBHOOK_DELETE", name, { name: { old: name, new: null }, channel_id: { old: channel_id, new: null } }],
  ])
  expect(entries.every(({ target_id, user_id }) => target_id === webhook_id && user_id === ada.id)).toBe(true)
})

test("HOOK2: a new token replaces the one before at once, on every worker", async ({ shared }) => {
  const { ada, owner, server_id, channel_id, webhook_id, token, execute } = await hooked(shared)
  const renewed = await owner.regenerateWebhookToken({ webhook_id })
  expect(renewed.url).toMatch(new RegExp(`/webhooks/${webhook_id}/${renewed.token!}$`))
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(execute(place, { content: "old" }))).toBe("invalid_webhook_token")
    expect(await sending(renewed).execute(place, { content: "new" })).toEqual({ success: true })
  }
  // The server's home looks again: a worker may have found what was so a moment ago.
  const { node } = shared.west
  const execution = { type: "executeWebhook", webhook_id, channel_id, holder_id: ada.id, content: "late" } as const
  const hashOf = (token: string) => hashSecret(token.split(".")[2]!)
  const late = { ...execution, token_hash: hashOf(token) }
  await expect(node.ask(serverActor, server_id, late)).rejects.toMatchObject({ code: "invalid_webhook_token" })
  const elsewhere = { ...execution, channel_id: "1", token_hash: hashOf(renewed.token!) }
  await expect(node.ask(serverActor, server_id, elsewhere)).rejects.toMatchObject({ code: "unavailable" })
  const others = { ...execution, holder_id: "1", token_hash: hashOf(renewed.token!) }
  await expect(node.ask(serverActor, server_id, others)).rejects.toMatchObject({ code: "unavailable" })
  // Of several at once one is the last, and only its token is good.
  const made = await Promise.all(
    [shared.east, shared.west, shared.east, shared.west].map(place =>
      ada.on(place).regenerateWebhookToken({ webhook_id }),
    ),
  )
  const good = await Promise.all(
    made.map(one =>
      sending(one)
        .execute(shared.west, { content: "which?" })
        .then(
          () => 1,
          () => 0,
        ),
    ),
  )
  expect(good.reduce<number>((sum, one) => sum + one, 0)).toBe(1)
  const log = await owner.listAuditLog({ server_id, action: "WEBHOOK_UPDATE" })
  expect(log).toHaveLength(5)
  for (const one of [renewed, ...made]) expect(JSON.stringify(log)).not.toContain(one.token!.split(".")[2]!)
})

test("members who may manage webhooks are told of every change, and nobody else; live and by replay", async ({
  shared,
}) => {
  const { ada, lin, owner, server_id, channel_id, webhook_id } = await hooked(shared)
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  await granted(shared, server_id, ada, lin.id)
  const { id: other } = await owner.createChannel({ server_id, name: "other" })
  const [lins, plain] = [await lin.listen(shared.west), await mo.listen(shared.east)]
  const away = await lin.listen(shared.east)
  away.drop()

  const told = (channel: string) => ({ guild_id: server_id, server_id, channel_id: channel })
  const second = await owner.createWebhook({ channel_id: other, name: "Second" })
  await owner.editWebhook({ webhook_id, name: "Renamed" })
  await owner.editWebhook({ webhook_id, channel_id: other })
  await owner.editWebhook({ webhook_id, channel_id: other })
  await owner.regenerateWebhookToken({ webhook_id })
  await owner.deleteWebhook({ webhook_id: second.id })
  const expected = [other, channel_id, channel_id, other, other, other].map(told)
  const heard = []
  for (const _ of expected) heard.push(await lins.next("WEBHOOKS_UPDATE"))
  expect(heard).toEqual(expected)
  await away.reconnect(shared.west.url)
  const replayed = []
  for (const _ of expected) replayed.push(await away.next("WEBHOOKS_UPDATE"))
  expect(replayed).toEqual(expected)
  await shared.settle()
  for (const client of [lins, plain, away])
    expect(client.rest().filter(({ name }) => name === "WEBHOOKS_UPDATE")).toEqual([])
})

test("events of a channel's webhooks reach members who may view it and manage them there, whatever the server says; its end included", async ({
  shared,
}) => {
  const { ada, lin, owner, server_id, channel_id } = await hooked(shared)
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  await granted(shared, server_id, ada, lin.id)
  const { id: hidden } = await owner.createChannel({ server_id, name: "hidden" })
  // Mo may manage webhooks in this channel alone, Lin everywhere but may not see it.
  const member = { channel_id: hidden, type: "member" } as const
  await owner.setOverride({ ...member, target_id: mo.id, allow: ["webhooks.manage"], deny: [] })
  await owner.setOverride({ ...member, target_id: lin.id, allow: [], deny: ["channels.view"] })
  const [inbox, lins, mos] = [
    await ada.listen(shared.east),
    await lin.listen(shared.west),
    await mo.listen(shared.east),
  ]
  const away = await mo.listen(shared.west)
  away.drop()
  await owner.createWebhook({ channel_id: hidden, name: "Whisper" })
  await owner.createWebhook({ channel_id, name: "Shout" })
  await owner.deleteChannel({ channel_id: hidden })
  await away.reconnect(shared.east.url)
  for (const client of [mos, away])
    for (const _ of [1, 2]) expect(await client.next("WEBHOOKS_UPDATE")).toMatchObject({ channel_id: hidden })
  for (const channel of [hidden, channel_id, hidden])
    expect(await inbox.next("WEBHOOKS_UPDATE")).toMatchObject({ channel_id: channel })
  expect(await lins.next("WEBHOOKS_UPDATE")).toMatchObject({ channel_id })
  await shared.settle()
  for (const client of [inbox, lins, mos, away])
    expect(client.rest().filter(({ name }) => name === "WEBHOOKS_UPDATE")).toEqual([])
})

test("what a webhook sends is a message like any other: live, by replay and in history", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id, webhook_id, token, execute, awaited } = await hooked(shared)
  const hidden = await owner.createChannel({ server_id, name: "hidden" })
  await owner.setOverride({
    channel_id: hidden.id,
    target_id: server_id,
    type: "role",
    allow: [],
    deny: ["channels.view"],
  })
  const [inbox, away] = [await lin.listen(shared.west), await lin.listen(shared.east)]
  away.drop()

  const own = await awaited(shared.west, { content: "  hear, hear  " })
  expect(own).toEqual({
    id: own.id,
    webhook_id,
    channel_id,
    content: "  hear, hear  ",
    username: "Crier",
    avatar_url: picture,
    created_at: own.created_at,
  })
  const another = "https://cdn.example.com/another.png"
  const masked = await awaited(shared.east, { content: "news", username: " Herald ", avatar_url: another })
  expect(masked).toMatchObject({ username: " Herald ", avatar_url: another })
  expect(await awaited(shared.east, { content: "same", username: "", avatar_url: "" })).toMatchObject({
    username: "Crier",
    avatar_url: picture,
  })
  expect(await execute(shared.east, { content: "unawaited" })).toEqual({ success: true })
  expect(await execute(shared.east, { content: "unawaited", wait: "false" })).toEqual({ success: true })

  const live = []
  for (let i = 0; i < 5; i++) live.push(await inbox.next("MESSAGE_CREATE"))
  expect(live[0]).toMatchObject({
    id: own.id,
    channel_id,
    server_id,
    author_id: webhook_id,
    webhook_id,
    author_username: "Crier",
    author_avatar_url: picture,
    author_badges: [],
    author_bot: false,
    content: "  hear, hear  ",
    created_at: own.created_at,
    embeds: [],
    nonce: null,
  })
  expect(live[1]).toMatchObject({ id: masked.id, author_username: " Herald ", author_avatar_url: another })
  // Renaming it changes nothing of what it has said.
  await owner.editWebhook({ webhook_id, name: "Renamed", avatar_url: "" })
  // Her own heartbeat may have said meanwhile that she has them.
  const sent = (message: Message): Message => ({ ...message, status: "sent", delivery_count: 0 })
  for (const place of [shared.east, shared.west]) {
    expect((await lin.on(place).listMessages({ channel_id })).toReversed().map(sent)).toEqual(live)
    expect(sent(await lin.on(place).getMessage({ channel_id, message_id: masked.id }))).toEqual(live[1])
  }
  await away.reconnect(shared.west.url)
  const replayed = []
  for (let i = 0; i < 5; i++) replayed.push(await away.next("MESSAGE_CREATE"))
  expect(replayed).toEqual(live)
  // What the next owner would publish after a crash is what was published.
  const rows = await shared.sql<
    { body: string }[]
  >`SELECT body FROM outbox WHERE shard = ${shardOf(server_id)} ORDER BY number`
  const kept = rows
    .flatMap(({ body }) => readRowBody(body).items)
    .flatMap(item =>
      item[0] === "e" && item[3] === "MESSAGE_CREATE" ? [JSON.parse(item[5].text) as { id: string }] : [],
    )
  expect(kept.find(({ id }) => id === masked.id)).toEqual(live[1])

  // Nobody hears it who may not view the channel.
  await owner.editWebhook({ webhook_id, channel_id: hidden.id })
  const unheard = await awaited(shared.east, { content: "hush" })
  expect(unheard).toMatchObject({ channel_id: hidden.id, username: "Renamed", avatar_url: null })
  expect(await refusal(member.getMessage({ channel_id: hidden.id, message_id: unheard.id }))).toBe("access_denied")
  await shared.settle()
  expect(inbox.rest().filter(({ name }) => name === "MESSAGE_CREATE")).toEqual([])
  expect((await ada.on(shared.west).listMessages({ channel_id: hidden.id })).map(({ id }) => id)).toEqual([unheard.id])
  expect(token).toBeDefined()
})

test("a message is sent at the host root and under /api/v1, by the whole token or its secret, without any other right", async ({
  shared,
}) => {
  const { owner, channel_id, webhook, webhook_id, token } = await hooked(shared)
  const route = routes.executeWebhook
  const secret = token.split(".")[2]!
  const paths = [
    new URL(webhook.url!).pathname,
    `/api/v1/webhooks/${webhook_id}/${token}`,
    `/webhooks/${webhook_id}/${secret}`,
    `/api/v1/webhooks/${webhook_id}/${secret}`,
    `/webhooks/${webhook_id}/${token.replaceAll(".", "%2E")}`,
  ]
  for (const path of paths) {
    const answer = await send(shared.west, `${path}?wait=1&thread_id=5`, { route, body: { content: path } })
    expect([path, answer.status]).toEqual([path, 200])
    expect(answer.body).toMatchObject({ webhook_id, content: path })
  }
  // The caller's account does not matter, nor whether they have one.
  const strange = { authorization: "Bearer nonsense" }
  const answer = await send(shared.east, paths[0]!, {
    route,
    headers: strange,
    body: { content: "me", thread_id: "7" },
  })
  expect(answer.body).toEqual({ success: true })
  expect(await owner.listMessages({ channel_id })).toHaveLength(paths.length + 1)
  const wrong = await send(shared.east, paths[0]!, { route, body: { content: "me", thread_id: "x" } })
  expect(wrong.code).toBe("validation_failed")
  expect((await send(shared.east, `${paths[0]!}?thread_id=x`, { route, body: { content: "me" } })).code).toBe(
    "validation_failed",
  )
  expect((await send(shared.east, paths[0]!, { route })).code).toBe("validation_failed")
  // At the root there is nothing else of a webhook's.
  const made = await send(shared.east, `/webhooks/${webhook_id}/regenerate-token`, { route, body: { content: "x" } })
  expect(made.code).toBe("invalid_webhook_token")
  expect((await send(shared.east, `/webhooks/${webhook_id}`)).status).toBe(404)
})

test("embeds are shown as they are meant, the same live and in history", async ({ shared }) => {
  const { lin, member, channel_id, awaited } = await hooked(shared)
  const inbox = await lin.listen(shared.east)
  const embeds = [
    { title: "One", color: "#0af", fields: [{ name: "a", value: "b" }], unknown: { deep: [1e300, null, "🦉"] } },
    { description: "Two", color: 255, image: { url: "https://example.com/i.png", width: 3 }, footer: null },
  ]
  const sent = await awaited(shared.west, { embeds })
  expect(sent).toMatchObject({ content: null })
  const shown = [
    {
      type: "rich",
      title: "One",
      color: "#00AAFF",
      fields: [{ name: "a", value: "b", inline: false }],
      unknown: { deep: [1e300, null, "🦉"] },
    },
    { type: "rich", description: "Two", color: "#0000FF", image: { url: "https://example.com/i.png", width: 3 } },
  ]
  const live = await inbox.next("MESSAGE_CREATE")
  expect(live).toMatchObject({ id: sent.id, content: null, embeds: shown })
  expect(await member.getMessage({ channel_id, message_id: sent.id })).toEqual(live)
  expect(await member.listMessages({ channel_id })).toEqual([live])
  const many = (count: number) => Array.from({ length: count }, (_, i) => ({ title: `${i}` }))
  for (const content of ["ten", "  "])
    expect(await awaited(shared.east, { embeds: many(limits.embedsPerMessage), content })).toMatchObject({ content })
  for (const count of [limits.embedsPerMessage + 1, 5_000])
    expect(await refusal(awaited(shared.east, { embeds: many(count), content: "x" }))).toBe("too_many_embeds")
  for (const wrong of [[{ title: 5 }], [{ url: "javascript:1" }], {}, ["x"], [{ description: "x".repeat(4097) }]])
    expect(await refusal(awaited(shared.east, { embeds: wrong, content: "x" }))).toBe("validation_failed")
})

test("an invalid message is refused, and so are callers who do not know the token; nothing of it appears", async ({
  shared,
}) => {
  const { owner, channel_id, webhook_id, token, execute } = await hooked(shared)
  const second = await owner.createWebhook({ channel_id, name: "Second" })
  const [east, west] = [shared.east, shared.west]
  const unseen = [
    {},
    { type: "link" },
    { title: " " },
    { footer: { text: "" }, fields: [] },
    { fields: [{ name: " ", value: "" }] },
  ]
  for (const message of [{}, { content: "" }, { content: null, embeds: [] }, { username: "x" }, { embeds: unseen }])
    expect(await refusal(execute(west, message))).toBe("empty_message")
  for (const content of [" ", "\n\t\u00a0"])
    for (const embeds of [[], unseen]) expect(await refusal(execute(west, { content, embeds }))).toBe("invalid_content")
  for (const message of [
    { content: "x".repeat(limits.webhookMessageCharacters + 1) },
    { content: 5 },
    { content: "x", username: "x".repeat(limits.webhookUsername + 1) },
    { content: "x", username: " \u200b" },
    { content: "x", avatar_url: "nowhere" },
    { content: "x", avatar_url: "data:image/png;base64,AA" },
  ])
    expect(await refusal(execute(west, message))).toBe("validation_failed")
  for (const avatar_url of [
    "http://127.0.0.1/a.png",
    "http://[::ffff:10.0.0.1]/",
    "http://2130706433/",
    "https://nas.local/a",
  ])
    expect(await refusal(execute(west, { content: "x", avatar_url }))).toBe("private_address")

  const secret = token.split(".")[2]!
  const flipped = (secret.startsWith("A") ? "B" : "A") + secret.slice(1)
  const wrong = [
    second.token!,
    second.token!.split(".")[2]!,
    `webhook.${webhook_id}.${second.token!.split(".")[2]!}`,
    `webhook.${second.id}.${secret}`,
    flipped,
    secret.slice(1),
    hashSecret(secret),
    "x".repeat(2_000),
    "null",
  ]
  for (const one of wrong)
    for (const content of ["x", ""])
      expect(await refusal(clientAt(west).executeWebhook({ webhook_id, token: one, content }))).toBe(
        "invalid_webhook_token",
      )
  const { executeWebhook } = clientAt(east)
  for (const id of ["1", channel_id, String(BigInt(webhook_id) + 1n)])
    expect(await refusal(executeWebhook({ webhook_id: id, token, content: "x" }))).toBe("webhook_not_found")
  for (const id of ["x", "-1", "9223372036854775808", `${webhook_id}.`])
    expect(await refusal(executeWebhook({ webhook_id: id, token, content: "x" }))).toBe("invalid_webhook_id")
  expect(await owner.listMessages({ channel_id })).toEqual([])
})

test("nobody sends as somebody else: what a body says beyond its fields counts for nothing", async ({ shared }) => {
  const { ada, owner, channel_id, webhook_id, awaited } = await hooked(shared)
  const { id: other } = await owner.createChannel({
    server_id: (await owner.getWebhook({ webhook_id })).server_id,
    name: "other",
  })
  const more = {
    id: "7",
    author_id: ada.id,
    author_username: ada.username,
    webhook_id: "7",
    channel_id: other,
    server_id: "7",
    pinned: true,
    created_at: 5,
    nonce: "mine",
    reply_to_id: "5",
    token_hash: "x",
  }
  const { webhook_id: _, ...body } = more
  const sent = await awaited(shared.east, { content: "me", ...body })
  expect(sent).toMatchObject({ webhook_id, channel_id, username: "Crier" })
  const [message] = await owner.listMessages({ channel_id })
  expect(message).toMatchObject({ author_id: webhook_id, webhook_id, pinned: false, nonce: null, reply_to_id: null })
  const forged = { id: "7", creator_id: "7", server_id: "7", token: "known", token_hash: "x", created_at: 5 }
  const made = await owner.createWebhook({ channel_id, name: "Mine", ...forged })
  expect(made).toMatchObject({ creator_id: ada.id, channel_id })
  expect(made.token).not.toContain("known")
  const edited = await owner.editWebhook({ webhook_id: made.id, ...forged })
  expect(edited).toEqual({ ...made, token: null, url: null })
})

test("HOOK4: a webhook stops when the user with its token is banned or loses the right; a new token is another's", async ({
  shared,
}) => {
  const { ada, lin, owner, member, server_id, channel_id } = await hooked(shared)
  const role_id = await granted(shared, server_id, ada, lin.id)
  const { id: webhook_id, ...made } = await member.createWebhook({ channel_id, name: "Lin's" })
  const { execute } = sending({ ...made, id: webhook_id })
  const refused = () => refusal(execute(shared.west, { content: "still here" }))
  const sends = () => execute(shared.west, { content: "here" })
  expect(await sends()).toEqual({ success: true })
  await owner.takeRole({ server_id, member_id: lin.id, role_id })
  expect(await refused()).toBe("webhook_suspended")
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  expect(await sends()).toEqual({ success: true })
  const deny: Permission[] = ["webhooks.manage"]
  await owner.setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny })
  expect(await refused()).toBe("webhook_suspended")
  await owner.deleteOverride({ channel_id, target_id: lin.id })
  expect(await sends()).toEqual({ success: true })
  await owner.banUser({ server_id, user_id: lin.id })
  expect(await refused()).toBe("webhook_suspended")
  // The user who renews the token answers for it from then on.
  const renewed = await owner.regenerateWebhookToken({ webhook_id })
  expect(renewed.creator_id).toBe(lin.id)
  expect(await sending(renewed).execute(shared.west, { content: "in good hands" })).toEqual({ success: true })
})

test("HOOK4: a webhook stops when the user with its token is kicked, by a member or by a rule", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id, execute: others } = await hooked(shared)
  const role_id = await granted(shared, server_id, ada, lin.id)
  const { id: webhook_id, ...made } = await member.createWebhook({ channel_id, name: "Lin's" })
  const { execute } = sending({ ...made, id: webhook_id })
  const comesBack = async () => {
    const { code } = await owner.createInvite({ channel_id })
    await member.joinByInvite({ invite_code: code })
  }
  const isStopped = async () => {
    expect(await refusal(execute(shared.east, { content: "still here" }))).toBe("webhook_suspended")
    const [row] = await shared.sql`SELECT holder_kicked FROM webhooks WHERE id = ${webhook_id}`
    expect(row).toEqual({ holder_kicked: true })
    expect(await others(shared.west, { content: "not me" })).toEqual({ success: true })
  }
  await owner.kickMember({ server_id, member_id: lin.id })
  await isStopped()
  await comesBack()
  expect(await refusal(execute(shared.west, { content: "without the right" }))).toBe("webhook_suspended")
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  expect(await execute(shared.west, { content: "with the right" })).toEqual({ success: true })
  // Who leaves keeps what they were given after the kick.
  await member.regenerateWebhookToken({ webhook_id }).then(async renewed => {
    await member.leaveServer({ server_id })
    expect(await sending(renewed).execute(shared.east, { content: "gone" })).toEqual({ success: true })
    await comesBack()
    const actions = [{ action_type: "kick_user" }]
    const rule = { name: "x", rule_type: "keyword", config: { keywords: ["badword"] }, actions }
    await owner.createAutomodRule({ server_id, ...rule })
    await member.createMessage({ channel_id, content: "badword" })
    expect(await refusal(sending(renewed).execute(shared.east, { content: "gone" }))).toBe("webhook_suspended")
  })
})

test("HOOK4: a webhook whose holder may not send takes nothing from the budget of the server's others", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1, { limited: true, config: { TRUSTED_PROXIES: "127.0.0.1" } })
  const [owner, holder] = [{ id: plantedId() }, plantedId()]
  const { sql } = cluster
  await sql`INSERT INTO users (id, username, created_at) VALUES (${owner.id}, 'planted_owner', 1704153600)`
  const { server_id, channel_id } = await plantServer(cluster, { owner })
  const secret = newSecret(48)
  const plant = (ids: readonly string[], holder_id: string) => sql`
    INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
    SELECT id, ${server_id}, ${channel_id}, ${holder_id}, ${holder_id}, 'Planted', ${hashSecret(secret)}, 1704153600
    FROM unnest(${ids as string[]}::bigint[]) AS id`
  const theirs = Array.from({ length: 25 }, () => plantedId(shardOf(server_id)))
  const other = plantedId(shardOf(server_id))
  await plant(theirs, holder)
  await plant([other], owner.id)
  await sql`INSERT INTO bans VALUES (${server_id}, ${holder}, '', ${owner.id}, 1704153600)`
  const through = (id: string, from: number) =>
    send(place!, `/webhooks/${id}/${secret}`, {
      route: routes.executeWebhook,
      body: { content: "x" },
      headers: { "x-forwarded-for": `10.9.0.${from}` },
    })
  // Twice what the server may send at once; each webhook's own bucket allows ten.
  expect(theirs.length * 8).toBe(2 * limits.webhookBurstMessages)
  const answers = await Promise.all(theirs.flatMap((id, i) => Array.from({ length: 8 }, () => through(id, i))))
  expect(new Set(answers.map(({ code }) => code))).toEqual(new Set(["webhook_suspended"]))
  for (let i = 0; i < 9; i++) expect((await through(other, 99)).status).toBe(200)
})

test("HOOK3: a repeat of an Idempotency-Key answers the first message, for ever, also of several at once", async ({
  shared,
}) => {
  const { owner, lin, channel_id, webhook_id, awaited, execute } = await hooked(shared)
  const inbox = await lin.listen(shared.east)
  const keyed = { idempotencyKey: "once" }
  const all = await Promise.all(
    Array.from({ length: 6 }, (_, i) => awaited(i % 2 ? shared.east : shared.west, { content: `try ${i}` }, keyed)),
  )
  const first = all[0]!
  for (const one of all) expect(one).toEqual(first)
  expect(await awaited(shared.west, { content: "", username: "Other" }, keyed)).toEqual(first)
  const message = await inbox.next("MESSAGE_CREATE")
  expect(message).toMatchObject({ id: first.id, nonce: "once", content: first.content })
  // Another key, another webhook, none at all: other messages.
  const second = await owner.createWebhook({ channel_id, name: "Second" })
  const others = [
    await awaited(shared.east, { content: "two" }, { idempotencyKey: "twice" }),
    await sending(second).awaited(shared.east, { content: "three" }, keyed),
    await awaited(shared.east, { content: "four" }),
    await awaited(shared.east, { content: "four" }),
  ]
  expect(new Set([first, ...others].map(({ id }) => id)).size).toBe(5)
  await owner.deleteMessage({ channel_id, message_id: first.id })
  const after = await awaited(shared.west, { content: "again" }, keyed)
  expect(after).toEqual({ ...first, content: null, avatar_url: null })
  expect(await execute(shared.west, { content: "again" }, keyed)).toEqual({ success: true })
  const contents = (await owner.listMessages({ channel_id })).map(({ content }) => content)
  expect(contents).toEqual(["four", "four", "three", "two"])
  expect(await refusal(clientAt(shared.east).executeWebhook({ webhook_id, token: "no", content: "x" }, keyed))).toBe(
    "invalid_webhook_token",
  )
})

test("webhooks take the permission in the server, or in the channel where an override differs", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id, webhook_id } = await hooked(shared)
  const eve = (await shared.person("eve")).on(shared.west)
  const { id: other } = await owner.createChannel({ server_id, name: "other" })
  const { id: hook } = await owner.createWebhook({ channel_id: other, name: "Other" })
  const each = (rest: typeof member, channel: string, webhook: string) => [
    rest.createWebhook({ channel_id: channel, name: "new" }),
    rest.listChannelWebhooks({ channel_id: channel }),
    rest.getWebhook({ webhook_id: webhook }),
    rest.editWebhook({ webhook_id: webhook, name: "new" }),
    rest.regenerateWebhookToken({ webhook_id: webhook }),
    rest.deleteWebhook({ webhook_id: webhook }),
  ]
  const refusals = (rest: typeof member, channel: string, webhook: string) =>
    Promise.all(each(rest, channel, webhook).map(refusal))
  expect(new Set(await refusals(member, channel_id, webhook_id))).toEqual(new Set(["permission_denied"]))
  expect(await refusal(member.listServerWebhooks({ server_id }))).toBe("permission_denied")
  expect(new Set(await refusals(eve, channel_id, webhook_id))).toEqual(new Set(["access_denied"]))
  expect(await refusal(eve.listServerWebhooks({ server_id }))).toBe("access_denied")

  // In one channel alone.
  const linsTarget = { target_id: lin.id, type: "member" as const }
  await owner.setOverride({ channel_id, ...linsTarget, allow: ["webhooks.manage"], deny: [] })
  expect((await member.listChannelWebhooks({ channel_id })).map(({ id }) => id)).toEqual([webhook_id])
  expect(await member.getWebhook({ webhook_id })).toMatchObject({ id: webhook_id })
  expect(new Set(await refusals(member, other, hook))).toEqual(new Set(["permission_denied"]))
  expect(await refusal(member.editWebhook({ webhook_id, channel_id: other }))).toBe("permission_denied")
  expect(await refusal(member.listServerWebhooks({ server_id }))).toBe("permission_denied")
  const mine = await member.createWebhook({ channel_id, name: "Lin's" })
  expect(mine.creator_id).toBe(lin.id)

  // In the server, but not there; then not even to be seen.
  await granted(shared, server_id, ada, lin.id)
  await owner.setOverride({ channel_id, ...linsTarget, allow: [], deny: ["webhooks.manage"] })
  expect(new Set(await refusals(member, channel_id, webhook_id))).toEqual(new Set(["permission_denied"]))
  expect((await member.listServerWebhooks({ server_id })).map(({ id }) => id)).toEqual([hook])
  expect(await refusal(member.editWebhook({ webhook_id: hook, channel_id }))).toBe("permission_denied")
  await owner.setOverride({ channel_id, ...linsTarget, allow: ["webhooks.manage"], deny: ["channels.view"] })
  expect(new Set(await refusals(member, channel_id, webhook_id))).toEqual(new Set(["access_denied"]))
  expect((await member.listServerWebhooks({ server_id })).map(({ id }) => id)).toEqual([hook])
  expect(await refusal(member.editWebhook({ webhook_id: hook, channel_id }))).toBe("access_denied")
  expect((await owner.listServerWebhooks({ server_id })).map(({ id }) => id)).toEqual([webhook_id, hook, mine.id])
})

test("webhooks: unknown and foreign ids, names and addresses that are none", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id, webhook_id } = await hooked(shared)
  const foreign = await lin.on(shared.west).createServer({ name: "Lin's" })
  const [hall] = await member.listChannels({ server_id: foreign.id })
  const name = "x"
  for (const id of ["1", server_id, webhook_id]) {
    expect(await refusal(owner.createWebhook({ channel_id: id, name }))).toBe("channel_not_found")
    expect(await refusal(owner.listChannelWebhooks({ channel_id: id }))).toBe("channel_not_found")
    expect(await refusal(owner.editWebhook({ webhook_id, channel_id: id }))).toBe("channel_not_found")
  }
  // Of a server that they are not in, and of one that they own: a webhook stays in its server.
  expect(await refusal(owner.createWebhook({ channel_id: hall!.id, name }))).toBe("access_denied")
  expect(await refusal(owner.editWebhook({ webhook_id, channel_id: hall!.id }))).toBe("channel_not_found")
  const [own] = await owner.listChannels({ server_id: (await owner.createServer({ name: "Own" })).id })
  expect(await refusal(owner.editWebhook({ webhook_id, channel_id: own!.id }))).toBe("channel_not_found")
  for (const id of ["1", channel_id]) {
    expect(await refusal(owner.getWebhook({ webhook_id: id }))).toBe("webhook_not_found")
    expect(await refusal(owner.editWebhook({ webhook_id: id, name }))).toBe("webhook_not_found")
    expect(await refusal(owner.deleteWebhook({ webhook_id: id }))).toBe("webhook_not_found")
    expect(await refusal(owner.regenerateWebhookToken({ webhook_id: id }))).toBe("webhook_not_found")
  }
  for (const id of ["x", "9223372036854775808"]) {
    expect(await refusal(owner.getWebhook({ webhook_id: id }))).toBe("invalid_webhook_id")
    expect(await refusal(owner.editWebhook({ webhook_id: id, name }))).toBe("invalid_webhook_id")
    expect(await refusal(owner.deleteWebhook({ webhook_id: id }))).toBe("invalid_webhook_id")
    expect(await refusal(owner.regenerateWebhookToken({ webhook_id: id }))).toBe("invalid_webhook_id")
  }
  expect(await refusal(owner.listServerWebhooks({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(owner.listServerWebhooks({ server_id: "x" }))).toBe("invalid_server_id")
  expect(await refusal(owner.listChannelWebhooks({ channel_id: "x" }))).toBe("invalid_channel_id")
  const voice = await owner.createChannel({ server_id, name: "talk", type: "voice" })
  expect(await refusal(owner.createWebhook({ channel_id: voice.id, name }))).toBe("not_a_text_channel")
  expect(await refusal(owner.editWebhook({ webhook_id, channel_id: voice.id }))).toBe("not_a_text_channel")

  for (const wrong of [
    { name: "" },
    { name: "x".repeat(limits.webhookName.max + 1) },
    { name: 5 as never },
    { name, avatar_url: "javascript:alert(1)" },
    { name, avatar_url: "https://example.com/".padEnd(limits.urlCharacters + 1, "x") },
    { name, channel_id: "x" },
  ]) {
    expect(await refusal(owner.createWebhook({ channel_id, ...wrong }))).toBe("validation_failed")
    expect(await refusal(owner.editWebhook({ webhook_id, ...wrong }))).toBe("validation_failed")
  }
  for (const avatar_url of ["http://localhost/a.png", "https://10.0.0.1/", "http://0x7f.1/", "http://[fe80::1]/"]) {
    expect(await refusal(owner.createWebhook({ channel_id, name, avatar_url }))).toBe("private_address")
    expect(await refusal(owner.editWebhook({ webhook_id, avatar_url }))).toBe("private_address")
  }
  const longest = "🦉".repeat(limits.webhookName.max)
  expect(await owner.createWebhook({ channel_id, name: longest, avatar_url: "" })).toMatchObject({
    name: longest,
    avatar_url: null,
  })
  expect(await ada.on(shared.west).listServerWebhooks({ server_id })).toHaveLength(2)
})

test("a channel has at most 50 webhooks and a server 100, however many are made at once", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, channels: 3 })
  const channels = await shared.sql<
    { id: string }[]
  >`SELECT id FROM channels WHERE server_id = ${server_id} ORDER BY position`
  const [, second, third] = channels.map(({ id }) => id)
  await plantWebhooks(shared, server_id, channel_id, limits.webhooksPerChannel - 1)
  await plantWebhooks(shared, server_id, second!, limits.webhooksPerChannel - 2)
  const create = (channel: string) =>
    Promise.allSettled(
      Array.from({ length: 4 }, (_, i) =>
        ada.on(i % 2 ? shared.east : shared.west).createWebhook({ channel_id: channel, name: `${i}` }),
      ),
    )
  const made = (outcomes: PromiseSettledResult<Webhook>[]) =>
    outcomes.flatMap(outcome => (outcome.status === "fulfilled" ? [outcome.value] : []))
  expect(made(await create(channel_id))).toHaveLength(1)
  const owner = ada.on(shared.east)
  expect(await refusal(owner.createWebhook({ channel_id, name: "51" }))).toBe("webhook_limit")
  const [two] = made(await create(third!))
  expect(await refusal(owner.createWebhook({ channel_id: third!, name: "101" }))).toBe("webhook_limit")
  expect(await refusal(owner.editWebhook({ webhook_id: two!.id, channel_id }))).toBe("webhook_limit")
  const [count] = await shared.sql`SELECT count(*)::int AS n FROM webhooks WHERE server_id = ${server_id}`
  expect(count!["n"]).toBe(limits.webhooksPerServer)
  await owner.deleteWebhook({ webhook_id: two!.id })
  await owner.createWebhook({ channel_id: third!, name: "100" })
})

test("a webhook works on when its creator has left, and goes with its channel or its server", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id } = await hooked(shared)
  await granted(shared, server_id, ada, lin.id)
  const linsHook = await member.createWebhook({ channel_id, name: "Lin's" })
  await member.leaveServer({ server_id })
  expect(await refusal(member.getWebhook({ webhook_id: linsHook.id }))).toBe("access_denied")
  expect(await sending(linsHook).awaited(shared.west, { content: "still here" })).toMatchObject({ username: "Lin's" })

  const { id: doomed } = await owner.createChannel({ server_id, name: "doomed" })
  const lost = await owner.createWebhook({ channel_id: doomed, name: "Lost" })
  const inbox = await ada.listen(shared.west)
  await owner.deleteChannel({ channel_id: doomed })
  expect(await inbox.next("WEBHOOKS_UPDATE")).toMatchObject({ channel_id: doomed })
  expect(await refusal(sending(lost).execute(shared.east, { content: "x" }))).toBe("webhook_not_found")
  expect(await refusal(owner.getWebhook({ webhook_id: lost.id }))).toBe("webhook_not_found")
  expect((await owner.listServerWebhooks({ server_id })).map(({ id }) => id)).not.toContain(lost.id)

  await owner.deleteServer({ server_id })
  expect(await refusal(sending(linsHook).execute(shared.east, { content: "x" }))).toBe("webhook_not_found")
  expect(await refusal(owner.getWebhook({ webhook_id: linsHook.id }))).toBe("webhook_not_found")
  expect(await shared.sql`SELECT FROM webhooks WHERE server_id = ${server_id}`).toEqual([])
})

test("a webhook waits for no slow mode; moderators delete what it has sent, and nobody edits it", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, slowmode: 3_600 })
  const owner = ada.on(shared.east)
  const webhook = await owner.createWebhook({ channel_id, name: "Crier" })
  const { awaited } = sending(webhook)
  const [first, second] = [await awaited(shared.west, { content: "1" }), await awaited(shared.east, { content: "2" })]
  const inbox = await ada.listen(shared.west)
  expect(await refusal(owner.editMessage({ channel_id, message_id: first.id, content: "mine" }))).toBe("not_author")
  const answer = await owner.createMessage({ channel_id, content: "why?", reply_to_id: first.id })
  expect(answer.reply_to_id).toBe(first.id)
  await owner.deleteMessage({ channel_id, message_id: first.id })
  expect((await inbox.next("MESSAGE_DELETE")).id).toBe(first.id)
  expect((await owner.listMessages({ channel_id })).map(({ id }) => id)).toEqual([answer.id, second.id])
  const [entry] = await owner.listAuditLog({ server_id, action: "MESSAGE_DELETE" })
  expect(entry).toMatchObject({ target_id: first.id, changes: { author_id: { old: webhook.id, new: null } } })
})

test("a webhook whose channel takes no messages any more sends none", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada })
  await shared.sql`UPDATE channels SET channel_type = 'voice' WHERE id = ${channel_id}`
  const id = plantedId(shardOf(server_id))
  const secret = "s".repeat(64)
  await shared.sql`
    INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
    VALUES (${id}, ${server_id}, ${channel_id}, ${ada.id}, ${ada.id}, 'Planted', ${hashSecret(secret)}, 1704153600)`
  const { executeWebhook } = clientAt(shared.east)
  expect(await refusal(executeWebhook({ webhook_id: id, token: secret, content: "x" }))).toBe("not_a_text_channel")
})

test("a failure while a webhook is executed leaves no token in the log", async ({ shared }) => {
  const { webhook_id, token } = await hooked(shared)
  await shared.sql`ALTER TABLE webhooks RENAME TO webhooks_elsewhere`
  try {
    for (const mount of ["", "/api/v1"]) {
      const answer = await fetch(`${shared.east.url}${mount}/webhooks/${webhook_id}/${token}`, {
        method: "POST",
        body: JSON.stringify({ content: "x" }),
      })
      expect(answer.status).toBe(500)
    }
  } finally {
    await shared.sql`ALTER TABLE webhooks_elsewhere RENAME TO webhooks`
  }
  const lines = shared.errors.splice(0)
  expect(lines).toHaveLength(2)
  for (const line of lines) {
    expect(line).toContain(`/webhooks/${webhook_id}/{token}`)
    expect(line).not.toContain(token.split(".")[2]!)
  }
})

test("the bucket of a webhook is its own, no matter who calls with its token", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { limited: true })
  const { ada, channel } = await cluster.seed(sharedServer)
  const one = await ada.on(place!).createWebhook({ channel_id: channel.id, name: "One" })
  const two = await ada.on(place!).createWebhook({ channel_id: channel.id, name: "Two" })
  const through = (id: string, token: string) =>
    send(place!, `/webhooks/${id}/${token}`, { route: routes.executeWebhook, body: { content: "x" } })
  const statuses = async (count: number, id: string, tokens: readonly string[]) => {
    const answers = await Promise.all(Array.from({ length: count }, (_, i) => through(id, tokens[i % tokens.length]!)))
    const refused = answers.filter(({ status }) => status === 429)
    for (const { headers, code } of refused) {
      expect(code).toBe("rate_limited")
      expect(headers.get("x-ratelimit-scope")).toBe("webhook")
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
    }
    return { passed: count - refused.length, statuses: new Set(answers.map(({ status }) => status)) }
  }
  // Whole or in part, it is one token.
  const all = await statuses(14, one.id, [one.token!, one.token!.split(".")[2]!])
  expect(all.passed).toBeGreaterThanOrEqual(10)
  expect(all.passed).toBeLessThan(14)
  expect(all.statuses).toEqual(new Set([200, 429]))
  // Callers who know no more than the id take nothing from the webhook.
  expect((await statuses(14, two.id, [one.token!])).statuses).toEqual(new Set([401, 429]))
  const answer = await through(two.id, two.token!)
  expect(answer.status).toBe(200)
  expect(answer.headers.get("x-ratelimit-limit")).toBe("10")
  expect(answer.headers.get("x-ratelimit-remaining")).toBe("9")
})

test("when the worker that keeps the server has gone, its webhooks are served by the next, and repeats are known", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2)
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(server.id)}`
  const [owner, other] = row!.owner === east!.id ? [east!, west!] : [west!, east!]
  const webhook = await ada.on(other).createWebhook({ channel_id: channel.id, name: "Crier" })
  const { awaited } = sending(webhook)
  const renewed = sending(await ada.on(other).regenerateWebhookToken({ webhook_id: webhook.id }))
  const inbox = await lin.listen(other)
  const away = await lin.listen(owner)
  away.drop()
  const embeds = [{ title: "kept" }]
  const first = await renewed.awaited(other, { content: "before", embeds }, { idempotencyKey: "k" })
  const live = await inbox.next("MESSAGE_CREATE")
  await owner.stop()
  let repeated: WebhookExecution | undefined
  await until("the other has taken over", async () => {
    const again = renewed.awaited(other, { content: "again" }, { idempotencyKey: "k" })
    repeated = await again.catch((error: unknown) => {
      if (!(error instanceof ApiError && error.status === 503)) throw error
      return undefined
    })
    return repeated !== undefined
  })
  expect(repeated).toEqual(first)
  expect(await refusal(awaited(other, { content: "x" }))).toBe("invalid_webhook_token")
  const second = await renewed.awaited(other, { content: "after" })
  await away.reconnect(other.url)
  expect(await away.next("MESSAGE_CREATE")).toEqual(live)
  expect((await away.next("MESSAGE_CREATE")).id).toBe(second.id)
  const history = await lin.on(other).listMessages({ channel_id: channel.id })
  expect(history.map(({ id }) => id)).toEqual([second.id, first.id])
  // By now it may have been received.
  const { status, delivery_count } = history[1]!
  expect(history[1]).toEqual({ ...live, status, delivery_count })
  expect(live).toMatchObject({ embeds: [{ type: "rich", title: "kept" }], nonce: "k" })
})
