/** Accounts as an operator sees them: bots with their tokens, locks, forced names, permissions. */
import { userActor } from "../../src/actors/user.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { createLog } from "../../src/observability/log.ts"
import { OperatorRequests } from "../../src/process/operator-requests.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { closedWith, identified, open } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: attentive })
type Operator = ReturnType<typeof operatorOf>

/** Whose text the operator's program would show. */
async function newBot(operator: Operator, owner: Person, name: string) {
  const secret = newSecret(48)
  const answer = await operator.command(owner.id, "createBot", { name, token_hash: hashSecret(secret) })
  const { id } = (answer as { reply: { id: string } }).reply
  return { id, name, token: `bot.${id}.${secret}` }
}
async function newToken(operator: Operator, bot: string) {
  const secret = newSecret(48)
  await operator.command(bot, "issueBotToken", { token_hash: hashSecret(secret) })
  return `bot.${bot}.${secret}`
}
const asBot = (token: string) => ({ headers: { authorization: `Bot ${token}` } })
const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds
const me = "/api/v1/users/@me"
const meCode = async (shared: SharedCluster, token: string) => (await send(shared.east, me, { token })).code

test("a bot is an account of its own: it joins, speaks and listens like anybody, and is marked as one", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const bot = await newBot(operator, lin, shared.newName("helper"))
  expect(bot.token).toMatch(/^bot\.\d+\.[A-Za-z0-9_-]{64}$/)

  const rest = clientAt(shared.west, bot.token)
  const account = await rest.getMe()
  expect(account).toMatchObject({
    id: bot.id,
    username: bot.name,
    email: null,
    avatar_url: `/api/v1/avatars/users/${bot.id}`,
    totp_enabled: false,
  })
  expect((await send(shared.east, me, asBot(bot.token))).body).toEqual(account)
  expect(await ada.on(shared.east).getUser({ user_id: bot.id })).toMatchObject({
    id: bot.id,
    avatar_url: `/api/v1/avatars/users/${bot.id}`,
    bot: true,
  })

  expect(await refusal(rest.getServer({ server_id: server.id }))).toBe("access_denied")
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  await rest.joinByInvite({ invite_code: code })
  const listening = await identified(shared.east, `Bot ${bot.token}`)
  const ready = (await listening.event("READY")).d as { user: object; guilds: { id: string }[] }
  expect(ready.user).toMatchObject({ id: bot.id, username: bot.name, bot: true, avatar_url: account.avatar_url })
  expect(ready.guilds.map(({ id }) => id)).toEqual([server.id])
  const live = await ada.listen(shared.west)
  await rest.createMessage({ channel_id: channel.id, content: "beep" })
  expect(await live.next("MESSAGE_CREATE")).toMatchObject({ author_id: bot.id, content: "beep" })
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "hello bot" })
  await until("the bot hears it", () =>
    listening.frames.some(({ t, d }) => t === "MESSAGE_CREATE" && (d as { content: string }).content === "hello bot"),
  )
  listening.close()

  // Its session has no end and is nobody's to list; the database knows no token.
  const rows = await shared.sql<{ id: string; expires_at: number; all: string }[]>`
    SELECT id::text AS id, expires_at, row_to_json(sessions)::text AS all FROM sessions WHERE user_id = ${bot.id}`
  expect(rows.map(({ id, expires_at }) => [id, expires_at])).toEqual([[bot.id, 9_999_999_999]])
  const secret = bot.token.split(".")[2]!
  const asked = await shared.sql<
    { all: string }[]
  >`SELECT row_to_json(operator_commands)::text AS all FROM operator_commands`
  expect([...rows, ...asked].map(({ all }) => all).join()).not.toContain(secret)
})

