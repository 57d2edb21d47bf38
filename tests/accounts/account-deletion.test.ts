import { generateSync } from "otplib"
import { userActor } from "../../src/actors/user.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { Failure } from "../../src/contract/core/errors.ts"
import { personalTables } from "../../src/storage/personal-data.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { eraseAccount } from "../../src/storage/account-deletion.ts"
import type { Cluster } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf, everythingOf } from "../kit/everything.ts"
import { clientAt } from "../kit/person.ts"
import { blobOf, filesOfUser, uploadsOf } from "../kit/pictures.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const wrong = "Wrong-Horse-99"
const day = 86_400

const standing = async ({ sql }: Cluster, id: string) => {
  const [row] = await sql<{ username: string; deletion_status: string; deletion_at: number | null }[]>`
    SELECT username, deletion_status, deletion_at FROM users WHERE id = ${id}`
  return row!
}

/** What a home answers to a command that it refuses. */
const refusedAtHome = (answer: Promise<unknown>) =>
  answer.then(
    reply => reply,
    (error: unknown) => (error instanceof Failure ? error.code : error),
  )

const isPurged = (cluster: Cluster, id: string) =>
  until("the account is purged", async () => {
    const { deletion_status, deletion_at } = await standing(cluster, id)
    return deletion_status === "purged" && deletion_at !== null
  })

test("DEL1: a deleted account is frozen at once, with its sessions and bots, and an operator can take that back", async ({
  shared,
}) => {
  const { east, west, sql } = shared
  const ada = await shared.person("ada")
  const phone = await ada.signIn(west)
  const bot = await botOf(shared, east, ada)
  const [inbox, phoneInbox] = [await ada.listen(east), await phone.listen(west)]
  expect((await clientAt(west, bot.token).getMe()).id).toBe(bot.id)

  expect(await refusal(ada.on(east).deleteAccount())).toBe("password_required")
  expect(await refusal(ada.on(east).deleteAccount({ password: "" }))).toBe("wrong_password")
  expect(await refusal(ada.on(east).deleteAccount({ password: wrong }))).toBe("wrong_password")
  expect(await refusal(clientAt(east, bot.token).deleteAccount({ password: ada.password }))).toBe("people_only")
  expect((await standing(shared, ada.id)).deletion_status).toBe("active")

  expect(await ada.on(east).deleteAccount({ password: ada.password })).toEqual({ success: true })
  const { deletion_status, deletion_at } = await standing(shared, ada.id)
  expect(deletion_status).toBe("frozen")
  expect(Math.abs(deletion_at! - Date.now() / 1000 - 30 * day)).toBeLessThan(60)
  for (const client of [inbox, phoneInbox]) expect((await client.ended()).code).toBe(4004)
  for (const session of [ada, phone])
    for (const place of [east, west]) expect(await refusal(session.on(place).getMe())).toBe("revoked_token")
  await until(
    "the bot is refused",
    // Granted until the word has come: then there is no refusal to name.
    async () => (await refusal(clientAt(west, bot.token).getMe()).catch(() => undefined)) === "account_deleted",
  )
  expect(await sql`SELECT FROM sessions WHERE user_id = ${ada.id}`).toHaveLength(0)
  for (const place of [east, west]) {
    const refused = ada
      .gateway(place)
      .connect()
      .catch((error: Error & { code?: number }) => error.code)
    expect(await refused).toBe(4004)
  }

  const { login, register } = clientAt(west)
  expect(await refusal(login({ username: ada.username, password: ada.password }))).toBe("account_deleted")
  expect(await refusal(login({ username: ada.username, password: wrong }))).toBe("invalid_credentials")
  expect(await refusal(register({ username: shared.newName("other"), email: ada.email, password: ada.password }))).toBe(
    "user_exists",
  )

  // Its time is not over, no matter who says so.
  const { ask } = east.node
  const early = { type: "beginPurge", name: "deleted_user_1", isOwnerGone: true } as const
  expect(await ask(userActor, ada.id, early)).toEqual({ begun: false })
  expect(await ask(userActor, ada.id, { type: "endPurge" })).toEqual({ ended: false })

  expect(await ask(userActor, ada.id, { type: "cancelDeletion" })).toEqual({ cancelled: true })
  expect(await ask(userActor, ada.id, { type: "cancelDeletion" })).toEqual({ cancelled: false })
  const back = await ada.signIn(west)
  expect(await back.on(east).getMe()).toMatchObject({ deletion_status: "active", deletion_at: null })
})

