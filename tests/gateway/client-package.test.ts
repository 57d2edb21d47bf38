/** The client as authors get it: packed, installed into an empty project, and used. */
import { execFile, spawn } from "node:child_process"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { beforeAll, onTestFinished, type TestContext } from "vitest"
import { freePort } from "../../src/std/child-server.ts"
import { startBrowser } from "../kit/browser.ts"
import { requireNode24, requireRuntime } from "../kit/companions.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** Where the page of an author's own stands. */
const pageOrigin = `http://127.0.0.1:${await freePort()}`
const test = testWith({ jobWorkers: 1, config: { STARLING_CORS_ALLOWED_ORIGINS: pageOrigin } })

const run = promisify(execFile)
const root = fileURLToPath(new URL("../..", import.meta.url))

/** What an author's first program does: sign in, listen, say something, see it, and older messages. */
const program = `
import { createClient, createStore, GatewayClient } from "@starling/client"

/** @param {{ url: string, token: string, channel: string, server: string, text: string, encoding?: "json" | "msgpack" }} at */
export async function talk({ url, token, channel, server, text, encoding = "json" }) {
  const client = createClient({ baseUrl: url, token })
  const gateway = new GatewayClient({ url, token, encoding })
  const store = createStore({ client, gateway })
  store.openChannel(channel, server)
  await gateway.connect()
  const seen = new Promise(resolve => {
    store.subscribe(changes => {
      if (!changes.has(\`channel \${channel}\`)) return
      const found = store.messages(channel)?.find(({ content }) => content === text)
      if (found) resolve(found.author_username)
    })
  })
  await client.createMessage({ channel_id: channel, content: text })
  const author = await seen
  gateway.close()
  return { author, connection: store.connection, count: store.messages(channel)?.length ?? 0 }
}
`
const command = `
import { talk } from "./talk.mjs"
console.log(JSON.stringify(await talk(JSON.parse(process.argv.at(-1)))))
process.exit(0)
`

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-client-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** An empty project in which the packed client is installed. */
let empty = ""
beforeAll(async () => {
  empty = await mkdtemp(join(tmpdir(), "starling-client-"))
  const words = ["run", "--silent", "client:pack", "--", "--silent", "--pack-destination", empty]
  const { stdout } = await run("npm", words, { cwd: root })
  const tarball = join(empty, stdout.trim().split("\n").at(-1)!)
  await writeFile(join(empty, "package.json"), '{ "name": "empty", "private": true, "type": "module" }')
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--legacy-peer-deps", tarball], { cwd: empty })
  return () => rm(empty, { recursive: true, force: true })
})

/** Such a project of one's own, with these packages beside it. */
async function project(...packages: string[]): Promise<string> {
  const folder = await temporary()
  await cp(empty, folder, { recursive: true })
  for (const name of packages)
    await cp(join(root, "node_modules", name), join(folder, "node_modules", name), { recursive: true })
  await writeFile(join(folder, "talk.mjs"), program)
  await writeFile(join(folder, "main.mjs"), command)
  return folder
}

async function seed(shared: SharedCluster) {
  const { ada, server, channel } = await shared.seed(sharedServer)
  const at = { url: shared.east.url, token: ada.token, channel: channel.id, server: server.id }
  return { ada, at }
}

test("packed and installed into an empty project, it runs in Node 20 with ws and in Node with a WebSocket of its own", async ({
  shared,
}) => {
  const { ada, at } = await seed(shared)
  const folder = await project("ws", "@msgpack/msgpack")
  const talk = async (path: string, text: string, encoding: string) => {
    const words = [join(folder, "main.mjs"), JSON.stringify({ ...at, text, encoding })]
    const { stdout } = await run(path, words, { cwd: folder, timeout: 60_000 })
    return JSON.parse(stdout) as { author: string; connection: string }
  }
  for (const encoding of ["json", "msgpack"])
    expect(await talk(process.execPath, `with ws, ${encoding}`, encoding)).toMatchObject({ author: ada.username })
  await rm(join(folder, "node_modules", "ws"), { recursive: true })
  await rm(join(folder, "node_modules", "@msgpack"), { recursive: true })
  if (!("WebSocket" in globalThis))
    await expect(talk(process.execPath, "alone", "json")).rejects.toThrow("install the package ws")
  expect(await talk(process.execPath, "the WebSocket of Node itself", "json").catch(() => undefined)).toEqual(
    "WebSocket" in globalThis ? expect.objectContaining({ author: ada.username }) : undefined,
  )
})

const guide = await readFile(join(root, "client", "README.md"), "utf8")
const blocks = [...guide.matchAll(/^```[jt]s\n(.*?)^```$/gms)].map(([, code]) => code!)
const botFile = blocks.find(code => code.startsWith("// bot.mjs"))!

