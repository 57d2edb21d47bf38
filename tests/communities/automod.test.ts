import { errors } from "../../src/contract/core/errors.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt, type Starling } from "../kit/person.ts"
import { apng, fileOf } from "../kit/pictures.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"
import { ApiError } from "../../client/rest.ts"

type RuleInput = Omit<Parameters<Starling["createAutomodRule"]>[0], "server_id">

const deleting = [{ action_type: "delete_message" }]
const rule = (rule_type: string, config: Record<string, unknown>, more: Partial<RuleInput> = {}): RuleInput => ({
  name: `no ${rule_type}`,
  rule_type,
  config,
  actions: deleting,
  ...more,
})
const noBadWords = (more: Partial<RuleInput> = {}) => rule("keyword", { keywords: ["badword"] }, more)

/** Ada's server, of which Lin is a member. */
async function moderated(shared: SharedCluster, ...rules: RuleInput[]) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const [owner, member] = [ada.on(shared.east), lin.on(shared.west)]
  const made = []
  for (const one of rules) made.push(await owner.createAutomodRule({ server_id, ...one }))
  const channel_id = channel.id
  return {
    ada, lin, server_id, channel_id, owner, member, rules: made,
    say: (content: string) => member.createMessage({ channel_id, content }),
    violations: () => owner.listAutomodViolations({ server_id }),
  } // prettier-ignore
}

/** The error of a refusal's body. */
async function errorOf(call: Promise<unknown>): Promise<Record<string, unknown>> {
  const refused = await call.then(
    () => undefined,
    (error: unknown) => error as ApiError,
  )
  expect(refused).toBeInstanceOf(ApiError)
  return (refused!.body as { error: Record<string, unknown> }).error
}

test("rules are written, listed by priority, changed and deleted; the log tells of each", async ({ shared }) => {
  const { owner, server_id, channel_id, ada } = await moderated(shared)
  const { id: role } = await owner.createRole({ server_id, name: "Trusted" })
  const first = await owner.createAutomodRule({ server_id, ...noBadWords() })
  expect(first).toMatchObject({
    server_id,
    name: "no keyword",
    rule_type: "keyword",
    config: { keywords: ["badword"], case_sensitive: false, whole_word: true, severity_map: {} },
    actions: [{ action_type: "delete_message", duration_seconds: null, reason: null, notify_user: true, metadata: {} }],
    applied_roles: [],
    exempt_roles: [],
    exempt_channels: [],
    priority: 0,
    check_all: false,
    enabled: true,
    created_by: ada.id,
    updated_by: ada.id,
    updated_at: first.created_at,
  })
  const second = await owner.createAutomodRule({
    server_id,
    ...rule("caps_percentage", { max_percentage: 90 }, { priority: 5, check_all: true, enabled: false }),
    exempt_roles: [role, role],
    exempt_channels: [channel_id],
    applied_roles: [role],
  })
  expect(second).toMatchObject({ exempt_roles: [role], exempt_channels: [channel_id], applied_roles: [role] })
  const listed = async (place = shared.west) =>
    (await ada.on(place).listAutomodRules({ server_id })).map(({ id }) => id)
  expect(await listed()).toEqual([second.id, first.id])

  const changes = { name: "renamed", config: { keywords: ["other"], whole_word: false }, priority: 9 }
  const edited = await owner.editAutomodRule({ server_id, rule_id: first.id, ...changes })
  expect(edited).toMatchObject({
    ...first,
    ...changes,
    config: { ...first.config, ...changes.config },
    updated_at: edited.updated_at,
  })
  expect(await owner.editAutomodRule({ server_id, rule_id: first.id })).toEqual(edited)
  const untyped = { server_id, rule_id: first.id, rule_type: "regex" } as { server_id: string; rule_id: string }
  expect((await owner.editAutomodRule(untyped)).rule_type).toBe("keyword")
  expect(await listed()).toEqual([first.id, second.id])
  expect(await owner.listAutomodRules({ server_id })).toEqual([edited, second])

  expect(await owner.deleteAutomodRule({ server_id, rule_id: second.id })).toEqual({ success: true })
  expect(await listed(shared.east)).toEqual([first.id])
  expect(await refusal(owner.deleteAutomodRule({ server_id, rule_id: second.id }))).toBe("automod_rule_not_found")
  const log = (await owner.listAuditLog({ server_id })).filter(({ target_type }) => target_type === "automod_rule")
  expect(log.map(({ action, target_id, target_name }) => [action, target_id, target_name])).toEqual([
    ["AUTOMOD_RULE_DELETE", second.id, "no caps_percentage"],
    ["AUTOMOD_RULE_UPDATE", first.id, "renamed"],
    ["AUTOMOD_RULE_CREATE", second.id, "no caps_percentage"],
    ["AUTOMOD_RULE_CREATE", first.id, "no keyword"],
  ])
  expect(Object.keys(log[1]!.changes).toSorted()).toEqual(["config", "name", "priority"])
})

