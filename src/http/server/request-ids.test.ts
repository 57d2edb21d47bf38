import { expect, test } from "vitest"
import { createRequestIds } from "./request-ids.ts"

test("request ids look like UUIDs and no two are alike, in one process or in two", () => {
  const [here, there] = [createRequestIds(), createRequestIds()]
  const ids = Array.from({ length: 10_000 }, () => [here(), there()]).flat()
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.every(id => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))).toBe(true)
})
