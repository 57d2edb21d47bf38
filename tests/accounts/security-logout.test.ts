/** An operator ends all sessions of a user, or of everybody. */
import { refusal } from "../kit/conformance.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import type { Person } from "../kit/person.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const boot = async (cluster: Cluster) => (await cluster.boot(2, { topology: attentive })) as [Worker, Worker]
const names = (raw: Raw) => raw.frames.map(({ t, op }) => t ?? op)
const sessionOf = (raw: Raw) => (raw.frames.find(({ t }) => t === "READY")!.d as { session_id: string }).session_id
const sessionsOf = async ({ sql }: Cluster, { id }: Person) =>
  (await sql`SELECT 1 FROM sessions WHERE user_id = ${id}`).length

test("P12: a forced logout tells every session of the user, closes it with 4004, and no worker takes its tokens any more", async ({
  cluster,
}) => {
  const workers = await boot(cluster)
  const [east, west] = workers
  const operator = operatorOf(cluster)
  const { ada, lin } = await cluster.seed(sharedServer)
  const second = await lin.signIn(west)
  const live = await Promise.all([
    identified(east, lin.token),
    identified(west, lin.token, { query: "?encoding=msgpack" }),
    identified(west, second.token, { d: { compress: true, intents: 0 } }),
  ])
  const bystander = await identified(west, ada.token)

  expect(await operator.outcome(await operator.requests.forceLogout(lin.id, "Security logout"))).toEqual({ ended: 2 })
  for (const place of workers)
    for (const who of [lin, second]) expect(await refusal(who.on(place).getMe())).toBe("revoked_token")
  for (const raw of live) {
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
    expect(names(raw)).toEqual([10, "READY", "SECURITY_LOGOUT"])
    expect(raw.frames.at(-1)!.d).toEqual({ user_id: lin.id, message: "Security logout" })
  }
  expect(await sessionsOf(cluster, lin)).toBe(0)

  const again = await open(east)
  again.say({ op: 6, d: { token: lin.token, session_id: sessionOf(live[0]), seq: live[0].frames.at(-1)!.s } })
  expect((await again.op(9)).d).toBe(false)
  again.say({ op: 2, d: { token: second.token } })
  expect(await again.ended).toEqual(closedWith("authentication_failed"))

  const anew = await lin.signIn(east)
  const back = await identified(west, anew.token)
  back.say({ op: 1 })
  await back.op(11)
  expect(names(bystander)).toEqual([10, "READY"])
  // Nothing is left to end but the new session; the next time nothing at all.
  expect(await operator.outcome(await operator.requests.forceLogout(lin.id, "Security logout"))).toEqual({ ended: 1 })
  expect(await operator.outcome(await operator.requests.forceLogout(lin.id, "Security logout"))).toEqual({ ended: 0 })
  expect(await back.ended).toEqual(closedWith("authentication_failed"))
  bystander.close()
})

test("a forced logout of nobody is refused; two at once are done once each", async ({ cluster }) => {
  await boot(cluster)
  const operator = operatorOf(cluster)
  expect(await operator.outcome(await operator.requests.forceLogout("4711", "Security logout"))).toEqual({
    refusal: "user_not_found",
  })
  const people = await Promise.all(Array.from({ length: 6 }, () => cluster.person()))
  const requests = await Promise.all(
    [...people, ...people].map(({ id }) => operator.requests.forceLogout(id, "Security logout")),
  )
  const outcomes = await Promise.all(requests.map(request => operator.outcome(request)))
  const counts = outcomes.map(outcome => (outcome as { ended: number }).ended)
  for (const i of people.keys()) expect(counts[i]! + counts[i + people.length]!).toBe(1)
})

test("a request whose worker died is taken by another; one of which workers die again and again is given up", async ({
  cluster,
}) => {
  const operator = operatorOf(cluster)
  const [worker] = await cluster.boot(1, { topology: attentive })
  const [ada, lin] = await Promise.all([cluster.person("ada"), cluster.person("lin")])
  await worker!.stop()
  const [taken, poisonous, foreign] = await Promise.all(
    [ada, lin, lin].map(({ id }) => operator.requests.forceLogout(id, "Security logout")),
  )
  const { sql } = cluster
  await sql`UPDATE operator_requests SET taken_by = 'dead', taken_until = now() - interval '1 second', attempts = 1 WHERE id = ${taken!}`
  await sql`UPDATE operator_requests SET taken_by = 'dead', taken_until = now() - interval '1 second', attempts = 5 WHERE id = ${poisonous!}`
  await sql`UPDATE operator_requests SET taken_by = 'alive', taken_until = now() + interval '1 hour' WHERE id = ${foreign!}`
  // It takes the first before it has a shard to ask, and comes back to it.
  await cluster.boot(1, { topology: { ...attentive, bus: { askTimeoutMs: 2_000 } } })
  expect(await operator.outcome(taken!)).toEqual({ ended: 1 })
  expect(await operator.outcome(poisonous!)).toEqual({ refusal: "internal" })
  expect(await operator.requests.answerTo(foreign!)).toBeUndefined()
  expect(await sessionsOf(cluster, lin)).toBe(1)
})

