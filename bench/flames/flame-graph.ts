/** A flame graph as SVG text: no script, so that it can be looked at wherever pictures are. */
import { escape } from "../plot.ts"
import type { Frame } from "./profile.ts"

const width = 1_200
const rowHeight = 17
const top = 84
const leastWidth = 0.8
/** Of a letter at the size below; labels are cut to what fits. */
const letterWidth = 6.8

const kinds = {
  own: { label: "Starling", colours: ["#e8833a", "#f09a55"] },
  packages: { label: "packages", colours: ["#d9b44a", "#e5c467"] },
  node: { label: "Node", colours: ["#7fa65a", "#92b96d"] },
  native: { label: "V8, uWebSockets.js, the kernel", colours: ["#9aa5b1", "#adb7c2"] },
} as const

export function kindOf(file: string): keyof typeof kinds {
  if (file === "") return "native"
  if (file.startsWith("node:")) return "node"
  return file.includes("node_modules/") ? "packages" : "own"
}

export interface FlameGraph {
  readonly title: string
  readonly subtitle: string
  readonly root: Frame
}

/** The first caller is on top; a frame is as wide as its samples and those of what it called. */
export function flameGraph({ title, subtitle, root }: FlameGraph): string {
  const drawn: string[] = []
  let deepest = 0
  const unit = width / Math.max(1, root.total)
  const draw = (frame: Frame, from: number, depth: number) => {
    const wide = frame.total * unit
    if (wide < leastWidth) return
    deepest = Math.max(deepest, depth)
    const y = top + depth * rowHeight
    const { colours } = kinds[kindOf(frame.file)]
    const place = frame.file === "" ? "" : ` ${frame.file}:${frame.line}`
    const percent = ((100 * frame.total) / root.total).toFixed(1)
    const letters = Math.floor((wide - 4) / letterWidth)
    const label = letters < 3 ? "" : frame.name.slice(0, letters)
    drawn.push(
      `<g><title>${escape(`${frame.name}${place}: ${percent} %, ${frame.total} samples`)}</title>` +
        `<rect x="${from.toFixed(1)}" y="${y}" width="${Math.max(0.5, wide - 0.5).toFixed(1)}" height="${rowHeight - 1}" fill="${colours[depth % 2]}"/>` +
        (label === "" ? "" : `<text x="${(from + 3).toFixed(1)}" y="${y + 12}">${escape(label)}</text>`) +
        "</g>",
    )
    let at = from
    for (const child of [...frame.children.values()].toSorted(byWidth)) {
      draw(child, at, depth + 1)
      at += child.total * unit
    }
  }
  let at = 0
  for (const child of [...root.children.values()].toSorted(byWidth)) {
    draw(child, at, 0)
    at += child.total * unit
  }
  const key = Object.values(kinds).flatMap(({ label, colours }, i) => [
    `<rect x="${20 + i * 150}" y="58" width="12" height="12" fill="${colours[0]}"/>`,
    `<text x="${38 + i * 150}" y="68">${escape(label)}</text>`,
  ])
  const height = top + (deepest + 1) * rowHeight + 16
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11" fill="#222">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="20" y="28" font-size="18" font-weight="bold">${escape(title)}</text>`,
    `<text x="20" y="48" font-size="13" fill="#666">${escape(subtitle)}</text>`,
    ...key,
    ...drawn,
    "</svg>\n",
  ].join("\n")
}

const byWidth = (a: Frame, b: Frame) => b.total - a.total
