import type { Snowflake } from "../../contract/core/fields.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { inTurns } from "../../std/batches.ts"
import { setNewest } from "../../std/bounded-map.ts"
import type { Clock } from "../../std/clock.ts"
import { ownText } from "../../std/own-text.ts"
import type { Arrival } from "../../storage/messages/arrivals.ts"
import type { ReceivedBefore } from "../../storage/messages/deliveries.ts"
import type { Storage } from "../../storage/storage.ts"

/** What an access session is now, and all that its user's gateway session needs to know; undefined: it has ended. */
export type ArrivalOf = (access: Snowflake) => Promise<Arrival | undefined>

/** Servers of which it is remembered what was there last. */
const maxReceived = 10_000

/** One query at a time, for all sessions that begin, or come from another worker, meanwhile. */
export function arrivalsOf(
  storage: Pick<Storage, "arrivals">,
  { clock, metrics }: { readonly clock: Pick<Clock, "soon">; readonly metrics: Metrics },
): ArrivalOf {
  /** By server: sessions that come while nothing is said there share it. */
  const received = new Map<Snowflake, ReceivedBefore>()

  const shared = (one: ReceivedBefore): ReceivedBefore => {
    const { home_id, is_direct, message_id } = one
    const known = is_direct ? undefined : received.get(home_id)
    if (known?.message_id === message_id) return known
    const own = { home_id: ownText(home_id), is_direct, message_id: ownText(message_id) }
    if (!is_direct) setNewest(received, own.home_id, own, maxReceived)
    return own
  }

  return inTurns(async (asked: readonly Snowflake[]) => {
    metrics.gateway.membershipQueries.inc()
    const found = new Map<Snowflake, Arrival>()
    for (const arrival of await storage.arrivals.find(asked)) {
      arrival.received = arrival.received.map(shared)
      found.set(arrival.session_id, arrival)
    }
    return asked.map(access => found.get(access))
  }, clock)
}
