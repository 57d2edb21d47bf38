import type { HttpResponse } from "uWebSockets.js"
import { expect, test } from "vitest"
import { fail, Failure } from "../../contract/core/errors.ts"
import { inTime } from "./answer-clock.ts"
import { FormStream } from "./form-stream.ts"
import { ByteBudget } from "../../std/byte-budget.ts"
import { bufferBytes, Inflow } from "./inflow.ts"
import { StreamedBody } from "./streamed-body.ts"

/**
 * A body whose bytes come when the test says so, and whose connection says whether it was told to
 * wait.
 */
function arriving({
  announced = 0,
  budget = new ByteBudget(10_000_000),
  slots = new ByteBudget(10, 3),
  inflow = new Inflow(4 * bufferBytes),
  maxBytes = 100_000,
} = {}) {
  let take: ((chunk: ArrayBuffer, isLast: boolean) => void) | undefined
  let isWaiting = false
  const res = {
    onData(handler: typeof take) {
      take = handler
    },
    pause: () => (isWaiting = true),
    resume: () => (isWaiting = false),
  } as unknown as HttpResponse
  const startedAt = performance.now()
  const tooLarge = () => fail("file_over_limit")
  const bounds = {
    maxBytes,
    tooLarge,
    startedAt,
    timeoutMs: 1_000,
    minBytesPerSecond: 1_000,
    idleTimeoutMs: 100,
    budget,
    slots,
    inflow,
    holder: "a",
  }
  const body = new StreamedBody(bounds)
  body.listen(res, announced)
  const come = (bytes: string | Buffer, isLast = false) =>
    take!(Uint8Array.from(Buffer.from(bytes as string, "latin1")).buffer, isLast)
  return { body, startedAt, come, isWaiting: () => isWaiting }
}
const code = (asked: Promise<unknown>) =>
  asked.then(
    () => undefined,
    (error: Failure) => error.code,
  )
const turns = async () => {
  for (let i = 0; i < 10; i++) await new Promise(resolve => setImmediate(resolve))
}
const text = async (pieces: AsyncIterable<Buffer>) => {
  let all = ""
  for await (const piece of pieces) all += piece.toString("latin1")
  return all
}

test("BODY1: the connection waits until somebody reads, and then while much of it is not yet read", async () => {
  const { body, come, isWaiting, startedAt } = arriving({ maxBytes: 1_000_000 })
  expect(isWaiting()).toBe(true)
  // It came together with its head.
  come("one")
  expect(isWaiting()).toBe(true)
  expect(body.isOverdue(startedAt + 100_000)).toBe(false)
  expect((await body.next())!.toString()).toBe("one")
  expect([isWaiting(), body.isOverdue(performance.now() + 101)]).toEqual([false, true])
  come("two")
  come("three")
  expect(isWaiting()).toBe(false)
  come(Buffer.alloc(70_000))
  expect((await body.next())!.length).toBe(70_008)
  for (const bytes of [60_000, 40_000, 40_000]) come(Buffer.alloc(bytes))
  expect(isWaiting()).toBe(true)
  const piece = (await body.next())!
  expect([piece.length, isWaiting()]).toEqual([140_000, false])
  // What is looked at stays as it is while more comes.
  piece.fill(1)
  come(Buffer.alloc(80_000, 2), true)
  expect(piece.every(byte => byte === 1)).toBe(true)
  expect((await body.next())!.every(byte => byte === 2)).toBe(true)
  expect(await body.next()).toBeUndefined()
  expect([body.complete, body.settled]).toEqual([true, true])
  // Its connection may bring another request.
  expect(isWaiting()).toBe(false)
})

test("a body that came with its head leaves its connection as it was", async () => {
  const { body, come, isWaiting } = arriving()
  come("all", true)
  expect(isWaiting()).toBe(false)
  expect((await body.next())!.toString()).toBe("all")
})

