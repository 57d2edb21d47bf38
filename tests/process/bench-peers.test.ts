import { expect, test } from "vitest"
import { newDialect, type DialectName } from "../../bench/load/dialects.ts"
import { markedBody, MarkReader } from "../../bench/load/marked-posts.ts"
import { aroundOf } from "../../bench/peers/servers.ts"

/** What a dialect makes of WebSocket messages. */
function spoken(name: DialectName, frames: readonly (string | Buffer)[]) {
  const dialect = newDialect(name)
  const marks = new MarkReader(false)
  const seen: { sent: string[]; ready: number; messages: (number | undefined)[] } = { sent: [], ready: 0, messages: [] }
  const to = {
    send: (text: string) => seen.sent.push(text),
    ready: () => seen.ready++,
    message: (bytes: Buffer) => seen.messages.push(marks.number(bytes)),
  }
  for (const frame of frames) dialect.take(Buffer.from(frame), to)
  return seen
}

const body = (number: number) => markedBody(number, "run")

test("Socket.IO: a connection is ready when it is in the namespace, and answers pings", () => {
  expect(
    spoken("socket.io", [
      `0{"sid":"a","pingInterval":25000}`,
      `40{"sid":"b","pid":"c"}`,
      "2",
      `42["M",${body(7)},"1-0"]`,
    ]),
  ).toEqual({ sent: ["40", "3"], ready: 1, messages: [7] })
  expect(() => spoken("socket.io", [`44{"message":"refused"}`])).toThrow("refused")
})

test("Centrifugo: one WebSocket message brings several replies, and an empty one asks for an answer", () => {
  const pushed = (number: number) => `{"push":{"channel":"hall","pub":{"data":${body(number)},"offset":${number}}}}`
  expect(
    spoken("centrifugo", [
      `{"id":1,"connect":{"client":"a"}}\n{"id":2,"subscribe":{}}`,
      `${pushed(1)}\n{}\n${pushed(2)}\n`,
      pushed(3),
    ]),
  ).toEqual({ sent: ["{}"], ready: 1, messages: [1, 2, 3] })
  expect(() => spoken("centrifugo", [`{"id":2,"error":{"code":103}}`])).toThrow("103")
})

test("NATS: messages are read wherever WebSocket messages cut them", () => {
  const message = (number: number) => `MSG hall 1 ${body(number).length}\r\n${body(number)}\r\n`
  const stream = Buffer.from(`INFO {"a":1}\r\nPONG\r\n${message(1)}PING\r\n${message(2)}${message(3)}`)
  for (const piece of [1, 2, 3, 7, 50, 191, stream.length]) {
    const frames = Array.from({ length: Math.ceil(stream.length / piece) }, (_, i) => stream.subarray(i * piece, (i + 1) * piece)) // prettier-ignore
    const { sent, ready, messages } = spoken("nats", frames)
    expect({ sent: sent.map(text => text.split(/\s/)[0]), ready, messages }).toEqual({
      sent: ["CONNECT", "PONG"],
      ready: 1,
      messages: [1, 2, 3],
    })
  }
  expect(() => spoken("nats", [`-ERR 'Slow Consumer'\r\n`])).toThrow("Slow Consumer")
})

test("a server that adds nothing is posted the whole event, as long as Starling's own", () => {
  const event = { id: "1", content: "", nonce: "", author: { name: "ada" } }
  const frame = JSON.stringify({ op: 0, t: "MESSAGE_CREATE", s: 1000, d: { ...event, ...JSON.parse(body(5)) } })
  const around = aroundOf(frame, `{"channel":"hall","data":`, "}")
  const posted = markedBody(5, "run", 0, around)
  expect(JSON.parse(posted)).toEqual({ channel: "hall", data: JSON.parse(frame) })
  expect(posted.length).toBe(`{"channel":"hall","data":}`.length + frame.length)
})
