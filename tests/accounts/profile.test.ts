import { userActor } from "../../src/actors/user.ts"
import { newTokenSecret, tokenText } from "../../src/cluster/one-time-tokens.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, readyOf, type Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const outcome = (call: Promise<unknown>): Promise<string> => call.then(() => "granted").catch(() => refusal(call))

const next = "Better-Horse-10"
const wrong = "Wrong-Horse-99"

test("what is left out stays, what is given again changes nothing, and other keys are nobody's business", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const before = await rest.getMe()
  const inbox = await ada.listen(shared.west)
  for (const body of [
    {},
    { username: null, email: null, password: null, current_password: null },
    { username: ada.username, email: ada.email },
    { current_password: "not looked at" },
    {
      id: "1",
      avatar_url: "https://evil.example/a.png",
      badges: ["staff"],
      tier: "staff",
      permissions: ["*"],
      bot: true,
      email_verified: false,
      totp_enabled: true,
      created_at: 0,
      deletion_status: "purged",
      locked_until: 9999999999,
      must_rename: true,
      owner_id: "1",
      password_hash: "x",
    },
  ]) {
    const answer = await send(shared.west, "/api/v1/users/@me", { method: "PATCH", token: ada.token, body })
    expect([answer.status, answer.body]).toEqual([200, before])
  }
  expect(await ada.on(shared.west).getMe()).toEqual(before)
  const [row] =
    await shared.sql`SELECT tier, permissions, bot, locked_until, must_rename FROM users WHERE id = ${ada.id}`
  expect(row).toEqual({ tier: "standard", permissions: [], bot: false, locked_until: 0, must_rename: false })
  await shared.settle()
  expect(inbox.rest()).toEqual([])
})

test("a name obeys the rules of registering; the case of one's own may always change", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { editMe } = ada.on(shared.east)
  for (const username of ["a b c", "ada!", "адаада", "ada\u200b"])
    expect(await refusal(editMe({ username }))).toBe("invalid_username")
  for (const username of ["admin", "ADMIN", "null"])
    expect(await refusal(editMe({ username }))).toBe("reserved_username")
  for (const username of ["ab", "a".repeat(33), ""])
    expect(await refusal(editMe({ username }))).toBe("validation_failed")
  for (const username of [lin.username, lin.username.toUpperCase()])
    expect(await refusal(editMe({ username }))).toBe("user_exists")
  const shouted = ada.username.toUpperCase()
  expect((await editMe({ username: shouted })).username).toBe(shouted)
  // A name that is reserved by now may still be written otherwise.
  await shared.sql`UPDATE users SET username = 'Root' WHERE id = ${lin.id}`
  expect((await lin.on(shared.west).editMe({ username: "ROOT" })).username).toBe("ROOT")
  expect(await refusal(lin.on(shared.west).editMe({ username: "system" }))).toBe("reserved_username")
})

test("an address obeys the rules of registering, and a new one is nobody's proof", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { editMe } = ada.on(shared.east)
  for (const email of ["", "ada", "ada@", "@example.com", "a b@example.com", "ada@example.com\r\nBcc: x@y.z"])
    expect(await refusal(editMe({ email }))).toBe("invalid_email")
  expect(await refusal(editMe({ email: `${"a".repeat(320)}@example.com` }))).toBe("validation_failed")
  for (const email of [lin.email, lin.email.toUpperCase()])
    expect(await refusal(editMe({ email, current_password: ada.password }))).toBe("user_exists")
  await shared.sql`UPDATE users SET email_confirmed = true WHERE id = ${lin.id}`
  const email = `${shared.newName("new")}@example.org`
  const other = await lin.on(shared.west).editMe({ email, current_password: lin.password })
  expect(other).toMatchObject({ email, email_verified: true })
  const [row] = await shared.sql`SELECT email, email_confirmed FROM users WHERE id = ${lin.id}`
  expect(row).toEqual({ email, email_confirmed: false })
  const { password } = lin
  expect((await clientAt(shared.east).login({ username: email, password })).user!.id).toBe(lin.id)
})

