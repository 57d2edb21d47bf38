/** Bots as people make them for themselves, without an operator: their tokens, and the servers that they are added to. */
import { hashSecret } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { webhooksStorage } from "../../src/storage/messages/webhooks.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { fileOf, photo, png, pngOf } from "../kit/pictures.ts"
import { closedWith, identified, open } from "../kit/raw.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1, config: { STARLING_BLOCKED_USERNAMES: "forbidden" } })

const plantedIds = (length: number) => Array.from({ length }, () => plantedId())
const me = "/api/v1/users/@me"
const codeOf = async (shared: SharedCluster, token: string) =>
  Promise.all([shared.east, shared.west].map(async place => (await send(place, me, { token })).code))

test("BOT1: a bot is its owner's alone; its token is shown once, and a new one ends the one before everywhere", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const own = ada.on(shared.east)
  const username = shared.newName("helper")
  const { token, ...bot } = await own.createBot({ username, permissions: ["messages.manage", "messages.manage"] })
  expect(token).toMatch(/^bot\.\d+\.[A-Za-z0-9_-]{64}$/)
  const avatar_url = `/api/v1/avatars/users/${bot.id}`
  expect(bot).toMatchObject({ username, bot: true, owner_id: ada.id, public: false, has_token: true, avatar_url })
  expect(bot.permissions).toEqual(["messages.manage"])
  expect(await ada.on(shared.west).listBots()).toEqual([bot])
  expect(await own.getOwnBot({ bot_id: bot.id })).toEqual(bot)
  expect((await clientAt(shared.west, token).getMe()).id).toBe(bot.id)
  for (const name of [username, username.toUpperCase(), lin.username])
    expect(await refusal(own.createBot({ username: name }))).toBe("user_exists")
  for (const [name, code] of [
    ["administrator", "reserved_username"],
    ["forbidden_one", "blocked_username"],
    ["no name", "invalid_username"],
  ] as const) {
    expect(await refusal(own.createBot({ username: name }))).toBe(code)
    expect(await refusal(own.editBot({ bot_id: bot.id, username: name }))).toBe(code)
  }

  // Nobody else knows of it as long as it is not public, and nobody else changes it ever.
  const others = lin.on(shared.west)
  const bot_id = bot.id
  const strange: readonly (() => Promise<unknown>)[] = [
    () => others.getOwnBot({ bot_id }),
    () => others.editBot({ bot_id, public: true }),
    () => others.resetBotToken({ bot_id }),
    () => others.putBotAvatar({ bot_id, file: fileOf(Buffer.from("x")) }),
    () => others.deleteBotAvatar({ bot_id }),
    () => others.deleteBot({ bot_id }),
  ]
  const isFoundBy = () => others.getOfferedBot({ bot_id })
  for (const call of [...strange, isFoundBy]) expect(await refusal(call())).toBe("bot_not_found")
  expect(await refusal(own.editBot({ bot_id: lin.id, public: true }))).toBe("bot_not_found")

  // Others see its name and its picture.
  await own.addBot({ server_id: server.id, bot_id, permissions: [] })
  const inbox = await lin.listen(shared.west)
  const renamed = shared.newName("renamed")
  expect(await own.editBot({ bot_id, username: renamed, public: true })).toEqual({
    ...bot,
    username: renamed,
    public: true,
  })
  expect(await inbox.next("USER_UPDATE")).toMatchObject({ id: bot_id, username: renamed, bot: true })
  expect(await refusal(own.editBot({ bot_id, username: lin.username }))).toBe("user_exists")
  for (const [bytes, code] of [
    [Buffer.from("no picture"), "invalid_file"],
    [await png(16385, 1), "picture_too_large"],
    [await pngOf(5_242_881), "file_too_large"],
  ] as const)
    expect(await refusal(own.putBotAvatar({ bot_id, file: fileOf(bytes) }))).toBe(code)
  await own.putBotAvatar({ bot_id, file: fileOf(await photo(40, 40)) })
  expect(await inbox.next("USER_UPDATE")).toMatchObject({ id: bot_id, avatar_url })
  const shown = () => send(shared.west, avatar_url, { route: routes.getAvatar })
  expect((await shown()).headers.get("content-type")).not.toContain("svg")
  await own.deleteBotAvatar({ bot_id })
  expect((await shown()).headers.get("content-type")).toContain("svg")
  expect(await isFoundBy()).toMatchObject({
    username: renamed,
    owner: { id: ada.id, username: ada.username },
    permissions: ["messages.manage"],
  })
  for (const call of strange) expect(await refusal(call())).toBe("bot_not_found")

  const live = await identified(shared.west, `Bot ${token}`)
  await clientAt(shared.west, token).createMessage({ channel_id: channel.id, content: "beep" })
  const { token: next } = await own.resetBotToken({ bot_id })
  expect(await codeOf(shared, token)).toEqual(["revoked_token", "revoked_token"])
  expect(await live.ended).toEqual(closedWith("authentication_failed"))
  expect(await codeOf(shared, next)).toEqual([undefined, undefined])
  expect(await refusal(clientAt(shared.east, next).createBot({ username: "grandchild" }))).toBe("people_only")

  // STAT2: an IDENTIFY that has begun with a token of before is refused, whatever a cache says of it.
  await shared.sql`UPDATE sessions SET token_hash = 'of another' WHERE id = ${bot_id}`
  expect(await codeOf(shared, next)).toEqual([undefined, undefined])
  const late = await open(shared.east)
  late.say({ op: 2, d: { token: next } })
  expect(await late.ended).toEqual(closedWith("authentication_failed"))
  await shared.sql`UPDATE sessions SET token_hash = ${hashSecret(next.split(".")[2]!)} WHERE id = ${bot_id}`

  // It goes as accounts go: at once for its token, and what it wrote stays, of nobody.
  const last = await identified(shared.east, next)
  await own.deleteBot({ bot_id })
  expect(await codeOf(shared, next)).toEqual(["revoked_token", "revoked_token"])
  expect(await last.ended).toEqual(closedWith("authentication_failed"))
  expect(await own.listBots()).toEqual([])
  expect(await refusal(own.resetBotToken({ bot_id }))).toBe("bot_not_found")
  expect(await inbox.next("GUILD_MEMBER_REMOVE")).toMatchObject({ user: { id: bot_id } })
  const [message] = await own.listMessages({ channel_id: channel.id })
  expect(message).toMatchObject({ content: "beep", author_id: bot_id, author_username: `deleted_user_${bot_id}` })
  expect((await own.createBot({ username: renamed })).username).toBe(renamed)
})

