import { limitedAddress, type Address } from "../domain/core/client-address.ts"
import { AddressBudget } from "../domain/core/address-budget.ts"
import type { Connection } from "./state/session.ts"

interface SocketLimits {
  readonly maxPerAddress: number
  readonly maxUnidentifiedPerAddress: number
  readonly isUnlimited: (address: Address) => boolean
}

/**
 * How many sockets one address has, and the IPv6 prefixes around it: all of them, and those that
 * have not identified.
 */
export class SocketsPerAddress {
  readonly #isUnlimited: SocketLimits["isUnlimited"]
  readonly #all: AddressBudget
  readonly #strangers: AddressBudget

  constructor({ maxPerAddress, maxUnidentifiedPerAddress, isUnlimited }: SocketLimits) {
    this.#isUnlimited = isUnlimited
    this.#all = new AddressBudget(Infinity, maxPerAddress)
    this.#strangers = new AddressBudget(Infinity, maxUnidentifiedPerAddress)
  }

  /** One more, which has not identified. @returns for whom it counts, or which bound refuses it */
  take(
    address: Address,
  ): { readonly holder: string | undefined } | { readonly full: "sockets" | "unidentified_sockets" } {
    if (this.#isUnlimited(address)) return { holder: undefined }
    const holder = limitedAddress(address)
    if (!this.#strangers.take(holder, 1)) return { full: "unidentified_sockets" }
    if (this.#all.take(holder, 1)) return { holder }
    this.#strangers.give(holder, 1)
    return { full: "sockets" }
  }

  identified(connection: Connection): void {
    if (!connection.isStranger) return
    connection.isStranger = false
    if (connection.holder !== undefined) this.#strangers.give(connection.holder, 1)
  }

  closed(connection: Connection): void {
    this.identified(connection)
    if (connection.holder !== undefined) this.#all.give(connection.holder, 1)
  }
}