test("a bot signs in nowhere, and what is for people only is refused to it", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  for (const [name, route] of Object.entries<Route>(routes).filter(([, { auth }]) => auth === "person")) {
    const path = `/api/v1${route.path.replaceAll(/:\w+/g, "1")}`
    const answer = await send(shared.east, path, { route, token: bot.token, ...(route.body && { body: {} }) })
    expect([name, answer.code]).toEqual([name, "people_only"])
  }
  expect(Object.values<Route>(routes).some(({ auth }) => auth === "person")).toBe(true)
  const anybody = clientAt(shared.west)
  for (const password of ["", "null", "Correct-Horse-9"])
    expect(await refusal(anybody.login({ username: bot.name, password }))).toBe("invalid_credentials")
  expect(
    await refusal(
      anybody.register({
        username: bot.name.toUpperCase(),
        email: `x${bot.id}@example.com`,
        password: "Correct-Horse-9",
      }),
    ),
  ).toBe("user_exists")

  // The shapes of other tokens with its id, or with its secret, are nobody's.
  const [, id, secret] = bot.token.split(".") as [string, string, string]
  for (const [token, code] of [
    [`${id}.${secret.slice(0, 43)}`, "revoked_token"],
    [`bot.${id}.${newSecret(48)}`, "revoked_token"],
    [`bot.${ada.id}.${secret}`, "revoked_token"],
    [`bot.${id}.${secret}x`, "unknown_token_type"],
    [`bot.${id}.${secret.slice(1)}`, "unknown_token_type"],
    [`webhook.${id}.${secret}`, "unknown_token_type"],
  ] as const)
    expect([token, await meCode(shared, token)]).toEqual([token, code])
  expect(await meCode(shared, bot.token)).toBeUndefined()
})

test("STAT2: a new token ends the one before, and the connections of a revoked one are closed", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  const first = await identified(shared.east, bot.token)
  const second = await newToken(operator, bot.id)
  expect(await first.ended).toEqual(closedWith("authentication_failed"))
  expect(await meCode(shared, bot.token)).toBe("revoked_token")
  expect(await meCode(shared, second)).toBeUndefined()

  const live = await identified(shared.west, second)
  expect(await operator.command(bot.id, "revokeBot")).toEqual({ reply: { ended: 1 } })
  expect(await live.ended).toEqual(closedWith("authentication_failed"))
  expect(await meCode(shared, second)).toBe("revoked_token")
  const late = await open(shared.east)
  late.say({ op: 2, d: { token: second } })
  expect(await late.ended).toEqual(closedWith("authentication_failed"))
  expect(await operator.command(bot.id, "revokeBot")).toEqual({ reply: { ended: 0 } })
  // The account stays, and somebody who is no bot gets no such token.
  expect(await ada.on(shared.east).getUser({ user_id: bot.id })).toMatchObject({ username: bot.name })
  expect(await operator.command(ada.id, "issueBotToken", { token_hash: hashSecret("x") })).toEqual({
    refusal: "user_not_found",
  })
  expect((await ada.on(shared.east).getMe()).id).toBe(ada.id)
})

test("logging everybody out takes bots' tokens, too; that a bot is as old as before does not harm its next one", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const ada = await cluster.person("ada")
  const bot = await newBot(operator, ada, "robot")
  const live = await identified(place!, bot.token)
  // People's tokens count for nothing at once; a bot's does until it is taken away, so it is not to
  // wait for theirs.
  await cluster.sql`
    WITH people AS (INSERT INTO users (id, username, created_at) SELECT ${ada.id}::bigint + n, 'person_' || n, 0 FROM generate_series(1, 100) AS n RETURNING id)
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT id + 1000, id, 'h' || id, '', '', 0, 9999999999, 0 FROM people`
  await cluster.sql.unsafe(`
    CREATE TABLE ends (n serial, user_id bigint);
    CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ends (user_id) VALUES (OLD.user_id); RETURN OLD; END $$;
    CREATE TRIGGER note_end BEFORE DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION note_end()`)
  await operator.outcome(await operator.requests.logoutAll())
  const ends = await cluster.sql<{ user_id: string }[]>`SELECT user_id::text AS user_id FROM ends ORDER BY n`
  expect(ends).toHaveLength(102)
  expect(ends[0]!.user_id).toBe(bot.id)
  expect(await live.ended).toEqual(closedWith("security_reset"))
  expect((await send(place!, me, { token: bot.token })).code).toBe("revoked_token")
  const other = await newBot(operator, await ada.signIn(place!), "robot_2")
  expect((await send(place!, me, { token: other.token })).status).toBe(200)
  await cluster.sql`UPDATE service SET reset_until = ${other.id}, resets = resets + 1`
  await until(
    "people of before are refused",
    async () => (await send(place!, me, { token: ada.token })).code === "revoked_token",
  )
  expect((await send(place!, me, { token: other.token })).status).toBe(200)
})

