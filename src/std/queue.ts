/**
 * A list that grows at its end and is shortened at its front, with access to every place. Both cost the same however long
 * it is: the rest moves forward only once more has left than stayed.
 */
export class Queue<T> {
  readonly #items: (T | undefined)[] = []
  #first = 0

  get length(): number {
    return this.#items.length - this.#first
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** Takes the first out. Of an empty queue that is undefined. */
  shift(): T | undefined {
    const items = this.#items
    if (this.#first === items.length) return undefined
    const item = items[this.#first]
    items[this.#first++] = undefined // let go of at once, not when the rest moves
    if (this.#first * 2 > items.length) {
      items.splice(0, this.#first)
      this.#first = 0
    }
    return item
  }

  /** @param index below `length` */
  at(index: number): T {
    return this.#items[this.#first + index]!
  }

  /** A copy of what stands from `start` on, up to and without `end`. */
  slice(start: number, end = this.length): T[] {
    return this.#items.slice(this.#first + start, this.#first + Math.min(end, this.length)) as T[]
  }
}
