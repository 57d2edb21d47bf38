import { isWithin, parseAddress, parseRange, type Address, type AddressRange } from "./client-address.ts"

const rangesOf = (...texts: string[]): readonly AddressRange[] => texts.map(text => parseRange(text)!)

/** Where nothing for everybody can be: private, shared, local, reserved, and of groups. */
const closed = rangesOf(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/3",
)
/**
 * The IPv6 addresses of the public network; of those, the ways to IPv4 hold the address that they
 * lead to.
 */
const [open] = rangesOf("2000::/3")
const [toTeredo, to6to4, toNat64] = rangesOf("2001::/32", "2002::/16", "64:ff9b::/96")

/** Whether an address is one of the public network. */
export function isPublic(address: Address): boolean {
  if (address.length === 4) return !closed.some(range => isWithin(address, range))
  if (isWithin(address, to6to4!)) return isPublic(address.subarray(2, 6))
  if (isWithin(address, toNat64!)) return isPublic(address.subarray(12))
  return isWithin(address, open!) && !isWithin(address, toTeredo!)
}

const localName = /(?:^|\.)(?:localhost|local|internal|home\.arpa|lan|intranet|localdomain)$/

/**
 * Whether a URL may lead to somewhere that is everybody's, as far as it says so itself: no address
 * of a private network, however it is written, and no name that only such a network knows. The URL
 * is one that the contract took.
 */
export function isPublicUrl(url: string): boolean {
  const { hostname } = new URL(url)
  const name = hostname.replace(/^\[|\]$/g, "").replace(/\.+$/, "")
  const address = parseAddress(name)
  return address ? isPublic(address) : name.includes(".") && !localName.test(name)
}