test("an owner has a bounded number of bots, and a name is given once", async ({ shared }) => {
  const operator = operatorOf(shared)
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const first = await newBot(operator, ada, shared.newName("first"))
  const create = (owner: Person, name: string) =>
    operator.command(owner.id, "createBot", { name, token_hash: hashSecret(newSecret(48)) })
  for (const name of [first.name, first.name.toUpperCase(), ada.username])
    expect(await create(lin, name)).toEqual({ refusal: "user_exists" })
  expect(await meCode(shared, first.token)).toBeUndefined()
  await shared.sql`
    INSERT INTO users (id, username, created_at, bot, owner_id)
    SELECT ${first.id}::bigint + n, ${first.name} || '_' || n, 0, true, ${ada.id}::bigint FROM generate_series(1, ${limits.botsPerOwner - 2}::int) AS n`
  expect(await create(ada, shared.newName("last"))).toMatchObject({ reply: { id: expect.stringMatching(/^\d+$/) } })
  expect(await create(ada, shared.newName("toomany"))).toEqual({ reply: { id: null } })
  expect(await create(lin, shared.newName("mine"))).toMatchObject({ reply: { id: expect.any(String) } })
  expect(await operator.bots.ownedBy(ada.id)).toHaveLength(limits.botsPerOwner)
})

test("an owner who makes bots at once gets no more than they may have", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const first = await newBot(operator, ada, shared.newName("first"))
  await shared.sql`
    INSERT INTO users (id, username, created_at, bot, owner_id)
    SELECT ${first.id}::bigint + n, ${first.name} || '_' || n, 0, true, ${ada.id}::bigint FROM generate_series(1, ${limits.botsPerOwner - 3}::int) AS n`
  const names = Array.from({ length: 8 }, (_, i) => shared.newName(`late${i}`))
  const answers = await Promise.all(
    names.map(name => operator.command(ada.id, "createBot", { name, token_hash: hashSecret(newSecret(48)) })),
  )
  expect(answers.filter(answer => (answer as { reply: { id: string | null } }).reply.id !== null)).toHaveLength(2)
  expect(await operator.bots.ownedBy(ada.id)).toHaveLength(limits.botsPerOwner)
})

test("a bot whose creation was interrupted is finished by the worker that takes it over", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const [name, secret] = [shared.newName("half"), newSecret(48)]
  // Made, but without its token: as a worker leaves it that dies in between.
  const half = await newBot(operator, ada, name)
  await operator.command(half.id, "revokeBot")
  const [row] = await shared.sql<{ id: string }[]>`
    INSERT INTO operator_commands (user_id, command, input, attempts, begun, taken_by, taken_until)
    VALUES (${ada.id}, 'createBot', ${JSON.stringify({ name, token_hash: hashSecret(secret) })}, 1, true, 'dead', now() - interval '1 second') RETURNING id::text`
  await until("it is answered", async () => (await operator.requests.answerToCommand(row!.id)) !== undefined)
  expect(await operator.requests.answerToCommand(row!.id)).toEqual({ reply: { id: half.id } })
  expect(
    await shared.sql`SELECT 1 FROM sessions WHERE id = ${half.id} AND token_hash = ${hashSecret(secret)}`,
  ).toHaveLength(1)

  // What no worker knows is given up, and holds nothing else up.
  const [unknown] = await shared.sql<{ id: string }[]>`
    INSERT INTO operator_commands (user_id, command, input, attempts) VALUES (${ada.id}, 'dance', '{}', 5) RETURNING id::text`
  await until("it is given up", async () => (await operator.requests.answerToCommand(unknown!.id)) !== undefined)
  expect(await operator.requests.answerToCommand(unknown!.id)).toEqual({ refusal: "internal" })
  expect(await operator.command("1", "lockAccount", { until: 1, reason: null })).toEqual({ refusal: "user_not_found" })
})