test("ADD1: who manages a server adds a bot, and grants it what they have themselves", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const [ownerOfBot, onlooker] = [await shared.person("author"), await shared.person("onlooker")]
  const author = ownerOfBot.on(shared.east)
  const asked = ["channels.view", "messages.manage"] as const
  const { token, id: bot_id } = await author.createBot({ username: shared.newName("helper"), permissions: [...asked] })
  const owner = ada.on(shared.west)
  // Who has no role views nothing here.
  await owner.editRole({ server_id, role_id: server_id, permissions: { "messages.read": true, "messages.send": true } })
  const managing = { "server.manage": true, "channels.view": true, "messages.manage": true }
  const managers = await owner.createRole({ server_id, name: "Managers", permissions: managing })
  const manager = lin.on(shared.east)
  const add = (by = manager, permissions?: Parameters<typeof owner.addBot>[0]["permissions"]) =>
    by.addBot({ server_id, bot_id, ...(permissions && { permissions }) })

  expect(await refusal(add(author))).toBe("access_denied")
  expect(await refusal(add())).toBe("permission_denied")
  await owner.giveRole({ server_id, member_id: lin.id, role_id: managers.id })
  expect(await refusal(add())).toBe("bot_not_found")
  await author.editBot({ bot_id, public: true })
  expect((await manager.getOfferedBot({ bot_id })).permissions).toEqual(asked)
  const refused = await send(shared.west, `/api/v1/servers/${server_id}/bots/${bot_id}`, {
    token: lin.token,
    route: routes.addBot,
    body: { permissions: ["messages.manage", "members.ban"] },
  })
  expect(refused).toMatchObject({ code: "permission_denied" })
  expect(await refusal(add(manager, ["administrator"]))).toBe("permission_denied")

  const inbox = await ada.listen(shared.east)
  const bot = await identified(shared.west, token)
  const before = await owner.listRoles({ server_id })
  const { role_id } = await add()
  const roles = await owner.listRoles({ server_id })
  // Its role is the lowest, so it ranks above nobody who has one.
  expect(roles.map(({ id }) => id)).toEqual([...before.slice(0, -1).map(({ id }) => id), role_id, server_id])
  const granted = Object.entries(roles.at(-2)!.permissions).flatMap(([name, held]) => (held ? [name] : []))
  expect(granted).toEqual(asked)
  expect((await inbox.next("GUILD_ROLE_CREATE")).role.id).toBe(role_id)
  expect(await inbox.next("GUILD_MEMBER_ADD")).toMatchObject({
    user_id: bot_id,
    bot: true,
    roles: [server_id, role_id],
  })
  const { d: guild } = await bot.event("GUILD_CREATE")
  expect(guild).toMatchObject({ id: server_id, channels: [{ id: channel.id }] })

  // What its role says holds for the session that was there before, and over REST.
  const post = await owner.createMessage({ channel_id: channel.id, content: "spam" })
  await until("the bot hears it", () =>
    bot.frames.some(({ t, d }) => t === "MESSAGE_CREATE" && (d as { id: string }).id === post.id),
  )
  await clientAt(shared.east, token).deleteMessage({ channel_id: channel.id, message_id: post.id })
  expect(await inbox.next("MESSAGE_DELETE")).toMatchObject({ id: post.id })

  const log = await owner.listAuditLog({ server_id })
  const entryOf = (action: string) => log.find(entry => entry.action === action)
  expect(entryOf("BOT_ADD")).toMatchObject({
    user_id: lin.id,
    target_id: bot_id,
    changes: { permissions: { old: null, new: asked } },
  })
  expect(entryOf("ROLE_CREATE")).toMatchObject({ user_id: lin.id, target_id: role_id })
  expect(log.filter(({ action, user_id }) => action === "MEMBER_JOIN" && user_id === bot_id)).toHaveLength(1)

  // It is kicked and banned like others.
  expect(await refusal(add())).toBe("already_member")
  await owner.kickMember({ server_id, member_id: bot_id })
  await bot.event("GUILD_DELETE")
  expect(await owner.addBot({ server_id, bot_id, permissions: [] })).toMatchObject({ role_id: null })
  await owner.banUser({ server_id, user_id: bot_id })
  expect(await refusal(add(owner))).toBe("bot_banned")
  await owner.unbanUser({ server_id, user_id: bot_id })
  bot.close()

  // Whose owner is kept out, or has taken it back, is added by nobody else.
  await shared.sql`UPDATE users SET deletion_status = 'frozen', deletion_at = 9999999999 WHERE id = ${ownerOfBot.id}`
  expect(await refusal(add())).toBe("bot_not_found")
  await shared.sql`UPDATE users SET deletion_status = 'active', deletion_at = NULL, locked_until = 9999999999 WHERE id = ${ownerOfBot.id}`
  expect(await refusal(onlooker.on(shared.west).getOfferedBot({ bot_id }))).toBe("bot_not_found")
  await shared.sql`UPDATE users SET locked_until = 0 WHERE id = ${ownerOfBot.id}`
  expect((await add()).role_id).not.toBeNull()
})

