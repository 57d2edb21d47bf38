/** Proxies as deploy/proxies has them: the examples themselves, with names, addresses and ports of a test. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { request } from "node:https"
import { join } from "node:path"
import { promisify } from "node:util"
import { onTestFinished } from "vitest"
import { freePort } from "../../src/std/child-server.ts"
import { until } from "./until.ts"

const run = promisify(execFile)
const examples = join(import.meta.dirname, "../../deploy/proxies")

type Change = readonly [from: string, to: string]

export interface Backends {
  /** With the certificate; what proxies write goes there, too. */
  readonly folder: string
  /** Addresses with ports. */
  readonly hosts: readonly [string, string]
}

/** An example in which every change has something to change. */
async function example(name: string, changes: readonly Change[]): Promise<string> {
  let text = await readFile(join(examples, name), "utf8")
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`${name} has no ${from}`)
    text = text.replaceAll(from, to)
  }
  return text
}

/** One for all proxies: a certificate for localhost that nobody knows. */
export async function makeCertificate(folder: string): Promise<void> {
  const [key, certificate] = [join(folder, "chat.key"), join(folder, "chat.crt")]
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
  await run("openssl", ["req", "-x509", ...kind, ...names, "-keyout", key, "-out", certificate])
  await writeFile(join(folder, "chat.pem"), (await readFile(certificate, "utf8")) + (await readFile(key, "utf8")))
}

const hostsOf = ({ hosts: [one, two] }: Backends): Change[] => [
  ["10.0.0.11:8000", one],
  ["10.0.0.12:8000", two],
]

/** Ends with the test. What it says is part of the error when a host is not reached through it. */
function start(program: string, args: readonly string[], env = {}): { reaches(port: number): Promise<void> } {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } })
  let said = ""
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-10_000)))
  const ended = once(child, "exit")
  onTestFinished(async () => {
    if (child.exitCode === null) child.kill("SIGTERM")
    const late = setTimeout(() => child.kill("SIGKILL"), 3_000)
    await ended
    clearTimeout(late)
  })
  return {
    async reaches(port) {
      const isThere = () =>
        ask(port, "/readyz").then(
          ({ status }) => status === 200,
          () => false,
        )
      const isOver = async () => child.exitCode !== null || (await isThere())
      await until(`${program} reaches a host`, isOver, { timeoutMs: 60_000, everyMs: 100 }).catch(() => {})
      if (child.exitCode !== null || !(await isThere())) throw new Error(`${program} reaches no host: ${said}`)
    },
  }
}

/** `isBehind`: connections come from a balancer of this machine that sends the PROXY protocol. */
async function startNginx(backends: Backends, port: number, isBehind: boolean) {
  const folder = join(backends.folder, `nginx-${port}`)
  await mkdir(folder)
  const text = await example("nginx.conf", [
    ...hostsOf(backends),
    ...(isBehind
      ? ([
          ["    listen 443 ssl http2;\n", ""],
          ["#proxy: ", ""],
          ["10.0.0.1;", "127.0.0.1;"],
        ] satisfies Change[])
      : []),
    ["listen 443", `listen 127.0.0.1:${port}`],
    ["server_name chat.example.org", "server_name localhost"],
    ["/etc/nginx/chat", join(backends.folder, "chat")],
    ["/var/log/nginx", folder],
    ["worker_processes auto", "worker_processes 1"],
    ["worker_rlimit_nofile 200000;", ""],
    ["worker_connections 65536", "worker_connections 512"],
    ["http {\n", `http {\n${temporary.map(name => `  ${name}_temp_path ${folder}/${name};\n`).join("")}`],
  ])
  // Nothing of the system's.
  const user = process.getuid?.() === 0 ? "user root;\n" : ""
  await writeFile(join(folder, "nginx.conf"), `daemon off;\npid ${folder}/pid;\n${user}${text}`)
  return start("nginx", ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", join(folder, "first.log")])
}
const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]

async function startHaproxy(backends: Backends, name: string, changes: readonly Change[]) {
  const file = join(backends.folder, name)
  await writeFile(file, await example(name, [...changes, ["maxconn 100000", "maxconn 500"]]))
  return start("haproxy", ["-db", "-f", file])
}

/** Each answers with the port on which it takes TLS. */
export const proxies = {
  async nginx(backends: Backends): Promise<number> {
    const port = await freePort()
    await (await startNginx(backends, port, false)).reaches(port)
    return port
  },
  async haproxy(backends: Backends): Promise<number> {
    const port = await freePort()
    const place: Change[] = [
      ["bind :443", `bind 127.0.0.1:${port}`],
      ["/etc/haproxy/chat.pem", join(backends.folder, "chat.pem")],
    ]
    await (await startHaproxy(backends, "haproxy.cfg", [...hostsOf(backends), ...place])).reaches(port)
    return port
  },
  async caddy(backends: Backends): Promise<number> {
    const [port, folder] = [await freePort(), join(backends.folder, "caddy")]
    await mkdir(folder)
    const certificate = `\ttls ${join(backends.folder, "chat.crt")} ${join(backends.folder, "chat.key")}\n`
    const text = await example("Caddyfile", [
      ...hostsOf(backends),
      [
        "chat.example.org {\n",
        `https://localhost:${port}, https://127.0.0.1:${port} {\n\tbind 127.0.0.1\n${certificate}`,
      ],
    ])
    await writeFile(join(folder, "Caddyfile"), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${text}`)
    const words = ["run", "--config", join(folder, "Caddyfile"), "--adapter", "caddyfile"]
    await start("caddy", words, { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }).reaches(port)
    return port
  },
  async "haproxy-tcp and nginx"(backends: Backends): Promise<number> {
    const [port, behind] = [await freePort(), await freePort()]
    await startNginx(backends, behind, true)
    const place: Change[] = [
      ["bind :443", `bind 127.0.0.1:${port}`],
      ["10.0.0.21:443", `127.0.0.1:${behind}`],
    ]
    await (await startHaproxy(backends, "haproxy-tcp.cfg", place)).reaches(port)
    return port
  },
}

interface Asking {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  /** The address to connect from, one of 127.0.0.0/8. */
  readonly from?: string
}

/** A request on a connection of its own. */
export function ask(port: number, path: string, { from, body, ...options }: Asking = {}) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const place = { host: "127.0.0.1", servername: "localhost", port, path, ...(from && { localAddress: from }) }
    const sent = request({ ...place, ...options, agent: false, rejectUnauthorized: false, timeout: 10_000 }, answer => {
      let text = ""
      answer.setEncoding("utf8").on("data", (piece: string) => (text += piece))
      answer.on("end", () => resolve({ status: answer.statusCode!, body: text })).on("error", reject)
    })
    sent.on("error", reject).on("timeout", () => sent.destroy(new Error("no answer")))
    sent.end(body)
  })
}
