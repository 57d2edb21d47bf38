/** Two hosts behind each proxy of deploy/proxies: TLS, sockets, files, and whose a request is. */
import { randomBytes } from "node:crypto"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import type { LoginReply } from "../../src/contract/accounts/auth.ts"
import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import type { Processes } from "../kit/processes.ts"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { Cluster } from "../kit/cluster.ts"
import { requirePrograms } from "../kit/companions.ts"
import { Listener } from "../kit/person.ts"
import { fileOf } from "../kit/pictures.ts"
import { ask, makeCertificate, proxies, type Backends } from "../kit/proxies.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test as plain } from "../kit/test.ts"

interface Hosts {
  readonly cluster: Cluster
  readonly backends: Backends
  readonly two: Processes
}

const test = plain.extend<{ hosts: Hosts }>({
  hosts: async ({ skip }, use) => {
    await requirePrograms(skip, "nginx", "haproxy", "caddy", "openssl")
    const folder = await mkdtemp(join(tmpdir(), "starling-proxies-"))
    const quiet = { info() {}, warn() {}, error() {} }
    const redis = await startEmbeddedRedis({ dataDir: folder, log: quiet, appendonly: false })
    const cluster = await Cluster.create(redis.url)
    try {
      await makeCertificate(folder)
      await mkdir(join(folder, "files"))
      const env = {
        REDIS_URL: redis.url,
        FILES_DIR: join(folder, "files"),
        TRUSTED_PROXIES: "127.0.0.1",
        // A token is good only for the address that signed in: so it shows which address that is.
        STARLING_TOKEN_BINDING: "true",
      }
      const [one, two] = await Promise.all([
        cluster.processes(2, { ...env, HOST: "127.0.0.2" }),
        cluster.processes(1, { ...env, HOST: "127.0.0.3" }),
      ])
      const hosts = [new URL(one.url).host, new URL(two.url).host] as const
      await use({ cluster, backends: { folder, hosts }, two })
    } finally {
      await cluster.close()
      await redis.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
})

const agent = "Client/1"

/** A socket from an address, with headers; resolves with how it ends, or with READY. */
function identify(
  port: number,
  token: string,
  from: string,
  headers: Record<string, string>,
): Promise<string | number> {
  return new Promise(resolve => {
    const options = { localAddress: from, headers: { "user-agent": agent, ...headers } }
    const socket = new NodeWebSocket(`wss://localhost:${port}/gateway`, undefined, options)
    /* oxlint-disable unicorn/prefer-add-event-listener -- it has no listeners */
    socket.onmessage = ({ data }) => {
      const { op, t } = JSON.parse(String(data)) as { op: number; t?: string }
      if (op === 10) socket.send(JSON.stringify({ op: 2, d: { token, intents: 0 } }))
      if (t === "READY") {
        resolve(t)
        socket.close()
      }
    }
    socket.onclose = ({ code }) => resolve(code)
  })
}

interface Account {
  readonly username: string
  readonly password: string
}

async function signIn(port: number, { username, password }: Account, agent: string, from?: string): Promise<string> {
  const headers = { "user-agent": agent, "content-type": "application/json" }
  const body = JSON.stringify({ username, password })
  const answer = await ask(port, "/api/v1/auth/login", { method: "POST", headers, body, ...(from && { from }) })
  return (JSON.parse(answer.body) as LoginReply).token!
}

test(
  "behind nginx, HAProxy, Caddy, and a balancer of TCP connections, clients are who they are, and files and sockets pass",
  { timeout: 240_000 },
  async ({ hosts: { cluster, backends, two }, onTestFinished }) => {
    // Nobody knows the certificate of this test.
    const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"
    onTestFinished(() => {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before
    })
    const all = await Promise.all(
      Object.entries(proxies).map(async ([name, open]) => ({ name, port: await open(backends) })),
    )
    const passesThrough = async ({ name, port }: { name: string; port: number }) => {
      const endpoint = { url: `https://localhost:${port}` }
      const { ada, lin, channel } = await cluster.seed(at => sharedServer(at, endpoint))
      // What the client says of itself when it identifies is its user agent, too.
      const inbox = new Listener(endpoint, { token: await signIn(port, lin, "starling") })
      await inbox.connect()

      // 3 MB in pieces, up and down, whole and in part.
      const bytes = Buffer.from(randomBytes(1_500_000).toString("hex"))
      const file = fileOf(bytes, "noise.txt", "text/plain")
      const upload = await ada.on(endpoint).uploadAttachment({ channel_id: channel.id, file })
      const { id } = await ada.on(endpoint).createMessage({ channel_id: channel.id, attachments: [upload] })
      const { attachments } = await inbox.next("MESSAGE_CREATE", { where: message => message.id === id })
      expect(attachments).toHaveLength(1)
      const shown = await ada.on(endpoint).getMessage({ channel_id: channel.id, message_id: id })
      const url = endpoint.url + shown.attachments[0]!.url
      expect(bytes.equals(Buffer.from(await (await fetch(url)).arrayBuffer())), `${name} passes a file`).toBe(true)
      const part = await fetch(url, { headers: { range: "bytes=1000000-1000999" } })
      expect(part.status).toBe(206)
      expect(bytes.subarray(1_000_000, 1_001_000).equals(Buffer.from(await part.arrayBuffer()))).toBe(true)
      inbox.drop()

      await isWhoTheyAre(port, name, ada)
    }
    await Promise.all(all.map(passesThrough))
    await isDeafToProxyProtocol(backends.hosts[0], all[0]!.port, await cluster.person("eve", { url: two.url }))

    // A host that ends in good order is missed by nobody: requests that it does not take go to the other.
    const service = { isOver: false }
    const failed: string[] = []
    const asking = all.map(async ({ name, port }) => {
      for (let asked = 0; !service.isOver || asked < 20; asked++) {
        const status = await ask(port, "/health").then(
          answer => answer.status,
          (error: Error) => error.message,
        )
        if (status !== 200) failed.push(`${name}: ${status}`)
      }
    })
    two.kill(two.pid, "SIGTERM")
    expect(await two.ended).toBe(0)
    service.isOver = true
    await Promise.all(asking)
    expect(failed).toEqual([])
  },
)

/** From another address a token is refused, whatever that client says of itself; on either host. */
async function isWhoTheyAre(port: number, name: string, account: Account): Promise<void> {
  const [home, elsewhere] = ["127.5.0.1", "127.5.0.2"]
  const token = await signIn(port, account, agent, home)
  const headers = { "user-agent": agent }
  const me = (from: string, more = {}) =>
    ask(port, "/api/v1/users/@me", { headers: { ...headers, ...more, authorization: `Bearer ${token}` }, from })
  const lies = { "x-forwarded-for": home, "x-real-ip": home, forwarded: `for=${home}` }
  for (let i = 0; i < 4; i++) {
    expect([name, (await me(home)).status]).toEqual([name, 200])
    expect([name, (await me(home, { "x-forwarded-for": elsewhere })).status]).toEqual([name, 200])
    expect([name, (await me(elsewhere, lies)).status]).toEqual([name, 401])
    expect([name, await identify(port, token, home, {})]).toEqual([name, "READY"])
    expect([name, await identify(port, token, elsewhere, lies)]).toEqual([name, closeCodes.authentication_failed.code])
  }
}

/**
 * The PROXY protocol is read by uWebSockets.js and not believed, even from a trusted proxy: it takes another header with each
 * request of a connection, so that a client behind a balancer of TCP connections could write its own.
 */
async function isDeafToProxyProtocol(host: string, port: number, account: Account): Promise<void> {
  const token = await signIn(port, account, agent, "127.5.0.1")
  const [address, hostPort] = host.split(":") as [string, string]
  const signature = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]
  // Version 2, PROXY; TCP over IPv4; 12 bytes: from 127.5.0.1.
  const header = [...signature, 0x21, 0x11, 0, 12, 127, 5, 0, 1, 127, 0, 0, 2, 0x30, 0x39, 0x1f, 0x90]
  const lines = [`Host: ${host}`, `User-Agent: ${agent}`, `Authorization: Bearer ${token}`, "Connection: close"]
  const socket = connect(Number(hostPort), address)
  socket.write(
    Buffer.concat([
      Buffer.from(header),
      Buffer.from(`GET /api/v1/users/@me HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`),
    ]),
  )
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 401 /)
}