test("FLOW1: bodies wait while all buffers are in use, and what is still looked at is not used again", async () => {
  const inflow = new Inflow(2 * bufferBytes)
  const bodies = Array.from({ length: 4 }, () => arriving({ inflow }))
  const reads = bodies.map(({ body }) => body.next())
  reads[3]!.catch(() => {})
  await turns()
  expect(bodies.map(({ isWaiting }) => isWaiting())).toEqual([false, false, false, false])
  bodies[0]!.come("a")
  bodies[1]!.come("b")
  expect(bodies.map(({ isWaiting }) => isWaiting())).toEqual([true, true, true, true])
  const first = (await reads[0])!
  expect((await reads[1])!.toString()).toBe("b")
  // Its client has gone while it is written.
  bodies[0]!.body.abandon()
  bodies[0]!.body.release()
  await turns()
  expect(bodies.slice(1).map(({ isWaiting }) => isWaiting())).toEqual([false, false, false])
  bodies[2]!.come("c")
  expect([(await reads[2])!.toString(), first.toString()]).toEqual(["c", "a"])
  expect(bodies[3]!.isWaiting()).toBe(true)
  bodies[1]!.body.next().catch(() => {})
  await turns()
  expect(bodies[3]!.isWaiting()).toBe(false)
  for (const { body } of bodies) body.release()
})

test("FLOW2: connections that bring nothing keep none waiting, and few bring something in one turn", async () => {
  const inflow = new Inflow(4 * bufferBytes)
  const idle = Array.from({ length: 30 }, () => arriving({ inflow }))
  for (const { body } of idle) body.next().catch(() => {})
  const last = arriving({ inflow })
  const read = last.body.next()
  expect(idle.filter(({ isWaiting }) => !isWaiting()).length).toBe(4)
  while (last.isWaiting()) await turns()
  last.come("here")
  expect((await read)!.toString()).toBe("here")
  for (const { body } of [...idle, last]) body.release()
})

test("a body may take longer the more of it has come", async () => {
  const { body, come, startedAt } = arriving()
  for (let at = 0; at < 10; at++) {
    const next = body.next()
    come("x".repeat(100))
    await next
  }
  const asked = body.next()
  // A thousand bytes are worth another second; the idle timeout alone would end it now.
  expect(body.isOverdue(startedAt + 50)).toBe(false)
  body.expire()
  expect(await code(asked)).toBe("request_timeout")
})

test("what is too long, or finds no budget, is refused before it comes, and what failed passes by", async () => {
  const long = arriving({ announced: 100_001 })
  expect(await code(long.body.next())).toBe("file_over_limit")
  const longer = arriving()
  const asked = longer.body.next()
  longer.come(Buffer.alloc(100_001))
  expect(await code(asked)).toBe("file_over_limit")
  const drained = longer.body.drained()
  longer.come("x")
  longer.come("x", true)
  await drained
  expect([longer.body.complete, longer.isWaiting()]).toEqual([true, false])

  const budget = new ByteBudget(1_500)
  const [first, second] = [arriving({ budget }), arriving({ budget })]
  first.come("x".repeat(1_000))
  second.come("x".repeat(1_000), true)
  expect(await code(second.body.next())).toBe("unavailable")
  first.body.belongTo("user 1")
  first.body.abandon()
  expect(await code(first.body.next())).toBe("bad_request")
  first.body.release()
  second.body.release()
  expect(budget.take("b", 1_500)).toBe(true)
})

