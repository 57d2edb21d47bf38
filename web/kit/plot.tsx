import { useEffect, useRef } from "preact/hooks"
import UPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import { clockTime, moment } from "./format.ts"
import { isDark } from "./theme.ts"

export interface Line {
  readonly label: string
  /** The name of a colour of the style sheet. */
  readonly color: "blue" | "green" | "orange" | "red" | "violet"
  /** One for each moment; null where there is none. */
  readonly values: readonly (number | null)[]
}

interface PlotOptions {
  /** What it shows, in words: for those who do not see it. */
  readonly says: string
  /** Seconds. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
  readonly format: (value: number) => string
  readonly heightPx?: number
  /** Days have to be told apart. */
  readonly isLong?: boolean
}

/** A colour of the style sheet as it is in the theme of now: the canvas does not know `light-dark()`. */
function colorsIn(element: HTMLElement) {
  const probe = element.appendChild(document.createElement("span"))
  const colors = Object.fromEntries(
    (["faint", "line", "blue", "green", "orange", "red", "violet"] as const).map(name => {
      probe.style.color = `var(--${name})`
      return [name, getComputedStyle(probe).color]
    }),
  )
  probe.remove()
  return colors as Record<Line["color"] | "faint" | "line", string>
}

/** Lines over time. The figure under the pointer stands in the legend. */
export function Plot({ says, times, lines, format, heightPx = 150, isLong = false }: PlotOptions) {
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(undefined)
  const data = [[...times], ...lines.map(line => [...line.values])] as UPlot.AlignedData
  const { value: dark } = isDark
  const shape = JSON.stringify([lines.map(({ label, color }) => [label, color]), dark, heightPx, isLong])

  useEffect(() => {
    const element = holder.current
    if (!element) return
    plot.current = new UPlot(optionsOf({ lines, format, heightPx, isLong }, element), data, element)
    const watch = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot.current?.setSize({ width: element.clientWidth, height: heightPx })
    })
    watch.observe(element)
    return () => {
      watch.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [shape])

  useEffect(
    () => plot.current?.setData(data),
    [times.at(-1), times.length, lines.map(({ values }) => values.at(-1)).join()],
  )

  return <div ref={holder} class="plot" role="img" aria-label={says} />
}

function optionsOf(
  { lines, format, heightPx, isLong }: Required<Pick<PlotOptions, "lines" | "format" | "heightPx" | "isLong">>,
  element: HTMLElement,
): UPlot.Options {
  const colors = colorsIn(element)
  const axis = {
    stroke: colors.faint,
    grid: { stroke: colors.line, width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  }
  return {
    width: Math.max(200, element.clientWidth),
    height: heightPx,
    cursor: { y: false, points: { size: 6 } },
    legend: { show: true, live: true },
    scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, ...(!isLong && { values: hours }) },
      { ...axis, size: 64, space: 36, values: (_, values) => values.map(format) },
    ],
    series: [
      { label: "", value: (_, at) => (at === null ? "" : isLong ? moment(at) : clockTime(at)) },
      ...lines.map(({ label, color }) => ({
        label,
        stroke: colors[color],
        width: 2,
        ...(lines.length === 1 && { fill: colors[color].replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)") }),
        points: { show: false },
        value: (_: UPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  }
}

const hours: UPlot.Axis.DynamicValues = (_, splits) => splits.map(at => clockTime(at).slice(0, 5))