test("ROLE3: a bot's own role is nobody else's, and goes with it: when it leaves, is kicked, banned, or deleted", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.west)
  const { token, ...bot } = await ada
    .on(shared.east)
    .createBot({ username: shared.newName("helper"), permissions: ["channels.view", "messages.manage"] })
  const bot_id = bot.id
  const add = async () => (await owner.addBot({ server_id, bot_id })).role_id!
  const inbox = await lin.listen(shared.east)
  const kept = await owner.createRole({ server_id, name: "Kept" })
  const plain = await owner.listRoles({ server_id })

  const first = await add()
  expect((await owner.listRoles({ server_id })).find(({ id }) => id === first)).toMatchObject({ bot_id })
  expect(plain.every(role => !("bot_id" in role))).toBe(true)
  const assigned = { server_id, role_id: first }
  expect(await refusal(owner.giveRole({ ...assigned, member_id: lin.id }))).toBe("bot_role")
  await owner.takeRole({ ...assigned, member_id: bot_id })
  await owner.giveRole({ ...assigned, member_id: bot_id })
  await owner.setOverride({
    channel_id: channel.id,
    target_id: first,
    type: "role",
    allow: [],
    deny: ["messages.send"],
  })
  const rule = await owner.createAutomodRule({
    server_id,
    name: "words",
    rule_type: "keyword",
    config: { keywords: ["spam"] },
    actions: [{ action_type: "delete_message" }],
    exempt_roles: [first, kept.id],
  })

  const ways: readonly (() => Promise<unknown>)[] = [
    () => clientAt(shared.east, token).leaveServer({ server_id }),
    () => owner.kickMember({ server_id, member_id: bot_id }),
    () => owner.banUser({ server_id, user_id: bot_id }),
    () => ada.on(shared.east).deleteBot({ bot_id }),
  ]
  const gone: { role: string; user: string }[] = []
  for (const [i, goes] of ways.entries()) {
    const role_id = i === 0 ? first : await add()
    await goes()
    expect(await inbox.next("GUILD_ROLE_DELETE")).toEqual({ guild_id: server_id, server_id, role_id })
    expect(await owner.listRoles({ server_id })).toEqual(
      plain.map(({ id, name, permissions }) => expect.objectContaining({ id, name, permissions })),
    )
    gone.unshift({ role: role_id, user: i === 0 || i === 3 ? bot_id : ada.id })
    if (i === 2) await owner.unbanUser({ server_id, user_id: bot_id })
  }
  const log = (await owner.listAuditLog({ server_id })).filter(({ action }) => action === "ROLE_DELETE")
  expect(log.map(({ target_id, user_id }) => ({ role: target_id, user: user_id }))).toEqual(gone)
  expect(await owner.listOverrides({ channel_id: channel.id })).toEqual([])
  expect(await owner.listAutomodRules({ server_id })).toMatchObject([{ id: rule.id, exempt_roles: [kept.id] }])
  expect(await shared.sql`SELECT FROM roles WHERE bot_id = ${bot_id}`).toHaveLength(0)
})

