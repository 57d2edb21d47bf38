import type { Check } from "../history.ts"
import { dependencies } from "./dependencies.ts"
import { fence } from "./fence.ts"
import { invalidSession } from "./invalid-session.ts"
import { jobs } from "./jobs.ts"
import { lost } from "./lost.ts"
import { once } from "./once.ts"
import { order } from "./order.ts"
import { presence } from "./presence.ts"
import { readAfterAck } from "./read-after-ack.ts"
import { resume } from "./resume.ts"
import { revocation } from "./revocation.ts"
import { takeOver } from "./take-over.ts"
import { visibility } from "./visibility.ts"

export const checks: Readonly<Record<string, Check>> = {
  P1: lost,
  P2: once,
  P3: order,
  P4: readAfterAck,
  P5: resume,
  P6: invalidSession,
  P7: fence,
  P8: takeOver,
  P11: dependencies,
  P12: revocation,
  P13: visibility,
  P14: presence,
  P15: jobs,
}
