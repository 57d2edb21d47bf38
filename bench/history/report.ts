import { microseconds, partsOf, ratio, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import type { PagesCase } from "./pages.ts"

export interface HistoryResults extends About {
  pages?: PagesCase[]
}

const aims = { hot: 0.3, cold: 1.3 } as const

export const summarize = ({ pages = [] }: HistoryResults): Line[] =>
  pages.flatMap(({ messages, place, runs, cpu, p50 }): Line[] => [
    {
      work: `CPU per page of 50, ${place}, ${messages.toLocaleString("en")} messages`,
      bare: microseconds(cpu.bare),
      starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpuByPart))})`,
      ...ratio(cpu, aims[place]),
    },
    {
      work: "… until answered, p50",
      bare: `${round(p50.bare.median)} ms`,
      starling: `${round(p50.starling.median)} ms`,
      ...ratio(p50),
    },
  ])
