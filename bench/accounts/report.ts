import { microseconds, pair, partsOf, ratio, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import { figure } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import type { FloodResult } from "./flood.ts"
import type { LoginsResult } from "./logins.ts"
import type { MeCase } from "./me.ts"

export interface AccountsResults extends About {
  logins?: LoginsResult
  me?: MeCase[]
  flood?: FloodResult
}

const perSecond = (value: Figure) => `${round(value.median)}/s`
const milliseconds = (value: Figure) => `${round(value.median)} ms`

export function summarize({ logins, me, flood }: AccountsResults): Line[] {
  return [...(logins ? loginLines(logins) : []), ...(me ?? []).flatMap(meLines), ...(flood ? floodLines(flood) : [])]
}

const loginLines = ({ inFlight, cases }: LoginsResult): Line[] =>
  cases.flatMap(({ sessions, runs, cpu, cpuAboveIdle, perSecond: rate, p50 }): Line[] => [
    {
      work: `CPU per sign-in, ${inFlight} in flight, sessions ${sessions}`,
      bare: microseconds(cpu.bare),
      starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpuByPart))})`,
      ...ratio(cpu, 1.1),
    },
    {
      work: "… without what an idle server takes",
      bare: microseconds(cpuAboveIdle.bare),
      starling: microseconds(cpuAboveIdle.starling),
      ...ratio(cpuAboveIdle),
    },
    { work: "… sign-ins", bare: perSecond(rate.bare), starling: perSecond(rate.starling), ...ratio(rate) },
    {
      work: "… until signed in, p50",
      bare: milliseconds(p50.bare),
      starling: milliseconds(p50.starling),
      ...ratio(p50),
    },
  ])

const meLines = ({
  limits,
  inFlight,
  keepsConnection = false,
  runs,
  cpu,
  cpuAboveIdle,
  perSecond: rate,
  p50,
  p99,
}: MeCase): Line[] => [
  {
    work: `CPU per GET /users/@me, limits ${limits}, ${inFlight} in flight${keepsConnection ? ", each over a connection of their own" : ""}`,
    bare: microseconds(cpu.bare),
    starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpuByPart))})`,
    ...ratio(cpu, limits === "on" ? 3 : 2.6),
  },
  {
    work: "… without what an idle server takes",
    bare: microseconds(cpuAboveIdle.bare),
    starling: microseconds(cpuAboveIdle.starling),
    ...ratio(cpuAboveIdle),
  },
  { work: "… GETs", bare: perSecond(rate.bare), starling: perSecond(rate.starling), ...ratio(rate) },
  {
    work: "… until answered, p50 / p99",
    bare: pair(p50.bare, p99.bare),
    starling: pair(p50.starling, p99.starling),
    ...ratio(p50),
  },
]

function floodLines({ lanes, outcomes, ways }: FloodResult): Line[] {
  const statuses = [...new Set(outcomes.flatMap(({ answers }) => Object.keys(answers)))].toSorted()
  const rateOf = (status: string) => figure(outcomes.map(({ answers, seconds }) => (answers[status] ?? 0) / seconds))
  return [
    ...ways.flatMap(({ postedAtOwner, heardAtOwner, p50, p99 }): Line[] => {
      const places = `${postedAtOwner ? "owner" : "other"} to ${heardAtOwner ? "owner" : "other"}`
      return [
        {
          work: `post to frame while ${lanes} sign in at once, ${places}, p50`,
          bare: `idle: ${milliseconds(p50.bare)}`,
          starling: milliseconds(p50.starling),
          ...ratio(p50),
        },
        {
          work: "… p99",
          bare: `idle: ${milliseconds(p99.bare)}`,
          starling: milliseconds(p99.starling),
          ...ratio(p99),
        },
      ]
    }),
    {
      work: "… what became of the sign-ins",
      bare: "",
      starling: statuses.map(status => `${status}: ${perSecond(rateOf(status))}`).join(", "),
    },
    {
      work: "… until signed in, p50 / p99",
      bare: "",
      starling: pair(figure(outcomes.map(({ p50 }) => p50)), figure(outcomes.map(({ p99 }) => p99))),
    },
  ]
}
