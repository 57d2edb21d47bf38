/**
 * `npm run bench -- deliveries`: what it costs to say to how many people messages were delivered,
 * by members.
 */
import type { Bench } from "../bench.ts"
import { plant } from "../communities/fixture.ts"
import { microseconds, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import { benchCursors, benchDelivered, plantCursors, type CursorCost, type DeliveredCost } from "./costs.ts"
import { benchHeartbeats, type HeartbeatCost } from "./heartbeats.ts"

interface DeliveriesResults extends About {
  heartbeats: HeartbeatCost
  cursors: CursorCost
  costs: DeliveredCost[]
}

export const deliveries: Bench<never, DeliveriesResults> = {
  about: "to how many messages were delivered, by members; heartbeats",
  plan({ runs, isQuick, say }) {
    const members = isQuick ? [10, 1_000] : [10, 100, 1_000, 10_000, 100_000]
    return {
      sizes: { audience: 1, authors: 0, idlers: 0 },
      extent: { runs },
      async measure({ databaseUrl }, about) {
        say("heartbeats")
        const heartbeats = await benchHeartbeats(isQuick ? 1_000 : 20_000, runs)
        say(`servers of up to ${members.at(-1)!.toLocaleString("en")} members`)
        const communities = members.map(count => ({ members: count, people: 8 }))
        const fixture = await plant(databaseUrl, { communities, strangers: 1, channels: 10, roles: 10 })
        await plantCursors(databaseUrl, isQuick ? 1_000 : 1_000_000)
        const costs = await benchDelivered(databaseUrl, fixture, runs)
        return { ...about, heartbeats, costs, cursors: await benchCursors(databaseUrl, fixture, runs) }
      },
      lines: summarize,
      sided: ["the first page", "each page after it"],
    }
  },
}

const summarize = ({ costs, heartbeats, cursors }: DeliveriesResults): Line[] => [
  {
    work: `a heartbeat among ${heartbeats.sessions.toLocaleString("en")} sessions, nothing new`,
    bare: "",
    starling: `${round(heartbeats.quiet.median)} µs; with messages in all their servers before it, and its cursors handed over: ${round(heartbeats.busy.median)} µs`,
    value: heartbeats.quiet,
    unit: "µs",
  },
  {
    work: `a cursor, written with ${(cursors.rows - 1).toLocaleString("en")} others`,
    bare: "",
    starling: `${round(cursors.written.median)} µs; what was there before a session, looked up for ${cursors.sessions} together: ${round(cursors.begun.median)} µs`,
    value: cursors.written,
    unit: "µs",
  },
  ...costs.map(({ members, first, firstCpu, next, statement }): Line => ({
    work: `50 messages with their counts, ${members.toLocaleString("en")} members`,
    bare: `${round(first.median)} ms, ${microseconds(firstCpu)} of Node; ${statement.blocks} blocks: ${statement.ways}`,
    starling: microseconds(next),
    value: next,
    unit: "µs",
  })),
]
