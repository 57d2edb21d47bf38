import { clusterConfig } from "../../../cluster.config.ts"
import { rebuildSearchIndex, SearchIndex } from "../../workers/search-index.ts"
import type { Log } from "../../observability/log.ts"
import { systemClock as clock } from "../../std/system-clock.ts"
import type { Commands } from "./saying.ts"

/** Messages between two words about it. */
const messagesPerLine = 100_000

/** What messages are found by. */
export const searchCommands: Commands = {
  "search rebuild": {
    takes: [],
    async run({ storage, policy }) {
      const indexing = storage.openSearchIndex()
      const troubled = (fields: object, what: string) => console.error(what, fields)
      const index = new SearchIndex({
        storage: indexing,
        bounds: clusterConfig.search,
        languages: policy.search_languages,
        clock,
        log: { warn: troubled, error: troubled } as unknown as Log,
      })
      let saidAt = 0
      try {
        const done = await rebuildSearchIndex(indexing, index, count => {
          if (count < saidAt + messagesPerLine) return
          saidAt = count
          console.log(`${count} messages`)
        })
        return `${done} messages indexed`
      } finally {
        await indexing.close()
      }
    },
  },
}
