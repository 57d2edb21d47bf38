import { expect, test } from "vitest"
import { clockFindings, doctorText } from "./doctor.ts"

test("clocks are apart only by what the way to them cannot explain", () => {
  const levels = (redis: number, uncertainSeconds: number) =>
    clockFindings([
      { of: "PostgreSQL", aheadSeconds: 0.01, uncertainSeconds: 0.002 },
      { of: "Redis", aheadSeconds: redis, uncertainSeconds },
    ]).map(({ level, check }) => `${level} ${check}`)
  expect(levels(0.02, 0.002)).toEqual([
    "ok clock of PostgreSQL against this machine",
    "ok clock of Redis against this machine",
    "ok clock of Redis against PostgreSQL",
  ])
  expect(levels(-0.3, 0.002)).toEqual([
    "ok clock of PostgreSQL against this machine",
    "warn clock of Redis against this machine",
    "warn clock of Redis against PostgreSQL",
  ])
  expect(levels(-0.3, 0.4)).not.toContain("warn clock of Redis against this machine")
  expect(levels(5, 0.01)).toContain("fault clock of Redis against this machine")
})

test("each finding is a line, with what to do below it", () => {
  const text = doctorText([
    { check: "fsync", level: "fault", found: "off", advice: "switch it on" },
    { check: "Node", level: "ok", found: "v20" },
  ])
  expect(text).toBe("fault  fsync  off\n              switch it on\nok     Node   v20\n\n1 ok, 0 warnings, 1 faults")
})
