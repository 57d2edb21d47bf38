/** The client as authors get it: packed, installed into an empty project, and used. */
import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { beforeAll, onTestFinished } from "vitest"
import { freePort } from "../../src/std/child-server.ts"
import { startBrowser } from "../kit/browser.ts"
import { requireBun, requireNode24 } from "../kit/companions.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

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

let tarball = ""
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-client-"))
  const words = ["pack", "--silent", "--ignore-scripts=false", "--pack-destination", folder, "./client"]
  const { stdout } = await run("npm", words, { cwd: root })
  tarball = join(folder, stdout.trim().split("\n").at(-1)!)
  return () => rm(folder, { recursive: true, force: true })
})

/** An empty project in which the packed client is installed, with these packages beside it. */
async function project(...packages: string[]): Promise<string> {
  const folder = await temporary()
  await writeFile(join(folder, "package.json"), '{ "name": "empty", "private": true, "type": "module" }')
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--legacy-peer-deps", tarball], { cwd: folder })
  for (const name of packages) {
    await mkdir(join(folder, "node_modules", name, ".."), { recursive: true })
    await cp(join(root, "node_modules", name), join(folder, "node_modules", name), { recursive: true })
  }
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

/** What the blocks of the README take for granted. */
const prelude = ({ url, token, channel, server }: Record<string, string>) => `
import { createClient, GatewayClient } from "@starling/client"
const client = createClient({ baseUrl: "${url}", token: "${token}" })
const gateway = new GatewayClient({ url: "${url}", token: "${token}" })
const file = new File(["caw"], "caw.txt", { type: "text/plain" })
Object.assign(globalThis, { client, gateway, file, token: "${token}", channelId: "${channel}", serverId: "${server}", show() {} })
`

test("every block of its README runs in a project that has it", async ({ shared }) => {
  const { ada, at } = await seed(shared)
  const folder = await project("ws")
  await writeFile(join(folder, "prelude.mjs"), `import { File } from "node:buffer"\n${prelude(at)}`)
  const page = await readFile(join(root, "client", "README.md"), "utf8")
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!)
  expect(blocks.length).toBeGreaterThanOrEqual(4)
  for (const [i, block] of blocks.entries()) {
    const code = block
      .replaceAll("http://localhost:8000", at.url)
      .replace('username: "ada"', `username: ${JSON.stringify(ada.username)}`)
      .replace("Correct-Horse-9", ada.password)
    const name = join(folder, `block-${i}.mjs`)
    await writeFile(name, `import "./prelude.mjs"\n${code}\nsetTimeout(() => process.exit(0), 200)`)
    await run(process.execPath, [name], { cwd: folder, timeout: 60_000 }).catch((error: unknown) => {
      throw new Error(`block ${i} does not run:\n${block}`, { cause: error })
    })
  }
})

for (const [name, require] of [
  ["node24", requireNode24],
  ["bun", requireBun],
] as const)
  test(`in ${name} it needs no other package`, async ({ shared, skip }) => {
    const path = await require(skip)
    const { ada, at } = await seed(shared)
    const folder = await project()
    const words = [join(folder, "main.mjs"), JSON.stringify({ ...at, text: `from ${name}` })]
    const { stdout } = await run(path, words, { cwd: folder, timeout: 60_000 })
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
