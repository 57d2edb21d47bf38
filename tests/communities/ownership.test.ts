/**
 * Whose a server is: handing it over, and how many one may have. The barrier is in barrier.test.ts.
 */
import { generateSync } from "otplib"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const wrong = "Wrong-Horse-99"

async function owned(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const handOver = (to: { id: string }, proof: object = { password: ada.password }) =>
    ada.on(shared.west).transferServer({ server_id: server.id, user_id: to.id, ...proof })
  return { ada, lin, server, server_id: server.id, channel_id: channel.id, handOver }
}

const failuresOf = async ({ sql }: SharedCluster, { id }: Person) => {
  const [row] = await sql<{ failures: number }[]>`SELECT failures FROM failed_logins WHERE name = ${`#${id}`}`
  return row?.failures ?? 0
}

test("the owner hands their server to a member, who owns it from then on; everybody in it is told", async ({
  shared,
}) => {
  const { ada, lin, server, server_id, channel_id, handOver } = await owned(shared)
  const [own, there] = [await ada.listen(shared.east), await lin.listen(shared.west, { encoding: "msgpack" })]
  const stranger = await (await shared.person("eve")).listen(shared.east)
  const handed = await handOver(lin)
  expect(handed).toEqual({ ...server, member_count: 2, owner_id: lin.id })
  const told = { ...handed, server_id, guild_id: server_id }
  for (const client of [own, there]) expect(await client.next("GUILD_UPDATE")).toEqual(told)
  const [row] = await shared.sql`SELECT owner_id FROM servers WHERE id = ${server_id}`
  expect(row!["owner_id"]).toBe(lin.id)

  const [former, owner] = [ada.on(shared.east), lin.on(shared.east)]
  const [entry] = await owner.listAuditLog({ server_id })
  expect(entry).toMatchObject({
    action: "SERVER_UPDATE",
    user_id: ada.id,
    target_id: server_id,
    changes: { owner_id: { old: ada.id, new: lin.id } },
  })
  // Nothing is left that they had by ownership alone, on either worker.
  for (const place of [shared.east, shared.west]) {
    const rest = ada.on(place)
    expect(await refusal(rest.deleteServer({ server_id }))).toBe("not_owner")
    expect(await refusal(rest.editServer({ server_id, name: "Mine" }))).toBe("permission_denied")
    expect(await refusal(rest.kickMember({ server_id, member_id: lin.id }))).toBe("permission_denied")
    expect(await refusal(lin.on(place).leaveServer({ server_id }))).toBe("owner_cannot_leave")
  }
  await former.createMessage({ channel_id, content: "still here" })
  await former.leaveServer({ server_id })
  expect(await owner.deleteServer({ server_id })).toEqual({ success: true })
  await shared.settle()
  expect(stranger.rest()).toEqual([])
})

test("a user who owned servers and handed them over deletes their account", async ({ shared }) => {
  const { ada, lin, handOver, server_id } = await owned(shared)
  const deleteAccount = () => ada.on(shared.east).deleteAccount({ password: ada.password })
  expect(await refusal(deleteAccount())).toBe("owns_servers")
  await handOver(lin)
  expect(await deleteAccount()).toEqual({ success: true })
  expect((await lin.on(shared.west).getServer({ server_id })).owner_id).toBe(lin.id)
})

test("only the owner hands a server over, to another member who is a person and stays one", async ({ shared }) => {
  const { ada, lin, server_id, channel_id, handOver } = await owned(shared)
  const [eve, leaving] = [await shared.person("eve"), await shared.person("leaving")]
  const bot = await botOf(shared, shared.east, ada)
  const { code } = await ada.on(shared.east).createInvite({ channel_id })
  const robot = clientAt(shared.west, bot.token)
  await robot.joinByInvite({ invite_code: code })
  await leaving.on(shared.east).joinByInvite({ invite_code: code })
  await leaving.on(shared.east).deleteAccount({ password: leaving.password })

  // Nobody is asked for their password before it is known that it would help.
  const nothing = {}
  expect(await refusal(handOver(ada, nothing))).toBe("invalid_new_owner")
  expect(await refusal(handOver(bot, nothing))).toBe("invalid_new_owner")
  expect(await refusal(handOver(leaving, nothing))).toBe("invalid_new_owner")
  expect(await refusal(handOver(eve, nothing))).toBe("member_not_found")
  for (const id of [plantedId(), server_id, "1"])
    expect(await refusal(handOver({ id }, nothing))).toBe("member_not_found")
  expect(await refusal(handOver({ id: "lin" }, nothing))).toBe("validation_failed")

  const asked = (person: Person, id = server_id) =>
    refusal(person.on(shared.west).transferServer({ server_id: id, user_id: lin.id, password: person.password }))
  expect(await asked(lin)).toBe("not_owner")
  expect(await asked(eve)).toBe("access_denied")
  expect(await asked(eve, "1")).toBe("server_not_found")
  expect(await asked(eve, "x")).toBe("invalid_server_id")
  expect(await refusal(robot.transferServer({ server_id, user_id: lin.id }))).toBe("people_only")
  expect((await ada.on(shared.east).getServer({ server_id })).owner_id).toBe(ada.id)
})