test("a bot is finished after a transient failure, and a bot of the same name from before is left alone", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const [name, secret] = [shared.newName("broken"), newSecret(48)]
  const token_hash = hashSecret(secret)
  await shared.sql.unsafe(`
    CREATE FUNCTION refuse_token() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '57P03'; END $$;
    CREATE TRIGGER refuse_token BEFORE INSERT ON sessions FOR EACH ROW
      WHEN (NEW.token_hash = '${token_hash}') EXECUTE FUNCTION refuse_token()`)
  const command = await operator.requests.command(ada.id, "createBot", { name, token_hash })
  const state = async () => {
    const [row] = await shared.sql<{ attempts: number; isWaiting: boolean; isMade: boolean }[]>`
      SELECT attempts, taken_until < now() + interval '3 seconds' AS "isWaiting",
             EXISTS (SELECT 1 FROM users WHERE username = ${name}) AS "isMade" FROM operator_commands WHERE id = ${command}`
    return row!
  }
  // The account is there, its token is not, and the attempt does not count.
  await until(
    "it is put back",
    async () => {
      const { attempts, isWaiting, isMade } = await state()
      return isMade && isWaiting && attempts === 0
    },
    { timeoutMs: 10_000 },
  )
  await shared.sql.unsafe("DROP TRIGGER refuse_token ON sessions")
  await until("it is answered", async () => (await operator.requests.answerToCommand(command)) !== undefined, {
    timeoutMs: 10_000,
  })
  const [bot] = await operator.bots.ownedBy(ada.id)
  expect(await operator.requests.answerToCommand(command)).toEqual({ reply: { id: bot!.id } })
  const token = `bot.${bot!.id}.${secret}`
  expect(await meCode(shared, token)).toBeUndefined()

  // One that was put back before anything was made.
  const [again] = await shared.sql<{ id: string }[]>`
    INSERT INTO operator_commands (user_id, command, input, taken_by, taken_until)
    VALUES (${ada.id}, 'createBot', ${JSON.stringify({ name, token_hash: hashSecret("x") })}, 'dead', now() - interval '1 second') RETURNING id::text`
  await until("it is answered", async () => (await operator.requests.answerToCommand(again!.id)) !== undefined)
  expect(await operator.requests.answerToCommand(again!.id)).toEqual({ refusal: "user_exists" })
  expect(await meCode(shared, token)).toBeUndefined()
})

test("a worker that comes late does nothing more of a command that may be another's, and does not answer it", async ({
  cluster,
}) => {
  const { requests, bots } = operatorOf(cluster)
  const user = "1234"
  const another = () =>
    cluster.sql`UPDATE operator_commands SET taken_by = 'another', taken_until = now() + interval '1 hour' WHERE taken_by = 'late'`
  const outOfTime = () =>
    cluster.sql`UPDATE operator_commands SET taken_until = now() - interval '1 second' WHERE taken_by = 'late'`

  /**
   * What a worker asks to whom that happens while it has taken a command, or between its two steps.
   */
  async function askedBy(happens: { afterTaking?: () => unknown; meanwhile?: () => unknown }) {
    await cluster.sql`DELETE FROM operator_commands`
    const id = await requests.command(user, "unlockAccount", {})
    const asked: string[] = []
    let looks = 0
    const late = new OperatorRequests({
      ask: ((_: unknown, of: string, { type }: { type: string }) =>
        Promise.resolve(asked.push(`${type} ${of}`))) as never,
      create: () => Promise.reject(new Error("nothing is made here")),
      storage: {
        bots,
        users: {} as never,
        sessions: { clearFailures: async () => {} } as never,
        operatorRequests: {
          ...requests,
          take: async () => void looks++,
          async takeCommand(worker) {
            const taken = looks === 1 ? await requests.takeCommand(worker) : undefined
            if (taken) await happens.afterTaking?.()
            return taken
          },
        },
      },
      self: "late",
      lookEveryMs: 1,
      clock: { ...systemClock, sleep: async () => void (await happens.meanwhile?.()) },
      log: createLog({ level: "silent", process: "web" }),
    })
    late.begin()
    await until("it has done what it does", () => looks > 1)
    late.stop()
    return { asked, answer: await requests.answerToCommand(id) }
  }
  expect(await askedBy({})).toEqual({
    asked: [`unlockAccount ${user}`, `accountStatusChanged ${user}`],
    answer: { reply: 1 },
  })
  for (const happens of [another, outOfTime]) {
    expect(await askedBy({ afterTaking: happens })).toEqual({ asked: [], answer: undefined })
    expect(await askedBy({ meanwhile: happens })).toEqual({ asked: [`unlockAccount ${user}`], answer: undefined })
  }
})