test("when two users want one name, or one address, at the same time, one gets it", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  for (const wanted of [{ username: shared.newName("wanted") }, { email: `${shared.newName("wanted")}@example.com` }]) {
    const tries = [
      ada.on(shared.east).editMe({ ...wanted, current_password: ada.password }),
      lin.on(shared.west).editMe({ ...wanted, current_password: lin.password }),
    ]
    const outcomes = await Promise.all(tries.map(outcome))
    expect(outcomes.toSorted()).toEqual(["granted", "user_exists"])
  }
  // The loser's home did not keep what was refused.
  const names = await Promise.all([ada, lin].map(person => person.on(shared.east).getMe()))
  expect(new Set(names.map(({ username }) => username)).size).toBe(2)
  for (const person of [ada, lin]) {
    const name = shared.newName("free")
    expect((await person.on(shared.west).editMe({ username: name })).username).toBe(name)
  }
})

test("a password changes against the current one, and ends every other session", async ({ shared }) => {
  const ada = await shared.person("ada")
  const other = await ada.signIn(shared.west)
  const [own, foreign] = await Promise.all([ada.listen(shared.west), other.listen(shared.east)])
  const { editMe, getMe } = ada.on(shared.east)
  expect(await refusal(editMe({ password: next }))).toBe("missing_current_password")
  expect(await refusal(editMe({ password: "short", current_password: ada.password }))).toBe("validation_failed")
  expect(await refusal(editMe({ password: "long enough", current_password: ada.password }))).toBe("weak_password")
  expect(await refusal(editMe({ password: next, current_password: wrong }))).toBe("incorrect_current_password")
  expect(await refusal(editMe({ password: next, current_password: "" }))).toBe("incorrect_current_password")
  expect((await editMe({ password: next, current_password: ada.password })).id).toBe(ada.id)

  expect((await foreign.ended()).code).toBe(4004)
  expect(await refusal(other.on(shared.west).getMe())).toBe("revoked_token")
  expect((await getMe()).id).toBe(ada.id)
  await own.heartbeatNow()
  const { login } = clientAt(shared.west)
  expect(await refusal(login({ username: ada.username, password: ada.password }))).toBe("invalid_credentials")
  expect((await login({ username: ada.username, password: next })).user!.id).toBe(ada.id)
})

test("wrong current passwords count like failed sign-ins, and lock the name", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { editMe } = ada.on(shared.east)
  for (let i = 0; i < 5; i++)
    expect(await refusal(editMe({ password: next, current_password: wrong }))).toBe("incorrect_current_password")
  expect(await refusal(editMe({ password: next, current_password: ada.password }))).toBe("account_locked")
  const { login } = clientAt(shared.west)
  expect(await refusal(login({ username: ada.username, password: ada.password }))).toBe("account_locked")
  // What needs no password is not locked.
  const name = shared.newName("ada")
  expect((await editMe({ username: name })).username).toBe(name)
})

test("ACC1: two concurrent changes of one password: one wins, and only its password signs in", async ({ shared }) => {
  const ada = await shared.person("ada")
  const passwords = ["First-Horse-11", "Second-Horse-12"]
  const { password: current_password } = ada
  const outcomes = await Promise.all(
    passwords.map((password, i) =>
      outcome(ada.on(i === 0 ? shared.east : shared.west).editMe({ password, current_password })),
    ),
  )
  expect(outcomes.toSorted()).toEqual(["granted", "incorrect_current_password"])
  const winner = passwords[outcomes.indexOf("granted")]!
  for (const password of passwords) {
    const signingIn = clientAt(shared.east).login({ username: ada.username, password })
    if (password === winner) expect((await signingIn).status).toBe("success")
    else expect(await refusal(signingIn)).toBe("invalid_credentials")
  }
})

