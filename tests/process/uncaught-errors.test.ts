import { fork } from "node:child_process"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { expect, inject, onTestFinished, test } from "vitest"
// @ts-expect-error plain JavaScript, because the build runs before anything else is made
import { apart } from "../../scripts/bundle.mjs"
// @ts-expect-error plain JavaScript, too
import { mendedPackages } from "../../scripts/mended-packages.mjs"
import type { UncaughtOrder } from "../kit/uncaught-child.ts"

const program = fileURLToPath(new URL("../kit/uncaught-child.ts", import.meta.url))

/** A way to PostgreSQL that ends the first connection on which types are asked for. */
async function wayThatCuts(cut: (client: Socket) => void): Promise<{ url: string; cuts: () => number }> {
  const there = new URL(inject("postgres"))
  let cuts = 0
  const server = createServer(client => {
    const far = connect(Number(there.port), there.hostname)
    for (const [one, other] of [
      [client, far],
      [far, client],
    ] as const)
      one.on("error", () => {}).on("close", () => other.destroy())
    far.pipe(client)
    client.on("data", piece => {
      if (cuts > 0 || !piece.includes("typarray")) return void far.write(piece)
      cuts++
      far.unpipe(client)
      cut(client)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  return { url: Object.assign(new URL(there), { port: String(port) }).href, cuts: () => cuts }
}

async function start(url: string, bundled?: string) {
  const child = fork(bundled ?? program, [url], { execArgv: bundled ? [] : ["--import", "tsx"], silent: true })
  onTestFinished(() => void child.kill("SIGKILL"))
  let output = ""
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text))
  const ended = once(child, "close").then(([code]) => code as number)
  const next = async () => {
    const said = await Promise.race([once(child, "message"), ended.then(code => [`ended: ${code}`])])
    return said[0] as string
  }
  const tell = (order: UncaughtOrder) => child.send(order)
  expect(await next(), output).toBe("ready")
  const lines = () =>
    output
      .split("\n")
      .flatMap(line =>
        line.startsWith("{") ? [JSON.parse(line) as { level: string; msg: string; err?: { message: string } }] : [],
      )
  return { tell, next, ended, lines }
}

test.each([
  // That one it makes anew by itself.
  ["closed", (client: Socket) => void client.end(), []],
  [
    "reset",
    (client: Socket) => void client.resetAndDestroy(),
    [["error", "connection to PostgreSQL lost while it was made"]],
  ],
])(
  "P11: a connection to PostgreSQL that is %s while postgres.js asks for its types ends no worker; the next one serves",
  async (_, cut, logged) => {
    const way = await wayThatCuts(cut)
    const { tell, next, lines } = await start(way.url)
    tell("ask")
    // Whether what waited for the connection is asked again is the library's choice.
    expect(await next()).toMatch(/^(done|failed)$/)
    expect(way.cuts()).toBe(1)
    tell("ask")
    expect(await next()).toBe("done")
    expect(lines().map(({ level, msg }) => [level, msg])).toEqual(logged)
  },
)

// Of three tries without scripts/mended-packages.mjs about one ends the process, or is never answered.
test("P11: what is asked on a reserved connection that closes meanwhile is refused, as the program is built", async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-mended-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  const bundled = join(folder, "child.mjs")
  const banner = { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' }
  await build({
    entryPoints: [program],
    outfile: bundled,
    bundle: true,
    platform: "node",
    format: "esm",
    banner,
    plugins: [mendedPackages],
    external: apart,
  })
  const clients: Socket[] = []
  const there = new URL(inject("postgres"))
  const server = createServer(client => {
    clients.push(client)
    const far = connect(Number(there.port), there.hostname)
    client
      .on("error", () => {})
      .pipe(far.on("error", () => {}))
      .pipe(client)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  const { tell, next } = await start(Object.assign(new URL(there), { port: String(port) }).href, bundled)
  tell("reserve")
  expect(await next()).toBe("done")
  const gone = clients.map(client => once(client, "close"))
  for (const client of clients) client.end()
  await Promise.all(gone)
  tell("ask reserved")
  expect(await Promise.race([next(), sleep(5_000, "silent")])).toBe("failed")
})

test.each([
  ["lose", "another service that is away", "connect ECONNREFUSED 127.0.0.1:6379"],
  ["fail", "a bug", "a bug"],
  ["throw", "a bug that is thrown", "a bug"],
] as const)("a rejection that nobody awaits ends the worker: %s, %s", async (order, _, message) => {
  const { tell, ended, lines } = await start(inject("postgres"))
  tell(order)
  expect(await ended).toBe(1)
  expect(lines()).toMatchObject([{ level: "fatal", msg: "uncaught error", err: { message } }])
})
