import { z } from "zod"
import { queryInt, Seconds, Snowflake } from "./fields.ts"
import { defineRoute } from "./registry.ts"

export const Export = z
  .object({
    id: Snowflake,
    status: z.enum(["pending", "ready"]),
    is_another_pending: z
      .boolean()
      .describe("A newer one is being made, which takes the place of this one once it is ready"),
    requested_at: Seconds,
    ready_at: Seconds.nullable(),
    expires_at: Seconds.nullable().describe("From then on it is gone"),
    parts: z.int().describe("How many there are, numbered from 1; 0 until it is ready"),
    tables: z
      .array(z.object({ name: z.string(), rows: z.int(), first_part: z.int(), last_part: z.int() }))
      .describe(
        "What it holds: for each table the number of rows and the parts that they are in. Nothing is held in others",
      ),
    left_out: z
      .array(z.object({ name: z.string(), column: z.string(), reason: z.string() }))
      .describe("What is held and not given, and why"),
  })
  .meta({ id: "ExportResponse" })
export type Export = z.infer<typeof Export>

export const ExportPart = z
  .object({
    export_id: Snowflake,
    part: z.int(),
    parts: z.int(),
    name: z.string().describe("The table that the rows are of"),
    rows: z.array(z.record(z.string(), z.unknown())),
  })
  .meta({ id: "ExportPartResponse" })
export type ExportPart = z.infer<typeof ExportPart>

export const requestExport = defineRoute({
  method: "POST",
  path: "/users/@me/export",
  summary: "Ask for everything that is held about the caller. It is put together in the background",
  tag: "Users",
  auth: "person",
  reply: Export,
  fails: ["export_pending", "export_too_soon"],
})

export const getExport = defineRoute({
  method: "GET",
  path: "/users/@me/export",
  summary: "The caller's latest export that is ready, and what it holds; else how the one that is being made stands",
  tag: "Users",
  auth: "person",
  reply: Export,
  fails: ["export_not_found"],
})

export const getExportPart = defineRoute({
  method: "GET",
  path: "/users/@me/export/rows",
  summary: "The rows of one part of the caller's latest export",
  tag: "Users",
  auth: "person",
  query: z.object({ part: queryInt(1, 2_147_483_647) }),
  reply: ExportPart,
  fails: ["export_not_found", "export_not_ready", "export_part_not_found"],
})

export const routes = { requestExport, getExport, getExportPart }