test("ACC2: a change of password or address voids the links that were mailed before, but no way back", async ({
  shared,
}) => {
  const kinds = async ({ id }: Person) =>
    (await shared.sql<{ kind: string }[]>`SELECT kind FROM one_time_tokens WHERE user_id = ${id} ORDER BY kind`).map(
      ({ kind }) => kind,
    )
  const plant = ({ id }: Person) => shared.sql`
    INSERT INTO one_time_tokens (id, user_id, kind, token_hash, email, expires_at)
    SELECT ${id}::bigint + n, ${id}, kind, 'x', null, 9999999999
    FROM unnest(ARRAY['two_factor', 'verify_email', 'password_reset', 'restore_email']) WITH ORDINALITY AS t (kind, n)`
  const [ada, lin, mo] = await Promise.all([shared.person("ada"), shared.person("lin"), shared.person("mo")])
  for (const person of [ada, lin, mo]) await plant(person)
  await ada.on(shared.east).editMe({ password: next, current_password: ada.password })
  await lin.on(shared.east).editMe({ email: `${shared.newName("lin")}@example.com`, current_password: lin.password })
  await mo.on(shared.east).editMe({ username: shared.newName("mo") })
  expect(await Promise.all([ada, lin, mo].map(kinds))).toEqual([
    ["restore_email"],
    ["restore_email", "restore_email", "two_factor"],
    ["password_reset", "restore_email", "two_factor", "verify_email"],
  ])
})

test("an account without a password has none that could be shown for a new one", async ({ shared }) => {
  const ada = await shared.person("ada")
  await shared.sql`UPDATE users SET password_hash = NULL WHERE id = ${ada.id}`
  const { editMe } = ada.on(shared.east)
  for (const current_password of ["", "null", ada.password])
    expect(await refusal(editMe({ password: next, current_password }))).toBe("incorrect_current_password")
})

/** A bot as an operator makes one; only its account counts here. */
const asBot = ({ sql }: SharedCluster, { id }: Person) =>
  sql`UPDATE users SET bot = true, email = NULL WHERE id = ${id}`

test("a bot may change its name, but has neither address nor password", async ({ shared }) => {
  const bot = await shared.person("helper")
  await asBot(shared, bot)
  const { editMe } = bot.on(shared.east)
  expect(await refusal(editMe({ email: "bot@example.com" }))).toBe("people_only")
  expect(await refusal(editMe({ password: next, current_password: bot.password }))).toBe("people_only")
})

test("a user who has to choose another name can do only that, and then everything", async ({ shared }) => {
  const ada = await shared.person("ada")
  await shared.west.node.ask(userActor, ada.id, { type: "forceRename", reason: "rude" })
  const { editMe, getMe, listServers } = ada.on(shared.east)
  const { status, body } = await send(shared.east, "/api/v1/servers", { token: ada.token })
  expect([status, body]).toMatchObject([403, { error: { message: "Username change required", reason: "rude" } }])
  expect((await getMe()).username).toBe(ada.username)
  // The same name in other letters, or no name, is no other name.
  expect(await refusal(editMe({ username: ada.username.toUpperCase() }))).toBe("username_too_similar")
  await editMe({ email: `${shared.newName("ada")}@example.com`, current_password: ada.password })
  expect(await refusal(listServers())).toBe("username_change_required")
  expect(await refusal(editMe({ username: "admin" }))).toBe("reserved_username")
  await editMe({ username: shared.newName("polite") })
  for (const place of [shared.east, shared.west]) expect(await ada.on(place).listServers()).toEqual([])
  const [row] = await shared.sql`SELECT must_rename, rename_reason FROM users WHERE id = ${ada.id}`
  expect(row).toEqual({ must_rename: false, rename_reason: null })
})

