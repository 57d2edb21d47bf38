import fc from "fast-check"
import { expect, test } from "vitest"
import { momentOf, queryParts, readQuery, scopeFacts, stemmable } from "./search-query.ts"
import { foldedText, tokensOf, vectorText, wordsOf, type SearchSource } from "./search-text.ts"

const day = 86_400_000
const now = Date.UTC(2026, 10, 22, 15, 30)
const plain = { from: [], in: [], mentions: [], has: [], pinned: null, before: null, after: null }
const noStems = () => []
const textOf = (query: string, stemsOf: (word: string) => readonly string[] = noStems) =>
  queryParts(readQuery(query, now), { authors: null, mentioned: [] }, stemsOf).join("&")

test("words, phrases and what is not wanted", () => {
  expect(textOf("two words")).toBe("('two')&('words')")
  expect(textOf('"in this order" -not -"such a phrase"')).toBe(
    "('in'<1>'this'<1>'order')&!('not')&!('such'<1>'a'<1>'phrase')",
  )
  expect(textOf("well-known")).toBe("('well'<1>'known')")
  expect(textOf('"never closed')).toBe("('never'<1>'closed')")
  expect(textOf("running", word => (word === "running" ? ["run"] : []))).toBe("('running'|'run'|'=run')")
  expect(stemmable(readQuery('running "singing" 42 well-known -jumping', now))).toEqual(["running", "jumping"])
  for (const nothing of ["", "   ", '""', "!!!", "- -", "'", "\\"])
    expect([nothing, textOf(nothing)]).toEqual([nothing, ""])
})

test("scripts without blanks are found by pairs, and by single characters", () => {
  expect(textOf("北京烤鸭")).toBe("('北京'<1>'京烤'<1>'烤鸭')")
  expect(textOf("北京")).toBe("('北京')")
  expect(textOf("北")).toBe("('=北')")
  expect(textOf("iPhone買う")).toBe("('iphone'<1>'買う')")
  expect(tokensOf("北京 x").map(({ word }) => word)).toEqual(["北京", "京", "x"])
})

test("of a phrase the index is asked for its words, in any order", () => {
  const looseOf = (query: string) =>
    queryParts(readQuery(query, now), { authors: null, mentioned: [] }, noStems, true).join("&")
  expect(looseOf('one "in order" "iPhone買"')).toBe("('one')&'in'&'order'&'iphone'&'=買'")
  expect(looseOf('one -"in order" -two')).toBe("('one')&!('two')")
  expect(looseOf('-"in order"')).toBe("")
  expect(looseOf('"so and so" so so')).toBe("'so'&'and'&('so')")
})

test("operators are taken out of the words, in any case and with quotes", () => {
  expect(readQuery('FROM:ada in:"general chat" from:@lin mentions:<@12> has:Image has:link pinned:FALSE', now)).toEqual(
    {
      ...plain,
      terms: [],
      from: ["ada", "lin"],
      in: ["general chat"],
      mentions: ["12"],
      has: ["image", "link"],
      pinned: false,
    },
  )
  expect(readQuery("before:2026-01-02 before:2026-02-01 after:yesterday after:3m", now)).toMatchObject({
    before: Date.UTC(2026, 0, 2),
    after: Date.UTC(2026, 10, 21),
  })
})

test("what is no operator is a phrase of its words", () => {
  for (const [query, words] of [
    ["has:nothing", "('has'<1>'nothing')"],
    ["pinned:perhaps", "('pinned'<1>'perhaps')"],
    ["pinned:constructor", "('pinned'<1>'constructor')"],
    ["pinned:__proto__", "('pinned'<1>'proto')"],
    ["before:2026-02-31", "('before'<1>'2026'<1>'02'<1>'31')"],
    ["after:soon", "('after'<1>'soon')"],
    ["-from:ada", "!('from'<1>'ada')"],
    ["from:", "('from')"],
    ["xfrom:ada", "('xfrom'<1>'ada')"],
    ["https://a.example", "('https'<1>'a'<1>'example')"],
  ] as const)
    expect([query, readQuery(query, now).from, textOf(query)]).toEqual([query, [], words])
})

test("dates are days in UTC, or so long ago", () => {
  const today = Date.UTC(2026, 10, 22)
  const moments: [string, number | undefined][] = [
    ["today", today],
    ["Yesterday", today - day],
    ["2024-02-29", Date.UTC(2024, 1, 29)],
    ["2025-02-29", undefined],
    ["7d", now - 7 * day],
    ["2w", now - 14 * day],
    ["3m", now - 90 * day],
    ["1y", now - 365 * day],
    ["12345d", undefined],
    ["-1d", undefined],
    ["2026-1-1", undefined],
  ]
  for (const [text, moment] of moments) expect([text, momentOf(text, now)]).toEqual([text, moment])
})

