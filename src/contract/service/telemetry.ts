import { z } from "zod"
import { omittable, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

export const limits = {
  telemetryEntries: 100,
  telemetryEndpoint: 255,
  telemetryMethod: 10,
  telemetryStatus: 50,
} as const
export const limitNotes: LimitNotes<typeof limits> = {
  telemetryEntries: refused("entries of a request"),
  telemetryEndpoint: refused("characters"),
  telemetryMethod: refused("characters"),
  telemetryStatus: refused("characters"),
}

const Amount = z.number().nonnegative()

export const TimingEntry = z
  .object({
    endpoint: text(1, limits.telemetryEndpoint).describe(
      "A path of this interface, with ids or as a template. Whatever is none counts as `other`",
    ),
    method: text(1, limits.telemetryMethod),
    response_time_ms: Amount,
    status_code: z
      .union([z.int(), text(0, limits.telemetryStatus)])
      .describe("The HTTP status. Text that is no number says why there was no answer"),
    db_queries: omittable(z.int().nonnegative()),
    db_time_ms: omittable(Amount),
    timestamp: omittable(z.int().nonnegative()).describe(
      "Unix time in seconds, or in milliseconds from 100000000000 on. Default: now. Times before the last 30 days count as the first of them, times to come as now",
    ),
  })
  .meta({ id: "TimingEntry" })
export type TimingEntry = z.output<typeof TimingEntry>

const timings = {
  method: "POST",
  tag: "Telemetry",
  auth: "optional",
  body: z.object({ entries: z.array(TimingEntry).max(limits.telemetryEntries) }).meta({ id: "ResponseTimesRequest" }),
  reply: z
    .object({
      accepted: z.int().describe("How many of the entries count. 0 while they cannot be stored"),
      message: z.string(),
    })
    .meta({ id: "ResponseTimesResponse" }),
  fails: [],
} as const
const example = {
  entries: [{ endpoint: "/api/v1/servers", method: "GET", response_time_ms: 12.5, status_code: 200 }],
}

export const recordResponseTimes = defineRoute({
  ...timings,
  example,
  path: "/telemetry/response-times",
  summary: "Report how long requests took, as a client has seen it",
})

export const recordTelemetry = defineRoute({
  ...timings,
  example,
  path: "/telemetry",
  summary: "The same as `POST /telemetry/response-times`",
})

export const reportCspViolation = defineRoute({
  method: "POST",
  path: "/telemetry/csp-report",
  summary: "Report a violation of a content security policy, as browsers do. It is counted; the body is not read",
  tag: "Telemetry",
  auth: "public",
  isGated: false,
  isEmpty: true,
  reply: z.undefined(),
  fails: [],
})

export const routes = { recordResponseTimes, recordTelemetry, reportCspViolation }
