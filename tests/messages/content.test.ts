/**
 * What somebody writes passes through untouched: in every script and direction, whatever else a
 * text may look like, on every way in (JSON with escapes or without) and out (REST, the gateway's
 * encodings, replay, the table itself).
 */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { gunzipSync } from "node:zlib"
import { codePoints } from "../../src/contract/core/fields.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Listener, Person } from "../kit/person.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

/** Texts that some layer might take for something of its own, by what it would take them for. */
const lookalikes: Record<string, readonly string[]> = {
  "one letter, written in two ways": [
    "\u00F1",
    "n\u0303",
    "\u212B",
    "\u00C5",
    "A\u030A",
    "\uAC00",
    "\u1100\u1161",
    "\uFB01",
    "fi",
  ],
  "marks that need a letter": [
    "\u0301alone",
    "o\u0302\u0323",
    "o\u0323\u0302",
    "\u0E01\u0E33\u0E49",
    "\u0928\u093F\u0902",
  ],
  "emoji of several code points": ["👨🏿‍🦰👩🏻‍🤝‍👨🏾", "🏴󠁧󠁢󠁷󠁬󠁳󠁿", "🇦🇶🇦", "❤️ ❤︎ ❤", "👩‍👩‍👧‍", "🏽 alone"],
  directions: [
    "\u202Eabc\u202C",
    "\u2067שלום\u2069 a",
    "\u202A\u202A\u202A unended",
    "abc \u05D0 123 \u0661",
    "\u061C\u200F\u200E x",
  ],
  "nothing to see": [
    "a\u200B\u200C\u200D\u2060b",
    "\u00ADsoft\u00AD",
    "\uFEFFmark first",
    "mark last\uFEFF",
    "\u180Ex\u3164",
    "\u{E0020}tag",
  ],
  "ends of lines": [
    "a\u2028b",
    "a\u2029b",
    "a\u0085b",
    "a\rb",
    "a\r\nb",
    "a\n\rb",
    "\ta\t",
    "a\v\fb",
    " a ",
    "\u00A0a\u3000",
  ],
  "no character": [
    "x\u{10FFFF}",
    "x\uFFFE\uFFFF",
    "x\uFDD0",
    "\uE000\u{F0000}\u{10FFFD}",
    "\uFFFD",
    "\u0378 unassigned",
  ],
  "a statement": [
    "x'); DELETE FROM messages WHERE ('1'='1",
    "$1 ${content} :name ?",
    "E'\\x41' $tag$ $tag$",
    "1; SELECT pg_sleep(9)--",
  ],
  "a pattern": ["% _ \\% [a-z]* (?:x)+ ^$", "*/ /* ** ??", "\\d{2,}"],
  markup: [
    "<svg/onload=alert(1)>",
    "]]> <!-- --> <![CDATA[",
    "&amp;amp; &#x41; &nbsp",
    "</textarea></script><b>",
    "<?xml?>",
  ],
  "a script": [
    "`${process.exit()}`",
    "{{constructor}} <%= 1 %> #{1} ${1}",
    "javascript:void(0)",
    "eval('1')",
    "__proto__[x]=1",
  ],
  "a format": [
    "%s %d %n %1$s %p",
    "{0} {} {name!r}",
    "\\u0041 \\x41 \\101 \\N{DASH}",
    "%41 &#65; =41 +ACE-",
    "@@ ~~ $$ ##",
  ],
  "a terminal's order": ["\u001B[2J\u001B]0;title\u0007", "\u009B31m", "\b\b\b", "\u0007", "\u007F\u001A\u0004"],
  "a command": [
    "; rm -rf / #",
    "$(id) `id` | id && id",
    "../../../../etc/shadow",
    "C:\\NUL \\\\.\\pipe\\x",
    "-rf --help",
  ],
  "a frame or a document": [
    '{"op":7}',
    '","content":"',
    "\\",
    '"',
    '\\"',
    "]}",
    "\u001E\u001F",
    "a=b&c=d",
    "--boundary--",
    "HTTP/1.1 200 OK\r\n\r\n",
  ],
  "a line of a protocol": [
    "*3\r\n$3\r\nDEL\r\n",
    "QUIT\r\n",
    "data: x\n\n",
    "From: a@b\r\n\r\n.\r\n",
    "\u0016\u0003\u0001",
  ],
  "a number or nothing": [
    "0",
    "-0",
    "1e400",
    "NaN",
    "null",
    "undefined",
    "true",
    "9007199254740993",
    "0x7f",
    "1_000",
    "٠",
  ],
  "a letter that grows or shrinks": ["ŉ ǰ ΐ ß İ ı ſ ẞ", "ﬃ", "Ω Ω", "ς σ Σ"],
}
const texts = Object.values(lookalikes).flat()

