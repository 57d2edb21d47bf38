import { expect, test } from "vitest"
// @ts-expect-error: plain JavaScript
import { count, isWorthASecondLook, merged, reasonsOf } from "../../scripts/test-results.mjs"

const file = (name: string, ...statuses: string[]) => ({
  name: `/project/${name}`,
  status: statuses.includes("failed") ? "failed" : "passed",
  message: "",
  assertionResults: statuses.map((status, i) => ({
    status,
    fullName: `test ${i}`,
    failureMessages: status === "failed" ? ["seed 7\n  expected 1 to be 2\n    at line 3"] : [],
  })),
})
const run = (code: number, files: readonly unknown[], uncaught = 0) => ({ code, uncaught, files })

test("what fails at first and passes alone has passed, and is listed; what fails twice has failed", () => {
  const first = run(1, [file("a", "passed", "failed"), file("b", "failed", "skipped"), file("c", "passed")])
  const second = run(1, [file("a", "passed", "passed"), file("b", "failed", "skipped")])
  const both = merged(first, second)
  expect(count(both)).toEqual({ passed: 3, failed: 1, skipped: 1 })
  expect(reasonsOf(both, "FAILED", "/project")).toEqual(["FAILED b: test 0\n  seed 7 / expected 1 to be 2"])
  expect(reasonsOf(first, "FAILED AT FIRST", "/project")).toHaveLength(2)
})

test("a file that did not run again has failed", () => {
  const first = run(1, [file("a", "failed"), file("b", "failed")])
  expect(count(merged(first, run(0, [file("a", "passed")])))).toEqual({ passed: 1, failed: 1, skipped: 0 })
})

test("an error that belongs to no test or many broken files get no second look", () => {
  const one = [file("a", "failed")]
  expect(isWorthASecondLook(run(1, one))).toBe(true)
  expect(isWorthASecondLook(run(1, one, 1))).toBe(false)
  expect(
    isWorthASecondLook(
      run(
        1,
        Array.from({ length: 7 }, (_, i) => file(`${i}`, "failed")),
      ),
    ),
  ).toBe(false)
  expect(isWorthASecondLook(run(1, []))).toBe(false)
})

test("a run that failed counts a failure even if no test did", () => {
  expect(count(run(1, [file("a", "passed")], 1))).toEqual({ passed: 1, failed: 1, skipped: 0 })
  expect(count(run(1, []))).toEqual({ passed: 0, failed: 1, skipped: 0 })
  expect(count(run(1, [{ ...file("a"), status: "failed", message: "cannot load" }]))).toMatchObject({ failed: 1 })
})
