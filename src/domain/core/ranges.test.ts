import { expect, test } from "vitest"
import { partOf } from "./ranges.ts"

test("a range is some of a file, nothing of it, or nothing that is understood", () => {
  const cases: [string, unknown][] = [
    ["bytes=0-0", { from: 0, length: 1 }],
    ["bytes=0-99", { from: 0, length: 100 }],
    ["bytes=90-200", { from: 90, length: 10 }],
    ["bytes=10-", { from: 10, length: 90 }],
    ["bytes=-1", { from: 99, length: 1 }],
    ["bytes=-1000", { from: 0, length: 100 }],
    ["BYTES= 5 - 9 ", { from: 5, length: 5 }],
    ["bytes=100-", null],
    ["bytes=999999999999999-", null],
    ["bytes=-0", null],
    ["bytes=9-5", undefined],
    ["bytes=-", undefined],
    ["bytes=0-1,5-6", undefined],
    ["bytes=9999999999999999-", undefined],
    ["lines=0-1", undefined],
    ["bytes=a-b", undefined],
    ["", undefined],
  ]
  for (const [range, part] of cases) expect([range, partOf(range, 100)]).toEqual([range, part])
})
