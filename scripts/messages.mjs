/**
 * Texts of the page at /app: each has an entry in every language's file with the same values, no
 * entry is without use, and no text stands in a component untranslated.
 */
import { readFileSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { transformSync } from "esbuild"

const folder = "web/app"
const catalogues = readdirSync(join(folder, "messages")).filter(name => !name.endsWith(".test.ts"))
const literal = `("(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*')`
const calls = [`\\b(?:t|msgid)\\(\\s*${literal}`, `\\bcount\\([^"']*?${literal},\\s*${literal}`].map(
  source => new RegExp(source, "g"),
)
const notLiteral = /(?<!function )\bt\(\s*(?!["'\s])/
/** What the browser shows or reads aloud, in what JSX becomes. */
const bare = new RegExp(
  `(?:(?<!"kbd", \\{ )\\b(?:children|title|label|placeholder|alt|hint|does)|"aria-label"): (?:\\[\\s*)?${literal}|(?<!\\(\\s*)^\\s+${literal},?$`,
  "gm",
)
const isText = text => /\p{L}{2,}/u.test(text)

/** @returns what is wrong, a line each, and the files that were looked at */
export async function untranslated() {
  const files = reachable(join(folder, "main.tsx"))
  const used = new Map()
  const wrong = []
  for (const file of files) {
    const source = readFileSync(file, "utf8")
    const code = source.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "")
    for (const call of calls)
      for (const [, ...texts] of code.matchAll(call)) for (const text of texts) used.set(textIn(text), file)
    if (notLiteral.test(code) && !/\bmsgid\b|emoji/.test(code) && !file.endsWith("kit/text.ts"))
      wrong.push(`${file}: t() takes a text of a table that has no msgid()`)
    if (!file.endsWith(".tsx")) continue
    const { code: made } = transformSync(source, {
      loader: "tsx",
      jsx: "automatic",
      jsxImportSource: "preact",
      charset: "utf8",
    })
    for (const [, ...found] of made.matchAll(bare))
      for (const text of found) if (text && isText(textIn(text))) wrong.push(`${file}: ${text} is not in t()`)
  }
  for (const [, words] of (await loaded("web/app/emoji.ts")).emojis) used.set(words, "web/app/emoji.ts")
  const refused = await refusals()
  for (const name of catalogues) {
    const file = join(folder, "messages", name)
    const { texts, refusals } = await loaded(file)
    for (const [text, place] of used)
      if (!Object.hasOwn(texts, text)) wrong.push(`${file}: has nothing for ${JSON.stringify(text)} of ${place}`)
    for (const text of Object.keys(texts))
      if (!used.has(text)) wrong.push(`${file}: ${JSON.stringify(text)} is used nowhere`)
    for (const text of Object.keys(refusals))
      if (!refused.has(text)) wrong.push(`${file}: the server never says ${JSON.stringify(text)}`)
    for (const [text, translation] of Object.entries({ ...texts, ...refusals }))
      if (valuesIn(text) !== valuesIn(translation)) wrong.push(`${file}: the values of ${JSON.stringify(text)} differ`)
  }
  return { files: [...files], wrong }
}

/** As the program has it, without quotes. */
const textIn = quoted =>
  quoted.startsWith('"') ? JSON.parse(quoted) : quoted.slice(1, -1).replaceAll("\\'", "'").replaceAll("\\\\", "\\")
const valuesIn = text => [...new Set(text.match(/\{\w+\}/g))].toSorted((one, other) => (one < other ? -1 : 1)).join()

/** A file and those of web/ that it imports. */
function reachable(entry) {
  const found = new Set([entry])
  for (const file of found)
    for (const [, path] of readFileSync(file, "utf8").matchAll(/(?:from |import |import\()"(\.[^"]+\.tsx?)"/g)) {
      const next = join(dirname(file), path)
      if (next.startsWith("web/")) found.add(next)
    }
  return found
}

const loaded = file => {
  const { code } = transformSync(readFileSync(file, "utf8"), { loader: "ts", charset: "utf8" })
  return import(`data:text/javascript,${encodeURIComponent(code)}`)
}

/** What the contract's table of errors says, and what stands before the name of a permission. */
async function refusals() {
  const { errors } = await loaded("src/contract/core/errors.ts")
  return new Set([...Object.values(errors).map(({ message }) => message), "Missing required permission"])
}