test("what is wrong with a rule is told by name; ids of other servers are nobody's", async ({ shared }) => {
  const { owner, server_id, rules } = await moderated(shared, noBadWords())
  const other = await moderated(shared, noBadWords())
  const rule_id = rules[0]!.id
  const { id: foreignRole } = await other.owner.createRole({ server_id: other.server_id, name: "Theirs" })
  const create = (more: Partial<RuleInput>) => refusal(owner.createAutomodRule({ server_id, ...noBadWords(), ...more }))
  const edit = (more: Partial<RuleInput>) => refusal(owner.editAutomodRule({ server_id, rule_id, ...more }))
  expect(await create({ rule_type: "no_such_type" })).toBe("invalid_automod_type")
  for (const call of [create, edit]) {
    expect(await call({ config: { keywords: [] } })).toBe("invalid_automod_config")
    expect(await call({ actions: [] })).toBe("invalid_automod_action")
    expect(await call({ actions: [{ action_type: "explode" }] })).toBe("invalid_automod_action")
    expect(await call({ name: "" })).toBe("validation_failed")
    expect(await call({ exempt_roles: ["x"] })).toBe("validation_failed")
    for (const key of ["applied_roles", "exempt_roles"] as const) {
      expect(await call({ [key]: [foreignRole] })).toBe("automod_target_not_found")
      expect(await call({ [key]: ["1"] })).toBe("automod_target_not_found")
    }
    expect(await call({ exempt_channels: [other.channel_id] })).toBe("automod_target_not_found")
  }
  expect(await create({ rule_type: "regex", config: { patterns: [{ pattern: "(" }] } })).toBe("invalid_automod_config")
  const foreign = other.rules[0]!.id
  for (const id of [foreign, "1"]) {
    expect(await refusal(owner.editAutomodRule({ server_id, rule_id: id, name: "x" }))).toBe("automod_rule_not_found")
    expect(await refusal(owner.deleteAutomodRule({ server_id, rule_id: id }))).toBe("automod_rule_not_found")
  }
  for (const id of ["x", "-1"]) {
    expect(await refusal(owner.editAutomodRule({ server_id, rule_id: id }))).toBe("invalid_id")
    expect(await refusal(owner.deleteAutomodRule({ server_id, rule_id: id }))).toBe("invalid_id")
  }
  expect(await other.owner.listAutomodRules({ server_id: other.server_id })).toEqual(other.rules)
})