test("a request that fails each time it is tried is given up, and holds up no other; what cannot be done now is no failure", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const ada = await cluster.person("ada")
  // Nobody can be asked for it.
  const [poisonous] = await cluster.sql<{ id: string }[]>`
    INSERT INTO operator_requests (kind, message, attempts) VALUES ('force_logout', 'Security logout', 3) RETURNING id::text`
  const request = await operator.requests.forceLogout(ada.id, "Security logout")
  expect(await operator.outcome(request)).toEqual({ ended: 1 })
  expect(await operator.outcome(poisonous!.id)).toEqual({ refusal: "internal" })

  await worker!.stop()
  const put = await operator.requests.forceLogout(ada.id, "Security logout")
  const attempts = async (id: string) =>
    (await cluster.sql<{ attempts: number }[]>`SELECT attempts FROM operator_requests WHERE id = ${id}`)[0]!.attempts
  expect(await operator.requests.take("taker")).toMatchObject({ id: put })
  expect(await attempts(put)).toBe(1)
  await operator.requests.putBack(put, "taker", false)
  expect(await attempts(put)).toBe(0)
})

test("a logout of everybody goes on past a user whose sessions cannot be ended, counts them, and counts on from the worker that had it before", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const people = await Promise.all(Array.from({ length: 5 }, () => cluster.person()))
  const stuck = people[2]!
  const { sql } = cluster
  await sql`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'check_violation'; END $$`
  await sql.unsafe(
    `CREATE TRIGGER refuse BEFORE DELETE ON sessions FOR EACH ROW WHEN (OLD.user_id = ${stuck.id}) EXECUTE FUNCTION refuse()`,
  )
  await worker!.stop()
  const request = await operator.requests.logoutAll()
  // As if the worker before had died after seven.
  await sql`
    UPDATE operator_requests SET taken_by = 'dead', taken_until = now() - interval '1 second', attempts = 1, ended = 7 WHERE id = ${request}`
  const [next] = await cluster.boot(1, { topology: attentive })
  expect(await operator.outcome(request)).toEqual({ ended: 7 + 4, failed: 1 })
  expect(cluster.errors.splice(0)).toEqual([expect.stringContaining("turn refused by the database")])
  for (const person of people) {
    expect(await sessionsOf(cluster, person)).toBe(person === stuck ? 1 : 0)
    expect(await refusal(person.on(next!).getMe())).toBe("revoked_token")
  }
})

