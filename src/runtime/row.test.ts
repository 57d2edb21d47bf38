import fc from "fast-check"
import { expect, test } from "vitest"
import { messageDelete } from "../contract/messages/messages.ts"
import { membersOf, userOnly, viewersHolding, viewersOf } from "../domain/core/audience.ts"
import { control, revoke, type Publication } from "./actor.ts"
import { jobOf, logFields, readRowBody, rowBody, toItem, type RowAnswer, type RowItem } from "./row.ts"
import { Shard } from "./shard.ts"

const shard = new Shard({
  number: 77,
  epoch: 3,
  lastId: undefined,
  lastRow: 8,
  interests: [],
  positions: new Map(),
})
const row = { shard, number: 9 }

const id = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String)
const text = fc.string({ unit: "binary" })
/** Whatever JSON can carry, as JSON carries it: -0 is 0 there. */
const json = fc.jsonValue().map(value => JSON.parse(JSON.stringify(value)) as unknown)
const audience = fc.oneof(
  fc.tuple(id, id).map(([server, channel]) => viewersOf(server, channel)),
  fc.tuple(id, id).map(([server, channel]) => viewersHolding(server, channel, "webhooks.manage")),
  id.map(server => membersOf(server)),
  id.map(user => userOnly(user)),
)
const publication: fc.Arbitrary<Publication> = fc.oneof(
  fc
    .tuple(audience, json, fc.array(id, { maxLength: 3 }))
    .map(([to, data, except]): Publication => ({ kind: "event", event: messageDelete, audience: to, data, except })),
  fc.tuple(audience, id, id).map(([to, server, user]) => control(to, { type: "left", server, user })),
  fc
    .tuple(id, json)
    .map(([to, input]): Publication => ({ kind: "tell", actor: "user", id: to, command: "membershipChanged", input })),
  fc.tuple(text, json, fc.nat()).map(([key, data, runAtMs]): Publication => ({
    kind: "job",
    job: "expireSession",
    data,
    key,
    runAtMs,
  })),
  fc.array(id, { maxLength: 3 }).map(sessions => revoke(...sessions)),
)
const home = id
const items = fc.array(fc.tuple(home, publication), { maxLength: 6 }).map(list => list.map(([h, p]) => toItem(h, p)))
const answers: fc.Arbitrary<RowAnswer[]> = fc.array(fc.tuple(text, json), { maxLength: 3 })

test("BAL2: what the next owner publishes is word for word what this one would have", () => {
  fc.assert(
    fc.property(items, answers, (before, replies) => {
      const read = readRowBody(rowBody(before, replies))
      expect(read.answers).toEqual(replies)
      expect(read.items.map(item => logFields(row, item))).toEqual(before.map(item => logFields(row, item)))
      // A second owner after the first finds the same again.
      expect(rowBody(read.items, read.answers)).toBe(rowBody(before, replies))
    }),
    { numRuns: 300 },
  )
})

test("tells, jobs and revocations come back as they were, and stand in no delivery log", () => {
  const sent: Publication[] = [
    { kind: "tell", actor: "user", id: "5", command: "membershipChanged", input: { server: "7", member: true } },
    { kind: "job", job: "expireSession", data: { user_id: "5" }, key: "session:5", runAtMs: 12 },
    revoke("5", "6"),
  ]
  const read = readRowBody(
    rowBody(
      sent.map(one => toItem("5", one)),
      [],
    ),
  ).items
  expect(read.map(item => logFields(row, item))).toEqual([undefined, undefined, undefined])
  expect(read[0]).toEqual(["t", "user", "5", "membershipChanged", { server: "7", member: true }])
  expect(jobOf(read[1] as Extract<RowItem, readonly ["j", ...unknown[]]>)).toEqual(sent[1])
  expect(read[2]).toEqual(["r", ["5", "6"]])
})

test("a log's header names shard, row, home and audience", () => {
  const item = toItem(
    "44",
    messageDelete.to(
      viewersOf("44", "45"),
      { id: "46", channel_id: "45", server_id: "44", guild_id: "44" },
      { except: ["9"] },
    ),
  )
  const [header, data] = logFields(row, item)!
  expect(JSON.parse(header)).toEqual([
    "e",
    77,
    9,
    "44",
    { kind: "viewers", server: "44", channel: "45" },
    "MESSAGE_DELETE",
    ["9"],
    ["45", "46"],
  ])
  expect(data).toBe('{"id":"46","channel_id":"45","server_id":"44","guild_id":"44"}')
})

test("a log's header names the type of a control entry, however its JSON is written", () => {
  const control = { user: "9", server: "44", type: "left" } as const
  const [item] = readRowBody(
    rowBody([toItem("44", { kind: "control", audience: { kind: "members", server: "44" }, control })], []),
  ).items
  const [header, data] = logFields(row, item!)!
  expect(JSON.parse(header)).toEqual(["c", 77, 9, "44", { kind: "members", server: "44" }, "left"])
  expect(JSON.parse(data)).toEqual(control)
})

test("SHARD1, SHARD2: a shard's ids and rows go on where a former owner stopped, whatever the clock says", () => {
  const former = new Shard({ number: 5, epoch: 1, lastId: undefined, lastRow: 0, interests: [], positions: new Map() })
  const last = former.newId(2_000_000_000_000)
  const next = new Shard({
    number: 5,
    epoch: 2,
    lastId: former.lastId,
    lastRow: 12,
    interests: [{ home: "1", worker: "w", from: 4 }],
    positions: new Map([["w", 11]]),
  })
  expect(BigInt(next.newId(1_900_000_000_000))).toBeGreaterThan(BigInt(last))
  expect(next.nextRow()).toBe(13)
  expect(next.nextRow()).toBe(14)
  next.giveBackRows(13)
  expect(next.nextRow()).toBe(13)
  expect(next.takeUnsaved()).toEqual([])
  next.commitRow(13)
  next.addInterest("1", "w")
  next.addInterest("1", "v")
  expect(next.takeUnsaved()).toEqual([{ home: "1", worker: "v", from: 13 }])
  expect(next.sent.get("w")).toBe(11)
})
