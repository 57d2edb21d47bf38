/**
 * What changes what many sessions see: a role's edit, a permission that nobody sees, a channel
 * hidden from everybody and shown again. All in the largest server, before more and more of its
 * members' sessions.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Harness, Starling } from "../harness.ts"
import { HttpConnection } from "../load/http-connection.ts"
import type { LoadGroup } from "../load/load-group.ts"
import { markedBody } from "../load/marked-posts.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, processesOf, readCpu } from "../processes.ts"
import { figure } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import { newRun, pause, sum } from "../trials.ts"
import type { Community } from "./fixture.ts"

/** Clients of one process. */
const sessionsOfALoadGroup = 5_000
/** A worker has descriptors for 20,000, and connections do not fall evenly on workers. */
const sessionsOfAWorker = 14_000
/** Of a message that nobody may get: so long its frame would have had to come. */
const silenceMs = 400

export interface NotificationExtent {
  readonly runs: number
  readonly sessions: readonly number[]
  /**
   * Each thing is done so often that so many sessions are told in a run, twice at least and no more
   * often than is told here.
   */
  readonly tellings: number
  readonly repeats: number
  readonly settleSeconds: number
  readonly idleSeconds: number
}

export interface ToldRun {
  readonly repeats: number
  /** Microseconds of CPU for each session and time, by part, without what an idle server takes. */
  readonly cpuByPart: Record<string, number>
  /**
   * Milliseconds from the request to its answer, and until the last session was told; the longest
   * of the repeats.
   */
  readonly answeredMs: number
  readonly lastToldMs: number
  /** How long a web worker's event loop stood still at most, milliseconds. */
  readonly pauseMs: number
}

export interface NotificationCase {
  readonly work: string
  readonly sessions: number
  readonly workers: number
  readonly runs: readonly ToldRun[]
  readonly cpu: Figure
  readonly lastToldMs: Figure
  readonly pauseMs: Figure
  /** The same while nothing happened: what else the machine does is in both. */
  readonly restingPauseMs: number
}

interface Action {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body?: string
  /** The event that every session gets of it. */
  readonly event: string
  /** Whether a message in the channel reaches all afterwards, or nobody. */
  readonly isHeard?: boolean
}

export async function benchNotifications(
  harness: Harness,
  community: Community,
  extent: NotificationExtent,
  say: (what: string) => void,
): Promise<NotificationCase[]> {
  const cases: NotificationCase[] = []
  const workersFor = (sessions: number) => Math.max(2, Math.ceil(sessions / sessionsOfAWorker))
  for (const workers of new Set(extent.sessions.map(workersFor))) {
    const sessions = extent.sessions.filter(count => workersFor(count) === workers)
    cases.push(...(await benchWith(workers, sessions, harness, community, extent, say)))
  }
  return cases
}

