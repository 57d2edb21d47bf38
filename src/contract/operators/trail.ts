import { z } from "zod"
import { omittable, Seconds } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { clampedInt, RowId } from "./fields.ts"

/** What one operator did, or tried to. */
export const TrailEntry = z
  .object({
    id: RowId,
    at: Seconds,
    operator_id: RowId.nullable().describe("Null: nobody who is known, as where a sign-in fails"),
    operator: z.string().nullable().describe("The operator's name"),
    action: z.string().describe("The operation id of the route"),
    target: z.string().nullable().describe("What it was about: an id, an address, a name"),
    input: z.record(z.string(), z.unknown()).describe("Some of what was sent, shortened. No secrets"),
    address: z.string().describe("The address that the call came from"),
    outcome: z.int().nullable().describe("The HTTP status. Null: it is not known how the call ended"),
    error: z.string().nullable().describe("The name of the refusal"),
    result: z.record(z.string(), z.unknown()).describe("Facts about what was done, such as how many sessions ended"),
  })
  .meta({ id: "TrailEntry" })
export type TrailEntry = z.infer<typeof TrailEntry>

export const listTrail = defineRoute({
  method: "GET",
  path: "/admin/trail",
  mount: "operators",
  summary: "List what operators did, the newest first",
  tag: "Operators",
  auth: "operator",
  query: z.object({
    operator: omittable(z.string().max(100)).describe("Only of the operator of this name"),
    action: omittable(z.string().max(64)).describe("Only this action"),
    target: omittable(z.string().max(200)).describe("Only about this"),
    before: omittable(RowId).describe("Only entries with a smaller id: the next page"),
    limit: clampedInt(1, 200).default(50),
  }),
  reply: z.array(TrailEntry),
  fails: [],
})

export const routes = { listTrail }
