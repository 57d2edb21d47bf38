/** `npm run operator` beside a server that runs with everything embedded, as `npm start` does. */
import { execFile } from "node:child_process"
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { fileURLToPath } from "node:url"
import { generateSync } from "otplib"
import { onTestFinished } from "vitest"
import { operator } from "../../src/process/operator/operator.ts"
import { Person, clientAt } from "../kit/person.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive } from "../kit/operator.ts"
import { startProcesses } from "../kit/processes.ts"
import { closedWith, identified } from "../kit/raw.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: attentive })
const program = fileURLToPath(new URL("../../dist/src/operator.js", import.meta.url))

interface Run {
  readonly code: number
  readonly out: string
  readonly said: string
}

/** The program for operators, with the environment of the server. */
const operatorWith =
  (env: Record<string, string>) =>
  (...words: string[]): Promise<Run> =>
    new Promise(resolve => {
      execFile(
        process.execPath,
        [program, ...words],
        { env: { PATH: process.env["PATH"], ...env }, timeout: 60_000 },
        (error, out, said) => resolve({ code: error ? Number(error.code) : 0, out: out.trim(), said: said.trim() }),
      )
    })

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-operator-"))
  await chmod(path, 0o755) // as root, PostgreSQL runs as another user
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

test("an operator reaches a running server with nothing but its data folder", async () => {
  const DATA_DIR = await folder()
  const server = await startProcesses({ DATA_DIR, WORKERS: "2", TRUSTED_PROXIES: "127.0.0.1" })
  onTestFinished(() => server.stop())
  const operator = operatorWith({ DATA_DIR })
  const ada = await Person.register(server, "ada")
  const lin = await Person.register(server, "lin")
  const status = () => clientAt(server).getStatus({})

  expect(await operator("state")).toEqual({ code: 0, out: "running", said: "" })
  const live = await identified(server, ada.token)
  expect(await operator("state", "restarting", "--message", "New version", "--downtime", "20")).toMatchObject({
    code: 0,
  })
  expect((await live.op(12)).d).toEqual({ state: "restarting", message: "New version", estimated_downtime_seconds: 20 })
  expect(await operator("state")).toMatchObject({ out: "restarting: New version" })
  expect(
    await operator("state", "maintenance", "--message", "Maintenance: soon over", "--restart-at", "2030-01-31T04:00Z"),
  ).toMatchObject({ code: 0 })
  expect(await live.ended).toEqual(closedWith("server_maintenance"))
  await until("both workers know", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, status))
    return answers.every(({ state, restart_at }) => state === "maintenance" && restart_at === 1_896_062_400)
  })
  expect(await operator("state", "running")).toMatchObject({ code: 0 })
  await until("both workers serve again", async () => {
    const answers = await Promise.allSettled(Array.from({ length: 8 }, () => ada.on(server).getMe()))
    return answers.every(answer => answer.status === "fulfilled")
  })

  expect(await operator("block", "::ffff:198.51.100.9/120", "--reason", "a flood", "--hours", "2")).toMatchObject({
    code: 0,
  })
  const blocks = await operator("blocks")
  expect(blocks.out).toMatch(/^198\.51\.100\.0\/24 {2}until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}a flood$/)
  const health = async () =>
    (await fetch(`${server.url}/health`, { headers: { "x-forwarded-for": "198.51.100.77", connection: "close" } }))
      .status
  await until("it is refused", async () =>
    (await Promise.all(Array.from({ length: 8 }, health))).every(code => code === 403),
  )
  expect(await operator("unblock", "198.51.100.0/24")).toEqual({
    code: 0,
    out: "198.51.100.0/24 is no longer blocked",
    said: "",
  })
  expect(await operator("unblock", "198.51.100.0/24")).toEqual({
    code: 0,
    out: "198.51.100.0/24 was not blocked",
    said: "",
  })
  expect(await operator("blocks")).toMatchObject({ out: "nothing is blocked" })

  const logged = await identified(server, lin.token)
  expect(await operator("force-logout", "LIN")).toEqual({ code: 0, out: "lin: 1 session ended", said: "" })
  expect((await logged.event("SECURITY_LOGOUT")).d).toEqual({ user_id: lin.id, message: "Security logout" })
  expect(await logged.ended).toEqual(closedWith("authentication_failed"))
  expect(await refusal(lin.on(server).getMe())).toBe("revoked_token")
  expect(await operator("force-logout", lin.id)).toMatchObject({ code: 0, out: "lin: 0 sessions ended" })

  // A name of digits, which may be somebody's id.
  await Person.register(server, "20300131")
  await Person.register(server, lin.id)
  expect(await operator("force-logout", "20300131")).toMatchObject({ code: 0, out: "20300131: 1 session ended" })
  const twofold = await operator("force-logout", lin.id)
  expect(twofold.code).toBe(1)
  expect(twofold.said).toContain(`${lin.id} is the id of lin and the name of`)
  expect(await operator("force-logout", "lin")).toMatchObject({ code: 0, out: "lin: 0 sessions ended" })

  const other = await identified(server, ada.token)
  const { code, out } = await operator("logout-all")
  expect([code, out.split("\n").at(-1)]).toEqual([0, "2 sessions ended"])
  expect(await other.ended).toEqual(closedWith("security_reset"))
  expect(await refusal(ada.on(server).getMe())).toBe("revoked_token")
  const anew = await ada.signIn(server)
  expect((await anew.on(server).getMe()).id).toBe(ada.id)

  const token = (await operator("bot", "create", "helper", "--owner", "ada")).out.split("\n")[1]
  expect(await clientAt(server, token).getMe()).toMatchObject({ username: "helper", email: null })
  const access = await operator("access-token", "create", "The app", "--scope", "127.0.0.0/8", "--scope", "::1")
  const asAda = (headers: Record<string, string>) =>
    fetch(`${server.url}/api/v1/users/@me`, {
      headers: { authorization: `Bearer ${anew.token}`, connection: "close", ...headers },
    })
  const statuses = async (headers: Record<string, string>) =>
    (await Promise.all(Array.from({ length: 8 }, () => asAda(headers)))).map(({ status }) => status)
  await until("both workers ask for it", async () => (await statuses({})).every(status => status === 401))
  expect(new Set(await statuses({ "x-api-access-token": access.out.split("\n")[1]! }))).toEqual(new Set([200]))
  expect(await operator("access-token", "revoke", "1")).toMatchObject({ code: 0 })
  await until("both workers are open", async () => (await statuses({})).every(status => status === 200))

  expect(await operator("dance")).toMatchObject({
    code: 2,
    out: "",
    said: expect.stringContaining("dance is not a command"),
  })
  expect(await operator("block", "::/0")).toMatchObject({
    code: 1,
    out: "",
    said: expect.stringContaining("cannot be"),
  })

  expect(await operator("secret-key", "forget")).toMatchObject({
    code: 1,
    said: expect.stringMatching(/the folder is in use by process/),
  })
  await server.stop()
  expect(await operator("secret-key", "forget")).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^the next server sets the new key/),
  })
}, 240_000)