/** The bot as the guide makes one, in the server that is everybody's. */
async function makeBot({ shared, ada, server }: { shared: SharedCluster; ada: Person; server: string }) {
  const owner = ada.on(shared.west)
  const { id, token } = await owner.createBot({ username: shared.newName("echo") })
  await owner.addBot({ server_id: server, bot_id: id })
  return { id, token }
}

test("a newcomer's bot: the guide's program answers, survives what goes wrong in a handler, and never answers itself", async ({
  shared,
}) => {
  const { ada, at } = await seed(shared)
  const { id, token } = await makeBot({ shared, ada, server: at.server })
  const folder = await project("ws")
  await writeFile(join(folder, "bot.mjs"), botFile)
  const child = spawn(process.execPath, ["bot.mjs"], {
    cwd: folder,
    env: { ...process.env, STARLING_URL: at.url, STARLING_TOKEN: token },
  })
  onTestFinished(() => void child.kill())
  const said = { out: "", err: "" }
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said.out += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said.err += text))
  const speaks = (what: string, isSo: () => boolean | Promise<boolean>) =>
    until(`${what}: ${JSON.stringify(said)}`, isSo, { timeoutMs: 30_000 })
  await speaks("it is there", () => /^I am echo\S*, in Shared$/m.test(said.out))

  const people = ada.on(shared.west)
  const answersTo = async (content: string) => {
    const { id: asked } = await people.createMessage({ channel_id: at.channel, content })
    const newest = async () => (await people.listMessages({ channel_id: at.channel, limit: "1" }))[0]!
    await speaks(`an answer to ${content}`, async () => (await newest()).reply_to_id === asked)
    return newest()
  }
  expect(await answersTo("!echo hello")).toMatchObject({ content: "hello", author_id: id })
  // It answers what looks like a command of its own making, and not its own answer.
  expect(await answersTo("!echo !echo again")).toMatchObject({ content: "!echo again", author_id: id })

  const mute = { channel_id: at.channel, target_id: id, type: "member" as const, allow: [] }
  await people.setOverride({ ...mute, deny: ["messages.send"] })
  await people.createMessage({ channel_id: at.channel, content: "!echo are you there?" })
  await speaks("it says what it may not", () => said.err.includes("403 Missing required permission: messages.send"))
  await people.setOverride({ ...mute, deny: [] })
  expect(await answersTo("!echo well again")).toMatchObject({ content: "well again" })
  expect(child.exitCode).toBeNull()
})

/** A program of a newcomer's, and what it prints. */
async function printed(cwd: string, file: string, { code, ...env }: { code: string } & Record<string, string>) {
  await writeFile(join(cwd, file), code)
  const options = { cwd, timeout: 60_000, env: { ...process.env, STARLING_TOKEN: undefined, ...env } }
  const { stdout, stderr } = await run(process.execPath, [file], options).catch(
    (error: { stdout: string; stderr: string }) => error,
  )
  return stdout + stderr
}