test("AM3: only who may moderate writes rules, and gives them no power that the author lacks", async ({ shared }) => {
  const { lin, owner, member, server_id, rules } = await moderated(shared, noBadWords())
  const eve = (await shared.person("eve")).on(shared.west)
  const rule_id = rules[0]!.id
  const all = (rest: Starling, id = server_id) =>
    Promise.all(
      [
        rest.listAutomodRules({ server_id: id }),
        rest.createAutomodRule({ server_id: id, ...noBadWords() }),
        rest.editAutomodRule({ server_id: id, rule_id, name: "x" }),
        rest.deleteAutomodRule({ server_id: id, rule_id }),
        rest.listAutomodViolations({ server_id: id }),
      ].map(refusal),
    )
  const always = (code: string) => Array.from({ length: 5 }, () => code)
  expect(await all(member)).toEqual(always("permission_denied"))
  expect(await all(eve)).toEqual(always("access_denied"))
  expect(await all(eve, "1")).toEqual(always("server_not_found"))
  expect(await all(eve, "x")).toEqual(always("invalid_server_id"))

  const { id: role_id } = await owner.createRole({ server_id, permissions: { "server.automod": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  expect((await member.createAutomodRule({ server_id, ...noBadWords() })).created_by).toBe(lin.id)
  for (const [action_type, permission] of [
    ["kick_user", "members.kick"],
    ["ban_user", "members.ban"],
  ] as const) {
    const harsh = { actions: [{ action_type }] }
    expect(await refusal(member.createAutomodRule({ server_id, ...noBadWords(harsh) }))).toBe("permission_denied")
    expect(await refusal(member.editAutomodRule({ server_id, rule_id, ...harsh }))).toBe("permission_denied")
    const { id } = await owner.createAutomodRule({ server_id, ...noBadWords(harsh) })
    const hello = { config: { keywords: ["hello"] } }
    expect(await refusal(member.editAutomodRule({ server_id, rule_id: id, ...hello }))).toBe("permission_denied")
    await owner.editRole({ server_id, role_id, permissions: { "server.automod": true, [permission]: true } })
    await member.editAutomodRule({ server_id, rule_id: id, ...hello })
    await owner.editRole({ server_id, role_id, permissions: { "server.automod": true } })
    await owner.deleteAutomodRule({ server_id, rule_id: id })
  }
})

test("a server has at most 100 rules, and they are bounded together; two at once do not get past it", async ({
  shared,
}) => {
  const { ada, owner, server_id, channel_id } = await moderated(shared)
  const large = { patterns: [{ pattern: "x{120}" }] }
  for (let i = 0; i < 2; i++) await owner.createAutomodRule({ server_id, ...rule("regex", large) })
  expect(await refusal(owner.createAutomodRule({ server_id, ...rule("regex", large) }))).toBe("automod_limit")
  const { rulesPerServer } = limits.automod
  for (let i = 2; i < rulesPerServer - 1; i++) await owner.createAutomodRule({ server_id, ...noBadWords() })
  const places = [shared.east, shared.west, shared.east]
  const last = await Promise.allSettled(
    places.map(place => ada.on(place).createAutomodRule({ server_id, ...noBadWords() })),
  )
  expect(last.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  const rules = await owner.listAutomodRules({ server_id })
  expect(rules).toHaveLength(rulesPerServer)
  expect(await refusal(owner.createAutomodRule({ server_id, ...noBadWords() }))).toBe("automod_limit")
  const long = { config: { keywords: Array.from({ length: 1000 }, (_, at) => `${at}`.padEnd(100, "x")) } }
  const edits = rules.slice(-3).map(({ id }) => owner.editAutomodRule({ server_id, rule_id: id, ...long }))
  const outcomes = await Promise.allSettled(edits)
  expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1)
  await refusal(edits.find((_, at) => outcomes[at]!.status === "rejected")!)
  await owner.createMessage({ channel_id, content: "the owner may" })
})

test("a message that breaks a rule is refused: nobody hears of it, and it is noted", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, channel_id, say, violations, rules } = await moderated(
    shared,
    noBadWords({ actions: [{ action_type: "delete_message", reason: "Mind your words" }] }),
  )
  const inbox = await ada.listen(shared.west)
  const error = await errorOf(say("such a BADWORD"))
  expect(error).toEqual({
    code: "MESSAGE_BLOCKED",
    message: "Message blocked by auto-moderation",
    violations: ["keyword"],
    reason: "Mind your words",
  })
  await owner.editAutomodRule({
    server_id,
    rule_id: rules[0]!.id,
    actions: [{ action_type: "delete_message", reason: "x", notify_user: false }],
  })
  const { message } = errors.message_blocked
  expect(await errorOf(say("badword"))).toEqual({ code: "MESSAGE_BLOCKED", message, violations: ["keyword"] })
  const passed = await say("all is well")
  expect((await inbox.next("MESSAGE_CREATE")).id).toBe(passed.id)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect((await member.listMessages({ channel_id })).map(({ id }) => id)).toEqual([passed.id])
  const [second, first, ...others] = await violations()
  expect(others).toEqual([])
  expect(first).toEqual({
    id: first!.id,
    server_id,
    user_id: lin.id,
    channel_id,
    rule_id: rules[0]!.id,
    rule_type: "keyword",
    matched_content: "badword",
    severity: "medium",
    actions_taken: ["delete_message"],
    created_at: first!.created_at,
    metadata: {},
    reputation: 80,
  })
  expect(BigInt(second!.id)).toBeGreaterThan(BigInt(first!.id))
})

test("an edit that breaks a rule takes the message with it, and those who saw it are told", async ({ shared }) => {
  const { ada, lin, member, server_id, channel_id, say, violations } = await moderated(shared, noBadWords())
  const eve = await shared.person("eve")
  const [inbox, own, foreign] = [
    await ada.listen(shared.east),
    await lin.listen(shared.west),
    await eve.listen(shared.east),
  ]
  const sent = await say("fine")
  await inbox.next("MESSAGE_CREATE")
  const ids = { channel_id, message_id: sent.id }
  expect((await member.editMessage({ ...ids, content: "still fine" })).content).toBe("still fine")
  await inbox.next("MESSAGE_UPDATE")
  expect(await refusal(member.editMessage({ ...ids, content: "badword" }))).toBe("message_blocked")
  const gone = { id: sent.id, channel_id, server_id, guild_id: server_id, automod: true }
  expect(await inbox.next("MESSAGE_DELETE")).toEqual(gone)
  expect(await own.next("MESSAGE_DELETE")).toEqual(gone)
  expect(await refusal(member.getMessage(ids))).toBe("message_not_found")
  expect(await refusal(member.editMessage({ ...ids, content: "fine again" }))).toBe("message_not_found")
  expect((await violations()).map(({ metadata }) => metadata)).toEqual([{ message_id: sent.id }])
  await shared.settle()
  expect([...inbox.rest(), ...foreign.rest()]).toEqual([])
})

test("a repeated nonce of a refused message is refused again and counted once", async ({ shared }) => {
  const { lin, owner, server_id, channel_id, violations, rules } = await moderated(shared, noBadWords())
  const send = (place: Worker, nonce: string) => lin.on(place).createMessage({ channel_id, content: "badword", nonce })
  for (const place of [shared.east, shared.west, shared.east])
    expect(await refusal(send(place, "n1"))).toBe("message_blocked")
  expect(await violations()).toHaveLength(1)
  expect(await refusal(send(shared.west, "n2"))).toBe("message_blocked")
  expect(await violations()).toHaveLength(2)
  await owner.deleteAutomodRule({ server_id, rule_id: rules[0]!.id })
  await send(shared.east, "n3")
  expect(await violations(), "what was noted outlives its rule").toHaveLength(2)
})

test("the refusal of a message that removed its author is repeated to them, too", async ({ shared }) => {
  const kicking = noBadWords({ actions: [...deleting, { action_type: "kick_user" }] })
  const { lin, channel_id, violations } = await moderated(shared, kicking)
  const send = (place: Worker, nonce: string) => lin.on(place).createMessage({ channel_id, content: "badword", nonce })
  for (const place of [shared.east, shared.west]) expect(await refusal(send(place, "n1"))).toBe("message_blocked")
  expect(await refusal(send(shared.east, "n2"))).toBe("access_denied")
  expect(await violations()).toHaveLength(1)
})

test("AM2: a rule only refuses messages of members who rank as high as its author; its acts are those of the user who wrote it last", async ({
  shared,
}) => {
  const { ada, lin, owner, server_id, channel_id, say, violations } = await moderated(shared)
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id })
  await mo.on(shared.east).joinByInvite({ invite_code: code })
  const permissions = { "server.automod": true, "members.kick": true, "members.ban": true }
  const moderator = await owner.createRole({ server_id, permissions })
  const above = await owner.createRole({ server_id, name: "Above" })
  const timeOut = { action_type: "timeout_user" }
  await owner.giveRole({ server_id, member_id: mo.id, role_id: moderator.id })
  const made = await mo.on(shared.west).createAutomodRule({
    server_id,
    ...noBadWords({ actions: [...deleting, timeOut, { action_type: "kick_user" }, { action_type: "ban_user" }] }),
  })
  const ids = { server_id, rule_id: made.id }
  const lastTaken = async () => (await violations())[0]!.actions_taken
  const isTimedOut = async () => (await owner.getMember({ server_id, member_id: lin.id })).timeout_until !== null

  await owner.giveRole({ server_id, member_id: lin.id, role_id: above.id })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  expect([await lastTaken(), await isTimedOut()]).toEqual([["delete_message"], false])
  await owner.takeRole({ server_id, member_id: lin.id, role_id: above.id })

  await mo.on(shared.west).editAutomodRule({ ...ids, actions: [...deleting, timeOut] })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  expect([await lastTaken(), await isTimedOut()]).toEqual([["delete_message", "timeout_user"], true])
  const [byMo] = await owner.listAuditLog({ server_id, action: "MEMBER_UPDATE" })
  expect([byMo!.user_id, byMo!.target_id]).toEqual([mo.id, lin.id])
  await owner.editMember({ server_id, member_id: lin.id, timeout_seconds: 0 })

  await owner.kickMember({ server_id, member_id: mo.id })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  expect([await lastTaken(), await isTimedOut()]).toEqual([["delete_message"], false])

  // What changes nothing makes nobody its writer.
  expect((await owner.editAutomodRule({ ...ids, name: made.name })).updated_by).toBe(mo.id)
  const edited = await owner.editAutomodRule({ ...ids, actions: [...deleting, { action_type: "kick_user" }] })
  expect(edited).toMatchObject({ created_by: mo.id, updated_by: ada.id })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  expect(await refusal(say("fine"))).toBe("access_denied")
  const [byAda] = await owner.listAuditLog({ server_id, action: "MEMBER_KICK" })
  expect([byAda!.user_id, byAda!.target_id]).toEqual([ada.id, lin.id])
  const [row] = await shared.sql`SELECT created_by, updated_by FROM automod_rules WHERE id = ${made.id}`
  expect(row).toEqual({ created_by: mo.id, updated_by: ada.id })
})

