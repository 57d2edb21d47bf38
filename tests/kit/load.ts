import { monitorEventLoopDelay } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import type { GatewayClient } from "../../client/gateway.ts"
import type { Cluster } from "./cluster.ts"
import type { Listener, Person, Endpoint } from "./person.ts"
import { expect } from "./test.ts"
import { until } from "./until.ts"

export interface Community {
  readonly server: string
  readonly channel: string
}

/** People and channels: Ada posts, Lin listens in all of them. */
export async function communities(
  cluster: Cluster,
  count: number,
  at: Endpoint,
): Promise<{ ada: Person; lin: Person; list: Community[] }> {
  const [ada, lin] = await Promise.all([cluster.person("ada", at), cluster.person("lin", at)])
  const list = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const server = await ada.on(at).createServer({ name: `Server ${i}` })
      const [channel] = await ada.on(at).listChannels({ server_id: server.id })
      const { code } = await ada.on(at).createInvite({ channel_id: channel!.id })
      await lin.on(at).joinByInvite({ invite_code: code })
      return { server: server.id, channel: channel!.id }
    }),
  )
  return { ada, lin, list }
}

/** Clients that come back at once, and by themselves. */
export const impatient = { autoReconnect: true, backoff: { firstMs: 20, maxMs: 500 } }

/** How sessions fared: a session that the server could not resume is counted in `anew`. */
export function watch(inboxes: readonly Listener[]) {
  const sessions = inboxes.map(inbox => inbox.sessionId)
  let resumed = 0
  let anew = 0
  for (const inbox of inboxes) {
    inbox.on("resumed", () => resumed++)
    inbox.on("invalid_session", () => anew++)
  }
  return {
    resumed: () => resumed,
    anew: () => anew,
    /** Indices of those that are not the sessions they were. */
    changed: () => inboxes.flatMap((inbox, i) => (inbox.sessionId === sessions[i] ? [] : [i])),
  }
}

/** Milliseconds after every message of a sender: the load is there all the time, and leaves the machine to those it is for. */
const pauseMs = 60

/** One sender a channel, each message with a nonce and sent until it is acknowledged. */
export function load(ada: Person, list: readonly Community[], place: (n: number, community: number) => Endpoint) {
  const acked = new Map<string, string>()
  const ackedAt = list.map((): number[] => [])
  const over = new AbortController()
  let refusals = 0
  const senders = list.map(async ({ channel }, community) => {
    for (let n = 0; !over.signal.aborted; n++) {
      const content = `${community}:${n}`
      for (let attempt = 0; ; attempt++) {
        try {
          const at = place(n + attempt, community)
          const { id } = await ada.on(at).createMessage({ channel_id: channel, content, nonce: content })
          acked.set(content, id)
          ackedAt[community]!.push(performance.now())
          break
        } catch (error) {
          // Not now, or the worker is gone: the same nonce again.
          const { status } = error as { status?: number }
          if (status !== undefined && status !== 503) throw error
          refusals++
          await sleep(pauseMs)
        }
      }
      await sleep(pauseMs)
    }
  })
  // A sender that fails is noticed when the load ends; until then it may go on.
  for (const sender of senders) sender.catch(() => {})
  const gapsOf = (times: readonly number[], from: number) => {
    const later = [from, ...times.filter(at => at > from)]
    return later.slice(1).map((at, i) => at - later[i]!)
  }
  return {
    acked,
    refusals: () => refusals,
    /** Every channel has been posted to since. */
    async goesOn(messages = 5, timeoutMs = 60_000): Promise<void> {
      const before = ackedAt.map(times => times.length)
      const isSo = () => ackedAt.every((times, community) => times.length >= before[community]! + messages)
      await until("every channel goes on", isSo, { timeoutMs })
    },
    /** Per channel the milliseconds from a moment to the next success. */
    firstAfter: (from: number): number[] => ackedAt.map(times => (times.find(at => at > from) ?? Infinity) - from),
    /** Milliseconds from each success to the next, of all channels, from a moment on. */
    gaps: (from: number): number[] => ackedAt.flatMap(times => gapsOf(times, from)),
    /** The longest that any channel was without success, from a moment on. */
    longestGap: (from: number): number => Math.max(...ackedAt.flatMap(times => gapsOf(times, from))),
    async end(): Promise<void> {
      over.abort()
      await Promise.all(senders)
    },
  }
}

/**
 * P1, P2, P3, P5 in one pass over the history.
 * @param inboxes they listened from before the first message on
 * @param late they came later: from the first that they heard on they heard all
 * @returns how many messages there are
 */
export async function check(
  cluster: Cluster,
  list: readonly Community[],
  acked: ReadonlyMap<string, string>,
  inboxes: readonly GatewayClient[],
  late: readonly GatewayClient[] = [],
): Promise<number> {
  const rows = await cluster.sql<{ id: string; channel_id: string; content: string }[]>`
    SELECT id, channel_id, content FROM messages WHERE channel_id = ANY(${list.map(({ channel }) => channel)}::bigint[]) ORDER BY id`
  expect(new Set(rows.map(row => row.content)).size, "P2: nothing is doubled").toBe(rows.length)
  const stored = new Map(rows.map(row => [row.content, row.id]))
  expect(
    [...acked].filter(([content, id]) => stored.get(content) !== id),
    "P1: nothing acknowledged is lost",
  ).toEqual([])
  // One sender a channel, one after another: the order of the ids is the order of the sends.
  for (const { channel } of list) {
    const sent = rows.filter(row => row.channel_id === channel).map(row => Number(row.content.split(":")[1]))
    expect(sent, "P3").toEqual(sent.toSorted((a, b) => a - b))
  }
  const listeners = [...inboxes, ...late]
  const heard = listeners.map(() => [] as { id: string; channel_id: string }[])
  const lasts = list.flatMap(({ channel }) => rows.findLast(row => row.channel_id === channel)?.id ?? [])
  await until(
    "every listener has the last of it",
    async () => {
      await Promise.all(listeners.map(inbox => inbox.heartbeatNow().catch(() => {})))
      for (const [i, inbox] of listeners.entries())
        for (const event of inbox.rest()) if (event.name === "MESSAGE_CREATE") heard[i]!.push(event.data)
      // What was committed may be published later: a fail-over of Redis takes its time.
      const ids = heard.map(messages => new Set(messages.map(({ id }) => id)))
      return listeners.every((inbox, i) => inbox.state === "live" && lasts.every(id => ids[i]!.has(id)))
    },
    { timeoutMs: 60_000 },
  )
  for (const [i, messages] of heard.entries())
    for (const { channel } of list) {
      const ids = messages.filter(message => message.channel_id === channel).map(message => message.id)
      const all = rows.filter(row => row.channel_id === channel).map(row => row.id)
      const from = i < inboxes.length ? 0 : all.indexOf(ids[0]!)
      expect(ids, `P5: listener ${i}`).toEqual(all.slice(from))
    }
  return rows.length
}

/**
 * Bounds on times, as they are on this machine from now on: on a quiet one they are what they say. Where other work keeps
 * this process from its turn for longer than a twentieth of a second, twice as many such turns are added as there are processes
 * on the way of a message.
 */
export function machineBounds(): (milliseconds: number) => number {
  const delays = monitorEventLoopDelay({ resolution: 10 })
  delays.enable()
  return milliseconds => {
    const longestMs = delays.max / 1e6
    return longestMs < 50 ? milliseconds : milliseconds + 10 * longestMs
  }
}

/** The value below which a share of the samples lies. */
export const quantile = (samples: readonly number[], share: number): number =>
  samples.toSorted((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(share * samples.length))] ?? NaN
