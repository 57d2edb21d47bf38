/**
 * What noting heartbeats costs a worker: those of quiet sessions, and those after a message to
 * each.
 */
import type { Clock } from "../../src/std/clock.ts"
import type { LogItem } from "../../src/domain/core/log-entry.ts"
import { epochMs, idOf } from "../../src/domain/core/snowflake.ts"
import { Deliveries } from "../../src/gateway/deliveries.ts"
import type { Session } from "../../src/gateway/state/session.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { figure, type Figure } from "../statistics.ts"

export interface HeartbeatCost {
  readonly sessions: number
  /** Microseconds of a heartbeat. */
  readonly quiet: Figure
  readonly busy: Figure
}

const serversOfEach = 10

export async function benchHeartbeats(count: number, runs: number): Promise<HeartbeatCost> {
  const servers = Array.from({ length: 100 }, (_, i) => String(1_000 + i))
  let now = 0
  let tick = () => {}
  const clock = {
    monotonic: () => now,
    every: (_: number, action: () => void) => {
      tick = action
      return { stop: () => {} }
    },
  } as unknown as Clock
  const subscriptions = { position: 0, placeOf: () => subscriptions.position, ofUser: () => [] }
  let written = 0
  const deliveries = new Deliveries({
    subscriptions,
    store: {
      move: async rows => {
        written += rows.length
        return []
      },
    },
    timing: { cursorsEveryMs: 1_000 },
    clock,
    log: { warn: () => {}, debug: () => {} } as never,
    metrics: createMetrics(),
  })
  const sessions = Array.from({ length: count }, (_, i) => {
    const mine = Array.from({ length: serversOfEach }, (_, k) => servers[(i * 7 + k * 13) % servers.length]!)
    const session = {
      id: String(i),
      user: String(i),
      intents: 0x3fffff,
      state: "live",
      spans: [{ counted: false, lo: 0 }],
      guilds: { values: () => mine.map(id => ({ view: { id } })) },
      named: -1,
      before: undefined,
    } as unknown as Session
    return session
  })
  let position = 1
  /** With all that follows of it within the same second. */
  const beat = async () => {
    subscriptions.position = ++position
    const startedAt = performance.now()
    for (const session of sessions) deliveries.named(session, position)
    now += 1_000
    tick()
    await new Promise(resolve => setImmediate(resolve))
    return ((performance.now() - startedAt) * 1e3) / count
  }
  const sayIn = (server: string) => {
    const id = idOf(1, { ms: epochMs + position, sequence: 0 })
    const audience = { kind: "members", server } as const
    const header = ["e", 1, position, server, audience, "MESSAGE_CREATE", [], [server, id]] as const
    const item: LogItem = { s: ++position, header, data: `{"id":"${id}"}`, bytes: 0 }
    deliveries.take([item])
  }
  await beat()
  const quiet: number[] = []
  const busy: number[] = []
  for (let run = 0; run < 5 * runs; run++) {
    quiet.push(await beat())
    for (const server of servers) sayIn(server)
    busy.push(await beat())
  }
  deliveries.stop()
  if (written === 0) throw new Error("no cursor was written")
  return { sessions: count, quiet: figure(quiet), busy: figure(busy) }
}
