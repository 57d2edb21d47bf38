import { expect, test } from "vitest"
import { exportRefusal, type ExportState } from "./exports.ts"

const made: ExportState = { id: "1", requested_at: 1_000, attempt: 1, ready_at: 1_010, expires_at: 9_000 }

test("one export at a time, and none too soon after another", () => {
  expect(exportRefusal(null, 1_000, 100)).toBeUndefined()
  expect(exportRefusal({ ...made, ready_at: null }, 1_000_000, 100)).toEqual({ code: "export_pending" })
  expect(exportRefusal(made, 1_099, 100)).toEqual({ code: "export_too_soon", retry_after: 1 })
  expect(exportRefusal(made, 1_100, 100)).toBeUndefined()
})