test("a job that comes after a cancellation erases nothing", async ({ shared }) => {
  const { east } = shared
  const ada = await shared.person("ada")
  await ada.on(east).deleteAccount({ password: ada.password })
  const { ask } = east.node
  await ask(userActor, ada.id, { type: "cancelDeletion" })
  const begin = { type: "beginPurge", name: `deleted_user_${ada.id}`, isOwnerGone: false } as const
  expect(await ask(userActor, ada.id, begin)).toEqual({ begun: false })
  expect((await standing(shared, ada.id)).username).toBe(ada.username)
})

test("a user who owns a server has to delete it first", async ({ shared }) => {
  const { server, ada } = await shared.seed(sharedServer)
  const { deleteAccount, deleteServer } = ada.on(shared.east)
  expect(await refusal(deleteAccount({ password: ada.password }))).toBe("owns_servers")
  await deleteServer({ server_id: server.id })
  expect(await deleteAccount({ password: ada.password })).toEqual({ success: true })
})

test("a user whose bots own servers has to delete those first, too", async ({ shared }) => {
  const ada = await shared.person("ada")
  const bot = await botOf(shared, shared.east, ada)
  const { id: server_id } = await clientAt(shared.west, bot.token).createServer({ name: "A robot's" })
  const { deleteAccount } = ada.on(shared.east)
  expect(await refusal(deleteAccount({ password: ada.password }))).toBe("owns_servers")
  await clientAt(shared.west, bot.token).deleteServer({ server_id })
  expect(await deleteAccount({ password: ada.password })).toEqual({ success: true })
})

test("the last step of a purge finds every row by an index: it holds up what others write", async ({ shared }) => {
  const { kind, row } = eraseAccount({ user_id: plantedId() })
  const plan = await shared.sql.begin(async sql => {
    // So few rows are quicker read than found.
    await sql`SET LOCAL enable_seqscan = off`
    return sql`EXPLAIN ${kind.statement(sql, [row]) as never}`
  })
  const steps = plan.map(line => String(Object.values(line)[0]))
  expect(steps.filter(step => step.includes("Index"))).not.toEqual([])
  expect(steps.filter(step => step.includes("Seq Scan"))).toEqual([])
})

