import { ApiError, type CallOptions } from "../../client/rest.ts"
import type { AuditTarget } from "../../src/contract/communities/audit-log.ts"
import type { AuditAction } from "../../src/contract/contract.ts"
import { routes, type Routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Person, Starling } from "../kit/person.ts"
import { apng, fileOf } from "../kit/pictures.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

const test = testWith({ encodes: true })

type Name = keyof Routes

const dot = fileOf(apng())

/**
 * Ada's server, in which Mo is an administrator and everybody else a plain member; Eve is in none.
 */
async function scene(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const channel_id = channel.id
  const owner = ada.on(shared.east)
  const { code } = await owner.createInvite({ channel_id })
  const come = async (name: string) => {
    const person = await shared.person(name)
    await person.on(shared.west).joinByInvite({ invite_code: code })
    return person
  }
  const [mo, plain, kicked, banned, leaving] = await Promise.all(
    ["mo", "plain", "kicked", "banned", "leaving"].map(come),
  )
  const [eve, unbanned] = await Promise.all(["eve", "unbanned"].map(name => shared.person(name)))
  const roleOf = async (name: string) => (await owner.createRole({ server_id, name })).id
  const role_id = await roleOf("Low")
  const taken = await roleOf("Taken")
  const administrator = await owner.createRole({ server_id, name: "Admin", permissions: { administrator: true } })
  await owner.giveRole({ server_id, member_id: mo!.id, role_id: administrator.id })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: taken })
  await owner.banUser({ server_id, user_id: unbanned!.id })
  const says = async (content: string) => (await lin.on(shared.west).createMessage({ channel_id, content })).id
  const message_id = await says("Lin's")
  const bulk = [await says("Lin's, too"), await says("Lin's as well")]
  const bot = await owner.createBot({ username: shared.newName("helper"), permissions: ["messages.manage"] })
  await owner.editBot({ bot_id: bot.id, public: true })
  return {
    bot,
    ada,
    lin,
    mo: mo!,
    plain: plain!,
    eve: eve!,
    kicked: kicked!,
    banned: banned!,
    leaving: leaving!,
    unbanned: unbanned!,
    server_id,
    channel_id,
    role_id,
    taken,
    message_id,
    bulk,
    code,
    /** What a change has made, for those after it. */
    made: new Map<string, string>(),
  }
}
type Scene = Awaited<ReturnType<typeof scene>>

interface Change {
  readonly does: (rest: Starling, scene: Scene, options: CallOptions) => Promise<unknown>
  readonly action: AuditAction
  readonly target: (scene: Scene) => { readonly type: AuditTarget; readonly id: string; readonly name: string | null }
  /** Who may do it; the administrator, unless told. */
  readonly by?: (scene: Scene) => Person
  /** Keeps the id of what was made under this name. */
  readonly makes?: string
  /** One, unless told. */
  readonly entries?: number
  /** Plain members may do it, too. */
  readonly isForMembers?: true
}

const person = (of: (scene: Scene) => Pick<Person, "id" | "username">) => (scene: Scene) => {
  const { id, username } = of(scene)
  return { type: "member", id, name: username } as const
}
const made = (type: AuditTarget, name: string, title: string | null) => (scene: Scene) => {
  return { type, id: scene.made.get(name) ?? "", name: title }
}
const theServer = (name: string) => (scene: Scene) => ({ type: "server", id: scene.server_id, name }) as const
const about = (type: AuditTarget, id: (scene: Scene) => string, name: string | null) => (scene: Scene) => {
  return { type, id: id(scene), name }
}

/**
 * One change for each route that changes something in a server, in an order in which each finds
 * what it is about.
 */