test("files of a day, servers and what webhooks may send: a bot's count with its owner's", async ({ shared }) => {
  const [ada, today] = [await shared.person("ada"), Math.floor(Date.now() / 86_400_000)]
  const made = await ada.on(shared.east).createBot({ username: shared.newName("helper") })
  const bot = clientAt(shared.west, made.token)
  const files = async () =>
    (
      await shared.sql<{ user_id: string; files: number }[]>`
        SELECT user_id, files FROM upload_counts WHERE user_id IN (${ada.id}, ${made.id})`
    ).map(({ user_id, files: count }) => [user_id, count])
  await shared.sql`INSERT INTO upload_counts (user_id, day, files) VALUES (${ada.id}, ${today}, 48)`
  const announced = { filename: "a.dat", content_type: "text/plain", total_size: 10 }
  const begun = await bot.createUploadSession(announced)
  await ada.on(shared.west).createUploadSession(announced)
  for (const rest of [bot, ada.on(shared.east)])
    expect(await refusal(rest.createUploadSession(announced))).toBe("upload_limit")
  await bot.deleteUploadSession({ session_id: begun.session_id })
  expect(await files()).toEqual([[ada.id, 49]])

  // Of as many at once as there are callers, the last places go to so many.
  const planted = await plantServer(shared, { owner: made })
  await shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT id, 'Full', ${ada.id}::bigint, 1, 0 FROM unnest(${plantedIds(97)}::bigint[]) AS id`
  const callers = [bot, ada.on(shared.east), bot, ada.on(shared.west), bot]
  const outcomes = await Promise.allSettled(callers.map(rest => rest.createServer({ name: "One more" })))
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2)
  for (const rest of [bot, ada.on(shared.east)])
    expect(await refusal(rest.createServer({ name: "One more" }))).toBe("server_limit")

  const hook = await bot.createWebhook({ channel_id: planted.channel_id, name: "Crier" })
  const { payer_id } = (await webhooksStorage(shared.sql).find(hook.id))!
  expect(payer_id).toBe(ada.id)
})

test("nobody fills a public bot's servers: few of them are of one owner who is not its own", async ({ shared }) => {
  const [author, stranger] = [await shared.person("author"), await shared.person("stranger")]
  const { id: bot_id } = await author.on(shared.east).createBot({ username: shared.newName("helper"), public: true })
  const most = limits.serversOfOneOwnerPerBot
  const planted = []
  for (let i = 0; i < most + 3; i++)
    planted.push(await plantServer(shared, { owner: stranger, members: i < most - 1 ? [{ id: bot_id }] : [] }))
  const free = planted.slice(most - 1).map(({ server_id }) => server_id)
  const add = (person: Person, server_id: string, place = shared.east) =>
    person.on(place).addBot({ server_id, bot_id, permissions: [] })
  const outcomes = await Promise.all(
    free
      .slice(0, 3)
      .map((server_id, i) => refusal(add(stranger, server_id, i % 2 ? shared.east : shared.west)).catch(() => "added")),
  )
  expect(outcomes.toSorted()).toEqual(["added", "bot_share_limit", "bot_share_limit"])
  expect(await refusal(add(stranger, free[3]!))).toBe("bot_share_limit")
  // What is full: a server's roles, its members, and the bot itself.
  const owner = await shared.person("owner")
  const [roles, members] = [
    await plantServer(shared, { owner }),
    await plantServer(shared, { owner, memberCount: limits.membersPerServer }),
  ]
  await shared.sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT id, ${roles.server_id}::bigint, 'Full', '#000000', n, false, false, '{}'
    FROM unnest(${plantedIds(limits.rolesPerServer - 1)}::bigint[]) WITH ORDINALITY AS planted (id, n)`
  const granting = { server_id: roles.server_id, bot_id, permissions: ["messages.manage" as const] }
  expect(await refusal(owner.on(shared.east).addBot(granting))).toBe("role_limit")
  expect(await refusal(add(owner, members.server_id))).toBe("member_limit")
  expect(await refusal(add(owner, bot_id))).toBe("server_not_found")

  // Others' servers are none of these, and its owner adds it where they please.
  const everyone = ["server.manage"] as const
  const other = await plantServer(shared, { owner: await shared.person("other"), members: [stranger], everyone })
  await add(stranger, other.server_id)
  const theirs = await plantServer(shared, { owner: stranger, members: [author], everyone })
  await add(author, theirs.server_id, shared.west)

  await shared.sql`
    WITH made AS (
      INSERT INTO servers (id, name, owner_id, member_count, created_at)
      SELECT id, 'Many', ${owner.id}::bigint, 2, 0 FROM unnest(${plantedIds(limits.serversPerBot)}::bigint[]) AS id RETURNING id)
    INSERT INTO members (server_id, user_id, joined_at) SELECT id, ${bot_id}::bigint, 0 FROM made`
  const last = await plantServer(shared, { owner: author })
  expect(await refusal(add(author, last.server_id))).toBe("too_many_servers")
})