test("roles and channels that are deleted stand in no rule any more; one that held for such a role alone is off", async ({
  shared,
}) => {
  const { ada, owner, server_id, say } = await moderated(shared)
  const [few, many] = [await owner.createRole({ server_id }), await owner.createRole({ server_id })]
  const { id: other } = await owner.createChannel({ server_id, name: "other" })
  const targets = { exempt_roles: [many.id], exempt_channels: [other] }
  await owner.createAutomodRule({ server_id, ...noBadWords({ applied_roles: [few.id], ...targets }) })
  await owner.createAutomodRule({ server_id, ...noBadWords({ applied_roles: [few.id, many.id] }) })
  const untouched = await owner.createAutomodRule({ server_id, ...noBadWords({ config: { keywords: ["worse"] } }) })
  const expectRules = async (...expected: object[]) => {
    const rules = await ada.on(shared.west).listAutomodRules({ server_id })
    expect(rules).toMatchObject([...expected, untouched])
    const rows = await shared.sql`
      SELECT applied_roles, exempt_roles, exempt_channels, enabled FROM automod_rules WHERE server_id = ${server_id} ORDER BY id`
    expect(rules).toMatchObject([...rows])
  }
  await owner.deleteRole({ server_id, role_id: few.id })
  await expectRules(
    { applied_roles: [], ...targets, enabled: false, updated_by: ada.id },
    { applied_roles: [many.id], enabled: true },
  )
  await owner.deleteRole({ server_id, role_id: many.id })
  await expectRules({ exempt_roles: [], exempt_channels: [other] }, { applied_roles: [], enabled: false })
  await owner.deleteChannel({ channel_id: other })
  await expectRules({ exempt_channels: [], enabled: false }, { enabled: false })
  await say("badword")
  expect(await refusal(say("worse"))).toBe("message_blocked")
  const log = await owner.listAuditLog({ server_id, action: "AUTOMOD_RULE_UPDATE" })
  expect(log.map(({ changes }) => Object.keys(changes).toSorted())).toEqual([
    ["exempt_channels"],
    ["applied_roles", "enabled"],
    ["exempt_roles"],
    ["applied_roles"],
    ["applied_roles", "enabled"],
  ])
})