async function benchWith(
  workers: number,
  audiences: readonly number[],
  harness: Harness,
  community: Community,
  extent: NotificationExtent,
  say: (what: string) => void,
): Promise<NotificationCase[]> {
  const folder = await mkdtemp(join(tmpdir(), "starling-loops-"))
  const watching = `--import ${new URL("./watch-loop.mjs", import.meta.url).href}`
  const starling = await harness.startStarling({
    WORKERS: String(workers),
    NODE_OPTIONS: watching,
    LOOP_WATCH: folder,
  })
  const audience = new Listening(harness, starling.gatewayUrl, community)
  try {
    const cases: NotificationCase[] = []
    for (const sessions of audiences) {
      const among = `${sessions.toLocaleString("en")} sessions of ${community.members.toLocaleString("en")} members`
      say(`${among}: connecting`)
      await audience.grow(sessions)
      await pause(extent.settleSeconds)
      await pauses({ starling, folder })
      const idle = await idleCpu(starling.parts, extent.idleSeconds)
      const restingPauseMs = await pauses({ starling, folder })
      const setting: Setting = { starling, audience, community, extent, sessions, idle, folder }
      say(`${among}: role, permission, channel hidden and shown`)
      const runs = new Map<string, ToldRun[]>()
      // The first round is not counted.
      for (let run = -1; run < extent.runs; run++)
        for (const [name, result] of await measureRun(setting, run))
          if (run >= 0) runs.set(name, [...(runs.get(name) ?? []), result])
      for (const [work, results] of runs)
        cases.push({
          work,
          sessions,
          workers,
          runs: results,
          cpu: figure(results.map(run => sum(run.cpuByPart))),
          lastToldMs: figure(results.map(run => run.lastToldMs)),
          pauseMs: figure(results.map(run => run.pauseMs)),
          restingPauseMs,
        })
    }
    return cases
  } finally {
    await audience.stop()
    await starling.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

interface Setting {
  readonly starling: Starling
  readonly audience: Listening
  readonly community: Community
  readonly extent: NotificationExtent
  readonly sessions: number
  readonly idle: Readonly<Record<string, number>>
  readonly folder: string
}

/** Members' sessions, in as many processes as they need. */
class Listening {
  readonly #harness: Harness
  readonly #url: string
  readonly #community: Community
  readonly #loadGroups: { loadGroup: LoadGroup; stop: () => Promise<void>; sessions: number }[] = []
  #count = 0

  constructor(harness: Harness, url: string, community: Community) {
    this.#harness = harness
    this.#url = url
    this.#community = community
  }

  async grow(to: number): Promise<void> {
    // Nobody is told in another way what they do themselves: the owner has no session.
    const others = this.#community.people.slice(1)
    while (this.#count < to) {
      let last = this.#loadGroups.at(-1)
      if (!last || last.sessions === sessionsOfALoadGroup) {
        last = { ...this.#harness.startLoadGroup(), sessions: 0 }
        this.#loadGroups.push(last)
      }
      const more = Math.min(to - this.#count, sessionsOfALoadGroup - last.sessions)
      const tokens = others.slice(this.#count, this.#count + more).map(({ token }) => token)
      const at = this.#loadGroups.length
      await last.loadGroup.ask("connect", {
        url: this.#url,
        tokens,
        addresses: [`127.0.0.${40 + at}`],
        maxConcurrent: 64,
      })
      last.sessions += more
      this.#count += more
    }
  }

  async watch(name: string): Promise<void> {
    await Promise.all(this.#loadGroups.map(({ loadGroup }) => loadGroup.ask("watch", { name })))
  }

  /**
   * Until all are told. @returns when the last was, milliseconds since 1970, and how many posts
   * came
   */
  async watched(restMs: number): Promise<{ lastAt: number; posts: number }> {
    const told = await Promise.all(this.#loadGroups.map(({ loadGroup }) => loadGroup.ask("watched", { restMs })))
    return {
      lastAt: Math.max(...told.map(({ lastAt }) => lastAt)),
      posts: told.reduce((all, { posts }) => all + posts, 0),
    }
  }

  async stop(): Promise<void> {
    for (const { stop } of this.#loadGroups) await stop()
  }
}

/** An edit that changes nothing is told to nobody; nobody else here edits to the same. */
let edits = 0

const actions = ({ id, roles, plainChannel }: Community): Action[] => {
  edits++
  const role = `/servers/${id}/roles/${roles[0]!}`
  const override = `/channels/${plainChannel}/permissions/${id}`
  return [
    {
      name: "colour of a role",
      method: "PATCH",
      path: role,
      body: JSON.stringify({ color: `#${(0xa00000 + edits).toString(16)}` }),
      event: "GUILD_ROLE_UPDATE",
    },
    {
      name: "permission of a role",
      method: "PATCH",
      path: role,
      body: JSON.stringify({ permissions: { "messages.send": true, "templates.manage": edits % 2 === 1 } }),
      event: "GUILD_ROLE_UPDATE",
    },
    {
      name: "channel hidden",
      method: "PUT",
      path: override,
      body: JSON.stringify({ type: "role", allow: [], deny: ["channels.view"] }),
      event: "CHANNEL_DELETE",
      isHeard: false,
    },
    { name: "channel shown", method: "DELETE", path: override, event: "CHANNEL_CREATE", isHeard: true },
  ]
}

async function measureRun(setting: Setting, run: number): Promise<[string, ToldRun][]> {
  const { sessions, extent } = setting
  const repeats = run < 0 ? 1 : Math.max(2, Math.min(extent.repeats, Math.ceil(extent.tellings / sessions)))
  const done = new Map<string, Repeat[]>()
  for (let repeat = 0; repeat < repeats; repeat++)
    for (const action of actions(setting.community))
      done.set(action.name, [...(done.get(action.name) ?? []), await measureAction(setting, action, repeat === 0)])
  return [...done].map(([name, all]) => {
    const cpu = (part: string) => all.reduce((total, one) => total + one.cpu[part]!, 0) / all.length / sessions
    return [
      name,
      {
        repeats,
        cpuByPart: Object.fromEntries(Object.keys(all[0]!.cpu).map(part => [part, cpu(part)])),
        answeredMs: Math.max(...all.map(one => one.answeredMs)),
        lastToldMs: Math.max(...all.map(one => one.lastToldMs)),
        pauseMs: Math.max(...all.map(one => one.pauseMs)),
      },
    ]
  })
}

interface Repeat {
  readonly cpu: Record<string, number>
  readonly answeredMs: number
  readonly lastToldMs: number
  readonly pauseMs: number
}

/**
 * @param isWatched whether the workers' pauses are noted, and it is made sure that nobody gets what
 * they may not
 */
async function measureAction(setting: Setting, action: Action, isWatched: boolean): Promise<Repeat> {
  // A connection that nobody uses for a while is closed.
  const owner = await HttpConnection.open(setting.starling.url)
  try {
    return await measureBy(owner, setting, action, isWatched)
  } catch (error) {
    throw new Error(`${action.name}, ${setting.sessions} sessions`, { cause: error })
  } finally {
    owner.close()
  }
}

async function measureBy(owner: HttpConnection, setting: Setting, action: Action, isWatched: boolean): Promise<Repeat> {
  const { starling, audience, idle } = setting
  await audience.watch(action.event)
  if (isWatched) await pauses(setting)
  const before = readCpu(starling.parts)
  const from = performance.now()
  const since = performance.timeOrigin + from
  await ask(owner, setting, action)
  const answeredMs = performance.now() - from
  // What is sent after the answer, while most have not been told yet.
  const isSilent = action.isHeard === false
  if (isSilent) await post(owner, setting)
  const { lastAt, posts } = await audience.watched(isSilent && isWatched ? silenceMs : 0)
  const used: Record<string, number> = cpuSince(starling.parts, before)
  const seconds = (performance.now() - from) / 1_000
  const pauseMs = isWatched ? await pauses(setting) : 0
  if (posts > 0) throw new Error(`${posts} sessions got a message of a channel that was hidden from them`)
  if (action.isHeard === true && isWatched) await requireHeard(owner, setting)
  const cpu = Object.fromEntries(Object.entries(used).map(([part, value]) => [part, value - idle[part]! * seconds]))
  return { cpu, answeredMs, lastToldMs: lastAt - since, pauseMs }
}

/**
 * A message in the channel reaches every session: those who are not to get one would have got it.
 */
async function requireHeard(owner: HttpConnection, setting: Setting): Promise<void> {
  await setting.audience.watch("MESSAGE_CREATE")
  await post(owner, setting)
  const { posts } = await setting.audience.watched(0)
  if (posts !== setting.sessions) throw new Error(`${posts} of ${setting.sessions} sessions got a message`)
}

async function ask(
  owner: HttpConnection,
  { community }: Setting,
  { method, path, body }: Pick<Action, "method" | "path" | "body">,
): Promise<void> {
  const reply = await owner.request(method, `/api/v1${path}`, community.people[0]!.token, body)
  if (reply.status !== 200) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.toString()}`)
}

let posted = 0
const post = (owner: HttpConnection, setting: Setting) =>
  ask(owner, setting, {
    method: "POST",
    path: `/channels/${setting.community.plainChannel}/messages`,
    body: markedBody(++posted, newRun()),
  })

/** The longest that a web worker stood still since it was last asked. */
async function pauses({ starling, folder }: Pick<Setting, "starling" | "folder">): Promise<number> {
  for (const pid of processesOf(starling.parts.node)) process.kill(pid, "SIGWINCH")
  await pause(0.15)
  const said = await Promise.all((await readdir(folder)).map(name => readFile(join(folder, name), "utf8")))
  const longest = said.flatMap(text => {
    const { role, longest } = JSON.parse(text) as { role: string; longest: number }
    return role.includes("web") ? [longest] : []
  })
  return Math.max(0, ...longest)
}
