import { fail } from "../../contract/core/errors.ts"
import { setNewest } from "../../std/bounded-map.ts"

/** Addresses that are remembered. One that is forgotten begins anew. */
const maxAddresses = 50_000

/**
 * How many pages an address may ask one worker for: so many at once, and as many a minute. Pages
 * are no part of the interface, so they take nothing from the limits of its requests.
 */
export function createPageRequests(perMinute: number, metrics: { readonly inc: () => void }) {
  const left = new Map<string, { readonly pages: number; readonly atMs: number }>()

  /** @param nowMs on the clock of `performance.now` */
  return (address: string, nowMs: number): void => {
    if (perMinute === Infinity) return
    const before = left.get(address)
    const refilled = before ? before.pages + ((nowMs - before.atMs) / 60_000) * perMinute : perMinute
    const pages = Math.min(perMinute, refilled)
    if (pages < 1) {
      metrics.inc()
      throw fail("rate_limited", {
        retry_after: ((1 - pages) / perMinute) * 60,
        extra: { global: false, scope: "ip" },
      })
    }
    setNewest(left, address, { pages: pages - 1, atMs: nowMs }, maxAddresses)
  }
}