test("a rule that only logs lets the message pass; check_all looks further; exemptions hold", async ({ shared }) => {
  const { lin, owner, member, server_id, channel_id, say, violations, rules } = await moderated(
    shared,
    noBadWords({ priority: 9, check_all: true, actions: [{ action_type: "log_only" }] }),
    rule("caps_percentage", {}, { priority: 5, actions: [{ action_type: "log_only" }] }),
    noBadWords({ priority: 1 }),
  )
  expect(await refusal(say("badword")), "by the third").toBe("message_blocked")
  expect((await violations()).map(({ rule_id }) => rule_id).toSorted()).toEqual([rules[0]!.id, rules[2]!.id].toSorted())
  const passed = await say("BADWORD BADWORD")
  expect((await violations()).slice(0, 2).map(({ metadata }) => metadata["message_id"])).toEqual([passed.id, passed.id])
  expect((await violations()).slice(0, 2).map(({ actions_taken }) => actions_taken)).toEqual([
    ["log_only"],
    ["log_only"],
  ])

  // The owner and administrators; nobody else, also who writes the rules.
  const before = (await violations()).length
  await owner.createMessage({ channel_id, content: "badword" })
  const having = async (permissions: Record<string, boolean>, act: () => Promise<unknown>) => {
    const { id: role_id } = await owner.createRole({ server_id, permissions })
    await owner.giveRole({ server_id, member_id: lin.id, role_id })
    await act()
    await owner.takeRole({ server_id, member_id: lin.id, role_id })
  }
  await having({ administrator: true }, () => say("badword"))
  expect((await violations()).length).toBe(before)
  const everything = { "server.automod": true, "messages.manage": true, "members.ban": true, "server.manage": true }
  await having(everything, async () => expect(await refusal(say("badword"))).toBe("message_blocked"))
  const { id: role_id } = await owner.createRole({ server_id, name: "Trusted" })
  const edit = (more: Partial<RuleInput>) =>
    Promise.all(rules.map(({ id }) => owner.editAutomodRule({ server_id, rule_id: id, ...more })))
  await edit({ exempt_channels: [channel_id] })
  await say("badword")
  await edit({ exempt_channels: [], exempt_roles: [role_id] })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  await say("badword")
  await edit({ exempt_roles: [], applied_roles: [role_id] })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  await owner.takeRole({ server_id, member_id: lin.id, role_id })
  await say("badword")
  await edit({ applied_roles: [], enabled: false })
  await say("badword")
  expect((await violations()).length - before).toBe(6)
  expect(await member.listMessages({ channel_id, limit: "1" })).toHaveLength(1)
})

test("time-outs: for so long as the rule says", async ({ shared }) => {
  const { ada, lin, owner, server_id, say, violations, rules } = await moderated(
    shared,
    noBadWords({ actions: [{ action_type: "timeout_user", duration_seconds: 600, reason: "Calm down" }] }),
  )
  const inbox = await ada.listen(shared.west)
  const before = Math.floor(Date.now() / 1000)
  expect((await say("badword")).content, "nothing says that the message goes").toBe("badword")
  expect(await refusal(say("fine"))).toBe("timed_out")
  const { timeout_until } = await owner.getMember({ server_id, member_id: lin.id })
  expect(timeout_until! - before).toBeGreaterThanOrEqual(600)
  expect(timeout_until! - before).toBeLessThan(660)
  await inbox.next("MESSAGE_CREATE")
  expect(await inbox.next("GUILD_MEMBER_UPDATE")).toMatchObject({ user: { id: lin.id }, timeout_until })
  const [noted] = await owner.listAuditLog({ server_id, action: "MEMBER_UPDATE" })
  expect(noted).toMatchObject({
    user_id: ada.id,
    target_id: lin.id,
    reason: "Auto-moderation: no keyword: Calm down",
  })
  expect((await violations())[0]!.actions_taken).toEqual(["timeout_user"])
  await owner.editMember({ server_id, member_id: lin.id, timeout_seconds: 0 })
  await owner.editAutomodRule({
    server_id,
    rule_id: rules[0]!.id,
    actions: [...deleting, { action_type: "timeout_user" }],
  })
  expect(await refusal(say("badword"))).toBe("message_blocked")
  const { timeout_until: usual } = await owner.getMember({ server_id, member_id: lin.id })
  expect(Math.abs(usual! - Math.floor(Date.now() / 1000) - 300)).toBeLessThan(60)
})

