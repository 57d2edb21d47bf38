/**
 * The code that the documents print, block by block: found, checked, and run in the order of its page.
 *
 * What an author of a page needs to know: every block names its language.
 *
 * | Language | What is done with it |
 * |---|---|
 * | `sh`, `bash` | runs, in one shell for the whole page, in a folder that looks like the repository; `localhost:8000` is a server that `npm start` has started. curl ends with an error where the server refuses |
 * | `js`, `mjs`, `ts`, `mts` | a first line such as `// hello.mts` names its file, for a later block that runs it; without, or where no block names it, it runs by itself |
 * | `python` | runs with python3, where that is installed |
 * | `json` | parses; with keys of the policy it is a `CONFIG_FILE` that the configuration takes |
 * | `env` | settings that the configuration takes |
 * | `http` | `METHOD /path` is a route, and the JSON below an empty line is a body for it |
 * | `text` | drawings and output |
 * | others | must come from a file of the repository, see below |
 *
 * A comment right before a block says what else holds:
 *
 * - `<!-- not run: reason -->`: it cannot be run here: it needs a second host or root, or destroys data.
 * - `<!-- run until: text -->`: it does not end by itself. It is ended once its output has the text.
 * - `<!-- prints -->`, before a `text` block: the blocks above it have printed each of these lines. `…` stands for anything.
 * - `<!-- from: path -->`: it stands word for word in that file, which tests of its own use.
 */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import postgres from "postgres"
import { entries, readConfig } from "../../src/config.ts"
import { routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { runningPostgres } from "../../src/storage/core/embedded.ts"
import { cheapHashes } from "./processes.ts"
import { until } from "./until.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

export interface Block {
  /** From the root of the repository. */
  readonly page: string
  /** Of its fence. */
  readonly line: number
  readonly language: string
  readonly code: string
  readonly notRun?: string
  readonly runUntil?: string
  readonly from?: string
  readonly prints?: true
}

const shells: ReadonlySet<string> = new Set(["sh", "bash"])
const scripts: ReadonlySet<string> = new Set(["js", "mjs", "ts", "mts", "python"])
const read: ReadonlySet<string> = new Set(["json", "env", "http", "text"])

/** What is printed below bench and load-tests loads the machine for minutes. */
const skippedFolders: ReadonlySet<string> = new Set(["node_modules", "dist", "bench", "load-tests", "tests"])

/** Every page for users, operators and maintainers. What changed once is no instruction. */
export function pagesOf(folder = root): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name.startsWith(".") || skippedFolders.has(entry.name) ? [] : pagesOf(path)
    return entry.name.endsWith(".md") && entry.name !== "CHANGELOG.md" ? [relative(root, path)] : []
  })
}

type Said = Pick<Block, "notRun" | "runUntil" | "from" | "prints">

function saidBy(comment: string): Said | undefined {
  const [, word, value] = /^(not run|run until|from|prints)(?:: *(.*))?$/s.exec(comment) ?? []
  if (word === "prints" && value === undefined) return { prints: true }
  if (!value || value.length < (word === "not run" ? 12 : 1)) return undefined
  return word === "not run" ? { notRun: value } : word === "run until" ? { runUntil: value } : { from: value }
}

