/** Charts as SVG text: enough for the results, and no dependency. */

export interface Bar {
  label: string
  /** Drawn one after the other, each in the colour of its place. */
  parts: number[]
  /** Shown at the end of the bar. */
  text: string
  /** A mark on the bar that it should not pass. */
  aim?: number
}

export interface Chart {
  title: string
  subtitle: string
  /** Names of the parts, where there are several. */
  legend: string[]
  bars: Bar[]
}

export interface LineChart {
  title: string
  subtitle: string
  /** What the axes count. */
  across: string
  up: string
  lines: { label: string; points: [across: number, up: number][] }[]
}

const colours = ["#3b6ea5", "#e0913a", "#b8433f", "#7a9a4c"]
const width = 980
const left = 390
const right = 190
const rowHeight = 34
const top = 84

export const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const text = (x: number, y: number, content: string, attributes = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${escape(content)}</text>`

export function barChart({ title, subtitle, legend, bars }: Chart): string {
  const height = top + bars.length * rowHeight + 24
  const total = (bar: Bar) => bar.parts.reduce((sum, part) => sum + part, 0)
  const most = Math.max(...bars.flatMap(bar => [total(bar), bar.aim ?? 0])) * 1.02
  const x = (value: number) => left + (value / most) * (width - left - right)

  const key = legend.flatMap((name, i) => {
    const at = left + i * 130
    return [`<rect x="${at}" y="58" width="12" height="12" fill="${colours[i]}"/>`, text(at + 18, 68, name)]
  })
  const rows = bars.flatMap((bar, row) => {
    const y = top + row * rowHeight
    let from = 0
    const parts = bar.parts.map((part, i) => {
      const rect = `<rect x="${x(from).toFixed(1)}" y="${y}" width="${(x(from + part) - x(from)).toFixed(1)}" height="22" fill="${colours[i % colours.length]}"/>`
      from += part
      return rect
    })
    const aim =
      bar.aim === undefined
        ? []
        : [
            `<line x1="${x(bar.aim).toFixed(1)}" x2="${x(bar.aim).toFixed(1)}" y1="${y - 4}" y2="${y + 26}" stroke="#222" stroke-width="2" stroke-dasharray="4 3"/>`,
          ]
    const end = Math.max(total(bar), bar.aim ?? 0)
    return [
      text(left - 10, y + 16, bar.label, `text-anchor="end"`),
      ...parts,
      ...aim,
      text(x(end) + 8, y + 16, bar.text),
    ]
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13" fill="#222">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(20, 28, title, `font-size="18" font-weight="bold"`),
    text(20, 48, subtitle, `fill="#666"`),
    ...key,
    ...rows,
    "</svg>\n",
  ].join("\n")
}

const lineColours = [
  "#3b6ea5",
  "#e0913a",
  "#b8433f",
  "#7a9a4c",
  "#7d5ba6",
  "#3a9e9e",
  "#a0742c",
  "#d46a9f",
  "#555",
  "#111",
]
const plotHeight = 460
const plotRight = width - 260

/** Lines over powers of ten, both ways: what does not grow is level. */
export function lineChart({ title, subtitle, across, up, lines }: LineChart): string {
  const points = lines.flatMap(line => line.points).filter(([, value]) => value > 0)
  const powers = (values: number[]) => ({
    least: Math.floor(Math.log10(Math.min(...values)) + 1e-9),
    most: Math.max(Math.ceil(Math.log10(Math.max(...values)) - 1e-9), Math.floor(Math.log10(Math.min(...values))) + 1),
  })
  const horizontal = powers(points.map(([value]) => value))
  const vertical = powers(points.map(([, value]) => value))
  const place = (value: number, { least, most }: typeof horizontal) => (Math.log10(value) - least) / (most - least)
  const x = (value: number) => 80 + place(value, horizontal) * (plotRight - 80)
  const y = (value: number) => top + (1 - place(value, vertical)) * (plotHeight - top)
  const tens = ({ least, most }: typeof horizontal) =>
    Array.from({ length: most - least + 1 }, (_, i) => 10 ** (least + i))
  const grid = [
    ...tens(horizontal).flatMap(value => [
      `<line x1="${x(value).toFixed(1)}" x2="${x(value).toFixed(1)}" y1="${top}" y2="${plotHeight}" stroke="#ddd"/>`,
      text(x(value), plotHeight + 20, value.toLocaleString("en"), `text-anchor="middle"`),
    ]),
    ...tens(vertical).flatMap(value => [
      `<line x1="80" x2="${plotRight}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}" stroke="#ddd"/>`,
      text(72, y(value) + 4, `${value.toLocaleString("en")} ${up}`, `text-anchor="end"`),
    ]),
  ]
  // Names stand beside the ends of their lines, and are pushed apart where these are close.
  let lowest = top - 18
  const ends = lines
    .map((line, i) => ({ line, i, at: y(Math.max(line.points.at(-1)![1], 10 ** vertical.least)) }))
    .toSorted((a, b) => a.at - b.at)
    .map(end => ({ ...end, at: (lowest = Math.max(end.at, lowest + 18)) }))
  const drawn = ends.flatMap(({ line, i, at }) => {
    const colour = lineColours[i % lineColours.length]!
    const seen = line.points.filter(([, value]) => value > 0)
    const path = seen.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ")
    return [
      `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`,
      ...seen.map(([a, b]) => `<circle cx="${x(a).toFixed(1)}" cy="${y(b).toFixed(1)}" r="3.5" fill="${colour}"/>`),
      text(plotRight + 12, at + 4, line.label, `fill="${colour}"`),
    ]
  })
  const height = Math.max(plotHeight + 56, lowest + 24)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13" fill="#222">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(20, 28, title, `font-size="18" font-weight="bold"`),
    text(20, 48, subtitle, `fill="#666"`),
    ...grid,
    text((80 + plotRight) / 2, plotHeight + 42, across, `text-anchor="middle"`),
    ...drawn,
    "</svg>\n",
  ].join("\n")
}