test("P12: everybody is logged out at once: told, closed with 4004, refused everywhere before a session is ended; users who log in again stay", async ({
  cluster,
}) => {
  const workers = await boot(cluster)
  const [east, west] = workers
  const operator = operatorOf(cluster)
  const { ada, lin } = await cluster.seed(sharedServer)
  const people = [ada, lin, ...(await Promise.all(Array.from({ length: 5 }, () => cluster.person())))]
  const live = await Promise.all(
    people.flatMap(({ token }) => [
      identified(east, token, { d: { intents: 0 } }),
      identified(west, token, { query: "?encoding=msgpack" }),
      identified(west, token, { d: { compress: true } }),
    ]),
  )
  const strangers = await Promise.all(workers.map(worker => open(worker)))
  // What is in the cache of tokens.
  for (const place of workers) for (const person of people) await person.on(place).getMe()

  // Nobody takes the sessions away for now.
  await cluster.sql`
    ALTER TABLE operator_requests ALTER taken_by SET DEFAULT 'nobody', ALTER taken_until SET DEFAULT now() + interval '1 hour'`
  const request = await operator.requests.logoutAll()
  await until("every worker refuses", async () => {
    const answers = await Promise.allSettled(workers.map(place => lin.on(place).getMe()))
    return answers.every(({ status }) => status === "rejected")
  })
  for (const place of workers)
    for (const person of people) expect(await refusal(person.on(place).getMe())).toBe("revoked_token")
  const anew = await lin.signIn(west)
  const stays = await identified(east, anew.token)

  const told = { state: "shutting_down", message: "Security reset", closing_in_seconds: 2 }
  for (const [i, raw] of live.entries()) {
    expect(await raw.ended).toEqual(closedWith("security_reset"))
    expect(names(raw)).toEqual([10, "READY", "SECURITY_LOGOUT", 12])
    const [logout, status] = raw.frames.slice(-2)
    expect(logout!.d).toEqual({ user_id: people[Math.floor(i / 3)]!.id, message: "Security logout" })
    expect(status!.d).toEqual(told)
  }
  for (const raw of strangers) {
    expect(await raw.ended).toEqual(closedWith("security_reset"))
    expect(names(raw)).toEqual([10])
  }
  for (const token of [ada.token, lin.token])
    expect(await new Raw(west, { first: { op: 2, d: { token } } }).ended).toEqual(closedWith("authentication_failed"))
  const again = await open(west)
  again.say({ op: 6, d: { token: ada.token, session_id: sessionOf(live[1]!), seq: live[1]!.frames.at(-2)!.s } })
  expect((await again.op(9)).d).toBe(false)
  again.close()
  for (const person of people) expect(await sessionsOf(cluster, person)).toBe(person === lin ? 2 : 1)

  await cluster.sql`UPDATE operator_requests SET taken_until = now() WHERE id = ${request}`
  expect(await operator.outcome(request)).toEqual({ ended: people.length })
  for (const person of people) expect(await sessionsOf(cluster, person)).toBe(person === lin ? 1 : 0)
  stays.say({ op: 1 })
  await stays.op(11)
  for (const place of workers) expect((await anew.on(place).getMe()).id).toBe(lin.id)
  expect(names(stays)).toEqual([10, "READY", 11])
  stays.close()

  // A worker that starts later knows it, too.
  const [late] = await cluster.boot(1, { topology: attentive })
  expect(await refusal(ada.on(late!).getMe())).toBe("revoked_token")
  expect((await anew.on(late!).getMe()).id).toBe(lin.id)
})

test("a user who has logged in again before their worker hears of the logout of everybody stays, and is told nothing", async ({
  cluster,
}) => {
  // It is announced to nobody, and looked for rarely enough that there is time for it.
  await cluster.sql`ALTER TABLE service DISABLE TRIGGER service_announced`
  await cluster.sql`ALTER TABLE operator_requests DISABLE TRIGGER operator_requests_announced`
  const [worker] = await cluster.boot(1, {
    limited: true,
    topology: { service: { lookEveryMs: 3_000, restMs: 3_000 } },
  })
  const ada = await cluster.person("ada")
  const before = await identified(worker!, ada.token)
  await operatorOf(cluster).requests.logoutAll()
  const anew = await ada.signIn(worker!)
  const after = await identified(worker!, anew.token)
  expect(await before.ended).toEqual(closedWith("security_reset"))
  after.say({ op: 1 })
  await after.op(11)
  expect(names(after)).toEqual([10, "READY", 11])
  expect((await anew.on(worker!).getMe()).id).toBe(ada.id)
  expect(await refusal(ada.on(worker!).getMe())).toBe("revoked_token")
  after.close()
})

test("a logout of everybody goes through thousands of users in batches, also when the worker that does it ends", async ({
  cluster,
}) => {
  const [first] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const count = 1_000
  await cluster.sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT (86400000::bigint + n << 22) | ((n::bigint % 64 * 16) << 12), 'user_' || n, 'user_' || n || '@example.invalid', 1704153600 FROM generate_series(1, ${count}) AS n`
  await cluster.sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT id + m, id, id || ' ' || m, '127.0.0.1', 'starling-tests', 1704153600, 4102444800, 1704153600 FROM users, generate_series(0, 1) AS m`
  const left = async () => (await cluster.sql`SELECT 1 FROM sessions`).length
  const request = await operator.requests.logoutAll()
  await until("some are gone", async () => (await left()) < 2 * count)
  await first!.stop()
  // As if its time were over.
  await cluster.sql`UPDATE operator_requests SET taken_until = now() WHERE done_at IS NULL`
  await cluster.boot(1, { topology: attentive })
  await until("all are gone", async () => (await left()) === 0, { timeoutMs: 60_000 })
  expect(await operator.outcome(request)).toEqual({ ended: expect.any(Number) as number })
}, 90_000)
