/** The XML that object stores answer with: elements without attributes that matter, and text. */

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" }

/** The text of the first element of that name. */
export function textOf(xml: string, name: string): string | undefined {
  const [first] = elementsOf(xml, name)
  return first?.replaceAll(
    /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w{2,4}));/gi,
    (whole, hex?: string, decimal?: string, word?: string) => {
      if (word !== undefined) return entities[word] ?? whole
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
      return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole
    },
  )
}

/** What stands within every element of that name, none within another of them. */
export function* elementsOf(xml: string, name: string): Generator<string> {
  const [opening, closing] = [`<${name}>`, `</${name}>`]
  for (let at = 0; ;) {
    const from = xml.indexOf(opening, at)
    const to = from < 0 ? -1 : xml.indexOf(closing, from)
    if (to < 0) return
    yield xml.slice(from + opening.length, to)
    at = to + closing.length
  }
}