/** The blocks of a page, and what is wrong with how they are written. */
export function blocksOf(page: string, text: string): { blocks: Block[]; faults: string[] } {
  const blocks: Block[] = []
  const faults: string[] = []
  const lines = text.split("\n")
  let said: Said | undefined
  for (let i = 0; i < lines.length; i++) {
    const at = `${page}:${i + 1}`
    const line = lines[i]!
    const [, comment] = /^ *<!-- ((?:not run|run until|from|prints)\b.*?) *-->$/.exec(line) ?? []
    if (comment !== undefined) {
      said = saidBy(comment)
      if (!said) faults.push(`${at}: a comment such as <!-- not run: needs a second host --> has a reason`)
      if (!/^ *```/.test(lines[i + 1] ?? "")) faults.push(`${at}: the comment has no block on the next line`)
      continue
    }
    const [, indent, language] = /^( *)```(.*)$/.exec(line) ?? []
    if (indent === undefined) {
      if (/^(?: {4}|\t)\S/.test(line) && lines[i - 1] === "" && !isInList(lines, i))
        faults.push(`${at}: code stands between fences (\`\`\`sh), not behind four spaces`)
      said = undefined
      continue
    }
    const end = lines.findIndex((other, j) => j > i && other === `${indent}\`\`\``)
    if (end < 0) {
      faults.push(`${at}: the block has no end`)
      break
    }
    const code = lines.slice(i + 1, end).map(one => one.slice(indent.length))
    if (language === "") faults.push(`${at}: the block names no language; \`text\` for what is no code`)
    blocks.push({ page, line: i + 1, language: language!, code: `${code.join("\n")}\n`, ...said })
    said = undefined
    i = end
  }
  return { blocks, faults }
}

const isInList = (lines: readonly string[], i: number): boolean =>
  /^ *(?:[-*]|\d+\.) |^ {2,3}\S/.test(lines.slice(0, i).findLast(line => line !== "" && !/^ {4}/.test(line)) ?? "")

/** What is wrong with a block that is not run but read. */
export function faultsOf(block: Block): string[] {
  const fault = (what: string) => [`${block.page}:${block.line} (${block.language}): ${what}`]
  const { language, code, from } = block
  if (block.notRun !== undefined) return []
  if (from !== undefined) {
    if (!existsSync(join(root, from))) return fault(`there is no ${from}`)
    return readFileSync(join(root, from), "utf8").includes(code.trimEnd()) ? [] : fault(`${from} says something else`)
  }
  if (block.prints && language !== "text") return fault("<!-- prints --> stands before a block of text")
  if (block.runUntil !== undefined && !shells.has(language)) return fault("<!-- run until --> stands before a shell's")
  try {
    if (language === "json") return checkJson(code).flatMap(fault)
    if (language === "env") return checkSettings(code).flatMap(fault)
    if (language === "http") return checkRequest(code).flatMap(fault)
  } catch (error) {
    return fault((error as Error).message)
  }
  if (shells.has(language) || scripts.has(language) || read.has(language)) return []
  return fault("nothing here runs this: say <!-- from: path -->, or <!-- not run: reason -->")
}

const policyKeys: ReadonlySet<string> = new Set(entries.flatMap(({ key }) => key ?? []))

function checkJson(code: string): string[] {
  const value: unknown = JSON.parse(code)
  if (typeof value !== "object" || value === null || !Object.keys(value).some(key => policyKeys.has(key))) return []
  const unknown = Object.keys(value).filter(key => !policyKeys.has(key))
  if (unknown.length > 0) return [`unknown settings ${unknown.join(", ")}`]
  // As CONFIG_FILE has them, only without the file.
  readConfig(
    Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        `STARLING_${key.toUpperCase()}`,
        typeof one === "object" && !Array.isArray(one) ? JSON.stringify(one) : String(one),
      ]),
    ),
  )
  return []
}

const settingNames: ReadonlySet<string> = new Set(entries.map(({ name }) => name))

function checkSettings(code: string): string[] {
  const settings = code
    .split("\n")
    .filter(line => line.trim() !== "" && !line.startsWith("#"))
    .map(line => /^([A-Z][A-Z0-9_]*)=(.*)$/.exec(line))
  if (settings.some(setting => setting === null)) return ["each line is NAME=value, or a comment"]
  const given = settings.map(setting => [setting![1]!, setting![2]!] as const)
  const unknown = given.flatMap(([name]) => (settingNames.has(name) ? [] : [name]))
  if (unknown.length > 0) return [`no such setting: ${unknown.join(", ")}`]
  readConfig(Object.fromEntries(given))
  return []
}

/** A request as it goes over the wire, shortened: its first line, and its body behind an empty line. */
function checkRequest(code: string): string[] {
  const [head = "", ...rest] = code.split(/\n\n/)
  const [, method, target = ""] = /^(GET|POST|PUT|PATCH|DELETE) (\S+)/.exec(head) ?? []
  const path = target.replace(/\?.*/, "").replace(/^\/api\/v1/, "")
  const matches = (route: Route) =>
    route.method === method && new RegExp(`^${route.path.replaceAll(/:\w+/g, "[^/]+")}$`).test(path)
  const route = Object.values<Route>(routes).find(matches)
  if (!route) return [`no route ${method} ${target}`]
  const body = rest.join("\n\n").trim()
  if (body === "") return route.body === undefined || route.bodyOptional ? [] : ["its body stands below an empty line"]
  if (route.body === undefined) return ["the route takes no body"]
  const { error } = route.body.safeParse(JSON.parse(body))
  return error ? error.issues.map(({ path, message }) => `body ${path.join(".")}: ${message}`) : []
}

/** The program as `npm start` starts it, with databases of its own. */
export interface PrintedServer {
  /** Host and port. */
  readonly address: string
  readonly metrics: string
  readonly env: Record<string, string>
  /** Names that a page has taken are free for the next. */
  forgetNames(): Promise<void>
  stop(): Promise<void>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
}

