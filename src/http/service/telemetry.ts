import type { routes, TimingEntry } from "../../contract/service/telemetry.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Timings } from "./timings.ts"

interface Needs {
  readonly telemetry: { readonly timings: Timings; readonly noteCspReport: () => void }
}

export function telemetry({ telemetry: { timings, noteCspReport } }: Needs): Handlers<typeof routes> {
  const record = ({ body: { entries } }: { readonly body: { readonly entries: readonly TimingEntry[] } }) => {
    const accepted = timings.add(entries)
    if (!timings.isEnabled) return { accepted, message: "Telemetry is disabled" }
    return { accepted, message: accepted < entries.length ? "Not all entries can be stored now" : "Entries recorded" }
  }
  return {
    recordResponseTimes: record,
    recordTelemetry: record,
    reportCspViolation() {
      noteCspReport()
      return undefined
    },
  }
}
