import { afterAll, expect, test } from "vitest"
import { collectGarbage } from "../../tests/kit/heap.ts"
import { placeIn } from "../cluster/delivery-log.ts"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { systemClock } from "../std/system-clock.ts"
import { Outbox, type OutboxOptions } from "./outbox.ts"
import { RawJson, type Row } from "./row.ts"
import { Shard } from "./shard.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

/** An owner of one shard, whose home has a listener on the worker "w". */
function ownerOf(
  logs: {
    replications: string
    append: (numbers: readonly number[]) => Promise<void>
    at: () => number
  },
  targets: Partial<OutboxOptions["targets"]> = {},
  sweep?: OutboxOptions["store"]["sweep"],
) {
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  shard.addInterest("7", "w")
  const body = '{"items":[["e","7",{"kind":"user","user":"7"},"NAME",[],{}]],"answers":[]}'
  const outbox = new Outbox({
    logs: {
      get replications() {
        return logs.replications
      },
      async append(_worker: string, parts: readonly { number: number }[]) {
        await logs.append(parts.map(({ number }) => number))
        return parts.map(() => ({ is: "ok" }))
      },
      positions: async () => new Map([[1, logs.at()]]),
    },
    interests: { add: async () => {}, remove: async () => {}, replace: async () => {} },
    shards: new Map([[1, shard]]),
    cluster: { view: { isDead: () => false, isLiving: () => true, wellForMs: 0 }, dead: { isForgotten: () => false } },
    store: { outbox: async () => [{ shard: 1, number: 1, last_id: "1", body }], sweep },
    targets,
    events: { stale() {}, progressed() {}, committed() {} },
    timing: sweep ? { keepMs: 0, sweepEveryMs: 5 } : { keepMs: 60_000, sweepEveryMs: 60_000 },
    clock: systemClock,
    log: silentLog,
    metrics,
  } as unknown as OutboxOptions)
  const row: Row = {
    shard,
    number: 1,
    items: [["e", "7", { kind: "user", user: "7" }, "NAME", [], new RawJson("{}")]],
    again: false,
  }
  const logout = (number: number): Row => ({ ...row, number, items: [...row.items, ["r", ["900"]]] })
  return { outbox, shard, row, logout, publish: () => new Promise<void>(resolve => outbox.publish([row], resolve)) }
}

test("OUT4, P5: what was published before a loss of Redis counts as standing in the logs once it was sent again", async () => {
  let at = 0
  let letGo = () => {}
  const isLetGo = new Promise<void>(resolve => (letGo = resolve))
  const appended: number[][] = []
  const logs = {
    replications: "first",
    async append(numbers: readonly number[]) {
      appended.push([...numbers])
      if (appended.length === 2) await isLetGo
      at = numbers.at(-1)!
    },
    at: () => at,
  }
  const { outbox, publish } = ownerOf(logs)
  await publish()
  expect(outbox.isWhole).toBe(true)
  // Another Redis, without the row; nobody has said so yet.
  at = 0
  logs.replications = "second"
  expect(outbox.isWhole).toBe(false)
  await new Promise(setImmediate)
  expect(appended).toEqual([[1], [1]])
  expect(outbox.isWhole).toBe(false)
  letGo()
  await new Promise(setImmediate)
  expect(outbox.isWhole).toBe(true)
  outbox.doubt()
  expect(outbox.isWhole).toBe(false)
  await new Promise(setImmediate)
  expect(outbox.isWhole).toBe(true)
  expect(appended).toHaveLength(2)
  outbox.stop()
})

test("places of logs are one where they are the same, and each worker's otherwise", () => {
  expect(placeIn("one", "w")).toBe("one")
  expect(placeIn({ w: "one", v: "two" }, "v")).toBe("two")
  expect(placeIn({ w: "one" }, "x")).toBeUndefined()
})

