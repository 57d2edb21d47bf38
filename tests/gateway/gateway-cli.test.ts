/** `npm run gateway`: the stream for people, as the program itself. */
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { onTestFinished, vi } from "vitest"
import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import { balancer } from "../kit/balancer.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

// Each start of the program compiles it.
vi.setConfig({ testTimeout: 120_000 })

const root = fileURLToPath(new URL("../..", import.meta.url))

/** The program with its output so far. */
function gateway(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, ["--import", "tsx", "demo/watch.ts", ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], ...env },
  })
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const ended = new Promise<number | string>(resolve => {
    child.once("close", (code, signal) => resolve(signal ?? code!))
  })
  onTestFinished(async () => {
    child.kill("SIGKILL")
    await ended
  })
  return {
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    lines: () => stdout.split("\n").filter(Boolean),
    shows: (what: string | RegExp) =>
      until(`it shows ${what}`, () => (typeof what === "string" ? stdout.includes(what) : what.test(stdout)), {
        timeoutMs: 30_000,
      }),
    interrupt: () => child.kill("SIGINT"),
  }
}
const socket = (url: string) => `${url.replace("http", "ws")}/gateway`

test("the stream shows events, states and a resume in lines, and Ctrl-C ends it in order", async ({ cluster }) => {
  const front = await balancer()
  const [east, west] = await cluster.boot(2, { config: { PUBLIC_URL: front.url } })
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  front.lead(east)
  const run = gateway(["--token", lin.token, "--url", socket(front.url)])
  await run.shows(`as ${lin.username}`)
  const post = (content: string) => ada.on(west!).createMessage({ channel_id: channel.id, content })
  await post("hello \u001b[31mthere")
  await run.shows(`in ${channel.id} ${ada.username}: hello \\u{1b}[31mthere`)
  expect(run.stdout()).toMatch(/^[\d:.]{12} +\d+ +MESSAGE_CREATE +in /m)
  front.lead(undefined)
  front.cut()
  await run.shows("it comes back by itself")
  await post("missed")
  front.lead(west)
  await run.shows("resumed after")
  await run.shows(`${ada.username}: missed`)
  expect(run.stdout()).not.toContain("\u001b")
  run.interrupt()
  expect(await run.ended).toBe(0)
  expect(run.lines().at(-1)).toMatch(/closed: bye$/)
  expect(run.stderr()).toBe("")
  await until("the server has seen it go", () => west!.gateway.connections === 0)
})

test("it logs in, speaks compressed MessagePack, and writes JSON for programs", async ({ shared }) => {
  const { ada, channel } = await shared.seed(sharedServer)
  const args = [
    "--login",
    ada.username,
    "--url",
    socket(shared.east.url),
    "--json",
    "--encoding",
    "msgpack",
    "--intents",
    "512",
  ]
  const run = gateway(args, { STARLING_PASSWORD: ada.password })
  await run.shows('"state":"live"')
  const sent = await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "\u009b31m" })
  await run.shows("MESSAGE_CREATE")
  expect(run.stdout()).not.toContain("\u009b")
  const lines = run.lines().map(line => JSON.parse(line) as { t?: string; d?: unknown; state?: string; s?: number })
  expect(lines.map(({ t, state }) => t ?? state)).toEqual(["connecting", "live", "MESSAGE_CREATE"])
  expect(lines.at(-1)).toMatchObject({ d: { ...sent, read: false }, s: expect.any(Number) as number })
  run.interrupt()
  expect(await run.ended).toBe(0)
})

test("colours come only where they are wanted", async ({ shared }) => {
  const ada = await shared.person("ada")
  const run = gateway(["--token", ada.token, "--url", shared.east.url], { FORCE_COLOR: "1" })
  await run.shows("live")
  expect(run.stdout()).toContain("\u001b[32m")
  run.interrupt()
  expect(await run.ended).toBe(0)
})

test("a final close ends the program, with the reason in words", async ({ shared }) => {
  const ada = await shared.person("ada")
  const refused = gateway(["--token", "nonsense", "--url", shared.east.url])
  expect(await refused.ended).toBe(1)
  expect(refused.stderr()).toBe(
    `The server ended the session: 4004, Authentication failed, ${closeCodes.authentication_failed.summary}\n`,
  )
  const run = gateway(["--url", shared.east.url], { STARLING_TOKEN: ada.token })
  await run.shows("live")
  await ada.on(shared.west).logout()
  expect(await run.ended).toBe(1)
  expect(run.stderr()).toContain("4004")
})

test("a wrong password, a wrong argument and no argument say so", async ({ shared }) => {
  const ada = await shared.person("ada")
  const ends = async (args: string[], env: Record<string, string> = {}) => {
    const run = gateway(args, env)
    expect(await run.ended).toBe(1)
    expect(run.stderr()).not.toMatch(/\n {4}at /)
    return run.stderr()
  }
  const wrong = ends(["--login", ada.username, "--url", shared.east.url], { STARLING_PASSWORD: "Wrong-Horse-9" })
  expect(await wrong).toContain("Invalid credentials")
  expect(await ends(["--login", ada.username, "--url", shared.east.url])).toContain("STARLING_PASSWORD")
  expect(await ends([])).toContain("npm run gateway -- --token")
  expect(await ends(["--token", "x", "--url", "file:///etc"])).toContain("--url takes")
})
