import type { MessageRefs } from "../../contract/core/registry.ts"
import type { Audience } from "./audience.ts"
import type { Control } from "./control.ts"
import { epochMs } from "./snowflake.ts"

/**
 * What stands beside each piece of data in a delivery log, as a JSON array to keep it short.
 *   e  an event: shard, number, home, audience, event name, who does not get it (users, or sessions
 *      of one user), the messages that it is about, if any, and the span of its commit, if that is
 *      traced. Its data is `d`, ready to send.
 *   x  an ephemeral event: the same without a number c  a control entry: shard, number, home,
 *   audience, type. Its data is a `Control` of that type. g  a gap: events of this shard are
 *   missing before this point m  a join marker: the log whose pieces are mapped in here, after
 *   which position there, how many positions are reserved
 */
export type LogHeader =
  | readonly [
      "e",
      shard: number,
      number: number,
      home: string,
      audience: Audience,
      name: string,
      except: readonly string[],
      about?: MessageRefs | null,
      trace?: string,
    ]
  | readonly ["x", shard: number, number: 0, home: string, audience: Audience, name: string, except: readonly string[]]
  | readonly ["c", shard: number, number: number, home: string, audience: Audience, type: Control["type"]]
  | readonly ["g", shard: number, number: number]
  | readonly ["m", log: string, since: number, length: number]
  | readonly ["b"]

/** One piece of a delivery log with its position. */
export interface LogItem {
  readonly s: number
  readonly header: LogHeader
  readonly data: string
  /** Of header and data, in UTF-8. */
  readonly bytes: number
}

/** Positions of a log in one millisecond of the clock that gives them. */
export const positionsPerMs = 4_096

/** When a position was given, in Unix milliseconds, by the clock of Redis. */
export const appendedAtMs = (s: number): number => s / positionsPerMs + epochMs

/** The position of the last piece of an entry. */
export const lastOf = (id: string): number => Number(id.slice(0, id.indexOf("-")))

/** The position of the first piece of an entry. */
export const firstOf = (id: string, fields: number): number => lastOf(id) - fields / 2 + 1

/** The pieces of one stream entry: the entry's id is the position of its last piece. */
export function itemsOf(id: string, fields: readonly string[]): LogItem[] {
  const first = firstOf(id, fields.length)
  const count = fields.length / 2
  const items: LogItem[] = []
  for (let i = 0; i < count; i++) {
    const header = fields[2 * i]!
    const data = fields[2 * i + 1]!
    items.push({
      s: first + i,
      header: JSON.parse(header) as LogHeader,
      data,
      // Headers hold ids and names of ours only: ASCII.
      bytes: header.length + Buffer.byteLength(data),
    })
  }
  return items
}