test("STAT1: a locked user is told, signed out and not let in, their bots are refused, until the lock ends", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  const places = [shared.east, shared.west]
  const live = await Promise.all([
    identified(shared.east, ada.token),
    identified(shared.west, ada.token),
    identified(shared.west, bot.token),
  ])
  const resumable = ada.gateway(shared.east)
  await resumable.connect()
  for (const place of places) for (const token of [ada.token, bot.token]) await send(place, me, { token })

  expect(await operator.command(ada.id, "lockAccount", { until: 9_999_999_999, reason: "spam" })).toMatchObject({
    reply: { sessions: 1 },
  })
  for (const each of live) {
    expect((await each.event("SECURITY_LOGOUT")).d).toMatchObject({ message: "Account suspended" })
    expect(await each.ended).toEqual(closedWith("authentication_failed"))
  }
  expect(await resumable.ended()).toMatchObject(closedWith("authentication_failed"))
  for (const place of places) {
    const asBot = await send(place, me, { token: bot.token, route: routes.getMe })
    expect(asBot).toMatchObject({ code: "account_suspended", body: { error: { reason: "spam" } } })
    expect((await send(place, me, { token: ada.token })).code).toBe("revoked_token")
    for (const token of [ada.token, bot.token]) {
      const identifying = await open(place)
      identifying.say({ op: 2, d: { token } })
      expect(await identifying.ended).toEqual(closedWith("authentication_failed"))
    }
  }
  const resuming = await open(shared.west)
  resuming.say({ op: 6, d: { token: bot.token, session_id: "0".repeat(32), seq: 1 } })
  expect(await resuming.ended).toEqual(closedWith("authentication_failed"))
  const signIn = (password: string) =>
    send(shared.east, "/api/v1/auth/login", {
      route: routes.login,
      body: { username: ada.username, password },
    })
  expect(await signIn(ada.password)).toMatchObject({ code: "account_locked", body: { error: { reason: "spam" } } })
  expect(await signIn("wrong")).toMatchObject({ code: "invalid_credentials" })

  // Failed sign-ins are forgotten, too. A bot has its token still, and a bot that is locked itself as well.
  for (let i = 0; i < 5; i++) await signIn("wrong")
  expect(await operator.command(ada.id, "unlockAccount")).toEqual({ reply: { wasLocked: true } })
  for (const place of places) expect((await send(place, me, { token: bot.token })).status).toBe(200)
  const again = await ada.signIn(shared.east)
  for (const place of places) expect((await send(place, me, { token: again.token })).status).toBe(200)
  expect(await operator.command(ada.id, "unlockAccount")).toEqual({ reply: { wasLocked: false } })
  expect(await operator.command(bot.id, "lockAccount", { until: 9_999_999_999, reason: null })).toEqual({
    reply: { sessions: 1 },
  })
  for (const place of places) expect((await send(place, me, { token: bot.token })).code).toBe("account_suspended")
  await operator.command(bot.id, "unlockAccount")
  ;(await identified(shared.west, bot.token)).close()
})

