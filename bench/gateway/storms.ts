/**
 * Everybody at once: thousands identify with a server that knows their servers already, and
 * thousands come back after their worker was killed with -9. The floor is a bare server that
 * answers as much and subscribes as often.
 */
import postgres from "postgres"
import { NodeWebSocket } from "../load/node-websocket.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import type { Harness, Starling } from "../harness.ts"
import { isWorker } from "../latency.ts"
import type { LoadGroup } from "../load/load-group.ts"
import type { Return } from "../load/load-process.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, processesOf, readCpu } from "../processes.ts"
import type { Parts } from "../processes.ts"
import { alternate, compare, newRun, pause, scale, sum } from "../trials.ts"
import type { Comparison, Sides } from "../trials.ts"
import { counted } from "./metrics.ts"

/** A user's own and ten servers'. */
const topics = 11
const sessionsOfALoadGroup = 5_000
/** A connection that is cut is noticed sooner, however busy everybody is. */
const quietMs = 1_500
const takeOverTimeoutMs = 60_000
const statements = "starling_postgres_queries_total"
const membershipQueries = "starling_gateway_membership_queries_total"
const joins = "starling_gateway_joins_total"
const replayReads = "starling_gateway_replay_reads_total"

export interface StormsExtent {
  readonly runs: number
  readonly identifying: number
  readonly resuming: number
  /** After everything: presence is gathered and told a moment later. */
  readonly settleSeconds: number
  /** For how long an idle server is looked at, whose CPU is deducted. */
  readonly idleSeconds: number
  /** How many web workers there are when one of them is killed. */
  readonly workers: readonly number[]
}

export interface IdentifyRun {
  readonly sessions: number
  /**
   * Microseconds of CPU per session: of connecting up to HELLO, of IDENTIFY up to READY and what
   * follows.
   */
  readonly connectCpu: Record<string, number>
  readonly identifyCpu: Record<string, number>
  /** From all IDENTIFYs leaving at once to the last READY, and what each waited. */
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /**
   * Queries per session: all of all pools, and those of memberships. Undefined of a bare server.
   */
  readonly queries?: number
  readonly membershipQueries?: number
}

export interface ResumeRun {
  readonly resumed: number
  readonly refused: number
  /**
   * Microseconds of CPU per resume, connecting included, without what the worker's restart takes by
   * itself.
   */
  readonly cpu: Record<string, number>
  readonly awayP50: number
  readonly awayP99: number
  /** From the kill. Undefined of a bare server, whose sockets are only cut. */
  readonly takenOverSeconds?: number
  readonly backSeconds?: number
  readonly joins?: number
  readonly replayReads?: number
  /** Microseconds that a restart takes with no session. */
  readonly restartCpu?: Record<string, number>
}

export interface StormsResult {
  readonly identify: { readonly runs: Sides<IdentifyRun[]>; readonly cpu: Comparison; readonly connectCpu: Comparison }
  readonly resume: { readonly workers: number; readonly runs: Sides<ResumeRun[]>; readonly cpu: Comparison }[]
}

export async function benchStorms(
  harness: Harness,
  extent: StormsExtent,
  say: (what: string) => void,
): Promise<StormsResult> {
  return { identify: await benchIdentify(harness, extent, say), resume: await benchResume(harness, extent, say) }
}

type Clients = { loadGroup: LoadGroup; stop: () => Promise<void> }[]

/** As many clients as there are tokens, none of them connected. */
function loadGroupsFor(harness: Harness, tokens: readonly string[]) {
  const loadGroups: (Clients[number] & { tokens: string[]; addresses: string[] })[] = []
  for (let at = 0; at < tokens.length; at += sessionsOfALoadGroup) {
    const addresses = [`127.0.0.${80 + loadGroups.length}`, `127.0.0.${100 + loadGroups.length}`]
    loadGroups.push({ ...harness.startLoadGroup(), tokens: tokens.slice(at, at + sessionsOfALoadGroup), addresses })
  }
  return loadGroups
}

/** Microseconds by part that something took, above what an idle server takes meanwhile. */
async function cpuOf<T>(parts: Parts, idle: Record<string, number>, work: () => Promise<T>) {
  const from = performance.now()
  const before = readCpu(parts)
  const result = await work()
  const used = cpuSince(parts, before)
  const seconds = (performance.now() - from) / 1_000
  const names = Object.keys(used)
  return {
    result,
    cpu: Object.fromEntries(names.map(name => [name, Math.max(0, used[name]! - idle[name]! * seconds)])),
  }
}