test("letters are the same whatever their case, accents and form", () => {
  const pairs = [
    ["STRASSE", "straße"],
    ["ΟΔΟΣ", "οδος"],
    ["İstanbul", "istanbul"],
    ["IŞIK", "ışık"],
    ["ＷＩＤＥ", "wide"],
    ["naïve Ångström", "NAIVE angstrom"],
    ["Ærø", "aero"],
    ["ﬁne", "fine"],
    ["שָׁלוֹם", "שלום"],
  ]
  for (const [one, other] of pairs) expect(tokensOf(one!)).toEqual(tokensOf(other!))
  expect(foldedText("É")).toBe(foldedText("e\u0301"))
  expect(foldedText("É")).not.toBe(foldedText("e"))
})

const source = (content: string): SearchSource => ({
  id: "100",
  channel_id: "7",
  server_id: "5",
  author_id: "9",
  content,
  edited_at: null,
  pinned_at: null,
  participants: null,
})

test("a text of ASCII becomes what it becomes beside other letters", () => {
  const ascii = fc.string({ unit: "binary-ascii", maxLength: 300 })
  fc.assert(
    fc.property(
      fc.oneof(
        ascii,
        ascii.map(text => text.repeat(40)),
      ),
      fc.integer({ min: 1, max: 9_000 }),
      (text, from) => {
        expect(foldedText(text) + "é").toBe(foldedText(`${text}é`))
        const beside = tokensOf(`${text} é`, from)
        expect(tokensOf(text, from)).toEqual(beside.slice(0, -1))
      },
    ),
    { numRuns: 500 },
  )
})

test("a text of ASCII has as many words as another", () => {
  expect(tokensOf("ab ".repeat(9_000))).toHaveLength(tokensOf("äb ".repeat(9_000)).length)
})

test("a message becomes its words with their places, and its facts", () => {
  const message: SearchSource = {
    ...source("hi <@12> https://x.example hi"),
    embeds: [{ title: "Embedded", video: { url: "https://v.example" }, fields: "none" }, null],
    attachments: [{ id: "1", file: "f", filename: "song.ogg", content_type: "audio/ogg", size: 1, hash: "" }],
    poll_texts: ["which", "this"],
    pinned_at: 1,
  }
  const text = vectorText(message, wordsOf(message), word =>
    word === "hi" ? ["hi"] : word === "embedded" ? ["embed"] : [],
  )
  expect(text).toContain("'hi':1,6")
  for (const lexeme of [
    ":c7",
    ":s5",
    ":a9",
    ":mc",
    ":p",
    ":hlink",
    ":hembed",
    ":hvideo",
    ":haudio",
    ":hfile",
    "=embed",
  ])
    expect(text).toContain(`'${lexeme}'`)
  expect(vectorText(source("北京"), wordsOf(source("北京")), noStems)).toContain("'=京'")
  for (const word of ["embedded", "song", "ogg", "which", "this"]) expect(text).toContain(`'${word}':`)
  expect(text).not.toContain("'=hi'")
  expect(scopeFacts({ servers: ["5"], channels: ["7"], participant: "9" })).toEqual([":s5", ":c7", ":d9"])
})

test("no text breaks what PostgreSQL is given, and a text is found by itself", () => {
  // Each lexeme stands in quotes, and nothing in it ends them.
  const vector = /^('[^'\\]{1,64}'(:\d+(,\d+)*)?( |$))*$/u
  const query = /^(!?\('[^'\\]+'(:\*)?((<\d+>|\|)'[^'\\]+'(:\*)?)*\)(&|$))*$/u
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), text => {
      // As the route passes it on: a route refuses a lone surrogate.
      const clean = Buffer.from(text).toString()
      const message = source(clean)
      const words = wordsOf(message)
      expect(vectorText(message, words, noStems)).toMatch(vector)
      const read = readQuery(clean, now)
      const parts = queryParts({ ...read, has: [], pinned: null }, { authors: null, mentioned: [] }, noStems)
      expect(parts.join("&")).toMatch(query)
      const phrase = readQuery(`"${clean.replaceAll('"', " ")}"`, now)
      for (const { tokens } of phrase.terms) for (const { word } of tokens) expect(words.has(word)).toBe(true)
    }),
    { numRuns: 100 },
  )
})