test("a hand-over takes the password, and guesses count like those of a sign-in", async ({ shared }) => {
  const { ada, lin, handOver, server_id } = await owned(shared)
  expect(await refusal(handOver(lin, {}))).toBe("password_required")
  for (let failures = 1; failures <= 2; failures++) {
    expect(await refusal(handOver(lin, { password: wrong }))).toBe("wrong_password")
    expect(await failuresOf(shared, ada)).toBe(failures)
  }
  await shared.sql`
    UPDATE failed_logins SET locked_until = ${Math.floor(Date.now() / 1000) + 60} WHERE name = ${`#${ada.id}`}`
  expect(await refusal(handOver(lin))).toBe("account_locked")
  await shared.sql`DELETE FROM failed_logins WHERE name = ${`#${ada.id}`}`

  expect((await ada.on(shared.east).getServer({ server_id })).owner_id).toBe(ada.id)
  expect((await handOver(lin)).owner_id).toBe(lin.id)
})

test("a user without a password hands over after they have signed in anew", async ({ shared }) => {
  const [eve, lin] = [await shared.person("eve"), await shared.person("lin")]
  const { server_id } = await plantServer(shared, { owner: eve, members: [lin] })
  await shared.sql`UPDATE users SET password_hash = NULL WHERE id = ${eve.id}`
  const [now, secret] = [Math.floor(Date.now() / 1000), newSecret()]
  const session = idOf(shardOf(eve.id), { ms: Date.now() - 660_000, sequence: 1 })
  await shared.sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    VALUES (${session}, ${eve.id}, ${hashSecret(secret)}, '', '', ${now - 660}, ${now + 3600}, ${now})`
  const old = clientAt(shared.east, `${session}.${secret}`)
  expect(await refusal(old.transferServer({ server_id, user_id: lin.id }))).toBe("fresh_sign_in_required")
  const fresh = eve.on(shared.west)
  expect((await fresh.transferServer({ server_id, user_id: lin.id, password: "" })).owner_id).toBe(lin.id)
})

test("where a second factor is on, its code is asked for, and serves once", async ({ shared }) => {
  const { ada, lin, handOver, server_id } = await owned(shared)
  const rest = ada.on(shared.east)
  const { secret, backup_codes } = await rest.enableTwoFactor({ password: ada.password })
  await rest.confirmTwoFactor({ code: generateSync({ secret }) })
  const { password } = ada
  expect(await refusal(handOver(lin, { password }))).toBe("second_factor_code_required")
  expect(await refusal(handOver(lin, { password, code: "aaaa-bbbb" }))).toBe("wrong_code")
  expect(await failuresOf(shared, ada)).toBe(1)
  const [code] = backup_codes
  expect((await handOver(lin, { password, code })).owner_id).toBe(lin.id)
  expect(await failuresOf(shared, ada)).toBe(1)
  await lin.on(shared.east).transferServer({ server_id, user_id: ada.id, password: lin.password })
  expect(await refusal(handOver(lin, { password, code }))).toBe("wrong_code")
  expect((await handOver(lin, { password, code: backup_codes[1] })).owner_id).toBe(lin.id)
})

/** Keeps a server's row as it is, so that a change of it waits, until told. */
async function holdUp({ sql }: SharedCluster, server_id: string) {
  const held = await sql.reserve()
  await held`BEGIN`
  await held`SELECT FROM servers WHERE id = ${server_id} FOR UPDATE`
  const waiters = async () => {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    return row!.count
  }
  return {
    somebodyWaits: () => until("somebody waits for the lock", async () => (await waiters()) > 0),
    async release() {
      await held`ROLLBACK`
      held.release()
    },
  }
}
const deletionOf = (shared: SharedCluster, person: Person) =>
  person.on(shared.west).deleteAccount({ password: person.password })

test("nobody deletes their account while a server is being handed to them", async ({ shared }) => {
  const { lin, server_id, handOver } = await owned(shared)
  const held = await holdUp(shared, server_id)
  const handing = handOver(lin)
  await held.somebodyWaits()
  expect(await refusal(deletionOf(shared, lin))).toBe("unavailable")
  await held.release()
  expect((await handing).owner_id).toBe(lin.id)
  expect(await refusal(deletionOf(shared, lin))).toBe("owns_servers")
})

test("SLOT2: when a hand-over and the deletion of the new owner's account come at once, one is refused", async ({
  shared,
}) => {
  const pairs = Array.from({ length: 4 }, async () => {
    const { lin, server_id, handOver } = await owned(shared)
    const [handed, deleted] = await Promise.allSettled([handOver(lin), deletionOf(shared, lin)])
    if (handed.status === "rejected")
      expect(["unavailable", "invalid_new_owner"]).toContain(await refusal(Promise.reject(handed.reason as Error)))
    else expect(["unavailable", "owns_servers"]).toContain(await refusal(deletionOf(shared, lin)))
    expect([handed.status, deleted.status]).toContain("rejected")
    const [row] = await shared.sql`
      SELECT FROM servers s JOIN users u ON u.id = s.owner_id WHERE s.id = ${server_id} AND u.deletion_status = 'active'`
    expect(row, "its owner's account is active").toBeDefined()
  })
  await Promise.all(pairs)
})

test("JOIN1: a member leaves, is kicked or deletes the server as it is handed to them: its owner is a member, and members are counted", async ({
  shared,
}) => {
  const rivals: ((lin: Person, ada: Person, server_id: string) => Promise<unknown>)[] = [
    (lin, _, server_id) => lin.on(shared.east).leaveServer({ server_id }),
    (lin, ada, server_id) => ada.on(shared.east).kickMember({ server_id, member_id: lin.id }),
    (lin, _, server_id) => lin.on(shared.east).deleteServer({ server_id }),
    (_, ada, server_id) => ada.on(shared.east).deleteServer({ server_id }),
    (_, ada, server_id) => ada.on(shared.east).leaveServer({ server_id }),
  ]
  for (const rival of rivals) {
    const { ada, lin, server_id, handOver } = await owned(shared)
    // The first to arrive is the first to be decided: each is given the chance.
    await Promise.allSettled([handOver(lin), rival(lin, ada, server_id)])
    const [row] = await shared.sql<{ member_count: number; members: string[]; owner_id: string }[]>`
      SELECT member_count, owner_id, ARRAY(SELECT user_id::text FROM members m WHERE m.server_id = s.id) AS members
      FROM servers s WHERE id = ${server_id}`
    if (!row) continue
    expect(row.members).toContain(row.owner_id)
    expect(row.member_count).toBe(row.members.length)
  }
})

test("one of concurrent hand-overs wins; a temporary member stays", async ({ shared }) => {
  const { ada, server_id, channel_id } = await owned(shared)
  const heirs = await Promise.all(["mo", "eve", "kim"].map(name => shared.person(name)))
  const { code } = await ada.on(shared.east).createInvite({ channel_id, temporary: true })
  for (const heir of heirs) await heir.on(shared.west).joinByInvite({ invite_code: code })
  const places = [shared.east, shared.west, shared.east]
  const attempts = await Promise.allSettled(
    heirs.map(({ id }, i) => ada.on(places[i]!).transferServer({ server_id, user_id: id, password: ada.password })),
  )
  const won = attempts.flatMap(attempt => (attempt.status === "fulfilled" ? [attempt.value.owner_id] : []))
  expect(won).toHaveLength(1)
  expect((await ada.on(shared.east).getServer({ server_id })).owner_id).toBe(won[0])
  const rows = await shared.sql<{ user_id: string }[]>`
    SELECT user_id FROM members WHERE server_id = ${server_id} AND temporary`
  expect(rows.map(({ user_id }) => user_id).toSorted()).toEqual(
    heirs.flatMap(({ id }) => (id === won[0] ? [] : [id])).toSorted(),
  )
})

test("a user who is in a voice channel by ownership alone leaves it with the ownership", async ({ shared }) => {
  const { ada, lin, server_id, handOver } = await owned(shared)
  const rest = ada.on(shared.east)
  const { id: channel_id } = await rest.createChannel({ server_id, name: "bridge", type: "voice" })
  const everybody = { target_id: server_id, type: "role" as const }
  await rest.setOverride({ channel_id, ...everybody, allow: [], deny: ["channels.view"] })
  const client = await ada.listen(shared.west)
  client.send({ op: opcodes.VOICE_CONNECT.op, d: { channel_id } })
  await client.next("VOICE_STATE_UPDATE", { where: state => state.channel_id === channel_id })
  await handOver(lin)
  await client.next("VOICE_STATE_UPDATE", { where: state => state.channel_id === null })
  const rows = () => shared.sql`SELECT FROM voice_states WHERE server_id = ${server_id}`
  await until("their call is over", async () => (await rows()).length === 0)
})

test("the new owner's tier bounds what they may own", async ({ shared }) => {
  const { lin, handOver, server_id } = await owned(shared)
  await shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT ${plantedId()}::bigint + 4194304 * n, 'One of many', ${lin.id}, 1, 0 FROM generate_series(1, 100) AS n`
  expect(await refusal(handOver(lin))).toBe("server_limit")
  await shared.sql`
    DELETE FROM servers WHERE id = (SELECT max(id) FROM servers WHERE owner_id = ${lin.id} AND id <> ${server_id})`
  expect((await handOver(lin)).owner_id).toBe(lin.id)
})