async function benchIdentify(harness: Harness, extent: StormsExtent, say: (what: string) => void) {
  const tokens = harness.population.idlers.tokens.slice(0, extent.identifying)
  const starling = await harness.startStarling()
  const bare = await harness.startBare("gateway", [JSON.stringify({ ready: await readyBytes(starling, tokens[0]!) })])
  const storm = async (
    url: string,
    parts: Parts,
    idle: Record<string, number>,
    server?: Starling,
  ): Promise<IdentifyRun> => {
    const loadGroups = loadGroupsFor(harness, tokens)
    try {
      const connected = await cpuOf(parts, idle, async () => {
        for (const { loadGroup, tokens, addresses } of loadGroups)
          await loadGroup.ask("open", { url, tokens, addresses, maxConcurrent: 64 })
      })
      await pause(1)
      const names = [statements, membershipQueries]
      const before = server && (await counted(server, names))
      const { result: told, cpu } = await cpuOf(parts, idle, async () => {
        const told = await Promise.all(loadGroups.map(({ loadGroup }) => loadGroup.ask("identify", null)))
        await pause(extent.settleSeconds)
        return told
      })
      const after = server && (await counted(server, names))
      const per = (name: string) => (after![name]! - before![name]!) / tokens.length
      return {
        sessions: tokens.length,
        connectCpu: scale(connected.cpu, 1 / tokens.length),
        identifyCpu: scale(cpu, 1 / tokens.length),
        seconds: Math.max(...told.map(({ seconds }) => seconds)),
        p50: Math.max(...told.map(({ ready }) => ready.p50)),
        p99: Math.max(...told.map(({ ready }) => ready.p99)),
        ...(server && { queries: per(statements), membershipQueries: per(membershipQueries) }),
      }
    } finally {
      for (const { loadGroup, stop } of loadGroups) {
        await loadGroup.ask("disconnect", null).catch(() => null)
        await stop()
      }
      await pause(extent.settleSeconds)
    }
  }
  const bareUrl = `ws://127.0.0.1:${bare.port}/gateway?topics=${topics}`
  const bareStorm = () => storm(bareUrl, { node: [bare.pid] }, { node: 0 })
  const idle = await idleCpu(starling.parts, extent.idleSeconds)
  const starlingStorm = () => storm(starling.gatewayUrl, starling.parts, idle, starling)
  try {
    say(`${tokens.length} sessions identify for the first time`)
    await bareStorm()
    await starlingStorm()
    say(`${tokens.length} sessions identify again, all at once`)
    const runs = await alternate(extent.runs, { bare: bareStorm, starling: starlingStorm })
    const of = (value: (run: IdentifyRun) => number) => compare(runs, value, value)
    return { runs, cpu: of(run => sum(run.identifyCpu)), connectCpu: of(run => sum(run.connectCpu)) }
  } finally {
    await bare.stop()
    await starling.stop()
  }
}

/** About: ids are equally long, and so are names. */
async function readyBytes({ gatewayUrl }: Starling, token: string): Promise<number> {
  const socket = new NodeWebSocket(gatewayUrl)
  try {
    return await new Promise<number>((resolve, reject) => {
      /* oxlint-disable unicorn/prefer-add-event-listener */
      socket.onmessage = ({ data }) => {
        const frame = data as string
        if (frame.includes('"READY"')) resolve(Buffer.byteLength(frame))
        else socket.send(JSON.stringify({ op: opcodes.IDENTIFY.op, d: { token } }))
      }
      socket.onclose = ({ code }) => reject(new Error(`a session was closed: ${code}`))
      /* oxlint-enable unicorn/prefer-add-event-listener */
    })
  } finally {
    socket.terminate()
  }
}

async function benchResume(harness: Harness, extent: StormsExtent, say: (what: string) => void) {
  const tokens = harness.population.idlers.tokens.slice(0, extent.resuming)
  const results: StormsResult["resume"][number][] = []
  for (const workers of extent.workers) {
    say(`${tokens.length} sessions on ${workers} worker${workers > 1 ? "s" : ""}, one of which is killed`)
    const runs = await alternate(extent.runs, {
      bare: () => cutBare(harness, tokens),
      starling: () => killWorker(harness, tokens, workers, extent),
    })
    results.push({
      workers,
      runs,
      cpu: compare(
        runs,
        run => sum(run.cpu),
        run => sum(run.cpu),
      ),
    })
  }
  return results
}

async function connectReturning(loadGroups: ReturnType<typeof loadGroupsFor>, url: string): Promise<void> {
  for (const { loadGroup, tokens, addresses } of loadGroups)
    await loadGroup.ask("connect", { url, tokens, addresses, maxConcurrent: 64, returns: true })
}

function together(told: readonly Return[]) {
  const resumed = told.reduce((all, one) => all + one.resumed, 0)
  const refused = told.reduce((all, one) => all + one.refused, 0)
  const worst = (of: (one: Return) => number) => Math.max(...told.map(of))
  return { resumed, refused, awayP50: worst(one => one.away.p50), awayP99: worst(one => one.away.p99) }
}

