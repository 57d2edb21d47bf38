/** What Starling is measured beside, and what each of them promises. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { freePort, lastWords, spawnServer } from "../../src/std/child-server.ts"
import { startServerFile } from "../bare/bare-server.ts"
import { Harness } from "../harness.ts"
import { hall, type DialectName } from "../load/dialects.ts"
import type { Poster } from "../load/load-process.ts"
import type { Around } from "../load/marked-posts.ts"
import type { Parts } from "../processes.ts"
import { pause } from "../trials.ts"
import { installPackages, installProgram, type ProgramName } from "./install.ts"

export interface PeerServer {
  readonly parts: Parts
  readonly gatewayUrl: string
  /** One for each session; null where nobody identifies. */
  readonly tokens: readonly (string | null)[]
  readonly dialect?: DialectName
  readonly posting: { readonly url: string; readonly posters: Poster[]; readonly around?: Around }
  stop(): Promise<void>
}

interface Starting {
  readonly harness: Harness
  /** A frame of Starling's: its event is what all deliver. */
  readonly frame: string
  readonly sessions: number
  readonly mainFile: string
  readonly environment: Record<string, string>
}

export interface Peer {
  readonly name: string
  /** Whether a message that was acknowledged survives `kill -9` of any process. */
  readonly durable: string
  readonly order: string
  /** Whether all sessions of one server see one order; a run in which they do not has failed. */
  readonly isOneOrder: boolean
  /** What a session that loses its node gets. */
  readonly resume: string
  readonly start: (starting: Starting) => Promise<PeerServer>
}

const bareUrl = (port: number) => `http://127.0.0.1:${port}`
const nobody = (count: number) => Array.from({ length: count }, () => null)
const anybody: Poster[] = [{ path: "/messages", token: "none" }]

function ofStarling(harness: Harness, { sessions }: Starting, server: Awaited<ReturnType<Harness["startStarling"]>>) {
  const { tokens, posters } = harness.population.audience
  return {
    parts: server.parts,
    gatewayUrl: server.gatewayUrl,
    tokens: tokens.slice(0, sessions),
    posting: { url: server.url, posters: posters.slice(0, 32) },
  }
}

async function startStarling(starting: Starting): Promise<PeerServer> {
  const { harness, environment } = starting
  const server = await harness.startStarling(environment)
  return { ...ofStarling(harness, starting, server), stop: () => server.stop() }
}

/** With databases of its own: with those of the other it would be a part of that cluster. */
async function startWithOneWorker(starting: Starting): Promise<PeerServer> {
  const { sessions, mainFile, environment } = starting
  const own = await Harness.open({ audience: sessions, authors: 0, idlers: 0 }, mainFile)
  const stop = starting.harness.owned(() => own.close())
  const server = await own.startStarling({ ...environment, WORKERS: "1" })
  return { ...ofStarling(own, starting, server), stop }
}

async function startBare({ harness, frame, sessions, environment }: Starting): Promise<PeerServer> {
  const { pid, port, stop } = await harness.startBare("publish", [frame], environment)
  return {
    parts: { node: [pid] },
    gatewayUrl: `ws://127.0.0.1:${port}/gateway`,
    tokens: nobody(sessions),
    posting: { url: bareUrl(port), posters: anybody },
    stop,
  }
}

async function startWs({ harness, frame, sessions, environment }: Starting): Promise<PeerServer> {
  const file = new URL("./ws-server.ts", import.meta.url)
  const server = await startServerFile(file, [await installPackages(), frame], environment)
  return {
    parts: { node: [server.pid] },
    gatewayUrl: `ws://127.0.0.1:${server.port}/`,
    tokens: nobody(sessions),
    posting: { url: bareUrl(server.port), posters: anybody },
    stop: harness.owned(() => server.stop()),
  }
}

async function startSocketIo({ harness, frame, sessions, environment }: Starting): Promise<PeerServer> {
  const packageFile = await installPackages()
  const folder = await newFolder(harness)
  const redis = await startEmbeddedRedis({ dataDir: folder.path, log: silent })
  const stopRedis = harness.owned(() => redis.stop())
  const file = new URL("./socket-io-server.ts", import.meta.url)
  const server = await startServerFile(file, [packageFile, redis.url, frame], environment)
  const stopServer = harness.owned(() => server.stop())
  return {
    parts: { node: [server.pid], redis: [redis.pid] },
    gatewayUrl: `ws://127.0.0.1:${server.port}/socket.io/?EIO=4&transport=websocket`,
    tokens: nobody(sessions),
    dialect: "socket.io",
    posting: { url: bareUrl(server.port), posters: anybody },
    stop: () => inTurn(stopServer, stopRedis, folder.remove),
  }
}

async function startNats({ harness, frame, sessions }: Starting): Promise<PeerServer> {
  const [port, webSocketPort] = [await freePort(), await freePort()]
  const config = `host: 127.0.0.1\nport: ${port}\nwebsocket { host: 127.0.0.1, port: ${webSocketPort}, no_tls: true }\n`
  const server = await startProgram(harness, "nats-server", { config, port: webSocketPort })
  return {
    parts: { server: [server.pid] },
    gatewayUrl: `ws://127.0.0.1:${webSocketPort}/`,
    tokens: nobody(sessions),
    dialect: "nats",
    posting: { url: `nats://127.0.0.1:${port}`, posters: anybody, around: aroundOf(frame, "", "") },
    stop: server.stop,
  }
}

