import { expect, test } from "vitest"
import { emojiKey, givenEmoji, oneLess, oneMore } from "./reactions.ts"

const given = (text: string) => givenEmoji(text)!

test("emoji of every shape, names and custom ones are taken as they are written", () => {
  const pictures = ["👍", "👍🏽", "❤️", "❤", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "#️⃣", "👩🏽‍❤️‍💋‍👨🏿"]
  // As many write them: without a selector, with some of them, with one too many.
  pictures.push("1\u20e3", "🏳\u200d🌈", "👁\u200d🗨\ufe0f", "🕵\u200d♂", "👍\ufe0f")
  // Or want the text, not the picture.
  pictures.push("❤\ufe0e", "☺\ufe0e", "👁\ufe0e\u200d🗨", "1\ufe0e\u20e3")
  const names = [
    "thumbsup",
    ":thumbsup:",
    "+1",
    ":-1:",
    "a",
    "名前",
    "नमस्ते",
    ":नमस्ते:",
    "e\u0301te\u0301",
    "x".repeat(32),
  ]
  for (const text of [...pictures, ...names]) expect(givenEmoji(text)).toEqual({ text, id: null })
  for (const text of ["<:gull_1:9223372036854775807>", "<a:gull_1:9223372036854775807>", "9223372036854775807"])
    expect(givenEmoji(text)).toEqual({ text, id: "9223372036854775807" })
})

test("what is no emoji is refused", () => {
  const none = [
    "",
    " ",
    "a b",
    "👍 ",
    "👍👍",
    "🇩🇪🇫🇷",
    "👍a",
    "\u200d",
    "\ufe0f",
    "🏽",
    "*",
    "a\u0000",
    "a\nb",
    "\u202eabc",
    "☺\ufe0e\ufe0e",
    "☺\ufe0f\ufe0e",
    "☺\ufe0e\ufe0f",
    "👍\ufe0e",
    "1\ufe0e",
    "\ufe0e",
    "♔",
    "👍\u200d",
    "👍\ufe0f\ufe0f",
    "👨\u200d\ufe0f👩",
    "😀\u{e0067}\u{e007f}",
    "\u20e3",
    "a\u20e3",
    "🇩",
    "\u3164",
    "a\u3164",
    "a\u200db",
    "a\u{e0100}",
    "\u0301",
    ":\u0301:",
    "::",
    ":",
    ":a",
  ]
  const wrong = [
    "<:x:1>",
    "<:gull:0>",
    "<:gull:x>",
    "<b:gull:1>",
    "<:gull:1",
    "<script>",
    "a/b",
    "%F0%9F%91%8D",
    "9223372036854775808",
  ]
  const long = ["x".repeat(33), `:${"x".repeat(31)}:`, `👍${"\ufe0f".repeat(32)}`, `1${"\u20e3".repeat(32)}`]
  for (const text of [...none, ...wrong, ...long]) expect([text, givenEmoji(text)]).toEqual([text, undefined])
})

test("one custom emoji is one, however it is written; names and pictures are what they are", () => {
  expect(new Set(["<:gull:7>", "<a:gull:7>", "7", "<:other:7>"].map(text => emojiKey(given(text)))).size).toBe(1)
  expect(new Set(["👍", ":thumbsup:", "thumbsup", "👍🏽"].map(text => emojiKey(given(text)))).size).toBe(4)
})

test("tallies stand in the order of first use, and one that falls to nothing goes", () => {
  const gull = { emoji: "<:gull:7>", count: 1, custom_emoji_id: "7", url: "/api/v1/media/emojis/7" }
  const thumb = { emoji: "👍", count: 1, custom_emoji_id: null, url: null }
  const two = oneMore(oneMore([], given("<:gull:7>")), given("👍"))
  expect(two).toEqual([gull, thumb])
  expect(oneMore(two, given("7"))).toEqual([{ ...gull, count: 2 }, thumb])
  expect(oneLess(oneMore(two, given("7")), "7")).toEqual(two)
  expect(oneMore(oneLess(two, "7"), given("7"))).toEqual([thumb, { ...gull, emoji: "7" }])
})
