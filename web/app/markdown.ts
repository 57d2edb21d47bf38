/**
 * The Markdown that people write in messages, as a tree. It is never made into HTML: what is shown
 * is made of this tree, so text stays text. Every step goes forward in the text, and the length of
 * a message bounds the work.
 */
export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "strong" | "em" | "del" | "spoiler"; readonly of: readonly Inline[] }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "link"; readonly url: string; readonly of: readonly Inline[] }
  | { readonly kind: "user" | "role" | "channel"; readonly id: string }
  | { readonly kind: "everyone"; readonly text: string }
  | { readonly kind: "emoji" | "sticker"; readonly name: string; readonly id: string }

export type Block =
  | { readonly kind: "paragraph"; readonly of: readonly Inline[] }
  | { readonly kind: "heading"; readonly level: 1 | 2 | 3; readonly of: readonly Inline[] }
  | { readonly kind: "quote"; readonly of: readonly Block[] }
  | {
      readonly kind: "list"
      readonly isOrdered: boolean
      readonly start: number
      readonly items: readonly (readonly Inline[])[]
    }
  | { readonly kind: "code"; readonly language: string; readonly text: string }

/** Deeper than that nobody writes; what is deeper is text. */
const maxDepth = 8

const fence = /^```([\w+-]{0,20})\s*$/
const heading = /^(#{1,3}) +(\S.*)$/
const item = /^\s{0,3}(?:[-*]|(\d{1,9})[.)]) +(\S.*)$/

export function parse(text: string, depth = 0): Block[] {
  const lines = text.split("\n")
  const blocks: Block[] = []
  let at = 0
  while (at < lines.length) {
    const line = lines[at]!
    const opened = fence.exec(line)
    if (opened) {
      const end = lines.findIndex((one, i) => i > at && one.trim() === "```")
      if (end > 0) {
        blocks.push({ kind: "code", language: opened[1]!, text: lines.slice(at + 1, end).join("\n") })
        at = end + 1
        continue
      }
    }
    const titled = heading.exec(line)
    if (titled) {
      blocks.push({ kind: "heading", level: titled[1]!.length as 1 | 2 | 3, of: inlines(titled[2]!) })
      at++
      continue
    }
    if (/^> ?/.test(line) && depth < maxDepth) {
      const quoted = takeWhile(lines, at, one => /^> ?/.test(one))
      blocks.push({ kind: "quote", of: parse(quoted.map(one => one.replace(/^> ?/, "")).join("\n"), depth + 1) })
      at += quoted.length
      continue
    }
    const first = item.exec(line)
    if (first) {
      const isOrdered = first[1] !== undefined
      const items = takeWhile(lines, at, one => {
        const found = item.exec(one)
        return found !== null && (found[1] !== undefined) === isOrdered
      })
      blocks.push({
        kind: "list",
        isOrdered,
        start: Number(first[1] ?? 1),
        items: items.map(one => inlines(item.exec(one)![2]!)),
      })
      at += items.length
      continue
    }
    const isPlain = (one: string, i: number) =>
      i === at || !(fence.test(one) || heading.test(one) || item.test(one) || one.startsWith(">"))
    const paragraph = takeWhile(lines, at, isPlain)
    blocks.push({ kind: "paragraph", of: inlines(paragraph.join("\n")) })
    at += paragraph.length
  }
  return blocks
}

function takeWhile(lines: readonly string[], from: number, holds: (line: string, index: number) => boolean): string[] {
  let to = from
  while (to < lines.length && holds(lines[to]!, to)) to++
  return lines.slice(from, to)
}

const pairs = [
  ["***", "both"],
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["||", "spoiler"],
  ["*", "em"],
  ["_", "em"],
] as const