test("DEL2: nothing is written back to a stub account, and nobody finds one; others can end relationships with it", async ({
  shared,
}) => {
  const { sql, east } = shared
  const [ada, boss] = [await shared.person("ada"), await shared.person("boss")]
  await sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${boss.id}`
  // One under a lower id than Ada's, one under a higher.
  const stubs = [plantedId(), idOf(shardOf(ada.id), { ms: Date.now() + 60_000, sequence: 1 })]
  for (const stub of stubs) {
    await sql`
      INSERT INTO users (id, username, created_at, deletion_status, deletion_at)
      VALUES (${stub}, ${`deleted_user_${stub}`}, 1, 'purged', 2)`
    await sql`INSERT INTO relationships (user_id, other_id, status, created_at) VALUES (${ada.id}, ${stub}, 'pending_outgoing', 1)`
    const { ask } = east.node
    const state = async () => [
      await sql`SELECT u.* FROM users u WHERE id = ${stub}`,
      ...(await Promise.all(
        [
          "settings",
          "messaging_settings",
          "presences",
          "sessions",
          "exports",
          "notifications",
          "voice_usage",
          "voice_calls",
        ].map(table => sql`SELECT * FROM ${sql(table)} WHERE user_id = ${stub}`),
      )),
    ]
    const before = await state()
    const entries = [["theme", "dark"]] as const
    const stint = { voice_session_id: "7", from: Date.now() - 5_000, to: Date.now() }
    const refused = [
      ask(userActor, stub, { type: "putSettings", entries }),
      ask(userActor, stub, { type: "chooseMessaging", changes: { compact_messages_enabled: false } }),
      ask(userActor, stub, { type: "setPresence", status: "dnd" }),
      ask(userActor, stub, { type: "setTier", tier: "staff" }),
      ask(userActor, stub, { type: "giveBadge", badge: "staff" }),
      ask(userActor, stub, { type: "lockAccount", until: 9_999_999_999, reason: "late" }),
      ask(userActor, stub, { type: "unlockAccount" }),
      ask(userActor, stub, { type: "forceRename", reason: "late" }),
      ask(userActor, stub, { type: "setPermission", permission: "administrator", isGranted: true }),
      ask(userActor, stub, { type: "issueBotToken", token_hash: "x" }),
      ask(userActor, stub, { type: "noteAbout", notes: "late", operator_id: null }),
      ask(userActor, stub, { type: "requestExport", intervalSeconds: 0 }),
      ask(userActor, stub, { type: "readAllNotifications" }),
      ask(userActor, stub, {
        type: "prepareSecondFactor",
        secret: "x",
        backup_codes: [],
        proof: { password_hash: null },
      }),
    ].map(refusedAtHome)
    const { getUserFeatures, setTier, addBadge } = boss.on(east)
    refused.push(
      ...[
        getUserFeatures({ user_id: stub }),
        setTier({ user_id: stub, tier: "staff" }),
        addBadge({ user_id: stub, badge: "staff" }),
      ].map(refusal),
    )
    expect(new Set(await Promise.all(refused))).toEqual(new Set(["user_not_found"]))
    const call = { server_id: "1", channel_id: "2", voice_session_id: "8", began_at: Date.now() }
    await ask(userActor, stub, { type: "voiceChanged", ended: stint, began: call })
    await ask(userActor, stub, { type: "forgetCall", voice_session_id: "8" })
    expect(await state()).toEqual(before)

    const { deleteRelationship, acceptFriend, blockUser } = ada.on(east)
    expect(await refusal(acceptFriend({ user_id: stub }))).toBe("friend_request_not_found")
    expect(await refusal(blockUser({ user_id: stub }))).toBe("user_not_found")
    expect(await deleteRelationship({ user_id: stub })).toEqual({ success: true })
    expect(await refusal(deleteRelationship({ user_id: stub }))).toBe("relationship_not_found")
  }
  expect(await ada.on(east).listRelationships()).toEqual([])
})

test("a stolen session guesses no password here: five wrong ones lock, and the right one is refused then", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const { deleteAccount } = ada.on(shared.east)
  for (let i = 0; i < 4; i++) expect(await refusal(deleteAccount({ password: `${wrong}${i}` }))).toBe("wrong_password")
  await refusal(deleteAccount({ password: wrong }))
  expect(await refusal(deleteAccount({ password: ada.password }))).toBe("account_locked")
  expect((await standing(shared, ada.id)).deletion_status).toBe("active")
})

test("a second factor is asked for, a code of it counts once, and a sign-in under way ends with the account", async ({
  shared,
}) => {
  const { east, west } = shared
  const ada = await shared.person("ada")
  const { password } = ada
  const { deleteAccount, enableTwoFactor, confirmTwoFactor } = ada.on(east)
  const { secret, backup_codes } = await enableTwoFactor({ password })
  await confirmTwoFactor({ code: generateSync({ secret }) })
  const { challenge_token } = await clientAt(west).login({ username: ada.username, password })
  expect(await refusal(deleteAccount({ password }))).toBe("second_factor_code_required")
  for (const code of ["000000", "", "x", "AAAA-AAAA"]) {
    expect(await refusal(deleteAccount({ password, code }))).toBe("wrong_code")
    await shared.sql`DELETE FROM failed_logins`
  }
  expect(await deleteAccount({ password, code: backup_codes[0]! })).toEqual({ success: true })
  const answer = clientAt(west).completeTwoFactor({ challenge_token: challenge_token!, code: backup_codes[1]! })
  expect(["used_challenge", "account_deleted"]).toContain(await refusal(answer))
  expect(await shared.sql`SELECT FROM sessions WHERE user_id = ${ada.id}`).toHaveLength(0)
  expect(await shared.sql`SELECT FROM one_time_tokens WHERE user_id = ${ada.id}`).toHaveLength(0)
})

test("an account without a password is deleted by a user who has just signed in", async ({ shared }) => {
  const { sql, east } = shared
  const now = Math.floor(Date.now() / 1000)
  const user = plantedId()
  await sql`INSERT INTO users (id, username, created_at) VALUES (${user}, ${shared.newName("elsewhere")}, ${now})`
  const session = async (id: string) => {
    const secret = newSecret()
    await sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      VALUES (${id}, ${user}, ${hashSecret(secret)}, '', '', ${now}, ${now + day}, ${now})`
    return clientAt(east, `${id}.${secret}`)
  }
  const at = (seconds: number) => idOf(shardOf(user), { ms: Date.now() - seconds * 1000, sequence: seconds })
  const [old, fresh] = [await session(at(660)), await session(at(540))]
  expect(await refusal(old.deleteAccount({ password: "" }))).toBe("fresh_sign_in_required")
  expect(await fresh.deleteAccount()).toEqual({ success: true })
  expect((await standing(shared, user)).deletion_status).toBe("frozen")
})