test("STAT1: nobody who signs in while they are locked has a session afterwards", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const { username, password } = ada
  const places = [shared.east, shared.west]
  const signIns = Array.from({ length: 8 }, (_, i) =>
    clientAt(places[i % 2]!)
      .login({ username, password })
      .then(
        ({ token }) => token!,
        () => undefined,
      ),
  )
  const lock = { type: "lockAccount", until: 9_999_999_999, reason: null } as const
  await Promise.all([shared.west.node.ask(userActor, ada.id, lock), ...signIns])
  const tokens = (await Promise.all(signIns)).filter(token => token !== undefined)
  for (const place of places)
    for (const token of [ada.token, ...tokens]) expect((await send(place, me, { token })).code).toBe("revoked_token")
  expect(await shared.sql`SELECT 1 FROM sessions WHERE user_id = ${ada.id}`).toHaveLength(0)
  await operator.command(ada.id, "unlockAccount")
  await ada.signIn(shared.east)
})

test("TOK2: a lock ends at its time, and one that a cache does not know of yet holds at the gateway all the same", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  await operator.command(ada.id, "lockAccount", { until: inSeconds(3), reason: null })
  expect(await meCode(shared, bot.token)).toBe("account_suspended")
  await until("the time is over", async () => (await meCode(shared, bot.token)) === undefined)
  await ada.signIn(shared.west)

  const lin = await shared.person("lin")
  expect(await meCode(shared, lin.token)).toBeUndefined()
  await shared.sql`UPDATE users SET locked_until = 9999999999 WHERE id = ${lin.id}`
  expect(await meCode(shared, lin.token)).toBeUndefined()
  const raw = await open(shared.east)
  raw.say({ op: 2, d: { token: lin.token } })
  expect(await raw.ended).toEqual(closedWith("authentication_failed"))
})

test("a frozen account and its bots are kept out of the gateway", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  await shared.sql`UPDATE users SET deletion_status = 'frozen', deletion_at = ${inSeconds(1000)} WHERE id = ${ada.id}`
  await operator.command(bot.id, "issueBotToken", { token_hash: hashSecret(bot.token.split(".")[2]!) })
  for (const token of [ada.token, bot.token]) {
    const raw = await open(shared.east)
    raw.say({ op: 2, d: { token } })
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  }
  expect(await send(shared.west, me, { token: bot.token, route: routes.getMe })).toMatchObject({
    code: "account_deleted",
  })
})

test("a user who has to take another name can do little else, but stays connected", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  await ada.on(shared.west).listServers()
  const live = await identified(shared.east, ada.token)
  await operator.command(ada.id, "forceRename", { reason: "impersonation" })
  const refused = await send(shared.west, "/api/v1/servers", { token: ada.token, route: routes.listServers })
  expect(refused).toMatchObject({ code: "username_change_required", body: { error: { reason: "impersonation" } } })
  expect((await ada.on(shared.east).getMe()).username).toBe(ada.username)
  for (const [, route] of Object.entries<Route>(routes).filter(
    ([, { auth, isForRenaming }]) => auth === "user" && !isForRenaming,
  )) {
    const path = `/api/v1${route.path.replaceAll(/:\w+/g, "1")}`
    expect((await send(shared.east, path, { route, token: ada.token })).code).toBe("username_change_required")
  }
  const another = await identified(shared.west, ada.token)
  for (const raw of [live, another]) {
    raw.say({ op: 1, d: null })
    await raw.op(11)
    raw.close()
  }
  const username = shared.newName("renamed")
  await ada.on(shared.east).editMe({ username })
  expect(await ada.on(shared.west).listServers()).toEqual([])
})

test("an administrator has rights as soon as, and only as long as, the operator says", async ({ shared }) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const bot = await newBot(operator, ada, shared.newName("helper"))
  const { listTiers } = clientAt(shared.west, ada.token)
  expect(await refusal(listTiers())).toBe("administrator_only")
  const set = (isGranted: boolean, user = ada.id) =>
    operator.command(user, "setPermission", { permission: "administrator", isGranted })
  for (const _ of ["", "again"]) expect(await set(true)).toEqual({ reply: { permissions: ["administrator"] } })
  await listTiers()
  // Of its owner's powers a bot has none.
  expect(await refusal(clientAt(shared.east, bot.token).listTiers())).toBe("administrator_only")
  await set(true, bot.id)
  await clientAt(shared.east, bot.token).listTiers()
  for (const _ of ["", "again"]) expect(await set(false)).toEqual({ reply: { permissions: [] } })
  expect(await refusal(listTiers())).toBe("administrator_only")
})