/** With a history that clients recover from, in memory or in Redis. */
const startCentrifugo =
  (engine: "memory" | "redis") =>
  async ({ harness, frame, sessions }: Starting): Promise<PeerServer> => {
    const folder = await newFolder(harness)
    const redis = engine === "redis" ? await startEmbeddedRedis({ dataDir: folder.path, log: silent }) : undefined
    const stopRedis = redis && harness.owned(() => redis.stop())
    const port = await freePort()
    const config = JSON.stringify({
      http_server: { address: "127.0.0.1", port: String(port) },
      client: { insecure: true },
      http_api: { insecure: true },
      channel: { without_namespace: { history_size: 1_000, history_ttl: "60s", force_recovery: true } },
      ...(redis && { engine: { type: "redis", redis: { address: redis.url } } }),
    })
    const server = await startProgram(harness, "centrifugo", { config, port })
    return {
      parts: { server: [server.pid], ...(redis && { redis: [redis.pid] }) },
      gatewayUrl: `ws://127.0.0.1:${port}/connection/websocket`,
      tokens: nobody(sessions),
      dialect: "centrifugo",
      posting: {
        url: bareUrl(port),
        posters: [{ path: "/api/publish", token: "none" }],
        around: aroundOf(frame, `{"channel":"${hall}","data":`, "}"),
      },
      stop: () => inTurn(server.stop, ...(stopRedis ? [stopRedis] : []), folder.remove),
    }
  }

const none = "no"
const starlingsPromises = {
  durable: "yes: committed in PostgreSQL before the answer",
  order: "one, for all sessions on all workers",
  isOneOrder: true,
  resume: "everything it missed, on any worker, also after `kill -9`; or INVALID_SESSION",
}
const centrifugosOrder = "one, by an offset that clients check"

export const peers = {
  bare: {
    name: "bare uWebSockets.js `publish()`",
    durable: none,
    order: "that of its one process",
    isOneOrder: true,
    resume: "nothing",
    start: startBare,
  },
  starling: { name: "Starling, two web workers", ...starlingsPromises, start: startStarling },
  "one-worker": { name: "Starling, one web worker", ...starlingsPromises, start: startWithOneWorker },
  "socket.io": {
    name: "Socket.IO on uWebSockets.js, Redis Streams adapter",
    durable: "no: `emit` tells nobody when the stream has it",
    order: "that of each server; two servers may differ",
    isOneOrder: true,
    resume: "what it missed after a lost connection; nothing after `kill -9` of its server",
    start: startSocketIo,
  },
  ws: {
    name: "`ws`, a loop over its clients",
    durable: none,
    order: "that of its one process",
    isOneOrder: true,
    resume: "nothing",
    start: startWs,
  },
  nats: {
    name: "NATS over WebSocket",
    durable: "no (JetStream, not measured here, keeps messages)",
    order: "that of each publisher; two sessions may see those of two publishers differently",
    isOneOrder: false,
    resume: "nothing; what was sent meanwhile is lost",
    start: startNats,
  },
  "centrifugo-memory": {
    name: "Centrifugo, history in memory",
    durable: "no: lost with the process",
    order: centrifugosOrder,
    isOneOrder: true,
    resume: "what it missed after a lost connection; nothing after `kill -9`",
    start: startCentrifugo("memory"),
  },
  "centrifugo-redis": {
    name: "Centrifugo, history in Redis",
    durable: "in Redis before the answer, whose disk follows within a second; kept for 60 s and 1,000 messages",
    order: centrifugosOrder,
    isOneOrder: true,
    resume: "what it missed within 60 s and 1,000 messages, on any node; else told that it is incomplete",
    start: startCentrifugo("redis"),
  },
} as const satisfies Record<string, Peer>
export type PeerName = keyof typeof peers
export const peerNames = Object.keys(peers) as PeerName[]

/** The event of a frame as the one who posts says it, with its content and nonce left to each post. */
export function aroundOf(frame: string, before: string, after: string): Around {
  const { d } = JSON.parse(frame) as { d: Record<string, unknown> }
  const { content: _content, nonce: _nonce, ...others } = d
  const rest = JSON.stringify(others).slice(1, -1)
  return { before: `${before}{"op":0,"t":"MESSAGE_CREATE","s":1000,"d":{${rest},`, after: `}${after}` }
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

async function newFolder(harness: Harness): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "starling-peer-"))
  return { path, remove: harness.owned(() => rm(path, { recursive: true, force: true })) }
}

async function inTurn(...acts: (() => Promise<void>)[]): Promise<void> {
  for (const act of acts) await act()
}

const readyWithinMs = 20_000

async function startProgram(
  harness: Harness,
  name: ProgramName,
  { config, port }: { config: string; port: number },
): Promise<{ pid: number; stop: () => Promise<void> }> {
  const command = await installProgram(name)
  const folder = await newFolder(harness)
  const file = join(folder.path, "config.json")
  const logFile = join(folder.path, "log")
  await writeFile(file, config)
  const shutdownSignals = [["SIGTERM", 5_000], ["SIGKILL", 5_000]] as const // prettier-ignore
  const server = await spawnServer({ command, args: ["-c", file], logFile, account: undefined, shutdownSignals })
  const stopServer = harness.owned(() => server.stop())
  let hasEnded = false
  server.exited.then(
    () => (hasEnded = true),
    () => undefined,
  )
  for (const until = performance.now() + readyWithinMs; !(await isOpen(port)); await pause(0.05))
    if (hasEnded || performance.now() > until) throw new Error(`${name} does not start:\n${await lastWords(logFile)}`)
  return { pid: server.pid, stop: () => inTurn(stopServer, folder.remove) }
}

const isOpen = (port: number) =>
  new Promise<boolean>(resolve => {
    const socket = connect({ host: "127.0.0.1", port })
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })
