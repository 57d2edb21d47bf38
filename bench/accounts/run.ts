/**
 * `npm run bench -- accounts`: what signing in costs, what asking who one is costs, and who notices
 * when many sign in.
 */
import type { Bench } from "../bench.ts"
import { benchFlood } from "./flood.ts"
import type { FloodExtent } from "./flood.ts"
import { benchLogins } from "./logins.ts"
import type { LoginsExtent } from "./logins.ts"
import { benchMe } from "./me.ts"
import type { MeExtent } from "./me.ts"
import { peopleFor } from "./people.ts"
import { summarize } from "./report.ts"
import type { AccountsResults } from "./report.ts"

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

export const accounts: Bench<(typeof parts)[number], AccountsResults> = {
  about: "sign-ins, the cost of asking who one is, latency while many sign in",
  parts,
  async plan({ only, runs, isQuick, say }) {
    const plan = planOf(runs, isQuick)
    const { warmUpSeconds, seconds } = plan.logins
    const registered = await peopleFor({
      signInSeconds: only.has("logins") ? warmUpSeconds + runs * seconds : 0,
      asking: only.has("me") ? plan.asking : 0,
    })
    return {
      sizes: { audience: 1, authors: 0, idlers: 0, registered },
      extent: { runs },
      async measure(harness, about) {
        const results: AccountsResults = about
        if (only.has("logins")) results.logins = await benchLogins(harness, registered, plan.logins, say)
        if (only.has("me")) results.me = await benchMe(harness, plan.me, say)
        if (only.has("flood")) results.flood = await benchFlood(harness, plan.flood, say)
        return results
      },
      lines: summarize,
    }
  },
}