test("AM1: kicks and bans take effect with the verdict, on send and on edit", async ({ shared }) => {
  for (const action_type of ["kick_user", "ban_user"]) {
    const { ada, lin, owner, member, server_id, channel_id, say, violations, rules } = await moderated(shared)
    const [inbox, own] = [await ada.listen(shared.west), await lin.listen(shared.east)]
    const sent = await say("fine")
    await inbox.next("MESSAGE_CREATE")
    const actions = [...deleting, { action_type, reason: "Out" }]
    rules.push(await owner.createAutomodRule({ server_id, ...noBadWords({ actions }) }))
    const isEdit = action_type === "kick_user"
    const content = "badword"
    expect(
      await refusal(isEdit ? member.editMessage({ channel_id, message_id: sent.id, content }) : say(content)),
    ).toBe("message_blocked")
    if (isEdit) await inbox.next("MESSAGE_DELETE")
    expect(await inbox.next("GUILD_MEMBER_REMOVE")).toMatchObject({ user: { id: lin.id } })
    expect((await own.next("GUILD_DELETE")).id).toBe(server_id)
    expect(await refusal(say("fine"))).toBe("access_denied")
    expect((await violations())[0]).toMatchObject({ actions_taken: ["delete_message", action_type], user_id: lin.id })
    const bans = await owner.listBans({ server_id })
    expect(bans.map(({ user_id, reason }) => [user_id, reason])).toEqual(
      isEdit ? [] : [[lin.id, "Auto-moderation: no keyword: Out"]],
    )
    const [noted] = await owner.listAuditLog({ server_id, action: isEdit ? "MEMBER_KICK" : "MEMBER_BAN" })
    expect(noted).toMatchObject({ target_id: lin.id, user_id: ada.id, reason: "Auto-moderation: no keyword: Out" })
    const { member_count } = await owner.getServer({ server_id })
    expect(member_count).toBe(1)
  }
})

test("without delete_message a message is sent before its author goes, and what they wrote can go with them", async ({
  shared,
}) => {
  await shared.bootJobWorker()
  const actions = [{ action_type: "ban_user", metadata: { delete_message_days: 1 } }]
  const { ada, server_id, channel_id, say, owner } = await moderated(shared, noBadWords({ actions }))
  const inbox = await ada.listen(shared.east)
  const [first, last] = [await say("fine"), await say("badword")]
  for (const { id } of [first, last]) expect((await inbox.next("MESSAGE_CREATE")).id).toBe(id)
  await inbox.next("GUILD_MEMBER_REMOVE")
  await inbox.next("GUILD_BAN_ADD")
  expect((await inbox.next("MESSAGE_DELETE_BULK")).ids).toEqual([first.id, last.id])
  expect(await owner.listMessages({ channel_id })).toEqual([])
  expect((await owner.listBans({ server_id })).length).toBe(1)
})

test("two messages at once for which a rule removes their author: they are removed once", async ({ shared }) => {
  const kicking = noBadWords({ actions: [...deleting, { action_type: "kick_user" }] })
  const { owner, lin, channel_id, server_id } = await moderated(shared, kicking)
  const outcomes = await Promise.all(
    [shared.east, shared.west, shared.east].map(place =>
      refusal(lin.on(place).createMessage({ channel_id, content: "badword" })),
    ),
  )
  expect(outcomes.filter(code => code === "message_blocked")).toHaveLength(1)
  expect(outcomes.filter(code => code === "access_denied")).toHaveLength(2)
  expect((await owner.getServer({ server_id })).member_count).toBe(1)
})

test("the owner and who may remove members are notified, once in a while; what was written, only if they see the channel", async ({
  shared,
}) => {
  await shared.bootJobWorker()
  const alerting = noBadWords({ actions: [{ action_type: "alert_moderators" }] })
  const { ada, lin, owner, server_id, channel_id, say, rules } = await moderated(shared, alerting)
  const people = { mo: "members.kick", ban: "members.ban", admin: "administrator", blind: "members.ban" }
  const others = { manager: "messages.manage", writer: "server.automod", plain: "messages.send" }
  const { code } = await owner.createInvite({ channel_id })
  const having = async (name: string, permission: string) => {
    const person = await shared.person(name)
    await person.on(shared.east).joinByInvite({ invite_code: code })
    const { id: role_id } = await owner.createRole({ server_id, permissions: { [permission]: true } })
    await owner.giveRole({ server_id, member_id: person.id, role_id })
    return person
  }
  const [mo, ban, admin, blind] = await Promise.all(Object.entries(people).map(one => having(...one)))
  const untold = await Promise.all(Object.entries(others).map(one => having(...one)))
  await owner.setOverride({ channel_id, target_id: blind!.id, type: "member", allow: [], deny: ["channels.view"] })
  const [mos, adas] = [await mo!.listen(shared.west), await ada.listen(shared.east)]
  const sent = await say("badword")
  const told = {
    type: "system",
    title: "Auto-moderation",
    content: `${lin.username} broke the rule "${rules[0]!.name}" (reputation: 90 of 100)`,
    content_preview: "badword",
    link: `/channels/${server_id}/${channel_id}/${sent.id}`,
    sender_id: lin.id,
    read: false,
  }
  for (const inbox of [mos, adas]) expect(await inbox.next("NOTIFICATION_CREATE")).toMatchObject(told)
  await say("badword again")
  await until("nothing waits", async () => {
    const [row] = await shared.sql`SELECT count(*)::int AS count FROM automod_violations WHERE server_id = ${server_id}`
    return row!["count"] === 2
  })
  const taken = (await owner.listAutomodViolations({ server_id })).map(({ actions_taken }) => actions_taken)
  expect(taken, "who was not told is not said to be").toEqual([[], ["alert_moderators"]])
  await shared.settle()
  for (const person of [mo, ban, admin, ada])
    expect((await person!.on(shared.east).listNotifications()).unread_count).toBe(1)
  for (const person of [...untold, lin]) expect((await person.on(shared.east).listNotifications()).unread_count).toBe(0)
  const { notifications } = await blind!.on(shared.east).listNotifications()
  expect(notifications).toMatchObject([{ ...told, content_preview: null, link: null }])
})

