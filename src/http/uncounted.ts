import { channelActor } from "../actors/channel.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Http, Jobs } from "./http.ts"

/** A channel is looked at once in so many milliseconds. */
const pause = 60_000
const mostRemembered = 10_000
const mostWaiting = 100
/** So often its home is asked, at most: each time it counts some thousands of messages. */
const rounds = 200

/**
 * Channels that are older than the counts of their messages are counted because somebody reads them: behind his back, one channel
 * at a time.
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
        for (let round = 0; round < rounds && (await storage.readState.hasUncounted(channel)); round++)
          await ask(channelActor, channel, { type: "countMessages" })
      }
    } finally {
      isUnderWay = false
    }
  }

  return (channel: Snowflake): void => {
    const now = clock()
    const before = lookedAt.get(channel)
    if ((before !== undefined && Math.abs(now - before) < pause) || waiting.size >= mostWaiting) return
    lookedAt.delete(channel)
    lookedAt.set(channel, now)
    if (lookedAt.size > mostRemembered) lookedAt.delete(lookedAt.keys().next().value!)
    waiting.add(channel)
    if (isUnderWay) return
    isUnderWay = true
    jobs.later(0, count)
  }
}
