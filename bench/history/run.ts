/** `npm run bench -- history`: what a page of history costs, however long the history is. */
import type { Bench } from "../bench.ts"
import { benchPages } from "./pages.ts"
import type { PagesExtent } from "./pages.ts"
import { summarize } from "./report.ts"
import type { HistoryResults } from "./report.ts"

const maxMessages = 10_000_000

export const history: Bench<never, HistoryResults> = {
  about: "what a page of history costs, hot and cold",
  options: { messages: "how many the channels have, one channel each: 1000,10000,100000,1000000" },
  plan({ runs, isQuick, counts, say }) {
    const messages = counts("messages", isQuick ? "1000,10000" : "1000,10000,100000,1000000", maxMessages)
    const extent: PagesExtent = isQuick
      ? { runs, messages, pages: 2_000, warmUpPages: 1_000, idleSeconds: 1 }
      : { runs, messages, pages: 20_000, warmUpPages: 10_000, idleSeconds: 5 }
    return {
      sizes: { audience: 1, authors: 4 * messages.length, idlers: 0 },
      extent: { runs },
      async measure(harness, about) {
        return { ...about, pages: await benchPages(harness, extent, say) }
      },
      lines: summarize,
    }
  },
}