test("rules apply to bots as to people, and not to webhooks", async ({ shared }) => {
  const { ada, owner, channel_id, violations } = await moderated(shared, noBadWords())
  const hook = await owner.createWebhook({ channel_id, name: "hook" })
  await owner.executeWebhook({ webhook_id: hook.id, token: hook.token!, content: "badword" })
  const bot = await botOf(shared, shared.east, ada)
  const { code } = await owner.createInvite({ channel_id })
  const rest = clientAt(shared.west, bot.token)
  await rest.joinByInvite({ invite_code: code })
  expect(await refusal(rest.createMessage({ channel_id, content: "badword" }))).toBe("message_blocked")
  expect((await violations()).map(({ user_id }) => user_id)).toEqual([bot.id])
})

test("rules apply to what comes with a text: embeds, names of files, polls", async ({ shared }) => {
  const { member, channel_id, violations, owner, server_id, rules } = await moderated(shared, noBadWords())
  const name = "badword"
  const beside: object[] = [
    { title: name },
    { description: name },
    { author: { name } },
    { footer: { text: name } },
    { provider: { name } },
    { fields: [{ name, value: "x" }] },
    { fields: [{ name: "x", value: name }] },
  ]
  for (const embed of beside)
    expect(await refusal(member.createMessage({ channel_id, content: "x", embeds: [{ title: "x" }, embed] }))).toBe(
      "message_blocked",
    )
  const file = await member.uploadAttachment({ channel_id, file: fileOf(apng(), "badword.png") })
  expect(await refusal(member.createMessage({ channel_id, attachments: [{ id: file.id }] }))).toBe("message_blocked")
  expect(await violations()).toHaveLength(beside.length + 1)
  // An edit is judged with what it leaves.
  await owner.editAutomodRule({ server_id, rule_id: rules[0]!.id, enabled: false })
  const { id: message_id } = await member.createMessage({ channel_id, content: "x", embeds: [{ title: name }] })
  await owner.editAutomodRule({ server_id, rule_id: rules[0]!.id, enabled: true })
  expect(await refusal(member.editMessage({ channel_id, message_id, content: "y" }))).toBe("message_blocked")
})

test("violations: by user, page by page, and none of another server", async ({ shared }) => {
  const { lin, owner, server_id, channel_id, say } = await moderated(shared, noBadWords())
  const other = await moderated(shared, noBadWords())
  await refusal(other.say("badword"))
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id })
  await mo.on(shared.east).joinByInvite({ invite_code: code })
  for (let i = 0; i < 3; i++) await refusal(say(`badword ${i}`))
  await refusal(mo.on(shared.west).createMessage({ channel_id, content: "badword" }))
  const page = async (query: object = {}) =>
    (await owner.listAutomodViolations({ server_id, ...query })).map(({ id }) => id)
  const all = await page()
  expect(all).toHaveLength(4)
  expect(all.map(BigInt)).toEqual(all.map(BigInt).toSorted((a, b) => (a < b ? 1 : -1)))
  expect(await page({ limit: "2" })).toEqual(all.slice(0, 2))
  expect(await page({ limit: "2", before: all[1] })).toEqual(all.slice(2))
  expect(await page({ user_id: mo.id })).toEqual(all.slice(0, 1))
  expect(await page({ user_id: lin.id })).toEqual(all.slice(1))
  // Everybody's reputation begins with 100; each of these took 10 of it, in this server alone.
  const reputations = async (of: typeof owner, id: string) =>
    (await of.listAutomodViolations({ server_id: id })).map(({ user_id, reputation }) => [user_id, reputation])
  expect(await reputations(owner, server_id)).toEqual([[mo.id, 90], ...Array.from({ length: 3 }, () => [lin.id, 70])])
  expect(await reputations(other.owner, other.server_id)).toEqual([[other.lin.id, 90]])
  for (const wrong of [{ limit: "0" }, { limit: "101" }, { before: "x" }, { user_id: "x" }])
    expect(await refusal(owner.listAutomodViolations({ server_id, ...wrong }))).toBe("validation_failed")
})

test("a rule says how often it has not judged a message since it was last changed", async ({ shared }) => {
  const costly = rule("regex", { patterns: [{ pattern: "(?:a?){70}z9" }] })
  const { lin, owner, member, server_id, channel_id, rules } = await moderated(shared, costly, noBadWords())
  const [searched, words] = rules
  expect([searched!.unjudged, words!.unjudged]).toEqual([null, null])
  await shared.sql`
    INSERT INTO automod_violations (server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken, metadata, created_at)
    SELECT ${server_id}, ${plantedId()}, ${lin.id}, ${channel_id}, ${searched!.id}, 'regex', '', 'low', '{}', '{"unjudged": "late"}', 1`
  expect(await owner.listAutomodRules({ server_id })).toEqual(rules)

  const embed = { title: "a", url: `https://example.com/${"a".repeat(2_000)}` }
  const embeds = Array.from({ length: 10 }, () => embed)
  const long = () => member.createMessage({ channel_id, content: "a", embeds })
  await long()
  // Within a minute it is not recorded again, nor counted.
  await long()
  const unjudged = { count: 1, last_at: expect.any(Number), reason: "too_expensive" }
  expect(await owner.listAutomodRules({ server_id })).toEqual([{ ...searched, unjudged }, words])
  const edited = await owner.editAutomodRule({ server_id, rule_id: searched!.id })
  expect(edited).toEqual({ ...searched, unjudged })
})

