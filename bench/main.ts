/**
 * `npm run bench`: Starling beside bare servers that do as little as can be done: CPU per delivery and
 * per post, memory per idle session, latency.
 */
import type { Bench } from "./bench.ts"
import { audience, benchFanOut } from "./fan-out.ts"
import { benchIdle, firstSessions } from "./idle.ts"
import { benchLatency } from "./latency.ts"
import { authors, benchPosts } from "./posts.ts"
import { fanOutChart, summarize, type Results } from "./report.ts"

const parts = ["idle", "fanout", "posts", "latency"] as const

export const main: Bench<(typeof parts)[number], Results> = {
  about: "CPU per delivery and per post, memory per idle session, latency: about twelve minutes",
  parts,
  options: { sessions: "idle sessions whose memory is measured, up to 30,000" },
  isAlwaysKept: true,
  plan({ only, runs, isQuick, count, say }) {
    const extent = {
      runs,
      warmUpSeconds: isQuick ? 1 : 4,
      seconds: isQuick ? 2 : 5,
      idleSessions: count("sessions", isQuick ? 1_000 : 20_000, 30_000),
      restSeconds: isQuick ? 2 : 65,
      countsDeferredWork: !isQuick,
    }
    const idlers = only.has("idle") ? extent.idleSessions + firstSessions : 0
    return {
      sizes: { audience, authors, idlers },
      extent,
      async measure(harness, about) {
        const results: Results = about
        if (only.has("idle")) results.idle = await benchIdle(harness, extent, say)
        if (only.has("fanout") || only.has("posts") || only.has("latency")) {
          say("starting Starling")
          const starling = await harness.startStarling()
          if (only.has("fanout")) results.fanOut = await benchFanOut(harness, starling, 2, extent, say)
          if (only.has("posts")) results.posts = await benchPosts(harness, starling, extent, say)
          if (only.has("latency")) results.latency = await benchLatency(harness, starling, extent, say)
          await starling.stop()
        }
        if (only.has("fanout")) {
          say("starting Starling with one web worker")
          const starling = await harness.startStarling({ WORKERS: "1" })
          results.fanOutOfOne = await benchFanOut(harness, starling, 1, extent, say)
        }
        return results
      },
      lines: summarize,
      charts: results => (results.fanOut ? { "fan-out": fanOutChart(results, results.fanOut) } : {}),
    }
  },
}
