/** Bar charts as SVG text: enough for the results, and no dependency. */

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

const colours = ["#3b6ea5", "#e0913a", "#b8433f", "#7a9a4c"]
const width = 980
const left = 390
const right = 190
const rowHeight = 34
const top = 84

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
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