/** People of several pages sign in from one address. What a page shows of limits is about messages. */
const manyPeople = Object.fromEntries(
  ["user", "ip", "POST /auth/register", "POST /auth/login", "POST /servers"].map(bucket => [
    bucket,
    { requests: 1_000, seconds: 60, burst: 0 },
  ]),
)

export async function startPrintedServer(): Promise<PrintedServer> {
  const folder = await mkdtemp(join(tmpdir(), "starling-printed-"))
  await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
  const [port, metricsPort] = [await freePort(), await freePort()]
  // As a user has it, without what npm and vitest have put there.
  const ours = Object.entries(process.env).filter(([name]) => /^(?:PATH|HOME|LANG|TMPDIR|XDG_.*)$/.test(name))
  const env: Record<string, string> = {
    ...(Object.fromEntries(ours) as Record<string, string>),
    ...cheapHashes,
    HOST: "127.0.0.1",
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    DATA_DIR: folder,
    STARLING_RATE_LIMITS: JSON.stringify(manyPeople),
    NO_COLOR: "1",
    npm_config_update_notifier: "false",
  }
  const child = spawn("npm", ["start"], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"], detached: true })
  let said = ""
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", text => (said += text))
  // When npm, the script and the program have all ended: the last of them closes the output.
  const ended = once(child, "close")
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, "SIGTERM")
    await ended
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
  try {
    await until("the server is ready", () => child.exitCode !== null || said.includes("Ctrl-C ends it"), {
      timeoutMs: 120_000,
      everyMs: 50,
    })
    if (child.exitCode !== null) throw new Error("npm start ended")
  } catch (cause) {
    await stop()
    throw new Error(`npm start did not serve:\n${said}`, { cause })
  }
  return {
    address: `127.0.0.1:${port}`,
    metrics: `127.0.0.1:${metricsPort}`,
    env,
    async forgetNames() {
      const sql = postgres(await runningPostgres(folder), { max: 1, onnotice: () => {} })
      try {
        await sql`UPDATE users SET username = 'u' || id, email = id || '@gone.example'`
      } finally {
        await sql.end()
      }
    },
    stop,
  }
}

/** The name that a block gives its file. */
const fileOf = ({ language, code }: Block): string | undefined =>
  scripts.has(language) ? /^(?:\/\/|#) ([\w-]+\.\w+)\n/.exec(code)?.[1] : undefined

const isRun = ({ language, notRun, from }: Block) =>
  notRun === undefined && from === undefined && (shells.has(language) || scripts.has(language))

/** Commands of one page, in their order. */
export const runBlocksOf = (blocks: readonly Block[]): Block[] => blocks.filter(isRun)

/** Speaks for websocat where there is none: each line of its input is a frame, each frame a line of its output. */
const websocat = `#!/usr/bin/env -S npx tsx
import { createInterface } from "node:readline"
import { NodeWebSocket } from ${JSON.stringify(join(root, "bench/load/node-websocket.ts"))}
const socket = new NodeWebSocket(process.argv.at(-1)!)
socket.onmessage = ({ data }) => console.log(data)
socket.onclose = () => process.exit()
socket.onopen = async () => {
  for await (const line of createInterface({ input: process.stdin })) socket.send(line)
  socket.close(1000)
}
`

const isInstalled = (program: string) =>
  promisify(execFile)("sh", ["-c", `command -v ${program}`]).then(
    () => true,
    () => false,
  )

/** A folder that looks like the repository to who runs commands in it, and in which a page may write. */
async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-page-"))
  for (const name of readdirSync(root)) if (!name.startsWith(".")) await symlink(join(root, name), join(folder, name))
  await mkdir(join(folder, ".run", "bin"), { recursive: true })
  // A refusal is an error of the command.
  await writeFile(join(folder, ".run", ".curlrc"), "fail-with-body\nmax-time = 30\n")
  if (!(await isInstalled("websocat"))) {
    await writeFile(join(folder, ".run", "bin", "websocat.mts"), websocat)
    const start = `#!/bin/sh\nexec ${join(root, "node_modules/.bin/tsx")} ${join(folder, ".run/bin/websocat.mts")} "$@"\n`
    await writeFile(join(folder, ".run", "bin", "websocat"), start, { mode: 0o755 })
  }
  return folder
}