test("ACC3: a new name reaches the user, friends, requests and members; strangers hear nothing, and every read has it", async ({
  shared,
}) => {
  await shared.bootJobWorker()
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const [friend, asked, stranger] = await Promise.all(["friend", "asked", "stranger"].map(name => shared.person(name)))
  await friend!.on(shared.east).requestFriend({ user_id: ada.id })
  await ada.on(shared.west).acceptFriend({ user_id: friend!.id })
  await ada.on(shared.west).requestFriend({ user_id: asked!.id })
  const message = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "hello", nonce: "n1" })
  const inboxes = await Promise.all(
    [ada, lin, friend!, asked!, stranger!].map((one, i) => one.listen(i % 2 === 0 ? shared.east : shared.west)),
  )
  const [own, member, befriended, requested, foreign] = inboxes

  const username = shared.newName("lovelace")
  const edited = await ada.on(shared.west).editMe({ username })
  const shown = { id: ada.id, username, avatar_url: edited.avatar_url, badges: [], bot: false }
  expect(await own!.next("USER_UPDATE")).toEqual({ ...shown, email: ada.email })
  for (const inbox of [member, befriended, requested]) expect(await inbox!.next("USER_UPDATE")).toEqual(shown)

  // An address is nobody else's business.
  await ada.on(shared.west).editMe({ email: `${shared.newName("ada")}@example.com`, current_password: ada.password })
  expect((await own!.next("USER_UPDATE")).email).toMatch(/^ada_/)
  await shared.settle()
  for (const inbox of inboxes) expect(inbox.rest()).toEqual([])
  expect(foreign!.rest()).toEqual([])

  for (const place of [shared.east, shared.west]) {
    const rest = lin.on(place)
    expect((await rest.getUser({ user_id: ada.id })).username).toBe(username)
    expect((await rest.findUser({ username })).id).toBe(ada.id)
    expect((await rest.listMessages({ channel_id: channel.id }))[0]!.author_username).toBe(username)
    const [listed] = await friend!.on(place).listRelationships()
    expect(listed!.username).toBe(username)
    expect((await readyOf(ada, place)).user.username).toBe(username)
  }
  // What the server's home remembers of the author is older.
  const again = { channel_id: channel.id, message_id: message.id, content: "hello again" }
  expect((await ada.on(shared.east).editMessage(again)).author_username).toBe(username)
  expect((await member!.next("MESSAGE_UPDATE")).author_username).toBe(username)
  const repeated = { channel_id: channel.id, content: "hello", nonce: "n1" }
  expect((await ada.on(shared.east).createMessage(repeated)).author_username).toBe(username)
  // A connection that identified before the change types under the new name.
  own!.typing(channel.id)
  expect((await member!.next("TYPING_START")).username).toBe(username)
  expect(server.id).toBe(message.server_id)
})

test("what a killed worker has not announced the next owner announces", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2)
  await cluster.bootJobWorker()
  const [ada, lin] = [await cluster.person("ada", west), await cluster.person("lin", west)]
  await ada.on(east!).requestFriend({ user_id: lin.id })
  const inbox = await lin.listen(west!)
  const username = cluster.newName("lovelace")
  await ada.on(east!).editMe({ username })
  await east!.stop()
  expect((await inbox.next("USER_UPDATE", { timeoutMs: 30_000 })).username).toBe(username)
})

test("a user's many viewers are told in batches of a bounded size", async ({ shared }) => {
  await shared.bootJobWorker()
  const ada = await shared.person("ada")
  // All of them list her; the last is listening.
  const lin = await shared.person("lin")
  await shared.sql`
    INSERT INTO users (id, username, created_at) SELECT ${ada.id}::bigint + n, 'many_' || n, 0 FROM generate_series(1, 1200) AS n`
  await shared.sql`
    INSERT INTO relationships (user_id, other_id, status, created_at)
    SELECT ${ada.id}::bigint + n, ${ada.id}::bigint, 'blocked', 0 FROM generate_series(1, 1200) AS n
    UNION ALL SELECT ${lin.id}::bigint, ${ada.id}::bigint, 'blocked', 0`
  const inbox = await lin.listen(shared.east)
  const username = shared.newName("ada")
  const before = await announcements(shared)
  await ada.on(shared.west).editMe({ username })
  expect((await inbox.next("USER_UPDATE", { timeoutMs: 20_000 })).username).toBe(username)
  await until("all are told", async () => (await announcements(shared)) === before + 3)
})

