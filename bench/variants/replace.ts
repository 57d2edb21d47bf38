/**
 * Takes something out of the program: a method is replaced by another. A method that is not there
 * ends the process, and the first call is told on stderr, so that the benchmark knows that what it
 * measured was in effect.
 */
export const leftOut = (what: string) => `left out: ${what}`

export function replace<T extends object, N extends keyof T>(
  { prototype, name }: { prototype: T; name: string },
  method: N,
  what: string,
  act: T[N],
): void {
  if (typeof prototype[method] !== "function") throw new Error(`${name} has no method ${String(method)}`)
  let isTold = false
  const replaced = function (this: T, ...args: unknown[]): unknown {
    if (!isTold) process.stderr.write(`${leftOut(what)}\n`)
    isTold = true
    return (act as (this: T, ...args: unknown[]) => unknown).apply(this, args)
  }
  prototype[method] = replaced as T[N]
}
