import type { Snowflake } from "../../contract/core/fields.ts"
import { orderOf } from "./read-state.ts"

/**
 * Eight bytes each, the highest first: a member's id, when they joined, and how far they have
 * received, as places.
 */
const memberBytes = 24

/**
 * How far everybody who may view a channel has received it. `since`: a member who joined after a
 * message was sent did not receive it, however far they have come; nobody has received less than
 * that. Its size does not grow with messages.
 */
export class Receivers {
  readonly #users: BigInt64Array
  readonly #since: Float64Array
  readonly #upTo: Float64Array
  /** The same, each sorted by itself. */
  readonly #sinces: Float64Array
  readonly #upTos: Float64Array
  /** Where those are who were asked for. */
  readonly #places = new Map<Snowflake, number>()

  constructor(blocks: readonly Uint8Array[]) {
    const count = blocks.reduce((sum, block) => sum + block.length / memberBytes, 0)
    this.#users = new BigInt64Array(count)
    this.#since = new Float64Array(count)
    this.#upTo = new Float64Array(count)
    let at = 0
    for (const block of blocks) {
      // A copy of its own: numbers have to lie at multiples of their size, and came in network
      // order.
      const { buffer } = Buffer.from(new Uint8Array(block).buffer).swap64()
      const ids = new BigInt64Array(buffer)
      const numbers = new Float64Array(buffer)
      for (let i = 0; i < numbers.length; i += 3, at++) {
        this.#users[at] = ids[i]!
        this.#since[at] = numbers[i + 1]!
        this.#upTo[at] = numbers[i + 2]!
      }
    }
    this.#sinces = this.#since.slice().sort()
    this.#upTos = this.#upTo.slice().sort()
  }

  get count(): number {
    return this.#users.length
  }

  get bytes(): number {
    return 40 * this.#users.length
  }

  /** How many have received a message, without its author. */
  countOf({ id, author_id }: { readonly id: Snowflake; readonly author_id: Snowflake }): number {
    const place = orderOf(id)
    // A member who joined later is above it in both.
    const count = from(this.#upTos, place) - from(this.#sinces, place + 1)
    const author = this.#placeOf(author_id)
    const isIn = author >= 0 && this.#upTo[author]! >= place && this.#since[author]! <= place
    return isIn ? count - 1 : count
  }

  /** -1: the member is not in the list. */
  #placeOf(user: Snowflake): number {
    let at = this.#places.get(user)
    if (at === undefined) this.#places.set(user, (at = this.#users.indexOf(BigInt(user))))
    return at
  }
}

/** How many of some rising numbers are at or above one. */
function from(numbers: Float64Array, least: number): number {
  let low = 0
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (numbers[middle]! < least) low = middle + 1
    else high = middle
  }
  return numbers.length - low
}