const changes: { readonly [N in Name]?: Change } = {
  editServer: {
    does: (rest, { server_id }, options) => rest.editServer({ server_id, name: "Renamed" }, options),
    action: "SERVER_UPDATE",
    target: theServer("Renamed"),
  },
  putIcon: {
    does: (rest, { server_id }, options) => rest.putIcon({ server_id, file: dot }, options),
    action: "SERVER_UPDATE",
    target: theServer("Renamed"),
  },
  deleteIcon: {
    does: (rest, { server_id }, options) => rest.deleteIcon({ server_id }, options),
    action: "SERVER_UPDATE",
    target: theServer("Renamed"),
  },
  uploadIcon: {
    does: (rest, { server_id }, options) => rest.uploadIcon({ server_id, file: dot }, options),
    action: "SERVER_UPDATE",
    target: theServer("Renamed"),
  },
  createRole: {
    does: (rest, { server_id }, options) => rest.createRole({ server_id, name: "New" }, options),
    action: "ROLE_CREATE",
    makes: "role",
    target: made("role", "role", "New"),
  },
  editRole: {
    does: (rest, { server_id, made }, options) =>
      rest.editRole({ server_id, role_id: made.get("role") ?? server_id, name: "Newer" }, options),
    action: "ROLE_UPDATE",
    target: made("role", "role", "Newer"),
  },
  setOverride: {
    does: (rest, { channel_id, role_id }, options) =>
      rest.setOverride({ channel_id, target_id: role_id, type: "role", allow: [], deny: ["voice.speak"] }, options),
    action: "OVERRIDE_CREATE",
    target: about("override", ({ channel_id }) => channel_id, "general"),
  },
  deleteOverride: {
    does: (rest, { channel_id, role_id }, options) => rest.deleteOverride({ channel_id, target_id: role_id }, options),
    action: "OVERRIDE_DELETE",
    target: about("override", ({ channel_id }) => channel_id, "general"),
  },
  giveRole: {
    does: (rest, { server_id, lin, role_id }, options) =>
      rest.giveRole({ server_id, member_id: lin.id, role_id }, options),
    action: "MEMBER_ROLE_ADD",
    target: person(({ lin }) => lin),
  },
  takeRole: {
    does: (rest, { server_id, lin, taken }, options) =>
      rest.takeRole({ server_id, member_id: lin.id, role_id: taken }, options),
    action: "MEMBER_ROLE_REMOVE",
    target: person(({ lin }) => lin),
  },
  deleteRole: {
    does: (rest, { server_id, made }, options) =>
      rest.deleteRole({ server_id, role_id: made.get("role") ?? server_id }, options),
    action: "ROLE_DELETE",
    target: made("role", "role", "Newer"),
  },
  editMember: {
    does: (rest, { server_id, kicked }, options) =>
      rest.editMember({ server_id, member_id: kicked.id, timeout_seconds: 60 }, options),
    action: "MEMBER_UPDATE",
    target: person(({ kicked }) => kicked),
  },
  editOwnMember: {
    does: (rest, { server_id }, options) => rest.editOwnMember({ server_id, nickname: "Me" }, options),
    action: "MEMBER_UPDATE",
    target: person(({ mo }) => mo),
    isForMembers: true,
  },
  kickMember: {
    does: (rest, { server_id, kicked }, options) => rest.kickMember({ server_id, member_id: kicked.id }, options),
    action: "MEMBER_KICK",
    target: person(({ kicked }) => kicked),
  },
  banUser: {
    does: (rest, { server_id, banned }, options) => rest.banUser({ server_id, user_id: banned.id }, options),
    action: "MEMBER_BAN",
    target: person(({ banned }) => banned),
  },
  unbanUser: {
    does: (rest, { server_id, unbanned }, options) => rest.unbanUser({ server_id, user_id: unbanned.id }, options),
    action: "MEMBER_UNBAN",
    target: person(({ unbanned }) => unbanned),
  },
  leaveServer: {
    does: (rest, { server_id }, options) => rest.leaveServer({ server_id }, options),
    action: "MEMBER_LEAVE",
    by: ({ leaving }) => leaving,
    target: person(({ leaving }) => leaving),
    isForMembers: true,
  },
  createChannel: {
    does: (rest, { server_id }, options) => rest.createChannel({ server_id, name: "new" }, options),
    action: "CHANNEL_CREATE",
    makes: "channel",
    target: made("channel", "channel", "new"),
  },
  reorderChannels: {
    does: (rest, { server_id, channel_id, made }, options) =>
      rest.reorderChannels({ server_id, channels: [{ id: made.get("channel") ?? channel_id, position: 0 }] }, options),
    action: "CHANNEL_UPDATE",
    target: theServer("Renamed"),
  },
  editChannel: {
    does: (rest, { channel_id, made }, options) =>
      rest.editChannel({ channel_id: made.get("channel") ?? channel_id, name: "newer" }, options),
    action: "CHANNEL_UPDATE",
    target: made("channel", "channel", "newer"),
  },
  deleteChannel: {
    does: (rest, { channel_id, made }, options) =>
      rest.deleteChannel({ channel_id: made.get("channel") ?? channel_id }, options),
    action: "CHANNEL_DELETE",
    target: made("channel", "channel", "newer"),
  },
  createInvite: {
    does: (rest, { channel_id }, options) => rest.createInvite({ channel_id }, options),
    action: "INVITE_CREATE",
    makes: "invite",
    target: made("invite", "invite", null),
    isForMembers: true,
  },
  deleteInvite: {
    does: (rest, { code, made }, options) => rest.deleteInvite({ invite_code: made.get("invite") ?? code }, options),
    action: "INVITE_DELETE",
    target: made("invite", "invite", null),
  },
  createWebhook: {
    does: (rest, { channel_id }, options) => rest.createWebhook({ channel_id, name: "Hook" }, options),
    action: "WEBHOOK_CREATE",
    makes: "webhook",
    target: made("webhook", "webhook", "Hook"),
  },
  editWebhook: {
    does: (rest, { made }, options) =>
      rest.editWebhook({ webhook_id: made.get("webhook") ?? "1", name: "Hooked" }, options),
    action: "WEBHOOK_UPDATE",
    target: made("webhook", "webhook", "Hooked"),
  },
  regenerateWebhookToken: {
    does: (rest, { made }, options) => rest.regenerateWebhookToken({ webhook_id: made.get("webhook") ?? "1" }, options),
    action: "WEBHOOK_UPDATE",
    target: made("webhook", "webhook", "Hooked"),
  },
  deleteWebhook: {
    does: (rest, { made }, options) => rest.deleteWebhook({ webhook_id: made.get("webhook") ?? "1" }, options),
    action: "WEBHOOK_DELETE",
    target: made("webhook", "webhook", "Hooked"),
  },
  createEmoji: {
    does: (rest, { server_id }, options) => rest.createEmoji({ server_id, name: "dot", image: dot }, options),
    action: "EMOJI_CREATE",
    makes: "emoji",
    target: made("emoji", "emoji", "dot"),
  },
  renameEmoji: {
    does: (rest, { server_id, made }, options) =>
      rest.renameEmoji({ server_id, emoji_id: made.get("emoji") ?? "1", name: "spot" }, options),
    action: "EMOJI_UPDATE",
    target: made("emoji", "emoji", "spot"),
  },
  deleteEmoji: {
    does: (rest, { server_id, made }, options) =>
      rest.deleteEmoji({ server_id, emoji_id: made.get("emoji") ?? "1" }, options),
    action: "EMOJI_DELETE",
    target: made("emoji", "emoji", "spot"),
  },
  createSticker: {
    does: (rest, { server_id }, options) => rest.createSticker({ server_id, name: "dot", image: dot }, options),
    action: "STICKER_CREATE",
    makes: "sticker",
    target: made("sticker", "sticker", "dot"),
  },
  deleteSticker: {
    does: (rest, { made }, options) => rest.deleteSticker({ sticker_id: made.get("sticker") ?? "1" }, options),
    action: "STICKER_DELETE",
    target: made("sticker", "sticker", "dot"),
  },
  createAutomodRule: {
    does: (rest, { server_id }, options) =>
      rest.createAutomodRule(
        {
          server_id,
          name: "Rule",
          rule_type: "keyword",
          config: { keywords: ["unheard"] },
          actions: [{ action_type: "log_only" }],
        },
        options,
      ),
    action: "AUTOMOD_RULE_CREATE",
    makes: "rule",
    target: made("automod_rule", "rule", "Rule"),
  },
  editAutomodRule: {
    does: (rest, { server_id, made }, options) =>
      rest.editAutomodRule({ server_id, rule_id: made.get("rule") ?? "1", name: "Ruled" }, options),
    action: "AUTOMOD_RULE_UPDATE",
    target: made("automod_rule", "rule", "Ruled"),
  },
  deleteAutomodRule: {
    does: (rest, { server_id, made }, options) =>
      rest.deleteAutomodRule({ server_id, rule_id: made.get("rule") ?? "1" }, options),
    action: "AUTOMOD_RULE_DELETE",
    target: made("automod_rule", "rule", "Ruled"),
  },
  pinMessage: {
    does: (rest, { channel_id, message_id }, options) => rest.pinMessage({ channel_id, message_id }, options),
    action: "MESSAGE_PIN",
    target: about("message", ({ message_id }) => message_id, null),
  },
  unpinMessage: {
    does: (rest, { channel_id, message_id }, options) => rest.unpinMessage({ channel_id, message_id }, options),
    action: "MESSAGE_UNPIN",
    target: about("message", ({ message_id }) => message_id, null),
  },
  bulkDeleteMessages: {
    does: (rest, { channel_id, bulk }, options) => rest.bulkDeleteMessages({ channel_id, messages: bulk }, options),
    action: "MESSAGE_BULK_DELETE",
    target: about("channel", ({ channel_id }) => channel_id, "general"),
  },
  deleteMessage: {
    does: (rest, { channel_id, message_id }, options) => rest.deleteMessage({ channel_id, message_id }, options),
    action: "MESSAGE_DELETE",
    target: about("message", ({ message_id }) => message_id, null),
  },
  addBot: {
    does: (rest, { server_id, bot }, options) => rest.addBot({ server_id, bot_id: bot.id, permissions: [] }, options),
    action: "BOT_ADD",
    entries: 2, // its role is made, too
    target: person(({ bot }) => bot),
  },
  transferServer: {
    does: (rest, { server_id, ada, lin }, options) =>
      rest.transferServer({ server_id, user_id: lin.id, password: ada.password }, options),
    action: "SERVER_UPDATE",
    by: ({ ada }) => ada,
    target: theServer("Renamed"),
  },
}

