import { z } from "zod"
import { queryInt, Seconds, Snowflake } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

export const Export = z
  .object({
    id: Snowflake,
    status: z.enum(["pending", "ready"]),
    is_another_pending: z
      .boolean()
      .describe("Whether a newer export is being prepared. It replaces this one when it is ready"),
    requested_at: Seconds,
    ready_at: Seconds.nullable(),
    expires_at: Seconds.nullable().describe("When the export is deleted"),
    parts: z.int().describe("Number of parts, numbered from 1. 0 until the export is ready"),
    tables: z
      .array(z.object({ name: z.string(), rows: z.int(), first_part: z.int(), last_part: z.int() }))
      .describe(
        "Contents: for each table the number of rows and the parts that have them. No other part has rows of that table",
      ),
    left_out: z
      .array(z.object({ name: z.string(), column: z.string(), reason: z.string() }))
      .describe("Data that is stored but not exported, and the reason"),
  })
  .meta({ id: "ExportResponse" })
export type Export = z.infer<typeof Export>

export const ExportPart = z
  .object({
    export_id: Snowflake,
    part: z.int(),
    parts: z.int(),
    name: z.string().describe("The table of the rows"),
    rows: z.array(z.record(z.string(), z.unknown())),
  })
  .meta({ id: "ExportPartResponse" })
export type ExportPart = z.infer<typeof ExportPart>

export const requestExport = defineRoute({
  method: "POST",
  path: "/users/@me/export",
  summary: "Request an export of all data about the caller. It is prepared in the background",
  tag: "Users",
  auth: "person",
  reply: Export,
  fails: ["export_pending", "export_too_soon"],
})

export const getExport = defineRoute({
  method: "GET",
  path: "/users/@me/export",
  summary: "Get the caller's latest export that is ready and its contents, or the status of the one in preparation",
  tag: "Users",
  auth: "person",
  reply: Export,
  fails: ["export_not_found"],
})

export const getExportPart = defineRoute({
  method: "GET",
  path: "/users/@me/export/rows",
  summary: "Get the rows of one part of the caller's latest export",
  tag: "Users",
  auth: "person",
  query: z.object({ part: queryInt(1, 2_147_483_647) }),
  reply: ExportPart,
  fails: ["export_not_found", "export_not_ready", "export_part_not_found"],
})

export const routes = { requestExport, getExport, getExportPart }