test("two concurrent deletions of one account make one", async ({ shared }) => {
  const ada = await shared.person("ada")
  const answers = await Promise.allSettled(
    [shared.east, shared.west, shared.east].map(place => ada.on(place).deleteAccount({ password: ada.password })),
  )
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect((await standing(shared, ada.id)).deletion_status).toBe("frozen")
})

test("a purge erases what belongs to the user alone, tells those who knew them, and leaves their messages to a stub account", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { config: { STARLING_ACCOUNT_DELETION_DAYS: "0" } })
  const { sql } = cluster
  const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
  const { bot, server, barred } = await everythingOf(cluster, east!, ada, lin)
  await ada.on(east!).requestExport()
  const code = (await lin.on(east!).createInvite({ channel_id: server.channel })).code
  await clientAt(east!, bot.token).joinByInvite({ invite_code: code })
  const kept = await dmBetween(ada, lin, east!)
  const { id: notes } = await ada.on(east!).getNotes()
  const deserted = await ada.on(west!).openDirectChannel({ recipient_id: bot.id })
  for (const channel_id of [kept, notes, deserted.id])
    await ada.on(west!).createMessage({ channel_id, content: "Between us" })
  // Names of this form were free once.
  await sql`INSERT INTO users (id, username, created_at) VALUES (${plantedId()}, ${`deleted_user_${ada.id}`}, 1)`
  const inbox = await lin.listen(west!)
  await ada.on(west!).deleteAccount({ password: ada.password })
  expect((await standing(cluster, ada.id)).deletion_status).toBe("frozen")
  // Of a server that is gone, and whose members no job has deleted yet.
  const gone = plantedId()
  for (const id of [ada.id, bot.id]) {
    await sql`INSERT INTO members (server_id, user_id, joined_at) VALUES (${gone}, ${id}, 1)`
    await sql`INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at) VALUES (${gone}, ${id}, '', 2, 1)`
  }
  // Made at the moment of the deletion.
  const { server_id: late } = await plantServer(cluster, { owner: ada, members: [lin] })

  await cluster.bootJobWorker()
  await isPurged(cluster, ada.id)
  await isPurged(cluster, bot.id)
  await cluster.settle()

  // Of the files of the two Lin's is left, on the disk as well.
  const files = await sql<{ file: string; user_id: string }[]>`SELECT file, user_id FROM uploads`
  expect(files).toMatchObject([{ user_id: lin.id }])
  expect(await uploadsOf(cluster)).toEqual([await blobOf(cluster, files[0]!.file)])
  await until("her picture is gone", async () => (await filesOfUser(cluster, ada.id)).length === 0)
  expect(await filesOfUser(cluster, lin.id)).toHaveLength(1)

  const told = inbox.rest()
  const to = (name: string) => told.filter(event => event.name === name).map(event => event.data)
  expect(to("RELATIONSHIP_REMOVE")).toEqual([{ user_id: ada.id }])
  expect(
    to("GUILD_MEMBER_REMOVE")
      .map(d => (d as { user: { id: string } }).user.id)
      .toSorted(),
  ).toEqual([ada.id, bot.id].toSorted())
  expect(to("GUILD_BAN_REMOVE")).toEqual([])
  expect(await sql`SELECT FROM servers WHERE id = ${late}`).toHaveLength(0)

  for (const id of [ada.id, bot.id]) {
    const [row] = await sql<Record<string, unknown>[]>`SELECT * FROM users WHERE id = ${id}`
    expect(row).toMatchObject({ email: null, password_hash: null, owner_id: null, badges: [], permissions: [] })
    expect(row!["username"]).toMatch(new RegExp(`^deleted_user_${id}${id === ada.id ? "_" : "$"}`))
  }
  for (const [name, { table = name, userColumns, othersRows = {}, atPurge }] of Object.entries(personalTables)) {
    if (atPurge !== "erased" && atPurge !== "ended") continue
    const columns = userColumns === "names" ? [] : [...userColumns, ...Object.keys(othersRows)]
    const rows = await sql<Record<string, unknown>[]>`SELECT * FROM ${sql(table)}`
    const left = rows.filter(row => columns.some(column => row[column] === ada.id || row[column] === bot.id))
    expect([name, left]).toEqual([name, []])
    // What is another's stands beside it.
    if (!["exports", "failed_logins", "channel_overrides"].includes(name))
      expect([name, rows.length]).not.toEqual([name, 0])
  }
  expect(await sql`SELECT FROM failed_logins WHERE name = ${`#${ada.id}`}`).toEqual([])
  // Nothing names them any more, but what people wrote. Stored events expire by themselves.
  const tables = await sql<{ name: string }[]>`
    SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`
  const found: string[] = []
  for (const { name } of tables)
    for (const word of [ada.username, ada.email])
      if (name !== "outbox" && (await sql`SELECT FROM ${sql(name)} AS t WHERE t::text ILIKE ${`%${word}%`}`).length > 0)
        found.push(`${name}: ${word}`)
  expect(found).toEqual([])

  const lins = lin.on(east!)
  expect(await lins.getMessage({ channel_id: server.channel, message_id: server.message })).toMatchObject({
    content: "What Ada wrote",
    author_id: ada.id,
    author_username: expect.stringMatching(/^deleted_user_/) as string,
    author_badges: [],
    // Hers is not counted any more.
    reactions: [expect.objectContaining({ emoji: "👍", count: 1, me: true })],
  })
  // What nobody can read any more is gone.
  expect(await sql`SELECT channel_id::text FROM messages WHERE content = 'Between us'`).toEqual([{ channel_id: kept }])
  expect(await sql`SELECT FROM direct_channels WHERE id IN (${notes}, ${deserted.id})`).toHaveLength(0)
  const stubbed = { id: ada.id, username: expect.stringMatching(/^deleted_user_/) as string }
  expect(await lins.listDirectChannels()).toMatchObject([{ id: kept, recipient: stubbed }])
  expect(await lins.openDirectChannel({ recipient_id: ada.id })).toMatchObject({ id: kept, recipient: stubbed })
  expect(await lins.listMessages({ channel_id: kept })).toMatchObject([{ content: "Between us", author_id: ada.id }])
  expect((await lins.listRelationships()).map(({ status }) => status)).toEqual(["pending_outgoing"])
  expect(await lins.listBans({ server_id: barred })).toEqual([])
  expect((await lins.getServer({ server_id: server.id })).member_count).toBe(1)
  expect(await refusal(lins.requestFriend({ user_id: ada.id }))).toBe("user_not_found")
  expect(await refusal(clientAt(west!, bot.token).getMe())).toBe("revoked_token")
  expect(await refusal(clientAt(west!).login({ username: ada.username, password: ada.password }))).toBe(
    "invalid_credentials",
  )
  expect(await refusedAtHome(east!.node.ask(userActor, ada.id, { type: "cancelDeletion" }))).toBe(
    "not_scheduled_for_deletion",
  )

  const { register } = clientAt(west!)
  const stub = { username: "Deleted_User_7", email: "seven@example.com", password: ada.password }
  expect(await refusal(register(stub))).toBe("reserved_username")
  const heir = await register({ username: ada.username, email: ada.email, password: ada.password })
  expect(heir.user!.id).not.toBe(ada.id)
}, 60_000)

