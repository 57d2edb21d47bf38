/** `npm run bench -- history`: what a page of history costs, however long the history is. */
import { parseArgs } from "node:util"
import { measuringOptions, readCount, readMeasuring } from "../arguments.ts"
import { record, show } from "../record.ts"
import { benchPages } from "./pages.ts"
import type { PagesExtent } from "./pages.ts"
import { summarize } from "./report.ts"
import type { HistoryResults } from "./report.ts"

const usage = `npm run bench -- history [--messages 1000,10000,100000,1000000] [--runs 3] [--quick] [--write] [--main FILE]

--messages  how many the channels have, one channel each
--runs      how often each is measured; medians are shown
--quick     small, short and once: shows that all works, not what it costs
--write     keeps the results
--main      the server to run; left out, this checkout is built and run`

const maxMessages = 10_000_000

export async function benchHistory(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      messages: { type: "string" },
      ...measuringOptions,
    },
  })
  const { runs, isQuick, isKept, mainFile } = readMeasuring(values, usage)
  const messages = (values.messages ?? (isQuick ? "1000,10000" : "1000,10000,100000,1000000"))
    .split(",")
    .map(count => readCount("messages", count, 1, maxMessages, usage))
  const extent: PagesExtent = isQuick
    ? { runs, messages, pages: 2_000, warmUpPages: 1_000, idleSeconds: 1 }
    : { runs, messages, pages: 20_000, warmUpPages: 10_000, idleSeconds: 5 }
  const sizes = { audience: 1, authors: 4 * messages.length, idlers: 0 }
  const results = await record({ sizes, extent: { runs }, isQuick, mainFile, build, say }, async (harness, about) => {
    const results: HistoryResults = about
    results.pages = await benchPages(harness, extent, say)
    return results
  })
  await show(results, summarize(results), { isKept, suffix: "-history" })
}
