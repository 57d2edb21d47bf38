import { expect, test } from "vitest"
import { Embed, Embeds } from "./embeds.ts"
import { limits } from "../core/limits.ts"

const shown = (embed: unknown): unknown => JSON.parse(JSON.stringify(Embed.parse(embed)))
const takes = (embed: unknown) => Embed.safeParse(embed).success

test("an embed keeps what it says and what nobody here knows", () => {
  const full = {
    type: "article",
    title: "Title",
    description: "Words",
    url: "https://example.com/page",
    timestamp: "2026-01-02T03:04:05Z",
    color: "#00AAFF",
    footer: { text: "Foot", icon_url: "https://example.com/f.png", proxy: 1 },
    image: { url: "https://example.com/i.png", width: 10, height: 20 },
    thumbnail: { url: "https://example.com/t.png" },
    video: { url: "https://example.com/v.mp4" },
    author: { name: "Ann", url: "https://example.com/ann", icon_url: "https://example.com/a.png" },
    provider: { name: "Example", url: "https://example.com" },
    fields: [{ name: "a", value: "b", inline: true, extra: [1] }],
    custom: { deep: [true] },
  }
  expect(shown(full)).toEqual(full)
  expect(shown({})).toEqual({ type: "rich" })
  expect(shown({ title: null, fields: [{ name: "a", value: "b" }] })).toEqual({
    type: "rich",
    fields: [{ name: "a", value: "b", inline: false }],
  })
})

test.each([
  { footer: { text: "" } },
  { footer: { icon_url: "https://example.com/f.png" } },
  { author: { name: "" } },
  { author: { url: "https://example.com/" } },
  { fields: [{ name: "", value: "", inline: true }] },
])("what may be empty is: %j", embed => {
  expect(shown(embed)).toEqual({ type: "rich", ...embed })
})

test.each([
  ["#0af", "#00AAFF"],
  ["#00aaff", "#00AAFF"],
  [0, "#000000"],
  [255, "#0000FF"],
  [16777215, "#FFFFFF"],
])("the colour %s is shown as %s", (color, expected) => {
  expect(shown({ color })).toEqual({ type: "rich", color: expected })
})

test("what has a bound keeps to it; characters are code points", () => {
  const { title, description, footer, author, fields, fieldName, fieldValue } = limits.embed
  const longest = (length: number) => "🦉".repeat(length)
  const field = { name: "a", value: "b" }
  const bounds: [build: (length: number) => unknown, most: number][] = [
    [n => ({ title: longest(n) }), title],
    [n => ({ description: longest(n) }), description],
    [n => ({ footer: { text: longest(n) } }), footer],
    [n => ({ author: { name: longest(n) } }), author],
    [n => ({ fields: Array.from({ length: n }, () => field) }), fields],
    [n => ({ fields: [{ ...field, name: longest(n) }] }), fieldName],
    [n => ({ fields: [{ ...field, value: longest(n) }] }), fieldValue],
    [n => ({ url: "https://example.com/".padEnd(n, "x") }), limits.urlCharacters],
  ]
  for (const [build, most] of bounds) expect([takes(build(most)), takes(build(most + 1))]).toEqual([true, false])
})

test.each([
  { title: 5 },
  { type: "other" },
  { url: "javascript:alert(1)" },
  { url: "ftp://example.com/" },
  { url: "//example.com/" },
  { url: "https://" },
  { url: "https://a b.example/" },
  { url: "https:\\\\example.com" },
  { url: "https://example.com/\u0007" },
  { url: "https://ann:secret@example.com/" },
  { timestamp: "yesterday" },
  { timestamp: 5 },
  { color: "red" },
  { color: "#12345" },
  { color: -1 },
  { color: 16777216 },
  { color: 1.5 },
  { image: {} },
  { image: { url: "https://example.com/", width: -1 } },
  { fields: [{ name: "a" }] },
  { fields: [{ value: "b" }] },
  { fields: [{ name: "a", value: "b", inline: "yes" }] },
  { fields: {} },
  "title",
  [],
  null,
])("%j is no embed", embed => {
  expect(takes(embed)).toBe(false)
})