/** How many turns have told others what somebody looks like. */
async function announcements({ workers }: SharedCluster): Promise<number> {
  const counts = await Promise.all(
    workers.map(async ({ metrics }) => {
      const all = await metrics.registry.getMetricsAsJSON()
      const turns = all.find(({ name }) => name === "starling_homes_turns_total")
      const values = (turns as { values?: { value: number; labels: { command?: string } }[] } | undefined)?.values ?? []
      return values.find(({ labels }) => labels.command === "announce")?.value ?? 0
    }),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

const limited = testWith({ limited: true })

limited("two changes a minute, whichever worker takes them", async ({ shared }) => {
  const ada = await shared.person("ada")
  for (const place of [shared.east, shared.west]) await ada.on(place).editMe({})
  expect(await refusal(ada.on(shared.east).editMe({}))).toBe("rate_limited")
})

test("a tier, a badge, a name and a session survive one another, though the whole account is written each time", async ({
  shared,
}) => {
  const { east, west } = shared
  for (let round = 0; round < 5; round++) {
    const ada = await shared.person("ada")
    const username = shared.newName("ada")
    // Those who ask meanwhile are served, though what is known of their session is renewed again
    // and again.
    const asking = Array.from({ length: 8 }, (_, i) => ada.on(i % 2 === 0 ? east : west).getMyFeatures())
    await Promise.all([
      ada.on(east).editMe({ username }),
      east.node.ask(userActor, ada.id, { type: "setTier", tier: "premium", notes: "paid" }),
      west.node.ask(userActor, ada.id, { type: "giveBadge", badge: "verified" }),
      ...asking,
    ])
    const [row] = await shared.sql`SELECT username, tier, tier_notes, badges FROM users WHERE id = ${ada.id}`
    expect(row).toEqual({ username, tier: "premium", tier_notes: "paid", badges: ["verified"] })
  }
})

const verifying = testWith({ config: { STARLING_EMAIL_VERIFICATION_REQUIRED: "on" } })

verifying("where addresses are verified, a new one is not until its mail is answered", async ({ shared }) => {
  const username = shared.newName("ada")
  const [email, other, third] = ["com", "org", "net"].map(end => `${username}@example.${end}`) as [
    string,
    string,
    string,
  ]
  const { register, login, verifyEmail } = clientAt(shared.east)
  expect(await refusal(register({ username, email, password: next }))).toBe("registered_unverified")
  const [{ id }] = (await shared.sql`SELECT id FROM users WHERE username = ${username}`) as [{ id: string }]
  const mailed = async (to: string) => {
    const { secret, token_hash } = newTokenSecret()
    const mail = {
      kind: "verify_email",
      token_hash,
      email: to,
      expires_at: Math.floor(Date.now() / 1000) + 600,
    } as const
    const { token_id } = await shared.west.node.ask(userActor, id, { type: "startMailedToken", ...mail })
    return tokenText("verify_email", token_id!, secret)
  }
  await verifyEmail({ token: await mailed(email) })
  const { token } = await login({ username, password: next })
  const rest = clientAt(shared.west, token!)
  expect((await rest.getMe()).email_verified).toBe(true)

  expect(await rest.editMe({ email: other, current_password: next })).toMatchObject({
    email: other,
    email_verified: false,
  })
  // Who is in stays in, but a mail was asked for, and without it nobody signs in again.
  expect((await rest.getMe()).email_verified).toBe(false)
  expect(await refusal(login({ username, password: next }))).toBe("email_not_verified")
  // A link counts only for the address that it was sent to.
  const before = await mailed(other)
  await rest.editMe({ email: third, current_password: next })
  expect(await refusal(verifyEmail({ token: before }))).toBe("invalid_token")
  const mails = await shared.sql`SELECT kind FROM mails WHERE user_id = ${id} AND kind = 'verify_email'`
  expect(mails.length).toBeGreaterThan(1)
  await verifyEmail({ token: await mailed(third) })
  expect((await login({ username: third, password: next })).user).toMatchObject({ id, email_verified: true })
})

test("names and addresses that the operator does not want are refused here as at registration", async ({ cluster }) => {
  const [worker] = (await cluster.boot(1, {
    config: { STARLING_BLOCKED_USERNAMES: "^evil", STARLING_EMAIL_ALLOWED_DOMAINS: "example.com" },
  })) as [Worker]
  const { editMe } = (await cluster.person("ada", worker)).on(worker)
  expect(await refusal(editMe({ username: "evil_twin" }))).toBe("blocked_username")
  expect(await refusal(editMe({ email: "ada@example.org" }))).toBe("email_domain_not_allowed")
})
