import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { routes } from "../../src/contract/contract.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { expect, test } from "../kit/test.ts"

const line = (i: number) => `2026-11-27 10:00:00,000 - ${i % 3 === 0 ? "WARN" : "INFO"} - web-0 line ${i}`

test("an operator lists the log files and reads them, by text and level", async ({ shared }) => {
  const operator = await newOperator(shared)
  const rest = operator.on(shared.east)
  expect(await rest.listLogs()).toEqual([])
  expect(await refusal(rest.getLog({ filename: "starling.log" }))).toBe("log_file_not_found")
  const logs = join(shared.dataDir, "logs")
  await mkdir(logs)
  await writeFile(join(logs, "starling.log"), Array.from({ length: 3_000 }, (_, i) => `${line(i)}\n`).join(""))
  await writeFile(join(logs, "note.txt"), "x")
  await writeFile(join(shared.dataDir, "outside.log"), "secret\n")
  expect(await rest.listLogs()).toEqual([
    { filename: "starling.log", size: expect.any(Number), modified: expect.any(Number), is_zipped: false },
  ])

  const read = async (query: Omit<Parameters<typeof rest.getLog>[0], "filename">) => {
    const { lines, ...page } = await rest.getLog({ filename: "starling.log", ...query })
    return { ...page, count: lines.length, first: lines[0] }
  }
  const told = { filename: "starling.log", total_lines: 3_000, offset: 0 }
  const shown = (i: number) => ({
    timestamp: "2026-11-27 10:00:00,000",
    level: i % 3 === 0 ? "WARN" : "INFO",
    message: `web-0 line ${i}`,
    raw: line(i),
  })
  expect(await read({})).toEqual({ ...told, limit: 1_000, count: 1_000, first: shown(2_000) })
  expect(await read({ limit: "99999" })).toEqual({ ...told, limit: 2_000, count: 2_000, first: shown(1_000) })
  expect(await read({ limit: "0", offset: "-7" })).toEqual({ ...told, limit: 1, count: 1, first: shown(2_999) })
  expect(await read({ limit: "5", offset: "10" })).toEqual({
    ...told,
    offset: 10,
    limit: 5,
    count: 5,
    first: shown(10),
  })
  for (const search of [{ search: "LINE 299" }, { q: "Line 299" }, { search: "line 299", q: "nothing" }])
    expect(await read({ limit: "1", ...search })).toEqual({
      ...told,
      total_lines: 11,
      limit: 1,
      count: 1,
      first: shown(2_999),
    })
  expect(await read({ limit: "1", level: "warn" })).toEqual({
    ...told,
    total_lines: 1_000,
    limit: 1,
    count: 1,
    first: shown(2_997),
  })

  for (const filename of ["../outside.log", "note.txt", "logs/starling.log", "gone.log.zip", "%2e%2e%2foutside.log"])
    expect([filename, await refusal(rest.getLog({ filename }))]).toEqual([filename, "log_file_not_found"])
  for (const query of ["limit=x", `search=${"y".repeat(300)}`])
    expect(
      (await send(shared.west, `/admin/logs/starling.log?${query}`, { route: routes.getLog, token: operator.token }))
        .code,
    ).toBe("validation_failed")
})
