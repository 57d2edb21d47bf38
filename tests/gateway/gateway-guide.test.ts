/**
 * The guide for client authors: its code runs as it stands there, and its tables agree with the
 * contract.
 */
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { promisify } from "node:util"
import { createDeflate, constants } from "node:zlib"
import { onTestFinished, vi } from "vitest"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { clusterConfig } from "../../cluster.config.ts"
import { entries } from "../../src/config.ts"
import { events, routes } from "../../src/contract/contract.ts"
import { closeCodes, opcodes, unusedCloseCodes } from "../../src/contract/core/gateway-codes.ts"
import {
  allIntents,
  bitOf,
  defaultIntents,
  intents,
  largestIntents,
  type Intent,
} from "../../src/contract/core/intents.ts"
import { limits } from "../../src/contract/core/limits.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { balancer } from "../kit/balancer.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

// A client that waits with jitter may wait long.
vi.setConfig({ testTimeout: 120_000 })

const folder = fileURLToPath(new URL("../../docs/api/", import.meta.url))
const guide = readFileSync(join(folder, "gateway.md"), "utf8")

/** The fenced code of a language that holds `mark`. */
function codeWith(language: string, mark: string): string {
  const found = [...guide.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(
    ([, name, code]) => name === language && code!.includes(mark),
  )
  expect(found, `${language} code with ${mark}`).toHaveLength(1)
  return found[0]![2]!
}

async function temporary(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-guide-"))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

interface GuideClient {
  isNew(message: { id: string }): boolean
  send(op: number, d: unknown): void
  close(): void
}
type Connect = (options: {
  url: string
  token: string
  intents?: number
  onEvent: (name: string, data: { id?: string; content?: string }) => void
  onState?: (state: string, about?: { code?: number; reason?: string }) => void
}) => GuideClient

async function guideClient(): Promise<Connect> {
  const code = codeWith("js", "// starling.js")
  expect(code.split("\n").length).toBeLessThanOrEqual(80)
  const file = join(await temporary(), "starling.mjs")
  await writeFile(file, code)
  const page = globalThis as { WebSocket?: unknown }
  page.WebSocket ??= NodeWebSocket
  return ((await import(pathToFileURL(file).href)) as { connect: Connect }).connect
}

test("the guide's client hears every message once and in order, through a cut, a dead worker and a drained one", async ({
  cluster,
}) => {
  const connect = await guideClient()
  const front = await balancer()
  const [east, west, last] = await cluster.boot(3, { config: { PUBLIC_URL: front.url } })
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  front.lead(east)

  const heard: string[] = []
  const states: string[] = []
  const client = connect({
    url: `${front.url.replace("http", "ws")}/gateway`,
    token: lin.token,
    onEvent: (name, data) => name === "MESSAGE_CREATE" && heard.push(data.content!),
    onState: state => states.push(state),
  })
  onTestFinished(() => client.close())
  await until("READY", () => states.includes("READY"))

  const posted: string[] = []
  const post = async (content: string) => {
    const message = await ada.on(last!).createMessage({ channel_id: channel.id, content, nonce: content })
    posted.push(content)
    return message
  }
  await post("live")
  await until("it is heard", () => heard.length === 1)

  front.lead(undefined)
  front.cut()
  await post("while the network was away")
  front.lead(west)
  await until("it is heard too", () => heard.length === 2)

  await west!.stop()
  for (let i = 0; i < 20; i++) await post(`after a death ${i}`)
  front.lead(last)
  front.cut()
  await until("all are heard", () => heard.length >= posted.length, { timeoutMs: 30_000 })

  front.lead(east)
  const drained = last!.drain()
  await until("it has resumed elsewhere", () => states.filter(state => state === "RESUMED").length >= 3, {
    timeoutMs: 30_000,
  })
  await drained
  const sent = await ada.on(east!).createMessage({ channel_id: channel.id, content: "after a drain", nonce: "n" })
  posted.push("after a drain")
  await until("the last one is heard", () => heard.length >= posted.length)

  await cluster.settle()
  expect(heard).toEqual(posted)
  expect(states.filter(state => state === "READY")).toHaveLength(1)
  expect(client.isNew(sent)).toBe(false)
})

test("the guide's client identifies anew when its session is gone, and ends on what cannot be resumed", async ({
  cluster,
}) => {
  const connect = await guideClient()
  const front = await balancer()
  const [east] = await cluster.boot(1, {
    config: { PUBLIC_URL: front.url },
    topology: { gateway: { heartbeatIntervalMs: 500, resumeWindowMs: 200 } },
  })
  const ada = await cluster.person("ada")
  front.lead(east)
  const states: [string, unknown][] = []
  const listen = (token: string, intents?: number) =>
    connect({
      url: `${front.url.replace("http", "ws")}/gateway`,
      token,
      ...(intents !== undefined && { intents }),
      onEvent: () => {},
      onState: (state, about) => states.push([state, about]),
    })
  const client = listen(ada.token)
  const readies = () => states.filter(([state]) => state === "READY").length
  await until("READY", () => readies() === 1)
  front.lead(undefined)
  front.cut()
  await until("the connection has ended", () => east!.gateway.connections === 0)
  await until("its window has passed", async () => {
    const metric = await east!.metrics.registry.getSingleMetricAsString("starling_gateway_sessions")
    return /state="detached"\} 0/.test(metric)
  })
  front.lead(east)
  await until("READY again", () => readies() === 2, { timeoutMs: 30_000 })
  client.close()

  for (const [token, mask, code] of [
    ["nonsense", undefined, 4004],
    [ada.token, -1, 4013],
  ] as const) {
    states.length = 0
    listen(token, mask)
    await until("it ends", () => states.some(([state]) => state === "ended"))
    expect(states.at(-1)).toEqual(["ended", expect.objectContaining({ code })])
  }
})

const pieces = async (objects: readonly object[]) => {
  const stream = createDeflate({ flush: constants.Z_SYNC_FLUSH })
  const parts: Buffer[] = []
  stream.on("data", (part: Buffer) => parts.push(part))
  const frames: Buffer[] = []
  for (const object of objects) {
    await new Promise(done => stream.write(JSON.stringify(object), done))
    frames.push(Buffer.concat(parts.splice(0)))
  }
  return frames
}
const objects = [
  { op: 0, d: "ä".repeat(40_000) },
  { op: 11 },
  { op: 0, d: { many: Array.from({ length: 9_000 }, (_, i) => i) } },
]

test("the guide's inflaters read a compressed stream", async () => {
  const frames = await pieces(objects)
  const file = join(await temporary(), "inflater.mjs")
  await writeFile(file, `${codeWith("js", "function inflater")}\nexport { inflater }\n`)
  const { inflater } = (await import(pathToFileURL(file).href)) as {
    inflater: (onFrame: (frame: unknown) => void) => (message: string | Uint8Array) => void
  }
  const read: unknown[] = []
  const take = inflater(frame => read.push(frame))
  take('{"op":10}')
  for (const frame of frames) take(frame)
  await until("all are read", () => read.length === 4)
  expect(read).toEqual([{ op: 10 }, ...objects])

  const python = `${codeWith("python", "decompressobj")}
import sys
inflater = Inflater()
print(json.dumps([inflater.frame('{"op":10}')] + [inflater.frame(bytes.fromhex(line)) for line in sys.argv[1:]]))`
  const run = await promisify(execFile)("python3", ["-c", python, ...frames.map(frame => frame.toString("hex"))]).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined // no Python here
      throw error
    },
  )
  if (run) expect(JSON.parse(run.stdout)).toEqual([{ op: 10 }, ...objects])
})