test("SLOT1: a user who asks for servers at once gets no more than their tier allows, and not one less", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  await shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT ${plantedId()}::bigint + 4194304 * n, 'One of many', ${ada.id}, 1, 0 FROM generate_series(1, 97) AS n`
  const made = await Promise.allSettled(
    Array.from({ length: 7 }, (_, i) =>
      ada.on(i % 2 === 0 ? shared.east : shared.west).createServer({ name: `At once ${i}` }),
    ),
  )
  expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(3)
  const refused = made.flatMap(one => (one.status === "rejected" ? [refusal(Promise.reject(one.reason as Error))] : []))
  expect(new Set(await Promise.all(refused))).toEqual(new Set(["server_limit"]))
  const [owned] = await shared.sql`SELECT count(*)::int AS count FROM servers WHERE owner_id = ${ada.id}`
  expect(owned!["count"]).toBe(100)
})

test("nobody is in more than two hundred servers, however they join, and however many at once", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  await shared.sql`
    WITH planted AS (
      INSERT INTO servers (id, name, owner_id, member_count, created_at)
      SELECT ${plantedId()}::bigint + 4194304 * n, 'One of many', ${ada.id}, 1, 0 FROM generate_series(1, 199) AS n RETURNING id)
    INSERT INTO members (server_id, user_id, joined_at) SELECT id, ${lin.id}, 0 FROM planted`
  const hosts = await Promise.all([1, 2, 3].map(() => plantServer(shared, { owner: ada })))
  const codes: string[] = []
  for (const { server_id, channel_id } of hosts) {
    await ada.on(shared.east).editServer({ server_id, public: true })
    codes.push((await ada.on(shared.east).createInvite({ channel_id })).code)
  }
  const [first, second] = [lin.on(shared.east), lin.on(shared.west)]
  const ways = [
    () => first.joinByInvite({ invite_code: codes[0]! }),
    () => second.joinServer({ server_id: hosts[1]!.server_id }),
    () => first.createServer({ name: "One more" }),
    () => second.joinByInvite({ invite_code: codes[2]! }),
  ]
  const attempts = await Promise.allSettled(ways.map(way => way()))
  expect(attempts.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  const [row] = await shared.sql`SELECT count(*)::int AS count FROM members WHERE user_id = ${lin.id}`
  expect(row!["count"]).toBe(200)
  for (const [i, { status }] of attempts.entries())
    if (status === "rejected") expect(await refusal(ways[i]!())).toBe("too_many_servers")

  const late = await plantServer(shared, { owner: ada })
  await ada.on(shared.east).editServer({ server_id: late.server_id, public: true })
  const { code } = await ada.on(shared.west).createInvite({ channel_id: late.channel_id })
  for (const way of [
    () => first.joinServer({ server_id: late.server_id }),
    () => second.joinByInvite({ invite_code: code }),
    () => first.createServer({ name: "Beyond" }),
  ])
    expect(await refusal(way())).toBe("too_many_servers")

  // What is in the way otherwise is said first.
  const [there] = await shared.sql<{ id: string }[]>`
    SELECT server_id AS id FROM members WHERE user_id = ${lin.id} ORDER BY server_id LIMIT 1`
  await shared.sql`UPDATE servers SET public = true WHERE id = ${there!.id}`
  expect(await refusal(first.joinServer({ server_id: there!.id }))).toBe("already_member")
  expect(await refusal(first.joinByInvite({ invite_code: "nothing" }))).toBe("invite_not_found")
  await first.leaveServer({ server_id: there!.id })
  await until("they are in one less", async () => (await second.listServers()).length === 199)
  expect((await second.createServer({ name: "In its place" })).owner_id).toBe(lin.id)
})