/** What begins something other than text, sticky. */
const special = {
  escaped: /\\([\\`*_~|<>[\]()#@:-])/y,
  code: /(`{1,2})(?!`)([^\n]{1,2000}?)\1(?!`)/y,
  link: /\[([^\]\n]{1,200})\]\((https?:\/\/[^\s()<>]{1,1000})\)/y,
  url: /https?:\/\/[^\s<>"'`|\\^{}]{1,1000}/y,
  mention: /<(@&|@!?|#)(\d{1,20})>/y,
  emoji: /<(?:a?|(sticker)):([\p{L}\p{N}_]{1,32}):(\d{1,20})>/uy,
  everyone: /@(?:everyone|here)\b/y,
}

function matched(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}

export function inlines(text: string, depth = 0): Inline[] {
  const found: Inline[] = []
  let plain = ""
  let at = 0
  /** Marks that were looked for from here on and are not there. */
  const absent = new Set<string>()
  const push = (one: Inline, length: number) => {
    if (plain) found.push({ kind: "text", text: plain })
    plain = ""
    found.push(one)
    at += length
  }
  while (at < text.length) {
    const char = text[at]!
    const one = specialAt(text, at, char)
    if (one) {
      if (one.node) push(one.node, one.length)
      else {
        plain += one.text
        at += one.length
      }
      continue
    }
    const pair = depth < maxDepth && "*_~|".includes(char) ? pairAt(text, at, absent) : undefined
    if (pair) {
      const of = inlines(pair.inner, depth + 1)
      const node: Inline = pair.kind === "both" ? { kind: "strong", of: [{ kind: "em", of }] } : { kind: pair.kind, of }
      push(node, pair.length)
      continue
    }
    plain += char
    at++
  }
  if (plain) found.push({ kind: "text", text: plain })
  return found
}

interface Special {
  readonly node?: Inline
  readonly text?: string
  readonly length: number
}

function specialAt(text: string, at: number, char: string): Special | undefined {
  let found: RegExpExecArray | null
  switch (char) {
    case "\\":
      found = matched(special.escaped, text, at)
      return found ? { text: found[1]!, length: 2 } : undefined
    case "`":
      found = matched(special.code, text, at)
      return found
        ? { node: { kind: "code", text: found[2]!.trim() || found[2]! }, length: found[0].length }
        : undefined
    case "[": {
      found = matched(special.link, text, at)
      const url = found && safeUrl(found[2]!)
      return url
        ? { node: { kind: "link", url, of: [{ kind: "text", text: found![1]! }] }, length: found![0].length }
        : undefined
    }
    case "h": {
      found = matched(special.url, text, at)
      if (!found) return undefined
      // What ends a sentence is no part of an address.
      const shown = found[0].replace(/[.,:;!?)\]*_~]+$/, "")
      const url = safeUrl(shown)
      return url
        ? { node: { kind: "link", url, of: [{ kind: "text", text: shown }] }, length: shown.length }
        : undefined
    }
    case "<": {
      found = matched(special.mention, text, at)
      if (found) {
        const kind = found[1] === "#" ? "channel" : found[1] === "@&" ? "role" : "user"
        return { node: { kind, id: found[2]! }, length: found[0].length }
      }
      found = matched(special.emoji, text, at)
      if (!found) return undefined
      const kind = found[1] === undefined ? "emoji" : "sticker"
      return { node: { kind, name: found[2]!, id: found[3]! }, length: found[0].length }
    }
    case "@":
      found = matched(special.everyone, text, at)
      return found ? { node: { kind: "everyone", text: found[0] }, length: found[0].length } : undefined
    default:
      return undefined
  }
}

type Pair = { readonly kind: (typeof pairs)[number][1]; readonly inner: string; readonly length: number }

function pairAt(text: string, at: number, absent: Set<string>): Pair | undefined {
  for (const [mark, kind] of pairs) {
    if (!text.startsWith(mark, at) || absent.has(mark)) continue
    const isWordMark = mark.startsWith("_")
    // snake_case is no emphasis.
    if (isWordMark && /\w/.test(text[at - 1] ?? "")) continue
    const from = at + mark.length
    if (/\s/.test(text[from] ?? " ")) continue
    // One of a longer run belongs to that.
    const isOfRun = (place: number) => mark.length === 1 && (text[place - 1] === mark || text[place + 1] === mark)
    if (isOfRun(at)) continue
    const ends = (place: number) =>
      !/\s/.test(text[place - 1]!) && !isOfRun(place) && !(isWordMark && /\w/.test(text[place + mark.length] ?? ""))
    let end = text.indexOf(mark, from + 1)
    while (end > 0 && !ends(end)) end = text.indexOf(mark, end + 1)
    if (end < 0) {
      absent.add(mark)
      continue
    }
    return { kind, inner: text.slice(from, end), length: end + mark.length - at }
  }
  return undefined
}

/** Only these lead out of the page. */
function safeUrl(text: string): string | undefined {
  try {
    const url = new URL(text)
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined
  } catch {
    return undefined
  }
}
