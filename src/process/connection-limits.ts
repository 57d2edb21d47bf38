import type { HttpResponse, TemplatedApp } from "uWebSockets.js"
import type { ClusterConfig } from "../../cluster.config.ts"
import type { Config } from "../config.ts"
import { widerPrefixes } from "../contract/core/limits.ts"
import {
  addressOf,
  isWithin,
  limitedAddress,
  prefix48,
  prefix56,
  trustedProxies,
  type Address,
} from "../domain/core/client-address.ts"
import type { Metrics } from "../observability/metrics.ts"
import { RecentCounts } from "../std/recent-counts.ts"

/** uWebSockets.js ends a connection on which nothing came for that long, at the latest. */
export const idleConnectionMs = 12_000

/** Whether bounds on what one address holds of a worker leave an address out. */
export function unlimitedIn({ unlimitedAddresses }: Pick<Config, "unlimitedAddresses">): (address: Address) => boolean {
  const ranges = trustedProxies(unlimitedAddresses)
  return address => ranges.some(range => isWithin(address, range))
}

interface ConnectionLimits {
  readonly config: Pick<Config, "unlimitedAddresses" | "trustedProxies">
  readonly topology: Pick<ClusterConfig, "http">
  readonly metrics: Pick<Metrics, "http">
}

/**
 * Counts the connections that are open and have not become a WebSocket, and those that ever became
 * one; refuses those that one address opens too many of.
 *
 * uWebSockets.js does not say whose a connection was that ends, so those of one address cannot be
 * counted exactly. But one without a request ends after `idleConnectionMs`: at most as many are idle
 * as were opened in that time. Requests under way and WebSockets have their own bounds.
 */
export function countAccepted(app: TemplatedApp, { config, topology, metrics }: ConnectionLimits): () => number {
  const { openedPerAddress } = topology.http.connections
  const isUnlimited = unlimitedIn(config)
  const proxies = trustedProxies(config.trustedProxies)
  const opened = new RecentCounts(2 * idleConnectionMs)
  let accepted = 0

  function isTooMuch(res: HttpResponse): boolean {
    const peer = addressOf(new Uint8Array(res.getRemoteAddress()))
    // A proxy brings the connections of everybody.
    if (isUnlimited(peer) || proxies.some(range => isWithin(peer, range))) return false
    const holder = limitedAddress(peer)
    const now = performance.now()
    if (opened.count(holder, now) > openedPerAddress) return true
    const net56 = prefix56(holder)
    if (net56 === undefined) return false
    // What is refused to a /64 does not count for those around it.
    return (
      opened.count(net56, now) > openedPerAddress * widerPrefixes.times56 ||
      opened.count(prefix48(holder)!, now) > openedPerAddress * widerPrefixes.times48
    )
  }

  // 1 for a connection that comes, -1 for one that goes and has not become a WebSocket.
  app.filter((res, change) => {
    accepted += Math.sign(Number(change))
    if (Number(change) < 0 || !isTooMuch(res)) return
    metrics.http.overload.connections.inc()
    res.close()
  })
  return () => accepted
}