/** One step of a page's shell. Its output goes to a file of its own. */
function stepOf({ language, runUntil }: Block, i: number, file: string): string {
  const out = `.run/${i}.out`
  const begin = `echo ${i} >.run/current`
  if (runUntil !== undefined)
    return `${begin}
set -m; ( . ./${file} ) >${out} 2>&1 & running=$!; set +m
for ((n = 0; n < 600; n++)); do
  if grep -qF -- ${quoted(runUntil)} ${out}; then break; fi
  if ! kill -0 $running 2>/dev/null; then echo "it ended by itself" >>${out}; exit 1; fi
  sleep 0.1
done
kill -TERM -- -$running; wait $running || true
grep -qF -- ${quoted(runUntil)} ${out}`
  const program = { python: "python3", js: "node", mjs: "node", ts: "npx tsx", mts: "npx tsx" }[language] ?? "."
  return `${begin}\n${program} ./${file} >${out} 2>&1`
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** Runs what a page prints, against the server; what is wrong is said with its place. */
export async function runPage(blocks: readonly Block[], server: PrintedServer): Promise<string[]> {
  const folder = await makeFolder()
  const here = (code: string) =>
    code
      .replaceAll(/\b(?:localhost|127\.0\.0\.1):8000\b/g, server.address)
      .replaceAll(/\blocalhost:9464\b/g, server.metrics)
  const hasPython = await isInstalled("python3")
  try {
    const steps: string[] = []
    const shellCode = blocks.filter(one => isRun(one) && shells.has(one.language)).map(({ code }) => code)
    for (const [i, block] of blocks.entries()) {
      if (!isRun(block) || isServer(block)) continue
      const name = fileOf(block)
      if (name !== undefined && shellCode.some(code => code.includes(name))) {
        await writeFile(join(folder, name), here(block.code))
        continue
      }
      if (block.language === "python" && !hasPython) continue
      // At the top, from where it imports.
      const file = name ?? `block-${i}.${{ js: "mjs", ts: "mts" }[block.language] ?? block.language}`
      await writeFile(join(folder, file), here(block.code))
      steps.push(stepOf(block, i, file))
    }
    // What is left behind ends with the shell.
    const script = `set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${steps.join("\n")}\n`
    const env = {
      ...server.env,
      PATH: `${join(folder, ".run", "bin")}:${server.env["PATH"]}`,
      CURL_HOME: join(folder, ".run"),
    }
    const child = spawn("bash", ["-c", script], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], detached: true })
    let said = ""
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", text => (said += text))
    const late = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), 90_000)
    const [code, signal] = (await once(child, "close")) as [number | null, string | null]
    clearTimeout(late)
    const outputs = await Promise.all(
      blocks.map((_, i) => readFile(join(folder, ".run", `${i}.out`), "utf8").catch(() => "")),
    )
    if (code !== 0) {
      const i = Number(await readFile(join(folder, ".run", "current"), "utf8"))
      return [failed(blocks[i]!, `${signal ?? `exit code ${code}`}\n${said}${outputs[i]}`)]
    }
    return blocks.flatMap((block, i) => unprinted(block, outputs.slice(0, i).join("\n")))
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** The server of the pages is started by this very command. */
const isServer = ({ code }: Block) => /^npm start(?: *#.*)?\n$/.test(code)

const failed = ({ page, line, language, code }: Block, why: string) =>
  `${page}:${line}: this block (${language}) does not run as printed: ${why.trim()}\n\n${code}\nMend it; if it cannot run here, write <!-- not run: reason --> on the line before it. tests/kit/printed-code.ts has the other comments.`

/** Lines that a page says are printed, and are not. */
function unprinted(block: Block, output: string): string[] {
  if (!block.prints) return []
  const isSaid = (line: string) => new RegExp(line.trim().split("…").map(escaped).join(".*")).test(output)
  const missing = block.code.split("\n").filter(line => line.trim() !== "" && !isSaid(line))
  return missing.map(
    line => `${block.page}:${block.line}: the blocks before it do not print ${JSON.stringify(line)}:\n${output}`,
  )
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")

/** A heading as links name it. */
const anchorOf = (heading: string) =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_\s-]/gu, "")
    .replaceAll(" ", "-")

const withoutCode = (text: string) => text.replaceAll(/^ *```.*?^ *```$/gms, "")
const anchorsIn = (text: string) =>
  new Set([...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, one]) => anchorOf(one!)))

/** Links of a page to files and headings of the repository that lead nowhere. */
export function deadLinksOf(page: string, text: string): string[] {
  const links = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!)
  return links.flatMap(link => {
    if (/^[a-z]+:/.test(link)) return []
    const [file, anchor] = link.split("#") as [string, string | undefined]
    const path = file === "" ? page : join(dirname(page), file)
    if (!existsSync(join(root, path))) return [`${page}: ${link}: there is no ${path}`]
    if (anchor === undefined || !path.endsWith(".md")) return []
    const target = file === "" ? text : readFileSync(join(root, path), "utf8")
    return anchorsIn(target).has(anchor) ? [] : [`${page}: ${link}: no such heading`]
  })
}
