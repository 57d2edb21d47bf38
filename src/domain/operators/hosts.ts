import { isWithin, parseAddress, parseRange, type Address, type AddressRange } from "../core/client-address.ts"

const loopback: readonly AddressRange[] = [parseRange("127.0.0.0/8")!, parseRange("::1")!]
const isLoopback = (address: Address): boolean => isIn(address, loopback)
const isIn = (address: Address, ranges: readonly AddressRange[]): boolean =>
  ranges.some(range => isWithin(address, range))

/** Reads what `admin_ui_allowed_hosts` lists; `localhost` is every address of this machine's own. */
export const hostRanges = (hosts: readonly string[]): readonly AddressRange[] =>
  hosts.flatMap(host => (host.toLowerCase() === "localhost" ? loopback : (parseRange(host) ?? [])))

export const isHost = (text: string): boolean => hostRanges([text]).length > 0

/** Where a request comes from, as the socket and the headers say. */
export interface Whence {
  readonly peer: Address
  /** The headers `X-Forwarded-For`, `X-Real-IP` and `Forwarded`, all lines of each. */
  readonly forwardedFor: string | undefined
  readonly realIp: string | undefined
  readonly forwarded: string | undefined
}

export interface HostRules {
  readonly trustedProxies: readonly AddressRange[]
  /** Undefined: from everywhere. */
  readonly allowed: readonly AddressRange[] | undefined
}

const withoutPort = (text: string): string =>
  /^"?\[([^\]]*)\](?::\d{1,5})?"?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d{1,5}$/, "$1")

/** The addresses that a list of hops names; undefined for an entry that is no address. */
const hopsOf = (list: string): (Address | undefined)[] =>
  list.split(",").map(hop => parseAddress(withoutPort(hop.trim())))

/** The values of `for=` in a header `Forwarded`. */
const forwardedClients = (header: string): string =>
  [...header.matchAll(/(?:^|[;,\s])for=("[^"]*"|[^;,\s]+)/gi)].map(([, value]) => value!.replaceAll('"', "")).join(",")

/**
 * Whether the operator area is open to who sent a request. It keeps:
 *   AREA1  What a header says never lets anybody in who would be refused without it, unless a
 *       trusted proxy sent it.
 *   AREA2  A proxy on this machine that is not trusted shows by its headers that it speaks for
 *       somebody else: it is not this machine.
 *   AREA3  Behind a trusted proxy the client is the last hop that is no trusted proxy. A hop that
 *       is no address is nobody.
 */
export function mayEnter(
  { peer, forwardedFor, realIp, forwarded }: Whence,
  { trustedProxies, allowed }: HostRules,
): boolean {
  if (isIn(peer, trustedProxies)) {
    // It speaks for somebody whom it names in a header that is not read.
    if (allowed && forwardedFor === undefined && (realIp ?? forwarded) !== undefined) return false
    const client = forwardedFor === undefined ? peer : lastUntrusted(hopsOf(forwardedFor), trustedProxies)
    return client !== undefined && (!allowed || isIn(client, allowed))
  }
  const claims = [forwardedFor, realIp, forwarded === undefined ? undefined : forwardedClients(forwarded)]
  const hops = claims.flatMap(claim => (claim === undefined ? [] : hopsOf(claim)))
  if (!isLoopback(peer)) {
    if (hops.some(hop => hop && isLoopback(hop))) return false
  } else if (allowed && !hops.every(hop => hop && isLoopback(hop))) return false
  return !allowed || isIn(peer, allowed)
}

/** The first entry where all are trusted; undefined where one on the way is no address. */
function lastUntrusted(
  hops: readonly (Address | undefined)[],
  trustedProxies: readonly AddressRange[],
): Address | undefined {
  for (let i = hops.length - 1; i >= 0; i--) {
    const hop = hops[i]
    if (!hop || i === 0 || !isIn(hop, trustedProxies)) return hop
  }
  return undefined
}