test("old violations are deleted, and so are all but the newest of a server", async ({ shared }) => {
  const { lin, server_id, channel_id, violations, say, rules } = await moderated(shared, noBadWords())
  const base = plantedId()
  const plant = (from: number, count: number, at: number) => shared.sql`
    INSERT INTO automod_violations (server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken, metadata, created_at)
    SELECT ${server_id}, ${base}::bigint + n, ${lin.id}, ${channel_id}, ${rules[0]!.id}, 'keyword', '', 'low', '{}', '{}', ${at}
    FROM generate_series(${from}::int, ${from + count - 1}::int) AS n`
  const now = Math.floor(Date.now() / 1000)
  await plant(1, 3, now - 91 * 86_400)
  await plant(4, limits.automod.violationsKept, now)
  const { openStorage } = await import("../../src/storage/storage.ts")
  const { clusterConfig } = await import("../../cluster.config.ts")
  const storage = openStorage({ ...clusterConfig.storage, url: shared.databaseUrl, name: "test" })
  try {
    // The sweep of this file's job worker may have been there before.
    for (let i = 0; i < 2; i++) expect(await storage.automod.forgetOld(now - 90 * 86_400, 2)).toBeLessThanOrEqual(2)
  } finally {
    await storage.close()
  }
  expect(
    await shared.sql`SELECT FROM automod_violations WHERE server_id = ${server_id} AND created_at < ${now - 90 * 86_400}`,
  ).toEqual([])
  const count = async () => {
    const [row] = await shared.sql`SELECT count(*)::int AS count FROM automod_violations WHERE server_id = ${server_id}`
    return Number(row!["count"])
  }
  // One in 64 of them, by its time.
  await until(
    "the surplus is gone",
    async () => {
      await refusal(say("badword"))
      return (await count()) <= limits.automod.violationsKept + 64
    },
    { timeoutMs: 30_000 },
  )
  expect((await violations())[0]!.matched_content).toBe("badword")
})

/** By type: a config, what breaks the rule, what does not. */
const types: readonly [string, Record<string, unknown>, bad: string, good: string][] = [
  ["keyword", { keywords: ["badword"] }, "a BadWord", "badwords"],
  ["regex", { patterns: [{ pattern: "fr[e3]{2} (money|gems)" }] }, "FR33 gems", "free speech"],
  ["mention_spam", { max_user_mentions: 1 }, "<@1> <@2>", "<@1>"],
  ["message_spam", { duplicate_threshold: 3, max_messages: 30 }, "buy my watches", "something else"],
  ["invite_links", {}, "chat.example/invite/abcdefghijk1", "no invite"],
  ["mass_emoji", { max_emoji: 2 }, "🎉🎉🎉", "fine 🎉"],
  ["caps_percentage", {}, "STOP SHOUTING", "I do not shout"],
  ["repeated_chars", {}, "noooooooooooooooooooo", "no"],
  ["external_links", { blacklist: ["evil.example"] }, "https://www.evil.example/x", "https://good.example"],
]

test("every type of rule, on send and on edit, before and after a take-over", async ({ cluster }) => {
  await cluster.boot(2)
  const { ada, lin, server } = await cluster.seed(sharedServer)
  const server_id = server.id
  const place = () => cluster.workers[0]!
  const owner = () => ada.on(place())
  const channels = new Map<string, string>()
  for (const [type] of types) channels.set(type, (await owner().createChannel({ server_id, name: type })).id)
  // Each rule holds in the channel of its own only.
  for (const [type, config] of types) {
    const exempt_channels = [...channels.values()].filter(channel => channel !== channels.get(type))
    await owner().createAutomodRule({ server_id, ...rule(type, config, { exempt_channels }) })
  }
  const say = (type: string, content: string) =>
    lin.on(place()).createMessage({ channel_id: channels.get(type)!, content })

  const round = async (isFirst: boolean) => {
    for (const [type, , bad, good] of types) {
      const channel_id = channels.get(type)!
      // What is counted is there from before.
      if (type === "message_spam" && isFirst) for (let i = 0; i < 2; i++) await say(type, `${bad}${"!".repeat(i)}`)
      expect(await refusal(say(type, bad)), `${type} on send`).toBe("message_blocked")
      const { id: message_id } = await say(type, good)
      const edit = (content: string) => lin.on(place()).editMessage({ channel_id, message_id, content })
      expect((await edit(`${good}.`)).content).toBe(`${good}.`)
      expect(await refusal(edit(bad)), `${type} on edit`).toBe("message_blocked")
    }
  }
  await round(true)
  const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(server_id)}`
  await cluster.workers.find(({ id }) => id === row!.owner)!.stop()
  await cluster.balanced()
  await round(false)
  const [count] =
    await cluster.sql`SELECT count(*)::int AS count FROM automod_violations WHERE server_id = ${server_id}`
  expect(count!["count"]).toBe(4 * types.length)
})
