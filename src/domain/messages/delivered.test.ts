import fc from "fast-check"
import { expect, test } from "vitest"
import { Receivers } from "./delivered.ts"
import { epochMs, idOf } from "../core/snowflake.ts"

interface Member {
  readonly user: bigint
  readonly since: number
  readonly upTo: number
}

/** As PostgreSQL sends it. */
function blockOf(members: readonly Member[]): Uint8Array {
  const block = Buffer.alloc(24 * members.length)
  for (const [i, { user, since, upTo }] of members.entries()) {
    block.writeBigInt64BE(user, 24 * i)
    block.writeDoubleBE(since, 24 * i + 8)
    block.writeDoubleBE(Math.max(since, upTo), 24 * i + 16)
  }
  // Anywhere in memory, as it comes.
  return new Uint8Array([0, ...block]).subarray(1)
}

const member = fc.record({ user: fc.bigInt({ min: 1n, max: 40n }), since: fc.nat(30), upTo: fc.nat(30) })
const members = fc.uniqueArray(member, { selector: ({ user }) => user, maxLength: 30 })

test("a message's count is that of everybody who was there before it and has come as far, without its author", () => {
  fc.assert(
    fc.property(members, fc.nat(30), fc.integer({ min: 1, max: 40 }), fc.nat(29), (all, at, author, cut) => {
      const place = all.some(({ since }) => since === at) ? at + 0.5 : at
      fc.pre(Number.isInteger(place))
      const id = idOf(5, { ms: epochMs, sequence: place })
      const receivers = new Receivers([blockOf(all.slice(0, cut)), blockOf(all.slice(cut))])
      const expected = all.filter(
        ({ user, since, upTo }) => user !== BigInt(author) && since <= place && Math.max(since, upTo) >= place,
      )
      expect(receivers.count).toBe(all.length)
      // Asked twice: the author's place is remembered.
      for (let i = 0; i < 2; i++) expect(receivers.countOf({ id, author_id: String(author) })).toBe(expected.length)
    }),
  )
})

test("nobody is no trouble", () => {
  expect(new Receivers([]).countOf({ id: "5", author_id: "7" })).toBe(0)
})
