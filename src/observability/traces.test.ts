import { createServer } from "node:http"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, onTestFinished, test } from "vitest"
import { Counter } from "./instruments.ts"
import { TraceExport, Tracer, type EndedSpan } from "./traces.ts"

function tracing(share: number, perSecond = 1_000_000) {
  const ended: EndedSpan[] = []
  let nowMs = 0
  const tracer = new Tracer({ spans: { add: span => void ended.push(span) }, share, perSecond, nowMs: () => nowMs })
  const begin = (traceparent?: string) => tracer.request("GET /x", traceparent, nowMs)
  return { tracer, ended, begin, at: (ms: number) => (nowMs = ms) }
}
const parent = (traceId: string, flags = "01") => `00-${traceId}-00000000000000b7-${flags}`
const id = (end: string) => end.padStart(32, "1")

test("about the given share is traced, the same traces everywhere, and never what a caller leaves out", () => {
  const count = 4_000
  const taken = Array.from({ length: count }, () => tracing(0.25).begin()).filter(span => span !== undefined).length
  expect(taken / count).toBeGreaterThan(0.2)
  expect(taken / count).toBeLessThan(0.3)
  const quarter = tracing(0.25)
  expect(quarter.begin(parent(id("c0000000000000"))) !== undefined).toBe(true)
  expect(quarter.begin(parent(id("bfffffffffffff")))).toBeUndefined()
  expect(tracing(1).begin(parent(id("f"), "00"))).toBeUndefined()
  expect(tracing(0).begin(parent(id("0")))).toBeUndefined()
})

test("TRACE1: a caller who asks for all of their requests to be traced gets no more than the bound", () => {
  const { begin, at } = tracing(0.01, 5)
  const cheap = parent(id("ffffffffffffff"))
  const taken = () => Array.from({ length: 50 }, () => begin(cheap)).filter(span => span !== undefined).length
  at(1_000)
  expect(taken()).toBe(5)
  at(1_999)
  expect(taken()).toBe(0)
  at(2_000)
  expect(taken()).toBe(5)
})

test("a traceparent of any other form is as good as none", () => {
  const { begin } = tracing(1)
  const good = begin(parent(id("5")))!
  expect([good.traceId, good.parentId]).toEqual([id("5"), "00000000000000b7"])
  for (const bad of [
    "",
    "00",
    parent("0".repeat(32)),
    `00-${id("5")}-0000000000000000-01`,
    parent(id("5").toUpperCase().replace("1", "A")),
    `ff-${id("5")}-00000000000000b7-01`,
    `${parent(id("5"))}x`,
    `${parent(id("5"))}-${"9".repeat(200)}`,
  ]) {
    const span = begin(bad)!
    expect(span.parentId).toBeUndefined()
    expect(span.traceId).not.toBe(id("5"))
  }
  // A later version may have more.
  expect(begin(`01-${id("5")}-00000000000000b7-01-more`)!.traceId).toBe(id("5"))
})

test("whatever a handler asks belongs to its request, also after waits, and nothing after its end", async () => {
  const { tracer, begin } = tracing(1)
  expect(tracer.current).toBeUndefined()
  const [one, other] = [begin()!, begin()!]
  let late: Promise<string | undefined> | undefined
  const asks = async () => {
    await sleep(2)
    const found = tracer.current
    late = sleep(20).then(() => tracer.current)
    return found
  }
  expect(await Promise.all([tracer.run(one, asks), tracer.run(other, asks)])).toEqual([one.parent, other.parent])
  one.end(1)
  other.end(1)
  expect(tracer.current).toBeUndefined()
  expect(await late).toBeUndefined()
  const third = begin()!
  expect(await tracer.run(third, asks)).toBe(third.parent)
})

/** A collector that answers with these statuses, then with 200. */
async function exporting(statuses: number[], bounds: object = {}) {
  const counts: number[] = []
  const collector = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8").on("data", (text: string) => (body += text))
    request.on("end", () => {
      const status = statuses.shift() ?? 200
      const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: unknown[] }[] }[] }
      if (status === 200) counts.push(resourceSpans[0]!.scopeSpans[0]!.spans.length)
      response.writeHead(status).end()
    })
  }).listen(0, "127.0.0.1")
  await once(collector, "listening")
  onTestFinished(() => void collector.close())
  const counted = { exported: new Counter(), dropped: new Counter() }
  const url = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/v1/traces`
  const spans = new TraceExport({ url, headers: {}, resource: {}, counted, bounds: { everyMs: 5, ...bounds } })
  const about = {
    name: "x",
    kind: 1,
    parentId: undefined,
    startedAtMs: 1,
    endedAtMs: 2,
    attributes: {},
    isError: false,
  } as const
  const add = (count: number) => {
    for (let i = 0; i < count; i++) spans.add({ ...about, traceId: id("5"), spanId: "00000000000000b7" })
  }
  const totals = () => {
    const samples: { value: number }[] = []
    for (const counter of [counted.exported, counted.dropped]) counter.write("", {}, samples as never)
    return samples.map(({ value }) => value)
  }
  return { spans, add, totals, counts }
}

test("spans go in batches, again after a pause where the collector is busy, and to the last one at the end", async () => {
  const { spans, add, totals, counts } = await exporting([503, 429], { batch: 10 })
  add(25)
  while (totals()[0]! < 25) await sleep(5)
  expect(counts).toEqual([10, 10, 5])
  add(3)
  await spans.stop()
  expect(totals()).toEqual([28, 0])
})

test("what the collector refuses, what it does not take in several tries, and what is too much is left out", async () => {
  const refused = await exporting([400])
  refused.add(4)
  while (refused.totals()[1]! < 4) await sleep(5)
  refused.add(1)
  await refused.spans.stop()
  expect(refused.totals()).toEqual([1, 4])

  const away = await exporting([503, 503, 503])
  away.add(6)
  while (away.totals()[1]! < 6) await sleep(5)
  expect(away.totals()).toEqual([0, 6])
  await away.spans.stop()

  const full = await exporting([], { waiting: 8, everyMs: 1_000_000 })
  full.add(20)
  expect(full.totals()).toEqual([0, 12])
  await full.spans.stop()
  expect(full.totals()).toEqual([8, 12])
})