test("a purge whose worker died in the middle goes on, and users who are still connected are told", async ({
  cluster,
}) => {
  const [east] = await cluster.boot(1, { config: { STARLING_ACCOUNT_DELETION_DAYS: "0" } })
  const { ada, lin, server } = await cluster.seed(sharedServer)
  const { ask } = east!.node
  await lin.on(east!).requestFriend({ user_id: ada.id })
  const bot = await botOf(cluster, east!, lin)
  const robot = clientAt(east!, bot.token)
  const [channel] = await ada.on(east!).listChannels({ server_id: server.id })
  await robot.joinByInvite({ invite_code: (await ada.on(east!).createInvite({ channel_id: channel!.id })).code })
  const inbox = await ada.listen(east!)
  // The first step of each and nothing more.
  const begin = (id: string) =>
    ask(userActor, id, { type: "beginPurge", name: `deleted_user_${id}`, isOwnerGone: id === bot.id })
  const robotInbox = lin.gateway(east!, { token: bot.token })
  await robotInbox.connect()
  expect(await begin(bot.id)).toEqual({ begun: true })
  expect((await robotInbox.next("SECURITY_LOGOUT")).message).toBe("Account deleted")
  expect((await robotInbox.ended()).code).toBe(4004)
  await lin.on(east!).deleteAccount({ password: lin.password })
  expect(await begin(lin.id)).toEqual({ begun: true })
  expect(await begin(lin.id)).toEqual({ begun: true })
  expect(await cluster.sql`SELECT FROM members WHERE server_id = ${server.id}`).toHaveLength(3)

  // The queue may forget one whose time is over as well.
  const forgotten = plantedId()
  await cluster.sql`
    INSERT INTO users (id, username, email, created_at, deletion_status, deletion_at)
    VALUES (${forgotten}, 'forgotten', 'forgotten@example.com', 1, 'frozen', 1)`
  // Of one that a worker of the version before has purged, it left what it does not know: passkeys, and a role of a bot.
  const incomplete = plantedId()
  const planted = await plantServer(cluster, { owner: ada })
  await cluster.sql`
    INSERT INTO users (id, username, created_at, bot, deletion_status, deletion_at)
    VALUES (${incomplete}, ${`deleted_user_${incomplete}`}, 1, true, 'purged', ${Math.floor(Date.now() / 1000) - 120})`
  await cluster.sql`
    INSERT INTO passkeys (id, user_id, credential_id, public_key, counter, transports, name, synced, created_at)
    VALUES (${plantedId()}, ${incomplete}, 'left', 'key', 0, '{}', 'Key', false, 1)`
  await cluster.sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions, bot_id)
    VALUES (${plantedId()}, ${planted.server_id}, 'left', '#000000', 1, false, false, '{}', ${incomplete})`
  await cluster.bootJobWorker()
  await isPurged(cluster, lin.id)
  await isPurged(cluster, bot.id)
  await isPurged(cluster, forgotten)
  await until("nothing of it is left", async () => {
    const left = await cluster.sql`SELECT FROM passkeys UNION ALL SELECT FROM roles WHERE bot_id IS NOT NULL`
    return left.length === 0
  })
  expect((await standing(cluster, forgotten)).username).toBe(`deleted_user_${forgotten}`)
  await cluster.settle()
  expect(await cluster.sql`SELECT FROM members WHERE server_id = ${server.id}`).toHaveLength(1)
  const told = inbox.rest().map(event => event.name)
  expect(told.filter(name => name === "GUILD_MEMBER_REMOVE")).toHaveLength(2)
  expect(told.filter(name => name === "RELATIONSHIP_REMOVE")).toHaveLength(1)
  expect(await begin(lin.id)).toEqual({ begun: false })
}, 60_000)
