/** What one post causes, on whichever worker, is one trace; a real receiver of OTLP takes it. */
import { createServer, type Server } from "node:http"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll } from "vitest"
import { z } from "zod"
import { gauge } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const hex = (digits: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${digits}}$`))
const attributes = z.array(
  z.strictObject({
    key: z.string().min(1),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
      z.strictObject({ doubleValue: z.number() }),
      z.strictObject({ boolValue: z.boolean() }),
    ]),
  }),
)
const nanoseconds = z.string().regex(/^\d{19}$/)
/** ExportTraceServiceRequest of OTLP 1.x, as its mapping to JSON says: lower-case hex ids, 64-bit numbers as text, enums as numbers. */
const Export = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string() }),
          spans: z
            .array(
              z
                .strictObject({
                  traceId: hex(32),
                  spanId: hex(16),
                  parentSpanId: hex(16).optional(),
                  flags: z.literal(1),
                  name: z.string().min(1),
                  kind: z.union([z.literal(1), z.literal(2)]),
                  startTimeUnixNano: nanoseconds,
                  endTimeUnixNano: nanoseconds,
                  attributes,
                  status: z.union([z.strictObject({}), z.strictObject({ code: z.literal(2) })]),
                })
                .refine(
                  span => BigInt(span.startTimeUnixNano) <= BigInt(span.endTimeUnixNano),
                  "it ends before it begins",
                ),
            )
            .min(1),
        }),
      ),
    }),
  ),
})

interface Received {
  readonly worker: string
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string | undefined
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: Record<string, unknown>
}

const plain = (list: z.infer<typeof attributes>) =>
  Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0] as unknown]))

const received: Received[] = []
const wrong: string[] = []
let bodies = ""
let authorization: string | undefined
let collector: Server
let url = ""

beforeAll(async () => {
  collector = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8").on("data", (text: string) => (body += text))
    request.on("end", () => {
      bodies += body
      authorization = request.headers.authorization
      const read = Export.safeParse(JSON.parse(body))
      if (request.method !== "POST" || request.url !== "/v1/traces" || !read.success) {
        wrong.push(read.error?.message ?? `${request.method} ${request.url}`)
        response.writeHead(400).end("{}")
        return
      }
      for (const { resource, scopeSpans } of read.data.resourceSpans)
        for (const { spans } of scopeSpans)
          for (const span of spans)
            received.push({
              ...span,
              worker: String(plain(resource.attributes)["service.instance.id"]),
              attributes: plain(span.attributes),
            })
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  }).listen(0, "127.0.0.1")
  await once(collector, "listening")
  url = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`
  return () => collector.close()
})
afterAll(() => expect(wrong).toEqual([]))

const traceId = (n: number) => n.toString(16).padStart(32, "a")

test("a post is one trace over workers: request, turn, commit, append, and a publication on each", async ({
  cluster,
}) => {
  const config = { TRACES_URL: url, TRACES_SHARE: "1", TRACES_HEADERS: "authorization=Bearer collector-key" }
  // As on two hosts: what they ask one another goes through Redis.
  const [east, west] = await cluster.boot(2, { config, socketFolder: undefined })
  const { ada, lin, channel, server } = await sharedServer(cluster, east)
  const inboxes = await Promise.all([east!, west!].map(worker => lin.listen(worker)))
  const post = async (n: number, at: string, flags = "01") => {
    const reply = await fetch(`${at}/api/v1/channels/${channel.id}/messages`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${ada.token}`,
        "content-type": "application/json",
        traceparent: `00-${traceId(n)}-00000000000000b7-${flags}`,
      },
      body: JSON.stringify({ content: "a secret that no trace has" }),
    })
    expect(reply.status).toBe(200)
    await reply.arrayBuffer()
  }
  await post(1, east!.url)
  await post(2, west!.url)
  await post(3, east!.url, "00")
  for (const inbox of inboxes) for (let i = 0; i < 3; i++) await inbox.next("MESSAGE_CREATE")
  const spansOf = (n: number) => received.filter(span => span.traceId === traceId(n))
  await until("both are whole", () => spansOf(1).length >= 6 && spansOf(2).length >= 6)

  for (const n of [1, 2]) {
    const all = spansOf(n)
    const named = (name: string) => all.filter(span => span.name === name)
    const [request] = named("POST /channels/:channel_id/messages")
    const [turn] = named("turn channel.createMessage")
    const [commit] = named("commit")
    const [append] = named("append")
    const publications = named("publish")
    expect(all.map(({ name }) => name).toSorted()).toEqual(
      [
        "POST /channels/:channel_id/messages",
        "append",
        "commit",
        "publish",
        "publish",
        "turn channel.createMessage",
      ].toSorted(),
    )
    expect(request!.parentSpanId).toBe("00000000000000b7")
    expect(request!.worker).toBe((n === 1 ? east! : west!).id)
    expect(request!.attributes).toEqual({ "http.response.status_code": "200" })
    expect(turn!.parentSpanId).toBe(request!.spanId)
    expect(turn!.attributes).toEqual({ "starling.home": server.id })
    expect(commit!.parentSpanId).toBe(turn!.spanId)
    expect(append!.parentSpanId).toBe(commit!.spanId)
    expect(publications.map(span => span.parentSpanId)).toEqual([commit!.spanId, commit!.spanId])
    expect(publications.map(({ worker }) => worker).toSorted()).toEqual([east!.id, west!.id].toSorted())
    // On the worker that owns the home, whichever was asked.
    expect([turn!.worker, append!.worker]).toEqual([commit!.worker, commit!.worker])
    const at = (time: string) => BigInt(time)
    expect(at(turn!.startTimeUnixNano) <= at(commit!.startTimeUnixNano)).toBe(true)
    expect(at(commit!.endTimeUnixNano) <= at(append!.startTimeUnixNano)).toBe(true)
  }
  // One of the two came over the bus.
  expect(new Set([1, 2].map(n => spansOf(n).find(({ name }) => name === "commit")!.worker)).size).toBe(1)
  expect(spansOf(3)).toEqual([])
  expect(authorization).toBe("Bearer collector-key")
  for (const secret of ["a secret that no trace has", ada.token, ada.username, ada.email, "127.0.0.1"])
    expect(bodies).not.toContain(secret)
})

test("while the collector is away everything else goes on, and what it cannot have is counted", async ({ cluster }) => {
  const config = { TRACES_URL: "http://127.0.0.1:1", TRACES_SHARE: "1" }
  const [worker] = await cluster.boot(1, { config })
  const { ada, channel } = await sharedServer(cluster, worker)
  const inbox = await ada.listen(worker!)
  const sent = await ada.on(worker!).createMessage({ channel_id: channel.id, content: "hello" })
  expect((await inbox.next("MESSAGE_CREATE")).id).toBe(sent.id)
  await worker!.stop()
  expect(await gauge(worker!, "starling_traces_spans_total", "dropped")).toBeGreaterThan(5)
  expect(await gauge(worker!, "starling_traces_spans_total", "exported")).toBe(0)
})