test.each(["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05", "2026-01-02"])(
  "%s is a timestamp",
  timestamp => {
    expect(shown({ timestamp })).toMatchObject({ timestamp })
  },
)

test("the texts of all embeds of a message count together, and so does their JSON", () => {
  const { allCharacters, allBytes } = limits.embed
  const third = {
    title: "x".repeat(50),
    description: "y".repeat(allCharacters / 3 - 100),
    footer: { text: "z".repeat(50) },
  }
  expect(Embeds.safeParse([third, third, third]).success).toBe(true)
  expect(Embeds.safeParse([third, third, { ...third, author: { name: "!" } }]).success).toBe(false)
  expect(Embeds.safeParse([{ extra: "x".repeat(allBytes - 100) }]).success).toBe(true)
  expect(Embeds.safeParse([{ extra: "x".repeat(allBytes) }]).success).toBe(false)
  // Bytes of UTF-8, whatever the text is made of.
  for (const [character, bytes] of [
    ["é", 2],
    ["漢", 3],
    ["🦉", 4],
  ] as const) {
    expect(Embeds.safeParse([{ extra: character.repeat((allBytes - 100) / bytes) }]).success).toBe(true)
    expect(Embeds.safeParse([{ extra: character.repeat(allBytes / bytes) }]).success).toBe(false)
  }
})

test("all the text that embeds may have fits, in characters of four bytes and in as many fields as there may be", () => {
  const { allCharacters, fields } = limits.embed
  const count = limits.embedsPerMessage * fields
  const [name, value] = ["🦉".repeat(4), "🦉".repeat(allCharacters / count - 4)]
  const url = `https://example.com/${"x".repeat(100)}`
  const full = { url, image: { url }, fields: Array.from({ length: fields }, () => ({ name, value, inline: true })) }
  expect(Embeds.safeParse(Array.from({ length: limits.embedsPerMessage }, () => full)).success).toBe(true)
})

test("of a list without end no more is read than shows that it is too long", () => {
  const huge = Array.from({ length: 100_000 }, () => ({}))
  expect(Embeds.parse(huge)).toHaveLength(limits.embedsPerMessage + 1)
  const fields = Embed.safeParse({ fields: Array.from({ length: 100_000 }, () => ({})) })
  expect(fields.error!.issues.length).toBeLessThan(100)
})

test("a key that names a prototype changes none", () => {
  const parsed = Embed.parse(JSON.parse('{"title":"a","__proto__":{"url":"x"},"constructor":{"prototype":{"y":1}}}'))
  expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype)
  expect(parsed.url).toBeUndefined()
  expect(({} as Record<string, unknown>)["y"]).toBeUndefined()
})

test("keys and items of all embeds count together, at every depth; all that is named fits", () => {
  const { allValues, fields } = limits.embed
  const takesAll = (embeds: unknown) => Embeds.safeParse(embeds).success
  // An embed, its title, its type and `x` are values, too.
  const filled = (fill: unknown, count: number) => [
    { title: "a", type: "rich", x: Array.from({ length: count - 4 }, () => fill) },
  ]
  for (const fill of [{}, [], 1, "", null])
    expect([takesAll(filled(fill, allValues)), takesAll(filled(fill, allValues + 1))]).toEqual([true, false])
  expect(takesAll(filled({ a: [1] }, allValues / 2))).toBe(false)
  expect(takesAll([Object.fromEntries(Array.from({ length: allValues }, (_, i) => [`k${i}`, 1]))])).toBe(false)
  expect(takesAll(filled({}, 20_000))).toBe(false)

  const [url, picture] = ["https://example.com/", { url: "https://example.com/", width: 1, height: 1 }]
  const whole = {
    type: "rich",
    title: "a",
    description: "a",
    url,
    timestamp: "2026-01-02",
    color: "#0af",
    footer: { text: "a", icon_url: url },
    image: picture,
    thumbnail: picture,
    video: picture,
    author: { name: "a", url, icon_url: url },
    provider: { name: "a", url },
    fields: Array.from({ length: fields }, () => ({ name: "a", value: "b", inline: true })),
  }
  expect(takesAll(Array.from({ length: limits.embedsPerMessage }, () => whole))).toBe(true)
})
