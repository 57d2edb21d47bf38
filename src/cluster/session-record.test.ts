import fc from "fast-check"
import { expect, test } from "vitest"
import { longRecord, readRecord, shortRecord, type SessionRecord } from "./session-record.ts"

const id = fc
  .oneof(fc.bigInt({ min: 0n, max: 9_223_372_036_854_775_807n }), fc.bigInt({ min: 0n, max: 10n ** 10n }))
  .map(String)
const position = fc.oneof(fc.maxSafeNat(), fc.nat())
const optional = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined })
const known = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, of]) => of !== undefined)) as T
const record: fc.Arbitrary<SessionRecord> = fc.record({
  id: fc.uuid(),
  worker: fc.constant("web-host.example-0-0a1b2c3d"),
  user: id,
  accessSession: id,
  intents: fc.nat(),
  guilds: fc.array(id),
  changes: fc.array(
    fc
      .record({
        server: id,
        s: position,
        isMember: fc.boolean(),
        isEarly: optional(fc.constant(true)),
        isLookedUp: optional(fc.constant(true)),
      })
      .map(known) as fc.Arbitrary<SessionRecord["changes"][number]>,
  ),
  spans: fc.array(
    fc
      .record({
        log: fc.constantFrom("web-a-0-11111111", "web-b.c-12-22222222", "7", "_"),
        lo: position,
        hi: fc.option(position),
        counted: fc.boolean(),
        since: position,
        start: optional(position),
        cuts: optional(fc.uniqueArray(fc.tuple(id, fc.nat()), { selector: ([home]) => home }).map(Object.fromEntries)),
      })
      .map(known) as fc.Arbitrary<SessionRecord["spans"][number]>,
  ),
  voice: fc.constantFrom(null, { channel: "7", voiceSession: 'a;b~,"*' }),
})

test("the short form says what was written, whatever ids and positions it has; so does JSON", () => {
  fc.assert(
    fc.property(record, record => {
      const { id: _, worker: __, ...body } = record
      expect(shortRecord(record)).toMatch(/^2;/)
      expect(readRecord(shortRecord(record))).toEqual(body)
      expect(readRecord(longRecord(record))).toMatchObject(body)
    }),
    { numRuns: 500 },
  )
})

test("what does not fit the short form is written as JSON", () => {
  const plain = {
    id: "s",
    worker: "w",
    user: "7",
    accessSession: "8",
    intents: 1,
    guilds: [],
    changes: [],
    spans: [],
    voice: null,
  }
  const span = { log: "web-0", lo: 1, hi: null, counted: false, since: 1 }
  for (const odd of [
    { ...plain, user: "ada" },
    { ...plain, guilds: ["007"] },
    { ...plain, guilds: ["12345678901234567890"] },
    { ...plain, spans: [{ ...span, log: "a,b" }] },
    { ...plain, spans: [{ ...span, since: 0.5 }] },
    { ...plain, intents: Number.NaN },
  ])
    expect(shortRecord(odd)).toBe(longRecord(odd))
  expect(() => readRecord("3;")).toThrow("unknown form")
})

test("a session in ten servers that came over years has at most 240 bytes; ten moves later at most 800", () => {
  const server = (i: number) => String(1_180_000_000_000_123_456n + BigInt(i) * 31_537_123_456_789_123n)
  const servers = Array.from({ length: 10 }, (_, i) => server(i))
  const cuts = Object.fromEntries(servers.slice(0, 2).map((home, i) => [home, 500 + i]))
  const spans = Array.from({ length: 10 }, (_, i) => ({
    log: `web-host-${i % 2}-0a1b2c3d`,
    lo: 4_000_000_000_000 + i * 1000,
    hi: i === 9 ? null : 4_000_000_000_100 + i * 1000,
    counted: i % 2 === 0,
    since: 3_999_999_000_000,
    cuts,
  }))
  const ours = { id: "0".repeat(32), worker: "w", user: server(3), accessSession: server(9), intents: 53_608_447 }
  const at = (spans: SessionRecord["spans"]) =>
    shortRecord({ ...ours, guilds: servers, changes: [], spans, voice: null })
  expect(
    at([{ log: spans[0]!.log, lo: spans[0]!.lo, hi: null, counted: false, since: spans[0]!.lo }]).length,
  ).toBeLessThanOrEqual(240)
  expect(at(spans).length).toBeLessThanOrEqual(800)
})
