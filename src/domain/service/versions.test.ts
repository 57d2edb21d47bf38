import { expect, test } from "vitest"
import { compareVersions, parseVersion } from "./versions.ts"

test("versions are trimmed and lower-cased, and nothing else is forgiven", () => {
  expect(parseVersion(" A.1.0-49 ")).toEqual({ stage: "a", major: 1, minor: 0, build: 49, string: "a.1.0-49" })
  const bad = [
    "",
    "a.0.0-1",
    "a.1.0-0",
    "d.1.0-1",
    "a.1.0",
    "a.01.0-1",
    "a.1.0-49x",
    "a.1\n.0-49",
    "a.1.0-4\0",
    "a.1234567890.0-1",
  ]
  expect(bad.filter(parseVersion)).toEqual([])
})

test("versions are ordered by stage, major, minor, build", () => {
  const order = ["a.1.0-1", "a.1.0-2", "a.1.1-1", "a.1.10-1", "a.2.0-1", "b.1.0-1", "c.1.0-1", "r.1.0-1"]
  const shuffled = order.toReversed().map(text => parseVersion(text)!)
  expect(shuffled.toSorted(compareVersions).map(version => version.string)).toEqual(order)
})