test("an operator's commands on accounts and tokens are carried out, and invalid ones are refused", async ({
  shared,
}) => {
  const env = { DATABASE_URL: shared.databaseUrl }
  const say = (...words: string[]) => operator(words, env, Readable.from([]))
  const [server, west] = [shared.east, shared.west]
  const first = await Person.register(server, "ada")
  const lin = await Person.register(server, "lin")
  const live = await identified(server, first.token)
  expect(await say("lock", "ada", "--reason", "spam", "--hours", "3")).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^ada is locked until \d{4}-/),
  })
  expect(await live.ended).toEqual(closedWith("authentication_failed"))
  expect(await refusal(first.on(server).getMe())).toBe("revoked_token")
  expect(await refusal(first.signIn(west))).toBe("account_locked")
  expect(await say("unlock", first.id)).toEqual({ code: 0, out: "ada is unlocked", said: "" })
  const ada = await first.signIn(server)
  expect((await ada.on(server).getMe()).id).toBe(ada.id)
  expect(await say("unlock", "ada")).toMatchObject({ code: 0, out: "ada was not locked by an operator" })
  expect(await say("lock", "lin")).toMatchObject({ out: "lin is locked permanently" })
  expect(await say("unlock", "lin")).toMatchObject({ code: 0 })

  expect(await say("grant", "ada", "administrator")).toMatchObject({ out: "ada is an administrator" })
  await ada.on(server).listTiers()
  expect(await say("revoke-grant", "ada", "administrator")).toMatchObject({
    out: "ada is no longer an administrator",
  })
  expect(await refusal(ada.on(server).listTiers())).toBe("administrator_only")

  expect(await say("bot", "list", "ada")).toMatchObject({ out: "ada has no bots" })
  const made = await say("bot", "create", "helper_of_ada", "--owner", "ada")
  expect(made).toMatchObject({
    code: 0,
    out: expect.stringMatching(
      /^helper_of_ada is bot \d+\. The token is shown only once:\nbot\.\d+\.[A-Za-z0-9_-]{64}$/,
    ),
  })
  const token = made.out.split("\n")[1]!
  expect(await clientAt(server, token).getMe()).toMatchObject({ username: "helper_of_ada", email: null })
  expect(await say("bot", "list", "ada")).toMatchObject({ out: expect.stringMatching(/^\d+ {2}helper_of_ada$/) })
  const again = await say("bot", "token", "helper_of_ada")
  expect(await refusal(clientAt(server, token).getMe())).toBe("revoked_token")
  await clientAt(server, again.out.split("\n")[1]).getMe()
  expect(await say("bot", "revoke", "helper_of_ada")).toMatchObject({ out: "helper_of_ada no longer has a token" })
  expect(await refusal(clientAt(server, again.out.split("\n")[1]).getMe())).toBe("revoked_token")
  expect(await say("bot", "revoke", "helper_of_ada")).toMatchObject({ out: "helper_of_ada had no token" })
  expect(await say("bot", "list", "ada")).toMatchObject({ out: expect.stringMatching(/without a token$/) })

  // Access tokens.
  expect(await say("access-token", "list")).toMatchObject({ out: "there are no access tokens, so none is required" })
  const access = await say(
    "access-token",
    "create",
    "The app",
    "--scope",
    "127.0.0.0/8",
    "--scope",
    "::1",
    "--days",
    "30",
  )
  expect(access).toMatchObject({ code: 0, out: expect.stringMatching(/^access token 1 .*\n[A-Za-z0-9_-]{32}$/) })
  const statuses = (headers: Record<string, string>) =>
    Promise.all(
      [server, west].map(async place => (await send(place, "/api/v1/users/@me", { token: ada.token, headers })).status),
    )
  await until("both workers ask for it", async () => (await statuses({})).every(status => status === 401))
  expect(await statuses({ "x-api-access-token": access.out.split("\n")[1]! })).toEqual([200, 200])
  expect((await say("access-token", "list")).out).toMatch(/^1 {2}The app {2}until \S+ {2}enforce 127\.0\.0\.0\/8, ::1$/)
  expect(await say("access-token", "revoke", "1")).toMatchObject({
    code: 0,
    out: expect.stringContaining("It was the last one"),
  })
  await until("both workers are open", async () => (await statuses({})).every(status => status === 200))

  // One that the operator has chosen, which comes in pieces and is shown nowhere.
  const saying = (text: string) =>
    operator(
      ["access-token", "create", "Chosen", "--token-stdin"],
      env,
      Readable.from([text.slice(0, 7), text.slice(7)]),
    )
  for (const [text, what] of [
    ["", /a token has 32 to 128 characters/],
    [`${"x".repeat(31)}\n`, /a token has 32 to 128 characters/],
    ["x".repeat(129), /a token has 32 to 128 characters/],
    [`${"x".repeat(32)},${"y".repeat(32)}`, /a token has 32 to 128 characters/],
    [`${"x".repeat(32)} ${"y".repeat(32)}`, /a token has 32 to 128 characters/],
  ] as const) {
    const run = await saying(text)
    expect([run.code, run.out]).toEqual([2, ""])
    expect(run.said).toMatch(what)
    if (text !== "") expect(run.said).not.toContain(text.trim())
  }
  const chosen = `Chosen.by-the_operator~${"x".repeat(105)}`
  expect(await saying(`${chosen}\n`)).toEqual({
    code: 0,
    out: expect.stringMatching(/^access token \d+ is required within a second or so$/),
    said: "",
  })
  await until("both workers ask for it", async () => (await statuses({})).every(status => status === 401))
  expect(await statuses({ "x-api-access-token": chosen })).toEqual([200, 200])
  const taken = { code: 1, out: "", said: expect.stringContaining("this token is or was in use") }
  expect(await saying(chosen)).toEqual(taken)
  const [id] = (await say("access-token", "list")).out.split("  ")
  expect(await say("access-token", "revoke", id!)).toMatchObject({ code: 0 })
  expect(await saying(chosen)).toEqual(taken)
  await until("both workers are open", async () => (await statuses({})).every(status => status === 200))

  await (await lin.signIn(server)).on(server).deleteAccount({ password: lin.password })
  expect(await refusal(lin.signIn(server))).toBe("account_deleted")
  expect(await say("cancel-deletion", "lin")).toMatchObject({
    out: "lin: deletion cancelled; the user can sign in again",
  })
  const back = await lin.signIn(west)

  // A second factor that is lost, with a challenge open; one that was never confirmed; none.
  const { secret } = await back.on(server).enableTwoFactor({ password: lin.password })
  await back.on(server).confirmTwoFactor({ code: generateSync({ secret }) })
  const { challenge_token } = await clientAt(west).login({ username: "lin", password: lin.password })
  expect(await say("second-factor", "off", "lin")).toMatchObject({
    code: 0,
    out: "lin now signs in with the password only; invalidated backup codes: 10",
  })
  for (const place of [server, west]) {
    expect(await back.on(place).getMe()).toMatchObject({ totp_enabled: false })
    expect(await back.on(place).getTwoFactorStatus()).toEqual({ enabled: false, backup_codes_remaining: 0 })
  }
  expect(
    await refusal(
      clientAt(west).completeTwoFactor({ challenge_token: challenge_token!, code: generateSync({ secret }) }),
    ),
  ).toBe("used_challenge")
  await back.signIn(west)
  const waiting = await back.on(west).enableTwoFactor({ password: lin.password })
  expect(await say("second-factor", "off", lin.id)).toMatchObject({
    out: expect.stringContaining("an unconfirmed setup was removed"),
  })
  expect(await refusal(back.on(west).confirmTwoFactor({ code: generateSync({ secret: waiting.secret }) }))).toBe(
    "second_factor_not_started",
  )
  expect(await say("second-factor", "off", "lin")).toMatchObject({ code: 0, out: "lin had no second factor" })

  expect(await say("rename", "ada", "--reason", "impersonation")).toMatchObject({
    out: "ada must choose another name",
  })
  expect(await refusal(ada.on(server).listServers())).toBe("username_change_required")

  for (const [words, what] of [
    [["lock"], /takes USER/],
    [["lock", "ada", "--hours", "x"], /--hours takes a whole number/],
    [["rename", "ada", "--reason", "x".repeat(501)], /--reason takes/],
    [["second-factor", "off"], /takes USER/],
    [["second-factor"], /second-factor is not a command/],
    [["secret-key", "forget", "it"], /takes nothing/],
    [["access-token", "create", "x", "--token-stdin=x"], /token-stdin/],
    [["grant", "ada", "root"], /the only permission is administrator/],
    [["bot"], /bot is not a command/],
    [["bot", "create", "x", "--owner", "ada"], /x: Username/],
    [["bot", "create", "has space", "--owner", "ada"], /has space: Username/],
    [["bot", "create", "system", "--owner", "ada"], /reserved/],
    [["bot", "create", "helper"], /--owner is required/],
    [["access-token", "create", " "], /a name has/],
    [["access-token", "create", "x", "--scope", "nowhere"], /--scope: nowhere is not an IP/],
    [["access-token", "create", "x", "--mode", "shout"], /--mode takes/],
    [["access-token", "create", "x", "--days", "0"], /--days takes/],
    [[], /npm run operator/],
    [["dance"], /dance is not a command/],
    [["state", "asleep"], /state: /],
    [["state", "running", "twice"], /state takes STATE/],
    [["state", "--message", "x"], /which state/],
    [["state", "maintenance", "--message", "x".repeat(501)], /message: must have 0 to 500 characters/],
    [["state", "maintenance", "--downtime", "-5"], /downtime/],
    [["state", "maintenance", "--restart-at", "tomorrow"], /--restart-at takes/],
    [["state", "maintenance", "--nonsense"], /nonsense/],
    [["force-logout"], /takes USER/],
    [["block", "localhost"], /is not an IP address/],
    [["block", "198.51.100.9", "--hours", "0"], /--hours takes/],
    [["block", "198.51.100.9", "--reason", "x".repeat(501)], /--reason takes/],
  ] as const) {
    const run = await say(...words)
    expect([words.join(" ").slice(0, 60), run.code, run.out]).toEqual([words.join(" ").slice(0, 60), 2, ""])
    expect(run.said).toMatch(what)
  }
  for (const [words, what] of [
    [["bot", "create", "helper_of_ada", "--owner", "ada"], /there already is a helper_of_ada/],
    [["bot", "create", "helper_2", "--owner", "helper_of_ada"], /is a bot/],
    [["bot", "create", "helper_2", "--owner", "nobody"], /no such user: nobody/],
    [["bot", "token", "ada"], /ada is not a bot/],
    [["rename", "helper_of_ada"], /is a bot/],
    [["cancel-deletion", "ada"], /ada is not scheduled for deletion/],
    [["second-factor", "off", "nobody"], /no such user: nobody/],
    [["secret-key", "forget"], /servers are still connected to the database: w\d-/],
    [["access-token", "revoke", "1"], /no such access token: 1/],
    [["access-token", "revoke", "x"], /no such access token: x/],
    [["force-logout", "nobody"], /no such user: nobody/],
    [["force-logout", "9999999999999999999"], /no such user/],
    [["block", "127.0.0.1"], /cannot be blocked/],
    [["block", "::/0"], /cannot be blocked/],
  ] as const) {
    const run = await say(...words)
    expect([run.code, run.out]).toEqual([1, ""])
    expect(run.said).toMatch(what)
  }
})

test("without a server, or with a configuration that is wrong, the operator is told so", async () => {
  const DATA_DIR = await folder()
  const nothing = await operatorWith({ DATA_DIR })("state")
  expect(nothing.code).toBe(1)
  expect(nothing.said).toContain("no PostgreSQL runs there")
  const away = await operatorWith({ DATABASE_URL: "postgres://nobody:nothing@127.0.0.1:9/nowhere" })("state")
  expect(away.code).toBe(1)
  expect(away.said).toContain("the database does not respond")
  const stopped = await operatorWith({ DATA_DIR })("secret-key", "forget")
  expect(stopped.code).toBe(1)
  expect(stopped.said).toContain("no PostgreSQL found")
  expect(await readdir(DATA_DIR)).toEqual([])
  const wrong = await operatorWith({ DATA_DIR, PORT: "no" })("state")
  expect(wrong.code).toBe(2)
  expect(wrong.said).toContain("PORT")
})
