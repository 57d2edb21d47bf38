import type { LogItem } from "../../domain/core/log-entry.ts"
import { isRulesChange, type Control } from "../../domain/core/control.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { controlOf } from "../fan-out/controls.ts"
import { firstNotBelow } from "../../std/sorted-search.ts"
import { append } from "../../std/multi-map.ts"

/** A log may be held beyond its bound by so much: it is not cut for every item. */
const cutAbove = 1.25

/**
 * Items of a log up to some position. Slices of many sessions share it; it grows at its end only,
 * until the log is cut or held from an earlier position. Then there is another.
 */
class HeldItems {
  readonly items: LogItem[] = []
  /** How many bytes lie before each item. */
  readonly #before: number[] = []
  /**
   * Where each home's rows are among the items, where the gaps are, and who joined which server
   * where.
   */
  readonly homes = new Map<Snowflake, number[]>()
  readonly gaps: number[] = []
  readonly joins = new Map<Snowflake, { at: number; server: Snowflake }[]>()
  /** Per home, the items that change who sees what. */
  readonly changes = new Map<Snowflake, number[]>()
  bytes = 0

  constructor(items: readonly LogItem[]) {
    for (const item of items) this.add(item)
  }

  add(item: LogItem): void {
    const at = this.items.push(item) - 1
    this.#before.push(this.bytes)
    this.bytes += item.bytes
    const { header } = item
    if (header[0] === "g") this.gaps.push(at)
    if (header[0] !== "e" && header[0] !== "c") return
    append(this.homes, header[3], at)
    if (header[0] !== "c") return
    const [, , , server, , type] = header
    if (isRulesChange({ type }) || type === "memberRoles") append(this.changes, header[3], at)
    if (type !== "joined") return
    const { user } = controlOf(item) as Extract<Control, { type: "joined" }>
    append(this.joins, user, { at, server })
  }

  /** How many bytes lie after a position. */
  bytesAfter(position: number): number {
    const first = firstAfter(this.items, position)
    return first < this.items.length ? this.bytes - this.#before[first]! : 0
  }

  /** How many items at the front are more than so many bytes allow. */
  beyond(maxBytes: number): number {
    return firstNotBelow(this.items.length, i => this.bytes - this.#before[i]! > maxBytes)
  }
}

/**
 * The end of another worker's log. All items after `from` are counted. The newest of them are held,
 * as many bytes as a session may have missed.
 */
export class HeldLog {
  /** The Redis that it was read from: in another one the same items may have other positions. */
  readonly at: string
  from: number
  /** Positions of the items that are counted but not held. */
  #passed: number[] = []
  content = new HeldItems([])
  readTo: number
  usedAt = 0
  reading: Promise<void> | undefined
  /** Reads what lies before, from the earliest position that anybody waits for. */
  extending: Promise<void> | undefined
  wanted: number
  readonly #maxBytes: number

  constructor(at: string, from: number, maxBytes: number) {
    this.at = at
    this.from = from
    this.readTo = from
    this.wanted = from
    this.#maxBytes = maxBytes
  }

  /** Whether more lies after a position than a session may have missed. */
  isTooMuch(position: number): boolean {
    return position < (this.#passed.at(-1) ?? 0) || this.content.bytesAfter(position) > this.#maxBytes
  }

  /** Counted items. */
  get count(): number {
    return this.#passed.length + this.content.items.length
  }

  /** The number of the first held item among those that are counted. */
  get first(): number {
    return this.#passed.length
  }

  /** How many of the counted items are not after a position. */
  countTo(position: number): number {
    const passed = this.#passed
    if (position < (passed.at(-1) ?? 0)) return firstNotBelow(passed.length, i => passed[i]! <= position)
    return passed.length + firstAfter(this.content.items, position)
  }

  /** The position of a counted item. */
  positionOf(index: number): number | undefined {
    return index < this.first ? this.#passed[index] : this.content.items[index - this.first]?.s
  }

  /** Adds what follows. */
  grow(items: readonly LogItem[]): void {
    for (const item of items) this.content.add(item)
    this.readTo = items.at(-1)!.s
    this.#cut()
  }

  #cut(): void {
    if (this.content.bytes <= this.#maxBytes * cutAbove) return
    const { items: held } = this.content
    const cut = this.content.beyond(this.#maxBytes)
    for (let i = 0; i < cut; i++) this.#passed.push(held[i]!.s)
    this.content = new HeldItems(held.slice(cut))
  }

  /**
   * Adds what lies between an earlier position and `from`, a part at a time. Of that, too, no more
   * is held than a session may have missed.
   */
  async extend(from: number, readAfter: (position: number) => Promise<readonly LogItem[]>): Promise<void> {
    const passed: number[] = []
    let earlier: LogItem[] = []
    let bytes = 0
    for (let to = from; to < this.from;) {
      const items = await readAfter(to)
      to = items.at(-1)!.s
      for (const item of items) {
        if (item.s > this.from) break
        earlier.push(item)
        bytes += item.bytes
      }
      const capacity = this.first > 0 ? 0 : this.#maxBytes - this.content.bytes
      let cut = 0
      for (; cut < earlier.length && bytes > capacity; cut++) {
        passed.push(earlier[cut]!.s)
        bytes -= earlier[cut]!.bytes
      }
      if (cut > 0) earlier = earlier.slice(cut)
    }
    // It may have been cut meanwhile.
    if (this.first > 0) for (const { s } of earlier.splice(0)) passed.push(s)
    this.#passed = [...passed, ...this.#passed]
    if (earlier.length > 0) this.content = new HeldItems([...earlier, ...this.content.items])
    this.from = from
    this.#cut()
  }
}

/** The index of the first item after a position. */
export function firstAfter(items: readonly LogItem[], position: number): number {
  return firstNotBelow(items.length, i => items[i]!.s <= position)
}
