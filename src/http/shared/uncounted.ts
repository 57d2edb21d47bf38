import { channelActor } from "../../actors/channel.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Http, Jobs } from "./http.ts"
import { setNewest } from "../../std/bounded-map.ts"

/** A channel is looked at once in this time. */
const pauseMs = 60_000
const maxRemembered = 10_000
const maxWaiting = 100
/** How often the home is asked at most: each time it counts some thousands of messages. */
const maxRounds = 200

/**
 * Counts the messages of channels that are older than the counts, when a user reads them: in the
 * background, one channel at a time.
 */
export function uncounted({
  ask,
  storage,
  jobs,
  clock,
}: Pick<Http<"readState">, "ask" | "storage" | "clock"> & { readonly jobs: Pick<Jobs, "later"> }) {
  /** The one looked at longest ago is first. */
  const lookedAt = new Map<Snowflake, number>()
  const waiting = new Set<Snowflake>()
  let isUnderWay = false

  async function count() {
    try {
      for (const channel of waiting) {
        waiting.delete(channel)
        for (let round = 0; round < maxRounds && (await storage.readState.hasUncounted(channel)); round++)
          await ask(channelActor, channel, { type: "countMessages" })
      }
    } finally {
      isUnderWay = false
    }
  }

  return (channel: Snowflake): void => {
    const now = clock()
    const before = lookedAt.get(channel)
    if ((before !== undefined && Math.abs(now - before) < pauseMs) || waiting.size > maxWaiting - 1) return
    setNewest(lookedAt, channel, now, maxRemembered)
    waiting.add(channel)
    if (isUnderWay) return
    isUnderWay = true
    jobs.later(0, count)
  }
}
