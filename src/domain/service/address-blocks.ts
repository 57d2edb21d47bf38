import { addressOf, isWithin, masked, parseRange, type Address, type AddressRange } from "../core/client-address.ts"

/** More are not kept: an operator who needs more needs a firewall. */
export const maxBlocks = 10_000

const loopback: readonly AddressRange[] = [parseRange("127.0.0.0/8")!, parseRange("::1")!]

/**
 * Whether a range may be blocked: not where it holds the machine's own addresses, or the one that
 * the operator comes from.
 */
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
 * Blocked addresses and ranges. A look costs one hash per length of prefix that occurs, however
 * many there are: single addresses are one such length.
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

const keyOf = (address: Address): string => String.fromCharCode(...address)