async function cutBare(harness: Harness, tokens: readonly string[]): Promise<ResumeRun> {
  const bare = await harness.startBare("gateway", [JSON.stringify({ ready: 400 })])
  const loadGroups = loadGroupsFor(harness, tokens)
  const parts = { node: [bare.pid] }
  try {
    await connectReturning(loadGroups, `ws://127.0.0.1:${bare.port}/gateway?topics=${topics}`)
    await pause(1)
    const before = readCpu(parts)
    await Promise.all(loadGroups.map(({ loadGroup }) => loadGroup.ask("drop", null)))
    const told = together(await Promise.all(loadGroups.map(({ loadGroup }) => loadGroup.ask("back", { quietMs }))))
    return { ...told, cpu: scale(cpuSince(parts, before), 1 / told.resumed) }
  } finally {
    for (const { stop } of loadGroups) await stop()
    await bare.stop()
  }
}

async function killWorker(
  harness: Harness,
  tokens: readonly string[],
  workers: number,
  extent: StormsExtent,
): Promise<ResumeRun> {
  const starling = await harness.startStarling({ WORKERS: String(workers) })
  const sql = postgres(harness.databaseUrl, { max: 1, onnotice: () => undefined })
  const loadGroups = loadGroupsFor(harness, tokens)
  try {
    await pause(extent.settleSeconds)
    const idle = await idleCpu(starling.parts, extent.idleSeconds)
    const { cpu: restartCpu } = await cpuOf(starling.parts, idle, async () => {
      await kill(starling, sql)
      await allServe(starling, workers)
      await pause(extent.settleSeconds)
    })

    await connectReturning(loadGroups, starling.gatewayUrl)
    await pause(extent.settleSeconds)
    // Until the end of the worker, so that there is something that its sessions have missed. The
    // posts that it leaves unanswered fail.
    const posting = harness.startLoadGroup()
    const { posters } = harness.population.idlers
    const posts = posting.loadGroup
      .ask("fanOut", { url: starling.url, posters, inFlight: 1, everyMs: 20, seconds: 60, run: newRun() })
      .catch(() => undefined)
    await pause(1)
    const { result, cpu: used } = await cpuOf(starling.parts, idle, async () => {
      const killedAt = Date.now()
      const [takenOverAt, returns] = await Promise.all([
        kill(starling, sql),
        Promise.all(loadGroups.map(({ loadGroup }) => loadGroup.ask("back", { quietMs }))),
        pause(0.05).then(() => posting.stop()),
        posts,
      ])
      await allServe(starling, workers)
      await pause(extent.settleSeconds)
      return { killedAt, takenOverAt, returns }
    })
    const { killedAt, takenOverAt, returns } = result
    const told = together(returns)
    const series = await counted(starling, [joins, replayReads])
    const names = Object.keys(used)
    const cpu = Object.fromEntries(
      names.map(name => [name, Math.max(0, used[name]! - restartCpu[name]!) / told.resumed]),
    )
    return {
      ...told,
      cpu,
      restartCpu,
      takenOverSeconds: (takenOverAt - killedAt) / 1_000,
      backSeconds: (Math.max(...returns.map(({ lastAt }) => lastAt)) - killedAt) / 1_000,
      joins: series[joins]!,
      replayReads: series[replayReads]!,
    }
  } finally {
    for (const { stop } of loadGroups) await stop()
    await sql.end({ timeout: 5 })
    await starling.stop()
  }
}

const firstWebWorker = ({ parts }: Starling): number | undefined =>
  processesOf(parts.node).find(pid => {
    try {
      return isWorker(pid, 0)
    } catch {
      return false // it has just ended
    }
  })

/**
 * Kills the first web worker. @returns when nothing belongs to it any more, in milliseconds since
 * 1970
 */
async function kill(starling: Starling, sql: postgres.Sql): Promise<number> {
  const pid = firstWebWorker(starling)
  const [owner] = await sql<{ id: string }[]>`
    SELECT id FROM incarnations WHERE role = 'web' AND slot = 0 AND died_at IS NULL ORDER BY started_at DESC LIMIT 1`
  if (pid === undefined || !owner) throw new Error("there is no worker to kill")
  process.kill(pid, "SIGKILL")
  for (const until = Date.now() + takeOverTimeoutMs; Date.now() < until; await pause(0.02)) {
    const [row] = await sql<{ left: number }[]>`SELECT count(*)::int AS left FROM shards WHERE owner = ${owner.id}`
    if (row!.left === 0) return Date.now()
  }
  throw new Error("nobody took over what a killed worker owned")
}

async function allServe(starling: Starling, workers: number): Promise<void> {
  const name = "starling_processes"
  for (const until = Date.now() + takeOverTimeoutMs; Date.now() < until; await pause(0.1)) {
    const series = await counted(starling, [name]).catch((): Record<string, number> => ({}))
    // The primary and the job worker are counted too.
    if ((series[name] ?? 0) >= workers + 2) return
  }
  throw new Error("a killed worker was not replaced")
}
