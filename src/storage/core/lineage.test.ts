import { expect, test } from "vitest"
import type { Sql } from "./database.ts"
import { lineageStorage } from "./lineage.ts"

/** PostgreSQL, which may refuse to say of which system it is; `asked` has the statements. */
function scene(refuses: boolean) {
  const asked: string[] = []
  const answer = async (text: string) => {
    asked.push(text)
    const tellsSystem = text.includes("pg_control_system")
    if (tellsSystem && refuses) throw Object.assign(new Error("permission denied"), { code: "42501" })
    return [{ transaction: "7", tables: "2", is_enrolled: true, ...(tellsSystem && { system: "1" }) }]
  }
  const sql = (parts: TemplateStringsArray, ...values: { text?: string }[]) => {
    const text = String.raw({ raw: parts }, ...values.map(value => value.text ?? "?"))
    // As a query: it is sent once somebody waits for it.
    const then = (...continued: Parameters<Promise<unknown>["then"]>) => answer(text).then(...continued)
    return { text, then } // oxlint-disable-line unicorn/no-thenable
  }
  return { asked, storage: lineageStorage(sql as unknown as Sql) }
}

test("what PostgreSQL says of its past is one statement", async () => {
  const { asked, storage } = scene(false)
  const state = { system: "1", tables: "2", transaction: 7, isEnrolled: true }
  expect(await storage.state("w1")).toEqual(state)
  expect(await storage.state("w1")).toEqual(state)
  expect(asked).toHaveLength(2)
})

test("where PostgreSQL does not say of which system it is, it says the rest", async () => {
  const { storage } = scene(true)
  const state = { system: undefined, tables: "2", transaction: 7, isEnrolled: true }
  expect(await storage.state("w1")).toEqual(state)
  expect(await storage.state("w1")).toEqual(state)
})
