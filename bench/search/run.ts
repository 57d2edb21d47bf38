/**
 * `npm run bench -- search`: how long searches take among many messages, what indexing costs, and
 * what it costs those who send.
 */
import { parseArgs } from "node:util"
import { measuringOptions, readCount, readMeasuring, readParts } from "../arguments.ts"
import { record, show } from "../record.ts"
import { postsInFlight } from "../posts.ts"
import { plantCorpus } from "./corpus.ts"
import { benchFill } from "./fill.ts"
import { benchQueries } from "./queries.ts"
import { summarize, type SearchResults } from "./report.ts"
import { benchSending } from "./sending.ts"

const usage = `npm run bench -- search [--only queries,sending] [--messages 1000000] [--runs 3] [--quick] [--write] [--main FILE]

--only      some of the parts
--messages  how many there are to search
--runs      how often sending is measured; medians are shown
--quick     small, short and once: shows that all works, not what it costs
--write     keeps the results
--main      the server to run; left out, this checkout is built and run`

const parts = ["sending", "queries"] as const

export async function benchSearch(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      messages: { type: "string" },
      ...measuringOptions,
    },
  })
  const { runs, isQuick, isKept, mainFile } = readMeasuring(values, usage)
  const only = readParts(parts, values.only, usage)
  const messages = readCount("messages", values.messages, isQuick ? 20_000 : 1_000_000, 10_000_000, usage)
  const extent = { runs, seconds: isQuick ? 2 : 15, warmUpSeconds: isQuick ? 1 : 4 }
  const results = await record(
    { sizes: { audience: 1, authors: 128, idlers: 0 }, extent: { runs }, isQuick, mainFile, build, say },
    async (harness, about) => {
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
  )
  await show(results, summarize(results), {
    isKept,
    suffix: "-search",
    sided: ["without the index", "with it"],
  })
}
