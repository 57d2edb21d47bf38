/** `npm run operator` beside a server that runs with everything embedded, as `npm start` does. */
import { execFile } from "node:child_process"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { onTestFinished } from "vitest"
import { Person, clientAt } from "./kit/person.ts"
import { refusal } from "./kit/conformance.ts"
import { startProcesses } from "./kit/processes.ts"
import { closedWith, identified } from "./kit/raw.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

const program = fileURLToPath(new URL("../dist/src/operator.js", import.meta.url))

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

test("an operator speaks to a running server with nothing but its folder of data", async () => {
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
    out: "198.51.100.0/24 is let in again",
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

  for (const [words, what] of [
    [[], /npm run operator/],
    [["dance"], /dance is no command/],
    [["state", "asleep"], /state: /],
    [["state", "running", "twice"], /state takes STATE/],
    [["state", "--message", "x"], /which state/],
    [["state", "maintenance", "--message", "x".repeat(501)], /message: must have 0 to 500 characters/],
    [["state", "maintenance", "--downtime", "-5"], /downtime/],
    [["state", "maintenance", "--restart-at", "tomorrow"], /--restart-at takes/],
    [["state", "maintenance", "--nonsense"], /nonsense/],
    [["force-logout"], /takes USER/],
    [["block", "localhost"], /is no IP address/],
    [["block", "198.51.100.9", "--hours", "0"], /--hours takes/],
    [["block", "198.51.100.9", "--reason", "x".repeat(501)], /--reason takes/],
  ] as const) {
    const run = await operator(...words)
    expect([words.join(" ").slice(0, 60), run.code, run.out]).toEqual([words.join(" ").slice(0, 60), 2, ""])
    expect(run.said).toMatch(what)
  }
  for (const [words, what] of [
    [["force-logout", "nobody"], /there is no user nobody/],
    [["force-logout", "9999999999999999999"], /there is no user/],
    [["block", "127.0.0.1"], /cannot be blocked/],
    [["block", "::/0"], /cannot be blocked/],
  ] as const) {
    const run = await operator(...words)
    expect([run.code, run.out]).toEqual([1, ""])
    expect(run.said).toMatch(what)
  }
}, 240_000)

test("without a server, or with a configuration that is wrong, the operator is told so", async () => {
  const DATA_DIR = await folder()
  const nothing = await operatorWith({ DATA_DIR })("state")
  expect(nothing.code).toBe(1)
  expect(nothing.said).toContain("no PostgreSQL runs there")
  const away = await operatorWith({ DATABASE_URL: "postgres://nobody:nothing@127.0.0.1:9/nowhere" })("state")
  expect(away.code).toBe(1)
  expect(away.said).toContain("the database does not answer")
  const wrong = await operatorWith({ DATA_DIR, PORT: "no" })("state")
  expect(wrong.code).toBe(2)
  expect(wrong.said).toContain("PORT")
})
