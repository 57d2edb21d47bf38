import { addressOf, formatAddress, parseAddress, type Address } from "./client-address.ts"

/** An address with all its bits, or a range; what lies behind the prefix is zero. */
export interface AddressRange {
  readonly network: Address
  readonly bits: number
}

/** More are not kept: whoever needs them needs a firewall. */
export const mostBlocks = 10_000

/** Reads an address or a CIDR range. A range of mapped addresses is the IPv4 range; a wider one is none. */
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
  return address.length === network.length && keyOf(masked(address, bits)) === keyOf(network)
}

const loopback: readonly AddressRange[] = [parseRange("127.0.0.0/8")!, parseRange("::1")!]

/** Whether a range may be blocked: not where it holds the machine's own addresses, or the one that the operator comes from. */
export function mayBlock(range: AddressRange, own?: Address): boolean {
  if (own && isWithin(own, range)) return false
  return !loopback.some(
    each => isWithin(each.network, range) || (each.bits < range.bits && isWithin(range.network, each)),
  )
}

export interface AddressBlock {
  /** As `formatRange` writes it. */
  readonly address: string
  /** Unix seconds; null: for ever. */
  readonly expires_at: number | null
}

/**
 * Blocked addresses and ranges. A look costs one hash per length of prefix that occurs, however many there are: single
 * addresses are one such length.
 */
export class AddressBlocks {
  /** By bytes of an address and bits of the prefix: when each network's block ends. */
  readonly #lengths: { readonly bytes: number; readonly bits: number; readonly ends: Map<string, number> }[] = []

  constructor(blocks: Iterable<AddressBlock>) {
    for (const { address, expires_at } of blocks) {
      const range = parseRange(address)
      if (!range) continue
      const { network, bits } = range
      let length = this.#lengths.find(each => each.bytes === network.length && each.bits === bits)
      if (!length) this.#lengths.push((length = { bytes: network.length, bits, ends: new Map() }))
      length.ends.set(keyOf(network), expires_at ?? Infinity)
    }
  }

  get isEmpty(): boolean {
    return this.#lengths.length === 0
  }

  /** @param now Unix seconds */
  has(address: Address, now: number): boolean {
    const plain = addressOf(address)
    return this.#lengths.some(({ bytes, bits, ends }) => {
      if (bytes !== plain.length) return false
      const end = ends.get(keyOf(masked(plain, bits)))
      return end !== undefined && end > now
    })
  }
}

function masked(address: Address, bits: number): Address {
  if (bits === address.length * 8) return address
  const network = Uint8Array.from(address)
  for (let i = 0; i < network.length; i++) {
    const kept = Math.min(8, Math.max(0, bits - 8 * i))
    network[i]! &= 0xff << (8 - kept)
  }
  return network
}

const keyOf = (address: Address): string => String.fromCharCode(...address)