const bytesOf = (text: string) => Buffer.from(text, "utf8").toString("hex")
/** In JSON of ASCII only, as many clients write it. */
const escaped = (value: object) =>
  JSON.stringify(value).replaceAll(/[^\x20-\x7E]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Somebody listens in each way there is. */
async function listeners(shared: SharedCluster, person: Person): Promise<Listener[]> {
  const { east, west } = shared
  return Promise.all([
    person.listen(west),
    person.listen(east, { encoding: "msgpack" }),
    person.listen(west, { compress: true }),
    person.listen(east, { encoding: "msgpack", compress: true }),
  ])
}

const contentsOf = (inbox: Listener, name: "MESSAGE_CREATE" | "MESSAGE_UPDATE") =>
  inbox.rest().flatMap(event => (event.name === name ? [event.data.content] : []))

test("every text comes back byte for byte, however it was sent and for every reader", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const direct = await dmBetween(ada, lin, shared.east)
  const channel_id = channel.id
  const inboxes = await listeners(shared, lin)
  const away = await lin.listen(shared.west)
  away.drop()
  const ids = new Map<string, string>()
  for (const [i, content] of texts.entries()) {
    const place = i % 2 ? shared.east : shared.west
    const answer = await send(place, `/api/v1/channels/${channel_id}/messages`, {
      method: "POST",
      token: ada.token,
      headers: { "content-type": "application/json" },
      body: i % 3 ? escaped({ content }) : JSON.stringify({ content }),
    })
    const message = answer.body as { id: string; content: string }
    expect([answer.status, bytesOf(message.content)]).toEqual([200, bytesOf(content)])
    // As bytes, too: what a client shows that decodes strictly.
    expect(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(answer.bytes)).toBe(answer.text)
    ids.set(message.id, content)
  }
  const written = [...ids].map(([id, content]) => [id, bytesOf(content)])
  const rows = await shared.sql<{ id: string; bytes: string }[]>`
    SELECT id, encode(convert_to(content, 'UTF8'), 'hex') AS bytes FROM messages WHERE channel_id = ${channel_id} ORDER BY id`
  expect(rows.map(({ id, bytes }) => [id, bytes])).toEqual(written)
  const history = await pagesOf(lin, shared, channel_id)
  expect(history.map(({ id, content }) => [id, bytesOf(content!)])).toEqual(written)
  for (const [id, content] of [...ids].slice(0, 5))
    expect((await lin.on(shared.east).getMessage({ channel_id, message_id: id })).content).toBe(content)

  // What another one was made of them, in a reply, in an edit, and outside servers.
  const [first] = ids.keys()
  const reply = await ada.on(shared.west).createMessage({ channel_id, content: texts.join("\n"), reply_to_id: first! })
  expect(reply.content).toBe(texts.join("\n"))
  const edited = await ada
    .on(shared.east)
    .editMessage({ channel_id, message_id: reply.id, content: texts.toReversed().join("\n") })
  expect(edited.content).toBe(texts.toReversed().join("\n"))
  expect((await ada.on(shared.east).createMessage({ channel_id: direct, content: texts.join("\n") })).content).toBe(
    texts.join("\n"),
  )
  await away.reconnect(shared.west.url)
  await shared.settle()
  for (const inbox of [...inboxes, away]) {
    const events = inbox.rest()
    const heard = (name: string) =>
      events.flatMap(event => (event.name === name ? [(event.data as { content: string }).content] : []))
    expect(heard("MESSAGE_CREATE").map(bytesOf)).toEqual([...texts, reply.content!, reply.content!].map(bytesOf))
    expect(heard("MESSAGE_UPDATE")).toEqual([edited.content])
  }
})

test("every code point there is comes back, 4000 in a message", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.east, { encoding: "msgpack" })
  const every: number[] = []
  // Without NUL, which no text may hold, and the halves of pairs, which are no characters.
  for (let point = 1; point <= 0x10ffff; point++) if (point < 0xd800 || point > 0xdfff) every.push(point)
  // One of each row of sixteen: the others differ from it in their last byte only.
  const chosen = every.filter(point => point < 0x3000 || point % 16 === (point >> 4) % 16)
  const contents: string[] = []
  for (let from = 0; from < chosen.length; from += limits.messageCharacters)
    contents.push(String.fromCodePoint(...chosen.slice(from, from + limits.messageCharacters)))
  for (const [i, content] of contents.entries()) {
    const place = i % 2 ? shared.east : shared.west
    expect((await ada.on(place).createMessage({ channel_id: channel.id, content })).content === content).toBe(true)
  }
  const stored = await pagesOf(lin, shared, channel.id)
  expect(stored.map((message, i) => message.content === contents[i])).toEqual(contents.map(() => true))
  await shared.settle()
  expect(contentsOf(inbox, "MESSAGE_CREATE").map((content, i) => content === contents[i])).toEqual(
    contents.map(() => true),
  )
})

