import { z } from "zod"
import { omittable, Seconds } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { clampedInt } from "./fields.ts"

const about = { tag: "Operators", mount: "operators", auth: "operator", method: "GET" } as const

export const listLogs = defineRoute({
  ...about,
  path: "/admin/logs",
  summary: "List the log files of the host that answers, the newest first",
  reply: z.array(
    z
      .object({
        filename: z.string(),
        size: z.int().describe("Bytes"),
        modified: Seconds,
        is_zipped: z.boolean(),
      })
      .meta({ id: "LogFile" }),
  ),
  fails: [],
})

export const getLog = defineRoute({
  ...about,
  path: "/admin/logs/:filename",
  summary: "Read a log file, the oldest lines first",
  params: z.object({ filename: z.string() }),
  query: z.object({
    limit: clampedInt(1, 2_000).default(1_000),
    offset: clampedInt(0, 1_000_000_000)
      .default(0)
      .describe(
        "0: the last lines that match. Else the number of the first one, counted from the beginning of the file. The last 10,000 can be reached; a smaller number counts as that of the first of them",
      ),
    search: omittable(z.string().max(200)).describe("Only lines with this in them, in any case"),
    q: omittable(z.string().max(200)).describe("The same"),
    level: omittable(z.string().max(20)).describe("Only lines of this level, such as `WARN`, in any case"),
  }),
  reply: z
    .object({
      filename: z.string(),
      total_lines: z.int().describe("All that match, of at most the last 64 MiB of the file"),
      lines: z.array(
        z
          .object({ timestamp: z.string(), level: z.string(), message: z.string(), raw: z.string() })
          .meta({ id: "LogLine" }),
      ),
      limit: z.int(),
      offset: z.int(),
    })
    .meta({ id: "LogPage" }),
  fails: ["log_file_not_found"],
})

export const routes = { listLogs, getLog }
