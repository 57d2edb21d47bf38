/**
 * Addresses of clients: 4 bytes or 16. An IPv4 address that arrives mapped into IPv6 is the IPv4
 * address, so that one client has one address however the socket was opened.
 */
export type Address = Uint8Array

const isMapped = (bytes: Uint8Array) => {
  for (let i = 0; i < 10; i++) if (bytes[i] !== 0) return false
  return bytes[10] === 0xff && bytes[11] === 0xff
}

/** Takes what a socket says of its peer. */
export const addressOf = (bytes: Uint8Array): Address =>
  bytes.length === 16 && isMapped(bytes) ? bytes.subarray(12) : bytes

/** Reads an IPv4 or IPv6 address; a zone is not one. */
export function parseAddress(text: string): Address | undefined {
  return text.includes(":") ? parseIPv6(text) : parseIPv4(text)
}

function parseIPv4(text: string): Address | undefined {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (!parts) return undefined
  const bytes = parts.slice(1).map(Number)
  return bytes.every(byte => byte <= 255) ? Uint8Array.from(bytes) : undefined
}

function parseIPv6(text: string): Address | undefined {
  const tail = /[\d.]+$/.exec(text)?.[0] ?? ""
  const embedded = tail.includes(".") ? parseIPv4(tail) : undefined
  if (tail.includes(".") && !embedded) return undefined
  const head = embedded ? text.slice(0, -tail.length) + group(embedded, 0) + ":" + group(embedded, 2) : text

  const halves = head.split("::")
  if (halves.length > 2) return undefined
  const [before, after] = halves.map(half => (half === "" ? [] : half.split(":")))
  const given = before!.length + (after?.length ?? 0)
  if (after ? given > 7 : given !== 8) return undefined
  const groups = after ? [...before!, ...Array<string>(8 - given).fill("0"), ...after] : before!
  if (!groups.every(digits => /^[0-9a-fA-F]{1,4}$/.test(digits))) return undefined
  const bytes = new Uint8Array(16)
  groups.forEach((digits, i) => {
    const value = parseInt(digits, 16)
    bytes[2 * i] = value >> 8
    bytes[2 * i + 1] = value & 255
  })
  return addressOf(bytes)
}

const group = (bytes: Uint8Array, at: number) => ((bytes[at]! << 8) | bytes[at + 1]!).toString(16)

/** As people write it; IPv6 with its longest run of zeros left out. */
export function formatAddress(address: Address): string {
  if (address.length === 4) return `${address[0]}.${address[1]}.${address[2]}.${address[3]}`
  const groups = Array.from({ length: 8 }, (_, i) => group(address, 2 * i))
  let [start, length] = [0, 0]
  for (let i = 0; i < 8; i++) {
    let end = i
    while (end < 8 && groups[end] === "0") end++
    if (end - i > length) [start, length] = [i, end - i]
  }
  if (length < 2) return groups.join(":")
  return `${groups.slice(0, start).join(":")}::${groups.slice(start + length).join(":")}`
}

/**
 * What limits count by: an IPv4 address, or the /64 that an IPv6 client can choose its address
 * from.
 */
export function limitedAddress(address: Address): string {
  if (address.length === 4) return `${address[0]}.${address[1]}.${address[2]}.${address[3]}`
  return `${group(address, 0)}:${group(address, 2)}:${group(address, 4)}:${group(address, 6)}::/64`
}

const suffix = "::/64"

/**
 * The /56 around what `limitedAddress` said of an IPv6 address, as a key that no other kind of
 * address has; undefined for IPv4. It and `prefix48` cut the text and read nothing anew.
 */
export const prefix56 = (limited: string): string | undefined =>
  limited.endsWith(suffix)
    ? limited.slice(0, Math.max(thirdColon(limited), limited.length - suffix.length - 2))
    : undefined

/** The /48 around an IPv6 address, as `prefix56`. */
export const prefix48 = (limited: string): string | undefined =>
  limited.endsWith(suffix) ? limited.slice(0, thirdColon(limited) - 1) : undefined

/** Where the fourth group begins. */
const thirdColon = (limited: string) => limited.indexOf(":", limited.indexOf(":", limited.indexOf(":") + 1) + 1) + 1

/** An address with all its bits, or a range; what lies behind the prefix is zero. */
export interface AddressRange {
  readonly network: Address
  readonly bits: number
}

/**
 * Reads an address or a CIDR range. A range of mapped addresses is the IPv4 range; a wider one is
 * none.
 */
export function parseRange(text: string): AddressRange | undefined {
  const [head = "", tail, ...rest] = text.split("/")
  const network = parseAddress(head)
  if (!network || rest.length > 0 || (tail !== undefined && !/^(0|[1-9]\d{0,2})$/.test(tail))) return undefined
  const full = network.length * 8
  const mapped = full === 32 && head.includes(":") ? 96 : 0
  const bits = tail === undefined ? full : Number(tail) - mapped
  if (bits < 0 || bits > full) return undefined
  return { network: masked(network, bits), bits }
}

export const formatRange = ({ network, bits }: AddressRange): string =>
  bits === network.length * 8 ? formatAddress(network) : `${formatAddress(network)}/${bits}`

export function isWithin(address: Address, { network, bits }: AddressRange): boolean {
  if (network.length !== address.length) return false
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (network[i] !== address[i]) return false
  const rest = bits & 7
  return rest === 0 || (network[whole]! ^ address[whole]!) >> (8 - rest) === 0
}

/** An address without the bits behind a prefix. */
export function masked(address: Address, bits: number): Address {
  if (bits === address.length * 8) return address
  const network = Uint8Array.from(address)
  for (let i = 0; i < network.length; i++) {
    const kept = Math.min(8, Math.max(0, bits - 8 * i))
    network[i]! &= 0xff << (8 - kept)
  }
  return network
}

/** Reads addresses and ranges; the configuration has checked them. */
export const trustedProxies = (ranges: readonly string[]): readonly AddressRange[] =>
  ranges.flatMap(range => parseRange(range) ?? [])

const isTrusted = (address: Address, proxies: readonly AddressRange[]): boolean =>
  proxies.some(range => isWithin(address, range))

/** Some proxies add a line of their own: all lines are one list, in their order. */
export const withForwarded = (before: string | undefined, line: string): string =>
  before === undefined ? line : `${before},${line}`

/**
 * Who is at the other end. A trusted proxy is believed about the hop before it, and so on: the
 * client is the last entry of `X-Forwarded-For` that is no trusted proxy. An entry that is no
 * address ends the walk at the hop that sent it.
 */
export function clientAddress(
  peer: Address,
  forwardedFor: string | undefined,
  proxies: readonly AddressRange[],
): Address {
  let client = peer
  if (forwardedFor === undefined || !isTrusted(peer, proxies)) return client
  const hops = forwardedFor.split(",")
  for (let i = hops.length - 1; i >= 0; i--) {
    const hop = parseAddress(withoutPort(hops[i]!.trim()))
    if (!hop) return client
    client = hop
    if (!isTrusted(hop, proxies)) return client
  }
  return client
}

/** Some proxies write `192.0.2.1:4711` or `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)
  return bracketed ? bracketed[1]! : text.replace(/^([\d.]+):\d{1,5}$/, "$1")
}