/** Routes that change something in a server and say nothing of it there. */
const unnoted: ReadonlySet<string> = new Set<Name>([
  "createMessage",
  "editMessage",
  "uploadAttachment",
  "addReaction",
  "removeReaction",
  "ackMessages",
  "startTyping",
  "putServerNotificationSettings",
  "putChannelNotificationSettings",
  "deleteServer", // its log goes with it
])

test("every route that changes a server is held against its log", () => {
  const changing = Object.entries<Route>(routes).flatMap(([name, { method, permission }]) =>
    method !== "GET" && permission !== undefined && !unnoted.has(name) ? [name] : [],
  )
  const missing = changing.filter(name => !(name in changes))
  expect(missing, "add what each does to `changes`, or to `unnoted` if the log says nothing of it").toEqual([])
})

const reason = "weil’s – so – ist: 100 % 🙂"
const because = { headers: { "x-audit-log-reason": encodeURIComponent(reason) } }

test("every change leaves one entry that says who did what to whom and why; what was refused leaves none", async ({
  shared,
}) => {
  const all = await scene(shared)
  const { server_id, mo, plain, eve } = all
  const reader = mo.on(shared.west)
  const count = async () => {
    const [row] = await shared.sql<
      { n: number }[]
    >`SELECT count(*)::int AS n FROM audit_log WHERE server_id = ${server_id}`
    return row!.n
  }
  for (const [name, change] of Object.entries(changes)) {
    const { does, action, target, by = () => mo, makes, isForMembers, entries = 1 } = change
    const before = await count()
    const status = async (doer: Person) => {
      const failed: unknown = await does(doer.on(shared.west), all, because).then(
        () => new Error(`${name} was granted`),
        (error: unknown) => error,
      )
      if (failed instanceof ApiError) return failed.status
      throw failed
    }
    for (const other of isForMembers ? [eve] : [eve, plain]) expect([name, await status(other)]).toEqual([name, 403])
    expect([name, await count()]).toEqual([name, before])

    const doer = by(all)
    const reply = await does(doer.on(shared.east), all, because)
    if (makes !== undefined) all.made.set(makes, idOf(reply))
    expect([name, await count()]).toEqual([name, before + entries])
    const [entry] = await reader.listAuditLog({ server_id, limit: "1" })
    const { type, id, name: title } = target(all)
    expect([name, entry]).toEqual([
      name,
      expect.objectContaining({
        server_id,
        user_id: doer.id,
        user: expect.objectContaining({ id: doer.id, username: doer.username }),
        action,
        target_type: type,
        target_id: id,
        target_name: title,
        reason: name === "leaveServer" ? "" : reason,
      }),
    ])
    expect(Math.abs(entry!.created_at - Date.now() / 1000)).toBeLessThan(60)
  }
})

