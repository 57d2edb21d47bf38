import { expect, test } from "vitest"
import { inlines, parse, type Inline } from "./markdown.ts"

/** A tree as a short text. */
function shown(nodes: readonly Inline[]): string {
  return nodes
    .map(node => {
      if (node.kind === "text") return node.text
      if ("of" in node) return `<${node.kind}${node.kind === "link" ? ` ${node.url}` : ""}>${shown(node.of)}</>`
      return `<${node.kind} ${"id" in node ? node.id : node.text}>`
    })
    .join("")
}

test.for([
  [
    "**bold** and *it* and ~~gone~~ and ||hidden||",
    "<strong>bold</> and <em>it</> and <del>gone</> and <spoiler>hidden</>",
  ],
  ["***both***", "<strong><em>both</></>"],
  ["snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"],
  ["**open and `a ** b`", "**open and <code a ** b>"],
  ["\\*not\\* \\<@1>", "*not* <@1>"],
  ["a <sticker:old_gull:16>", "a <sticker 16>"],
  ["<@12> <@&13> <#14> <:gull:15> @everyone", "<user 12> <role 13> <channel 14> <emoji 15> <everyone @everyone>"],
  [
    "see https://example.com/a_b_c?x=1. Or (https://example.org)",
    "see <link https://example.com/a_b_c?x=1>https://example.com/a_b_c?x=1</>. Or (<link https://example.org/>https://example.org</>)",
  ],
  ["[text](https://example.com/x)", "<link https://example.com/x>text</>"],
  ["[text](javascript:alert(1))", "[text](javascript:alert(1))"],
  ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
] as const)("%s", ([text, tree]) => {
  expect(shown(inlines(text))).toBe(tree)
})

test("blocks: headings, lists, quotes, code", () => {
  const blocks = parse(
    "# Title\n- one\n- two\n3. three\n> quoted\n> > deeper\n```ts\nconst a = `**x**`\n```\nlast\nline",
  )
  expect(blocks.map(({ kind }) => kind)).toEqual(["heading", "list", "list", "quote", "code", "paragraph"])
  expect(blocks[2]).toMatchObject({ isOrdered: true, start: 3 })
  expect(blocks[3]).toMatchObject({ of: [{ kind: "paragraph" }, { kind: "quote" }] })
  expect(blocks[4]).toEqual({ kind: "code", language: "ts", text: "const a = `**x**`" })
  expect(parse("```\nnever closed")).toEqual([{ kind: "paragraph", of: [{ kind: "text", text: "```\nnever closed" }] }])
})

test("no text makes it work without end: 4,000 characters of any mark", () => {
  for (const mark of [
    "*",
    "_",
    "**",
    "~~",
    "||",
    "`",
    "[",
    "<",
    "> ",
    "- ",
    "*a",
    "_a ",
    "**a*",
    "https://",
    "[a](",
    "\\",
  ]) {
    const text = mark.repeat(4_000 / mark.length)
    let steps = 0
    const count = (nodes: readonly object[]): void => {
      for (const node of nodes) {
        steps++
        if ("of" in node) count(node.of as object[])
        if ("items" in node) for (const item of node.items as object[][]) count(item)
      }
    }
    count(parse(text))
    expect(steps).toBeLessThan(20_000)
  }
})
