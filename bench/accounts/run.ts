/**
 * `npm run bench -- accounts`: what signing in costs, what asking who one is costs, and who notices
 * when many sign in.
 */
import { parseArgs } from "node:util"
import { measuringOptions, readMeasuring, readParts } from "../arguments.ts"
import { record, show } from "../record.ts"
import { benchFlood } from "./flood.ts"
import type { FloodExtent } from "./flood.ts"
import { benchLogins } from "./logins.ts"
import type { LoginsExtent } from "./logins.ts"
import { benchMe } from "./me.ts"
import type { MeExtent } from "./me.ts"
import { peopleFor } from "./people.ts"
import { summarize } from "./report.ts"
import type { AccountsResults } from "./report.ts"

const usage = `npm run bench -- accounts [--only logins,me,flood] [--runs 3] [--quick] [--write] [--main FILE]

--only   some of the parts
--runs   how often each is measured; medians are shown
--quick  small, short and once: shows that all works, not what it costs
--write  keeps the results
--main   the server to run; left out, this checkout is built and run`

const parts = ["logins", "me", "flood"] as const

interface Plan {
  readonly logins: LoginsExtent
  readonly me: MeExtent
  /** Who ask who they are; as many as take turns, or a multiple. */
  readonly asking: number
  readonly flood: FloodExtent
}

function planOf(runs: number, isQuick: boolean): Plan {
  const short = { runs, idleSessions: 0, restSeconds: 0, countsDeferredWork: false }
  return isQuick
    ? {
        logins: { runs, warmUpSeconds: 0.5, seconds: 1, idleSeconds: 1 },
        me: { runs, warmUpSeconds: 0.3, seconds: 0.5, idleSeconds: 1 },
        asking: 500,
        flood: { ...short, warmUpSeconds: 0.5, seconds: 1, lanes: 256 },
      }
    : {
        logins: { runs, warmUpSeconds: 10, seconds: 8, idleSeconds: 8 },
        me: { runs, warmUpSeconds: 3, seconds: 5, idleSeconds: 5 },
        asking: 4_000,
        flood: { ...short, warmUpSeconds: 2, seconds: 10, lanes: 256 },
      }
}

export async function benchAccounts(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      ...measuringOptions,
    },
  })
  const { runs, isQuick, isKept, mainFile } = readMeasuring(values, usage)
  const only = readParts(parts, values.only, usage)
  const plan = planOf(runs, isQuick)
  const { warmUpSeconds, seconds } = plan.logins
  const registered = await peopleFor({
    signInSeconds: only.has("logins") ? warmUpSeconds + runs * seconds : 0,
    asking: only.has("me") ? plan.asking : 0,
  })
  const sizes = { audience: 1, authors: 0, idlers: 0, registered }
  const results = await record({ sizes, extent: { runs }, isQuick, mainFile, build, say }, async (harness, about) => {
    const results: AccountsResults = about
    if (only.has("logins")) results.logins = await benchLogins(harness, registered, plan.logins, say)
    if (only.has("me")) results.me = await benchMe(harness, plan.me, say)
    if (only.has("flood")) results.flood = await benchFlood(harness, plan.flood, say)
    return results
  })
  await show(results, summarize(results), { isKept, suffix: "-accounts" })
}