test("what nobody reads yet counts until it is read, and one user has few bodies at once", async () => {
  const budget = new ByteBudget(1_200)
  const slots = new ByteBudget(5, 3)
  const long = { announced: 140_000, maxBytes: 150_000, budget, slots }
  const slow = Array.from({ length: 3 }, () => arriving(long))
  for (const { body, come } of slow) {
    come("x".repeat(300))
    body.belongTo("user 1")
  }
  expect(budget.take("b", 301)).toBe(false)
  for (const { body, come } of slow) {
    await body.next()
    for (let at = 0; at < 20; at++) {
      come("x".repeat(300))
      await body.next()
    }
  }
  expect(budget.take("b", 1_200)).toBe(true)
  budget.give("b", 1_200)
  // Of these nobody knows how long they are.
  for (const announced of [0, 140_000]) {
    const more = arriving({ ...long, announced })
    more.body.belongTo("user 1")
    expect(await code(more.body.next())).toBe("unavailable")
    more.body.release()
  }
  const [whole, short, another] = [arriving(long), arriving({ ...long, announced: 5 }), arriving(long)]
  whole.come("whole", true)
  whole.body.belongTo("user 1")
  short.body.belongTo("user 1")
  another.body.belongTo("user 2")
  for (const { come } of [short, another]) come("whole", true)
  for (const { body } of [whole, short, another]) expect((await body.next())!.toString()).toBe("whole")
  slow[0]!.body.abandon()
  slow[1]!.come("x", true)
  const after = Array.from({ length: 2 }, () => arriving(long))
  after[0]!.body.belongTo("user 1")
  expect(after[0]!.body.settled).toBe(false)
  // One that has come has a slot until it is read.
  while (await slow[1]!.body.next());
  after[1]!.body.belongTo("user 1")
  expect(after[1]!.body.settled).toBe(false)
  for (const { body } of [...slow, whole, short, another, ...after]) body.release()
  expect([budget.take("b", 1_200), slots.take("b", 3), slots.take("c", 2)]).toEqual([true, true, true])
})

const form = (contentType = "multipart/form-data; boundary=X") => {
  const arrival = arriving()
  return { ...arrival, stream: new FormStream(arrival.body, "file", contentType, inTime) }
}
const whole =
  'before\r\n--X\r\nContent-Disposition: form-data; name="x"\r\n\r\nother\r\n--X  \r\n' +
  'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n' +
  "one\r\n--\r\n-X two\r\n\r\n--X--\r\nafter"

test("a file of a form comes whole, wherever its bytes are cut", async () => {
  for (const size of [1, 2, 3, 7, 64, 1_000]) {
    const { stream, come } = form()
    const got = stream.file().then(async file => ({ ...file, content: await text(file.pieces) }))
    for (let at = 0; at < whole.length; at += size) {
      come(whole.slice(at, at + size), at + size >= whole.length)
      await new Promise(resolve => setImmediate(resolve))
    }
    const { filename, type, content } = await got
    expect([size, filename, type, content]).toEqual([size, "a.txt", "text/plain", "one\r\n--\r\n-X two\r\n"])
  }
})

test("a form that is none, is cut off or holds too much beside its file is refused", async () => {
  const cases: [string, string | undefined][] = [
    ["", "validation_failed"],
    ["--X--", "validation_failed"],
    ["--Y\r\n", "validation_failed"],
    ["--X\r\n\r\nx\r\n--X--", "validation_failed"],
    ["--Xrubbish\r\n\r\nx\r\n--X--", "validation_failed"],
    [whole.slice(0, -14), "validation_failed"],
    [`--X\r\n${"a".repeat(5_000)}`, "validation_failed"],
    [`--X\r\nContent-Disposition: form-data; name="a"\r\n\r\n${"a".repeat(70_000)}`, "validation_failed"],
    ["a".repeat(70_000), "validation_failed"],
    [whole + "a".repeat(70_000), "validation_failed"],
    [`--X\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n`.repeat(40), "validation_failed"],
    [whole, undefined],
  ]
  for (const [given, expected] of cases) {
    const { stream, come } = form()
    const outcome = code(stream.file().then(file => text(file.pieces)))
    come(given, true)
    expect([given.slice(0, 40), await outcome]).toEqual([given.slice(0, 40), expected])
  }
  expect(() => form("application/json")).toThrow("Content-Type")
})