test("OUT2, P19: a logout is answered and confirmed once it is in effect; what others do meanwhile is published and answered", async () => {
  const appended: number[] = []
  const waiting: { letGo: () => void; fail: () => void }[] = []
  const { outbox, row, logout } = ownerOf(
    {
      replications: "one",
      append: async numbers => void appended.push(...numbers),
      at: () => 0,
    },
    {
      revoke: () =>
        new Promise((resolve, reject) => waiting.push({ letGo: resolve, fail: () => reject(new Error("not yet")) })),
    },
  )
  const answers: string[] = []
  outbox.publish(
    [logout(1)],
    () => answers.push("beside the logout"),
    () => answers.push("logout"),
  )
  await expect.poll(() => answers).toEqual(["beside the logout"])
  outbox.publish([{ ...row, number: 2 }], () => answers.push("post"))
  await expect.poll(() => answers).toEqual(["beside the logout", "post"])
  expect(appended).toEqual([1, 2])
  await expect.poll(() => outbox.unconfirmed).toBe(1)
  // It is tried until it is done.
  waiting[0]!.fail()
  await expect.poll(() => waiting.length).toBe(2)
  expect(answers).not.toContain("logout")
  waiting[1]!.letGo()
  await expect.poll(() => answers.at(-1)).toBe("logout")
  await expect.poll(() => outbox.unconfirmed).toBe(0)
  outbox.stop()
})

test("OUT3: what could not be deleted is deleted by the next sweep, with the messages that it was about; the newest row stays", async () => {
  const asked: { number: number; messages: readonly unknown[] }[][] = []
  const { outbox, shard, row } = ownerOf(
    { replications: "one", append: async () => {}, at: () => 0 },
    { tell: async () => {} },
    async rows => {
      asked.push(rows.map(({ shard: of, number, messages }) => ({ shard: of, number, messages })))
      if (asked.length === 1) throw new Error("not now")
    },
  )
  const [data, user] = [new RawJson("{}"), { kind: "user", user: "7" } as const]
  const everybody = { kind: "server", server: "7", permission: "channels.view" } as never
  const items: Row["items"][] = [
    [["e", "7", everybody, "NAME", [], data, ["70", "701", "702"]]],
    [
      ["t", "user", "8", "told", {}, ["71", "711"]],
      // What a user is told of was told to their home before.
      ["e", "7", user, "NAME", [], data, ["70", "703"]],
      ["e", "7", everybody, "NAME", [], data],
    ],
    [["e", "7", everybody, "NAME", [], data, ["70", "704"]]],
  ]
  const rows = items.map((of, i): Row => ({ ...row, number: i + 1, items: of }))
  outbox.publish(rows, () => {})
  shard.commitRow(3)
  const swept = [
    {
      shard: 1,
      number: 1,
      messages: [
        { channel_id: "70", message_id: "701" },
        { channel_id: "70", message_id: "702" },
      ],
    },
    { shard: 1, number: 2, messages: [{ channel_id: "71", message_id: "711" }] },
  ]
  await expect.poll(() => asked).toEqual([swept, swept])
  outbox.publish([{ ...row, number: 4 }], () => {})
  shard.commitRow(4)
  const last = [{ shard: 1, number: 3, messages: [{ channel_id: "70", message_id: "704" }] }]
  await expect.poll(() => asked).toEqual([swept, swept, last])
  // One statement names so many messages, and the next one those that are left.
  const many = Array.from({ length: 50_000 }, (_, i) => String(i))
  const large = [many, ["1"], []].map((ids, i): Row => {
    const event = ["e", "7", everybody, "NAME", [], data, ["70", ...ids]] as const
    return { ...row, number: 5 + i, items: [event] }
  })
  outbox.publish(large, () => {})
  shard.commitRow(7)
  const cut = [
    [4, 0],
    [5, 50_000],
  ]
  const sizes = () => asked.slice(3).map(rows => rows.map(({ number, messages }) => [number, messages.length]))
  await expect.poll(sizes).toEqual([cut, [[6, 1]]])
  outbox.stop()
})

test("of a row that has arrived its events are not kept until it is deleted", async () => {
  const { outbox, row } = ownerOf({ replications: "one", append: async () => {}, at: () => 0 })
  const publish = () => {
    const text = new RawJson('{"content":"long"}')
    const told = new WeakRef(text)
    outbox.publish([{ ...row, items: [["e", "7", { kind: "user", user: "7" }, "NAME", [], text]] }], () => {})
    return told
  }
  const told = publish()
  await expect.poll(() => outbox.unconfirmed).toBe(0)
  // Another turn: what a WeakRef was asked for stays until its own is over.
  await new Promise(setImmediate)
  collectGarbage()
  expect(told.deref()).toBeUndefined()
  outbox.stop()
})