test("4000 code points are 4000, however many bytes they take and however they are written", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const post = (body: string) =>
    send(shared.west, `/api/v1/channels/${channel_id}/messages`, {
      method: "POST",
      token: ada.token,
      headers: { "content-type": "application/json" },
      body,
    })
  for (const letter of ["x", "é", "e\u0301", "한", "𓀀", "👩‍👩‍👧‍👦", "\u200Bx"]) {
    const points = codePoints(letter)
    const most = letter.repeat(Math.floor(4000 / points)) + "x".repeat(4000 % points)
    expect(codePoints(most)).toBe(4000)
    for (const write of [escaped, JSON.stringify]) {
      const { status, body } = await post(write({ content: most }))
      expect([status, (body as { content: string }).content === most]).toEqual([200, true])
      expect(await post(write({ content: `${most}x` }))).toMatchObject({ status: 422, code: "validation_failed" })
    }
  }
})

test("half a character and NUL are refused wherever text is, and change nothing", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(shared.east)
  const { id: message_id } = await rest.createMessage({ channel_id, content: "whole" })
  const inbox = await lin.listen(shared.west)
  for (const content of ["\uD83D", "a\uDE00", "\uDE00\uD83D", "ok \uD800", "a\0", "\0", `${"x".repeat(3_999)}\uDBFF`]) {
    expect(await refusal(rest.createMessage({ channel_id, content }))).toBe("unsafe_text")
    expect(await refusal(rest.editMessage({ channel_id, message_id, content }))).toBe("unsafe_text")
    expect(await refusal(rest.createMessage({ channel_id, content: "x", nonce: content.slice(-1) }))).toBe(
      "unsafe_text",
    )
  }
  // The two halves of a pair written one after the other are a whole character.
  const { body } = await send(shared.east, `/api/v1/channels/${channel_id}/messages`, {
    method: "POST",
    token: ada.token,
    headers: { "content-type": "application/json" },
    body: '{"content":"\\ud83d\\ude00"}',
  })
  expect((body as { content: string }).content).toBe("😀")
  await shared.settle()
  expect(contentsOf(inbox, "MESSAGE_CREATE")).toEqual(["😀"])
  expect((await pagesOf(lin, shared, channel_id)).map(({ content }) => content)).toEqual(["whole", "😀"])
})

/**
 * Lines of JSON with `text`: a few hundred made-up ones, and those of the file that the environment
 * names.
 */
const named = process.env["STARLING_CONVERSATIONS"]
const made = fileURLToPath(new URL("../fixtures/conversations.jsonl", import.meta.url))

function spokenIn(file: string): string[] {
  const bytes = readFileSync(file)
  const lines = (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8").trim().split("\n")
  return lines.map(line => (JSON.parse(line) as { text: string }).text)
}

test(
  "conversations that people had come back as they were",
  { timeout: named ? 900_000 : 60_000 },
  async ({ shared }) => {
    const others = named ? spokenIn(named) : []
    const chosen = [...spokenIn(made), ...others]
    const { channel, ada, lin } = await shared.seed(sharedServer)
    const channel_id = channel.id
    const inbox = await lin.listen(shared.west)
    const ids = new Map<string, string>()
    const waiting = [...chosen.entries()]
    const speak = async () => {
      for (let next = waiting.pop(); next; next = waiting.pop()) {
        const [i, content] = next
        const message = await ada.on(i % 2 ? shared.east : shared.west).createMessage({ channel_id, content })
        ids.set(message.id, content)
      }
    }
    await Promise.all(Array.from({ length: 32 }, speak))
    expect(ids.size).toBe(chosen.length)
    const history = await pagesOf(lin, shared, channel_id)
    expect(history.every(({ id, content }) => content === ids.get(id))).toBe(true)
    expect(history).toHaveLength(chosen.length)
    await shared.settle()
    expect(contentsOf(inbox, "MESSAGE_CREATE")).toEqual(history.map(({ content }) => content))
  },
)

/** The whole of a channel, the oldest first. */
async function pagesOf(reader: Person, { east, west }: SharedCluster, channel_id: string) {
  const pages = []
  let after = "0"
  for (let i = 0; ; i++) {
    const page = await reader.on(i % 2 ? east : west).listMessages({ channel_id, after, limit: "100" })
    if (page.length === 0) return pages
    pages.push(...page.toSorted((one, other) => (BigInt(one.id) < BigInt(other.id) ? -1 : 1)))
    after = pages.at(-1)!.id
  }
}