test("a bot that is made as its owner goes does not stay", async ({ shared }) => {
  const ada = await shared.person("ada")
  const own = ada.on(shared.east)
  await own.getMe()
  const username = shared.newName("late")
  // The purge has looked for her bots, and this worker does not know yet that her session has ended.
  await shared.sql`UPDATE users SET deletion_status = 'purged' WHERE id = ${ada.id}`
  expect(await refusal(own.createBot({ username }))).toBe("account_deleted")
  expect(await shared.sql`SELECT FROM users WHERE username = ${username}`).toHaveLength(0)
  await shared.sql`UPDATE users SET deletion_at = 1 WHERE id = ${ada.id}`
})

test("SLOT1: who makes bots at once, on several workers, gets no more than they may have", async ({ shared }) => {
  const ada = await shared.person("ada")
  const make = (place = shared.east, person: Person = ada) =>
    person.on(place).createBot({ username: shared.newName("many") })
  const { id } = await make()
  await shared.sql`
    INSERT INTO users (id, username, created_at, bot, owner_id)
    SELECT ${id}::bigint + n, 'many_' || ${id} || '_' || n, 0, true, ${ada.id}::bigint FROM generate_series(1, ${limits.botsPerOwner - 4}::int) AS n`
  const outcomes = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      make(i % 2 ? shared.east : shared.west).then(
        () => "made",
        () => "refused",
      ),
    ),
  )
  expect(outcomes.filter(outcome => outcome === "made")).toHaveLength(3)
  expect(await refusal(make())).toBe("bot_limit")
  expect(await ada.on(shared.west).listBots()).toHaveLength(limits.botsPerOwner)
  await ada.on(shared.east).deleteBot({ bot_id: id })
  await make(shared.west)
})
