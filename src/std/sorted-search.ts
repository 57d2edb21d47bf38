/**
 * Binary search: of `count` places in order, the first that is not below what is looked for;
 * `count` where all are below. `isBelowAt` is true for a run of places at the start and false for
 * the rest.
 */
export function firstNotBelow(count: number, isBelowAt: (index: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBelowAt(middle)) low = middle + 1
    else high = middle
  }
  return low
}
