import type { HttpResponse } from "uWebSockets.js"
import { expect, test } from "vitest"
import { fail, Failure } from "../../contract/core/errors.ts"
import { FormStream } from "./form-stream.ts"
import { ByteBudget } from "../../std/byte-budget.ts"
import { StreamedBody } from "./streamed-body.ts"

/**
 * A body whose bytes come when the test says so, and whose connection says whether it was told to
 * wait.
 */
function arriving({ announced = 0, budget = new ByteBudget(10_000_000), slots = new ByteBudget(10, 3) } = {}) {
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
    maxBytes: 100_000,
    tooLarge,
    startedAt,
    timeoutMs: 1_000,
    minBytesPerSecond: 1_000,
    idleTimeoutMs: 100,
    budget,
    slots,
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
const text = async (pieces: AsyncIterable<Buffer>) => {
  let all = ""
  for await (const piece of pieces) all += piece.toString("latin1")
  return all
}

test("BODY1: the connection waits while nobody reads, and a sender that waits is not late", async () => {
  const { body, come, isWaiting, startedAt } = arriving()
  come("one")
  expect(isWaiting()).toBe(true)
  expect(body.isOverdue(startedAt + 100_000)).toBe(false)
  expect((await body.next())!.toString()).toBe("one")
  expect(isWaiting()).toBe(true)
  const second = body.next()
  expect(isWaiting()).toBe(false)
  expect(body.isOverdue(performance.now() + 101)).toBe(true)
  come("two")
  expect((await second)!.toString()).toBe("two")
  expect(isWaiting()).toBe(false)
  come("three", true)
  expect((await body.next())!.toString()).toBe("three")
  expect(await body.next()).toBeUndefined()
  expect([body.complete, body.settled]).toEqual([true, true])
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

test("a body holds what is in memory and no more, and one user has few at once", async () => {
  const budget = new ByteBudget(1_200)
  const slots = new ByteBudget(5, 3)
  const slow = Array.from({ length: 3 }, () => arriving({ announced: 90_000, budget, slots }))
  for (const { body, come } of slow) {
    body.belongTo("user 1")
    for (let at = 0; at < 20; at++) {
      come("x".repeat(300))
      await body.next()
    }
  }
  // What was read last is still about to be written.
  expect(budget.take("b", 301)).toBe(false)
  const more = arriving({ budget, slots })
  more.come("whole", true)
  more.body.belongTo("user 1")
  expect(await code(more.body.next())).toBe("unavailable")
  more.body.release()
  const another = arriving({ budget, slots })
  another.body.belongTo("user 2")
  another.come("whole", true)
  expect((await another.body.next())!.toString()).toBe("whole")
  slow[0]!.body.abandon()
  const after = arriving({ budget, slots })
  after.body.belongTo("user 1")
  expect(after.body.settled).toBe(false)
  for (const { body } of [...slow, another, after]) body.release()
  expect([budget.take("b", 1_200), slots.take("b", 3), slots.take("c", 2)]).toEqual([true, true, true])
})

const form = (contentType = "multipart/form-data; boundary=X") => {
  const arrival = arriving()
  return { ...arrival, stream: new FormStream(arrival.body, "file", contentType) }
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
