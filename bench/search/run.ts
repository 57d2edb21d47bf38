/**
 * `npm run bench -- search`: how long searches take among many messages, what indexing costs, and
 * what it costs those who send.
 */
import type { Bench } from "../bench.ts"
import { postsInFlight } from "../posts.ts"
import { plantCorpus } from "./corpus.ts"
import { benchFill } from "./fill.ts"
import { benchQueries } from "./queries.ts"
import { summarize, type SearchResults } from "./report.ts"
import { benchSending } from "./sending.ts"

const parts = ["sending", "queries"] as const

export const search: Bench<(typeof parts)[number], SearchResults> = {
  about: "searches among a million messages, and what the index costs those who send",
  parts,
  options: { messages: "how many there are to search" },
  plan({ only, runs, isQuick, count, say }) {
    const messages = count("messages", isQuick ? 20_000 : 1_000_000, 10_000_000)
    const extent = { runs, seconds: isQuick ? 2 : 15, warmUpSeconds: isQuick ? 1 : 4 }
    return {
      sizes: { audience: 1, authors: 128, idlers: 0 },
      extent: { runs },
      async measure(harness, about) {
        const results: SearchResults = about
        if (only.has("sending"))
          results.sending = [
            // As fast as it goes, and with capacity to spare.
            await benchSending(harness, extent, postsInFlight, 0, say),
            await benchSending(harness, extent, 4, 10, say),
          ]
        if (only.has("queries")) {
          const corpus = await plantCorpus(harness.databaseUrl, messages)
          results.fill = await benchFill(harness.databaseUrl, say)
          const starling = await harness.startStarling({ RATE_LIMITS: "off" })
          results.queries = await benchQueries(starling, corpus, isQuick ? 10 : 200, say)
          await starling.stop()
        }
        return results
      },
      lines: summarize,
      sided: ["without the index", "with it"],
    }
  },
}
