/** Requests whose end is not certain, and bodies that nobody wants: no second answer comes, and what is not wanted is not read. */
import { connect } from "node:net"
import type { Endpoint } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Heard {
  /** Everything that came. */
  readonly text: string
  readonly answers: string[]
  readonly isEnded: boolean
}

/** Says this on a connection of its own, and after a while that. */
async function heardAfter(place: Endpoint, first: string, then?: string): Promise<Heard> {
  const socket = connect(Number(new URL(place.url).port), "127.0.0.1")
  let text = ""
  let isEnded = false
  socket.on("error", () => {}).on("data", piece => (text += piece.toString("latin1")))
  socket.on("close", () => (isEnded = true))
  socket.write(first)
  if (then !== undefined) {
    await new Promise(resolve => setTimeout(resolve, 300))
    if (!isEnded) socket.write(then)
  }
  await until("it ends", () => isEnded, { timeoutMs: 3_000 }).catch(() => {})
  socket.destroy()
  return { text, answers: [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status!), isEnded }
}

const head = (path: string, lines: readonly string[]) =>
  `POST ${path} HTTP/1.1\r\n${["Host: x", "Content-Type: application/json", ...lines].join("\r\n")}\r\n\r\n`
const smuggled = "GET /api/v1/version HTTP/1.1\r\nHost: x\r\n\r\n"

const ambiguous: [what: string, lines: string[], body: string][] = [
  ["two Content-Length that differ", ["Content-Length: 5", "Content-Length: 6"], "abcde"],
  ["the same Content-Length twice", ["Content-Length: 5", "Content-Length: 5"], "abcde"],
  ["no body and two Content-Length", ["Content-Length: 0", "Content-Length: 40"], ""],
  ["a Transfer-Encoding of two codings", ["Transfer-Encoding: gzip, chunked"], "5\r\nabcde\r\n0\r\n\r\n"],
  ["two Transfer-Encoding", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "0\r\n\r\n"],
  ["a Transfer-Encoding that is none", ["Transfer-Encoding: xchunked"], "5\r\nabcde\r\n0\r\n\r\n"],
  ["a Transfer-Encoding of identity", ["Transfer-Encoding: identity"], "abcde"],
  ["a length and chunks", ["Content-Length: 5", "Transfer-Encoding: chunked"], "0\r\n\r\n"],
]
for (const [what, lines, body] of ambiguous)
  test(`a request with ${what} is answered 400 once, and its connection ends`, async ({ shared }) => {
    for (const path of ["/api/v1/auth/login", "/api/v1/nothing", "/livez"]) {
      const request = head(path, lines) + body
      for (const heard of [
        await heardAfter(shared.east, request),
        await heardAfter(shared.east, request + smuggled),
        await heardAfter(shared.east, request, smuggled),
      ])
        expect([path, heard.answers, heard.isEnded]).toEqual([path, ["400"], true])
    }
  })

test("what is not ambiguous is served, several requests on one connection", async ({ shared }) => {
  const body = '{"client_version":"a.1.0-49"}'
  const length = `Content-Length: ${body.length}`
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const path = "/api/v1/version/negotiate"
  expect(
    (await heardAfter(shared.east, head(path, [length]) + body, head(path, ["Transfer-Encoding: Chunked"]) + chunked))
      .answers,
  ).toEqual(["200", "200"])
  // A body that is complete keeps its connection, though nobody wants it.
  expect((await heardAfter(shared.east, head("/api/v1/nothing", [length]) + body, smuggled)).answers).toEqual([
    "404",
    "200",
  ])
})

test(
  "after a refusal a body that is still on its way is not read: the connection ends",
  { timeout: 60_000 },
  async ({ shared }) => {
    for (const [path, status] of [
      ["/api/v1/nothing", "404"],
      ["/livez", "405"],
      ["/api/v1/auth/login", "413"],
    ] as const)
      for (const framing of ["Content-Length: 300000000", "Transfer-Encoding: chunked"]) {
        const socket = connect(Number(new URL(shared.east.url).port), "127.0.0.1")
        let text = ""
        let isEnded = false
        let sent = 0
        socket.on("error", () => {}).on("data", piece => (text += piece.toString("latin1")))
        socket.on("close", () => (isEnded = true))
        socket.write(head(path, [framing]))
        const chunk = "x".repeat(1024 * 1024)
        const piece = framing.startsWith("C") ? chunk : `100000\r\n${chunk}\r\n`
        while (!socket.closed && sent < 300_000_000) {
          sent += piece.length
          if (!socket.write(piece))
            await Promise.race([
              new Promise(resolve => socket.once("drain", resolve)),
              new Promise(resolve => socket.once("close", resolve)),
            ])
        }
        expect([path, framing, isEnded]).toEqual([path, framing, true])
        // What the buffers between the two take, and no more.
        expect(sent).toBeLessThan(100_000_000)
        if (text !== "") expect(text).toContain(`HTTP/1.1 ${status}`)
      }
  },
)