test("what the guide says that newcomers stumble over is what they are told", async ({ shared }) => {
  const { ada, at } = await seed(shared)
  const [own, stranger] = [
    await makeBot({ shared, ada, server: at.server }),
    await ada.on(shared.east).createBot({ username: shared.newName("lost") }),
  ]
  const rest = ada.on(shared.west)
  const denied = await rest.createChannel({ server_id: at.server, name: "denied" })
  const slow = await rest.createChannel({ server_id: at.server, name: "slow", slowmode_seconds: 3_600 })
  await rest.setOverride({
    channel_id: denied.id,
    target_id: own.id,
    type: "member",
    allow: [],
    deny: ["messages.send"],
  })
  const elsewhere = createServer(
    (_, response) => void response.setHeader("content-type", "text/html").end("<p>Hello</p>"),
  )
  await new Promise<void>(resolve => elsewhere.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void elsewhere.close())
  const addressOf = (port: number) => `http://127.0.0.1:${port}`
  const nobody = addressOf(await freePort())
  const folder = await project()
  const env = { STARLING_URL: at.url, STARLING_TOKEN: own.token }
  const bot = (over: Record<string, string> = {}) => printed(folder, "bot.mjs", { code: botFile, ...env, ...over })

  const common = join(folder, "common")
  await mkdir(common)
  await writeFile(join(common, "package.json"), '{ "type": "commonjs" }')
  const told = [await printed(common, "bot.js", { code: botFile, ...env })]
  // From Node 22 on nobody stumbles over that.
  told.push("WebSocket" in globalThis ? "there is no WebSocket here" : await bot())
  await cp(join(root, "node_modules", "ws"), join(folder, "node_modules", "ws"), { recursive: true })
  told.push(await printed(folder, "bot.mjs", { code: botFile, STARLING_URL: at.url }))
  const say = (lines: string, over = {}) =>
    printed(folder, "say.mjs", {
      code: `import { createClient, GatewayClient, intents } from "@starling/client"
        const [url, token] = [process.env.STARLING_URL, process.env.STARLING_TOKEN]
        const client = createClient({ baseUrl: url, token, retry: { attempts: 1, firstMs: 1, maxMs: 1, jitter: 1 } })
        const gateway = new GatewayClient({ url, token })
        const say = async act => { try { await act() } catch (error) { console.log(error.message) } }
        ${lines}
        process.exit(0)`,
      ...env,
      ...over,
    })
  const first =
    "await new Promise(resolve => { gateway.on('error', e => resolve(console.log(e.message))); gateway.connect() })"
  const me = "await say(() => client.getMe())"
  told.push(await say(`${first}\n${me}`, { STARLING_URL: nobody }))
  told.push(await say(me, { STARLING_URL: addressOf((elsewhere.address() as AddressInfo).port) }))
  told.push(await say(`${me}\nawait say(() => gateway.connect())`, { STARLING_TOKEN: own.token.slice(0, -1) }))
  const post = (channel: string, content: unknown) =>
    `await say(() => client.createMessage(${JSON.stringify({ channel_id: channel, content })}))`
  told.push(await say(post(at.channel, "hello"), { STARLING_TOKEN: stranger.token }))
  const inPlace = await say(
    [
      post(denied.id, "hello"),
      post(at.channel, 5),
      "await say(() => gateway.on('messageCreate', () => {}))",
      "await say(() => gateway.on('GUILD_MEMBER_ADD', () => {}))",
      post(slow.id, "one"),
      post(slow.id, "two"),
    ].join("\n"),
  )
  told.push(...inPlace.trim().split("\n"))

  const rows = [...guide.matchAll(/^\| (`.*?) \| .* \|$/gm)].map(([, seen]) =>
    [...seen!.matchAll(/`([^`]+)`/g)].map(([, text]) => text!),
  )
  const otherwise = rows.flatMap((row, i) =>
    row.filter(text => !told[i]?.includes(text)).map(text => `the guide has ${text}, they see ${told[i]}`),
  )
  expect(otherwise).toEqual([])
  expect(rows).toHaveLength(told.length)
})

/** What the other blocks of the guide take for granted. */
const prelude = ({ url, token, channel, server }: Record<string, string>) => `
import { createClient, GatewayClient } from "@starling/client"
const client = createClient({ baseUrl: "${url}", token: "${token}" })
Object.assign(globalThis, { client, createClient, token: "${token}", channelId: "${channel}", serverId: "${server}", show() {} })
`

test("every other block of the guide runs in a project that has the package", async ({ shared }) => {
  const { ada, at } = await seed(shared)
  const folder = await project("ws")
  await writeFile(join(folder, "prelude.mjs"), prelude(at))
  await writeFile(join(folder, "gull.txt"), "caw")
  expect(blocks.length).toBeGreaterThanOrEqual(6)
  await Promise.all(
    blocks.map(async (block, i) => {
      if (block === botFile) return
      const code = block
        .replaceAll("http://localhost:8000", at.url)
        .replace('username: "ada"', `username: ${JSON.stringify(ada.username)}`)
        .replace('username: "helper"', `username: ${JSON.stringify(shared.newName("helper"))}`)
        .replace("Correct-Horse-9", ada.password)
      const name = join(folder, `block-${i}.mjs`)
      await writeFile(name, `import "./prelude.mjs"\n${code}\nsetTimeout(() => process.exit(0), 200)`)
      const { stderr } = await run(process.execPath, [name], { cwd: folder, timeout: 60_000 }).catch(
        (error: unknown) => {
          throw new Error(`block ${i} does not run:\n${block}`, { cause: error })
        },
      )
      expect(stderr.replaceAll(/.*ExperimentalWarning.*\n.*\n/g, ""), block).toBe("")
    }),
  )
})

/** As the guide starts it: Deno with what it grants there. */
const runtimes = {
  node24: { find: requireNode24, words: [] },
  bun: { find: (skip: TestContext["skip"]) => requireRuntime("bun", skip), words: [] },
  deno: {
    find: (skip: TestContext["skip"]) => requireRuntime("deno", skip),
    words: ["run", "--allow-net", "--allow-env"],
  },
}
for (const [name, { find, words }] of Object.entries(runtimes))
  test(`in ${name} it needs no other package`, async ({ shared, skip }) => {
    const path = await find(skip)
    const { ada, at } = await seed(shared)
    const folder = await project()
    const given = [...words, join(folder, "main.mjs"), JSON.stringify({ ...at, text: `from ${name}` })]
    const env = { ...process.env, DENO_DIR: join(folder, ".deno"), DENO_NO_UPDATE_CHECK: "1" }
    const { stdout } = await run(path, given, { cwd: folder, timeout: 60_000, env })
    expect(JSON.parse(stdout)).toEqual({ author: ada.username, connection: "live", count: 1 })
  })

/** Of one entry, as a bundler makes it for a page: without what only Node has. */
async function bundled(folder: string, entry: string): Promise<Buffer> {
  await writeFile(join(folder, "entry.mjs"), entry)
  const { outputFiles } = await build({
    entryPoints: [join(folder, "entry.mjs")],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    external: ["@msgpack/msgpack"],
    logLevel: "silent",
  })
  return Buffer.from(outputFiles[0]!.contents)
}

test("a page's bundle holds no schema library, and at most 20 KB of client; the gateway alone 12", async () => {
  const folder = await project()
  const whole = await bundled(folder, 'export * from "@starling/client"')
  const gateway = await bundled(folder, 'export * from "@starling/client/gateway"')
  expect(gzipSync(whole).length).toBeLessThanOrEqual(20_000)
  expect(gzipSync(gateway).length).toBeLessThanOrEqual(12_000)
  const inKilobytes = (bundle: Buffer) => Math.ceil(gzipSync(bundle).length / 1_000)
  expect(guide).toContain(`${inKilobytes(whole)} KB compressed in a page, the gateway alone ${inKilobytes(gateway)}.`)
  // What the whole has and the gateway alone has not: the table of routes.
  expect(whole.includes("/channels/:channel_id/messages")).toBe(true)
  expect(gateway.includes("/channels/:channel_id/messages")).toBe(false)
  expect(whole.includes("ZodError")).toBe(false)
})

test("in Chromium a page talks with it", async ({ shared, skip }) => {
  const browser = await startBrowser()
  if (typeof browser === "string") return skip(browser)
  onTestFinished(() => browser.close())
  const { ada, at } = await seed(shared)
  const folder = await project()
  const code = await bundled(folder, `export { talk } from "./talk.mjs"`)
  const http = createServer((request, response) => {
    const isCode = request.url === "/talk.js"
    response.setHeader("content-type", isCode ? "text/javascript" : "text/html")
    response.end(isCode ? code : "<!doctype html><title>client</title>")
  })
  await new Promise<void>(resolve => http.listen(Number(new URL(pageOrigin).port), "127.0.0.1", resolve))
  onTestFinished(() => void http.close())
  const page = await browser.newPage()
  await page.goto(pageOrigin)
  const result = await page.evaluate(
    `import("/talk.js").then(({ talk }) => talk(${JSON.stringify({ ...at, text: "from a page" })}))`,
  )
  expect(result).toMatchObject({ author: ada.username, connection: "live" })
})

test("its types are plain: a program is checked without the packages of the server", async () => {
  const folder = await project()
  await writeFile(
    join(folder, "typed.mts"),
    `import { createClient, createStore, GatewayClient, type MessageResponse } from "@starling/client"
     const client = createClient({ baseUrl: "http://127.0.0.1:1", token: "t" })
     export async function newest(channel_id: string): Promise<MessageResponse | undefined> {
       const [message] = await client.listMessages({ channel_id, limit: 1 })
       // @ts-expect-error: a message has content, no text
       void client.createMessage({ channel_id, text: 1 })
       // @ts-expect-error: a name that no route has
       void client.sendMessage
       return message
     }
     const gateway = new GatewayClient({ url: "http://127.0.0.1:1", token: "t" })
     gateway.on("MESSAGE_CREATE", ({ author_username }) => author_username.toUpperCase())
     export const store = createStore({ client, gateway })`,
  )
  const words = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom"]
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc")
  const checked = await run(process.execPath, [tsc, ...words, "typed.mts"], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  )
  expect(checked.stdout).toBe("")
  const inPackage = (name: string) => readFile(join(folder, "node_modules/@starling/client", name), "utf8")
  const packed = JSON.parse(await inPackage("package.json")) as object
  expect(packed).not.toHaveProperty("dependencies")
  expect(packed).toHaveProperty("license", "MIT")
  expect(await inPackage("LICENSE")).toBe(await readFile(join(root, "LICENSE"), "utf8"))
  // Nothing beside the package is there for its readers.
  expect(await inPackage("README.md")).not.toMatch(/\]\((?!https:)/)
})
