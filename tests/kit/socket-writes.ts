import type { Redis as Server } from "ioredis"
import type { Writable } from "node:stream"

/** Counts what a connection hands to the kernel from now on, until it is made anew. */
export function countWrites(redis: Server): { readonly count: number } {
  const { stream } = redis as unknown as { stream: Writable }
  const counted = { count: 0 }
  for (const name of ["_write", "_writev"] as const) {
    const write = stream[name]!.bind(stream) as (...args: unknown[]) => void
    stream[name] = (...args: unknown[]) => {
      counted.count++
      write(...args)
    }
  }
  return counted
}