const idOf = (reply: unknown): string => {
  const { id, code } = reply as { id?: string; code?: string }
  return id ?? code!
}

test("the log is read in pages without a gap or a repeat, and by who did it and what it was", async ({ shared }) => {
  const ada = await shared.person("ada")
  const lin = await shared.person("lin")
  const { server_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const first = BigInt(plantedId(shardOf(server_id)))
  await shared.sql`
    INSERT INTO audit_log (server_id, id, user_id, action, target_type, target_id, target_name, changes, reason, created_at)
    SELECT ${server_id}, ${String(first)}::bigint + n, CASE WHEN n % 3 = 0 THEN ${lin.id}::bigint ELSE ${ada.id}::bigint END,
      CASE WHEN n % 2 = 0 THEN 'ROLE_UPDATE' ELSE 'MEMBER_JOIN' END, 'role', '1', 'x', '{}', '', 1704153600
    FROM generate_series(0, 249) AS n`
  const rest = ada.on(shared.west)
  const expected = Array.from({ length: 250 }, (_, n) => String(first + BigInt(249 - n)))
  const walk = async (limit: string, filters: object = {}) => {
    const found: string[] = []
    for (;;) {
      const before = found.at(-1)
      const page = await rest.listAuditLog({ server_id, limit, ...filters, ...(before !== undefined && { before }) })
      expect(page.length).toBeLessThanOrEqual(Math.min(Number(limit), 100))
      if (page.length === 0) return found
      found.push(...page.map(({ id }) => id))
    }
  }
  expect(await walk("7")).toEqual(expected)
  expect(await walk("100")).toEqual(expected)
  // More is taken for 100.
  expect(await rest.listAuditLog({ server_id, limit: "5000" })).toHaveLength(100)
  expect(await rest.listAuditLog({ server_id })).toHaveLength(50)

  const nth = (id: string) => Number(BigInt(id) - first)
  expect(await walk("9", { user_id: lin.id })).toEqual(expected.filter(id => nth(id) % 3 === 0))
  expect(await walk("9", { action: "ROLE_UPDATE" })).toEqual(expected.filter(id => nth(id) % 2 === 0))
  expect(await walk("9", { action: "ROLE_UPDATE", user_id: lin.id })).toEqual(expected.filter(id => nth(id) % 6 === 0))
  expect(await rest.listAuditLog({ server_id, user_id: "1" })).toEqual([])
  for (const wrong of [{ limit: "0" }, { limit: "-1" }, { limit: "x" }, { before: "x" }, { user_id: "x" }])
    expect(await refusal(rest.listAuditLog({ server_id, ...wrong }))).toBe("validation_failed")
  const path = `/api/v1/servers/${server_id}/audit-logs?action=NOTHING`
  const { code } = await send(shared.east, path, { route: routes.listAuditLog, token: ada.token })
  expect(code).toBe("validation_failed")
})

test("the log is for members who may see it", async ({ shared }) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const reader = lin.on(shared.west)
  expect(await refusal(reader.listAuditLog({ server_id }))).toBe("permission_denied")
  const permissions = { "server.view_audit_log": true }
  const { id: role_id } = await owner.createRole({ server_id, permissions })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  expect((await reader.listAuditLog({ server_id })).map(({ action }) => action)).toEqual([
    "MEMBER_ROLE_ADD",
    "ROLE_CREATE",
    "INVITE_USE",
    "MEMBER_JOIN",
    "INVITE_CREATE",
    "SERVER_CREATE",
  ])
  // What others of their servers wrote down is not among it.
  const other = await owner.createServer({ name: "Other" })
  expect(await refusal(reader.listAuditLog({ server_id: other.id }))).toBe("access_denied")
  expect(await refusal(reader.listAuditLog({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(reader.listAuditLog({ server_id: "x" }))).toBe("invalid_server_id")
  await owner.leaveServer({ server_id }).catch(() => {})
  await owner.takeRole({ server_id, member_id: lin.id, role_id })
  expect(await refusal(reader.listAuditLog({ server_id }))).toBe("permission_denied")
})

test("a user who joins is noted as one who joined, with the invite that they used if they used one", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const [lin, eve] = [await shared.person("lin"), await shared.person("eve")]
  const owner = ada.on(shared.east)
  const { server_id, channel_id } = await plantServer(shared, { owner: ada })
  const { code } = await owner.createInvite({ channel_id })
  await owner.editServer({ server_id, public: true })
  await lin.on(shared.west).joinByInvite({ invite_code: code })
  await eve.on(shared.west).joinServer({ server_id })
  const noted = await owner.listAuditLog({ server_id, limit: "3" })
  expect(noted.map(({ action, user_id, target_id, changes }) => ({ action, user_id, target_id, changes }))).toEqual([
    { action: "MEMBER_JOIN", user_id: eve.id, target_id: eve.id, changes: {} },
    { action: "INVITE_USE", user_id: lin.id, target_id: code, changes: { uses: { old: 0, new: 1 } } },
    { action: "MEMBER_JOIN", user_id: lin.id, target_id: lin.id, changes: {} },
  ])
})

test("what changed stands in the log with what it was before", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const latest = async () => (await owner.listAuditLog({ server_id, limit: "1" }))[0]!.changes
  const { id: role_id } = await owner.createRole({ server_id, name: "One", permissions: { "members.kick": true } })
  expect(await latest()).toEqual({
    name: { old: null, new: "One" },
    color: { old: null, new: "#000000" },
    position: { old: null, new: 1 },
    hoist: { old: null, new: false },
    mentionable: { old: null, new: false },
    permissions: { old: null, new: ["members.kick"] },
  })
  await owner.editRole({ server_id, role_id, name: "Two", permissions: { "members.ban": true }, hoist: false })
  expect(await latest()).toEqual({
    name: { old: "One", new: "Two" },
    permissions: { old: ["members.kick"], new: ["members.ban"] },
  })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  expect(await latest()).toEqual({ role_id: { old: null, new: role_id } })
  await owner.takeRole({ server_id, member_id: lin.id, role_id })
  expect(await latest()).toEqual({ role_id: { old: role_id, new: null } })
  const override = { channel_id: channel.id, target_id: role_id, type: "role" as const }
  await owner.setOverride({ ...override, allow: ["messages.send"], deny: [] })
  expect(await latest()).toMatchObject({ target_id: { new: role_id }, allow: { old: null, new: ["messages.send"] } })
  await owner.setOverride({ ...override, allow: [], deny: ["messages.send"] })
  expect(await latest()).toEqual({
    allow: { old: ["messages.send"], new: [] },
    deny: { old: [], new: ["messages.send"] },
  })
  await owner.deleteOverride({ channel_id: channel.id, target_id: role_id })
  expect(await latest()).toMatchObject({ deny: { old: ["messages.send"], new: null } })
  await owner.deleteRole({ server_id, role_id })
  expect(await latest()).toMatchObject({ name: { old: "Two", new: null } })
})

test("a reason is up to 512 characters of percent-encoded UTF-8; a blank one is none", async ({ shared }) => {
  const { ada, server } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const create = (header: string) => owner.createRole({ server_id }, { headers: { "x-audit-log-reason": header } })
  const latest = async () => (await owner.listAuditLog({ server_id, limit: "1" }))[0]!.reason
  for (const [header, kept] of [
    ["plain words", "plain words"],
    ["%C3%BCber%20%F0%9F%99%82", "über 🙂"],
    ["%20%20", ""],
    [encodeURIComponent("🙂".repeat(512)), "🙂".repeat(512)],
    ["  around  ", "around"],
  ] as const) {
    await create(header)
    expect(await latest()).toBe(kept)
  }
  const before = (await owner.listAuditLog({ server_id, limit: "100" })).length
  // Half a character, a byte that no UTF-8 holds, what is no encoding at all, NUL, and one
  // character too many.
  for (const wrong of ["%C3", "%FF", "%E0%A4%A", "%", "100 %", "%00", encodeURIComponent("🙂".repeat(513))])
    expect(await refusal(create(wrong))).toBe("validation_failed")
  // Nothing was done for it.
  expect(await owner.listAuditLog({ server_id, limit: "100" })).toHaveLength(before)
})
