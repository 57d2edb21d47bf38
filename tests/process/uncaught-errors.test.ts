import { fork } from "node:child_process"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { fileURLToPath } from "node:url"
import { expect, inject, onTestFinished, test } from "vitest"
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

async function start(url: string) {
  const child = fork(program, [url], { execArgv: ["--import", "tsx"], silent: true })
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