test("the codes that the guide gives up on are those of the contract", () => {
  expect(guide).toContain(
    "the codes 4004 and 4010 to 4017 always, and 1000 with the\nreason `Resumed elsewhere`, 4003 with the reason `IP Blocked`",
  )
  const givesUp = (code: number, reason: string) =>
    code === 4004 || (code >= 4010 && code <= 4017) || reason === "Resumed elsewhere" || reason === "IP Blocked"
  for (const { code, reason, resume } of Object.values(closeCodes)) expect(givesUp(code, reason), reason).toBe(!resume)
  const listed = [...guide.matchAll(/^\| (\d{4})(?:, (\d{4}))?(?: `([^`]+)`)? \|/gm)].flatMap(([, one, two, reason]) =>
    [one, two].filter(code => code !== undefined).map(code => [Number(code), reason] as const),
  )
  const known = Object.values(closeCodes).filter(({ resume }) => !resume)
  expect(listed.length).toBeGreaterThanOrEqual(6)
  for (const [code, reason] of listed)
    expect(known.some(one => one.code === code && (reason === undefined || one.reason === reason))).toBe(true)
  for (const { code } of known) expect(listed.map(([code]) => code)).toContain(code)
  for (const code of Object.keys(unusedCloseCodes)) expect(closeCodes).not.toHaveProperty(code)
})

test("the guide's intents are those of the contract, and its masks are what it says", () => {
  const rows = [...guide.matchAll(/^\| (\d+) \| (\d+) \| `(\w+)` \| (yes)? ?\|$/gm)].map(
    ([, bit, value, name, isDefault]) => [name, Number(bit), Number(value), isDefault === "yes"],
  )
  expect(rows).toEqual(
    (Object.keys(intents) as Intent[]).map(name => [
      name,
      intents[name],
      bitOf(name),
      (defaultIntents & bitOf(name)) !== 0,
    ]),
  )
  for (const mask of [defaultIntents, allIntents, largestIntents]) expect(guide).toContain(String(mask))
  expect(bitOf("GUILDS") + bitOf("GUILD_MESSAGES") + bitOf("DIRECT_MESSAGES")).toBe(4609)
  expect(4607 & bitOf("GUILD_MESSAGES")).toBe(0)
  expect(4607 & bitOf("GUILD_PRESENCES")).not.toBe(0)
})

test("the guide's limits and times are those of the configuration", () => {
  const { gateway } = clusterConfig
  for (const sentence of [
    `| Your frames | ${gateway.frames.perMinute} per minute`,
    `| Frames of every kind | ${gateway.frames.allPerMinute} per minute`,
    `| Voice signals (ops 22 to 26) | ${gateway.frames.signalsPerMinute} per minute`,
    `| Size of a frame | ${gateway.frames.maxBytes} bytes; ${gateway.frames.maxInflatedBytes} after inflating`,
    `| Compressed frames | together what ${gateway.frames.perMinute} frames of full size hold`,
    `| Connections | ${gateway.connectionsPerUser} identified`,
    `| Reading too slowly | ${gateway.sockets.stuckAfterMs / 1_000} s without progress while the server has more than ${gateway.sockets.budgetBytes / 2 ** 20} MiB`,
    `how many milliseconds (${gateway.heartbeatIntervalMs.toLocaleString("en")} unless`,
    `lives for ${gateway.resumeWindowMs / 1_000} s after its connection ended`,
    `hears nothing for ${gateway.positionAfterMs / 1_000} s gets`,
    `the server forgets it after ${gateway.typingTimeoutMs / 1_000} s`,
    `\`nonce\` (at most ${limits.nonceCharacters} characters`,
  ])
    expect(guide).toContain(sentence)
})

test("what the guide names exists: events, opcodes, intents, routes, settings", () => {
  const known = new Set([...Object.keys(events), ...Object.keys(opcodes), ...Object.keys(intents)])
  const prose = guide.replace(/^```.*?^```$/gms, "")
  const names = new Set(prose.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g))
  expect(names.size).toBeGreaterThan(15)
  for (const name of names) expect(known, name).toContain(name)

  const paths = new Set(Object.values<Route>(routes).map(({ method, path }) => `${method} /api/v1${path}`))
  const quoted = [...prose.matchAll(/`(GET|POST|PUT) (\/api\/v1\/[^`?]+)/g)]
  expect(quoted.length).toBeGreaterThan(4)
  for (const [, method, path] of quoted) {
    const wanted = new RegExp(`^${method} ${path!.replace(/\{\w+\}/g, ":\\w+")}$`)
    expect(
      [...paths].some(one => wanted.test(one)),
      `${method} ${path}`,
    ).toBe(true)
  }
  expect(entries.map(({ key }) => key)).toContain("gateway_allowed_origins")
})
