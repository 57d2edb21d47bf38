/**
 * What `npm test` makes of what vitest reports: `{ code, uncaught, files }`, its exit code, the errors
 * that belong to no test, and the files of its JSON report.
 */
import { relative } from "node:path"

/** A second look at more files than that would say nothing or take too long. */
const maxFilesLookedAtAgain = 6

export const brokenOf = ({ files }) => files.filter(({ status }) => status === "failed")

/** An error that belongs to no test is not forgiven: no file tells where to look for it. */
export function isWorthASecondLook(run) {
  const broken = brokenOf(run).length
  return run.uncaught === 0 && broken > 0 && broken <= maxFilesLookedAtAgain
}

/** A file of the second run stands for that of the first; one that did not run again has failed. */
export function merged(first, second) {
  const byName = new Map(second.files.map(file => [file.name, file]))
  return { ...second, files: first.files.map(file => byName.get(file.name) ?? file) }
}

export function count({ code, files }) {
  const tests = files.flatMap(file => file.assertionResults)
  const number = status => tests.filter(test => test.status === status).length
  // A file that could not be loaded has no test that could fail.
  const unloaded = files.filter(file => file.status === "failed" && !file.assertionResults.some(isFailed)).length
  const passed = number("passed")
  const failed = number("failed") + unloaded
  // Vitest also fails for what belongs to no test, such as an error that nobody caught.
  return {
    passed,
    failed: code === 0 ? failed : Math.max(failed, 1),
    skipped: tests.length - passed - number("failed"),
  }
}

/** Two lines for each test that failed: its name, and how what was wrong begins. */
export function reasonsOf(run, word, root) {
  return brokenOf(run).flatMap(({ name, message, assertionResults }) => {
    const file = relative(root, name)
    const failures = assertionResults.filter(isFailed)
    if (failures.length === 0) return [`${word} ${file}\n  ${beginningOf(message ?? "")}`]
    return failures.map(test => `${word} ${file}: ${test.fullName}\n  ${beginningOf(test.failureMessages[0] ?? "")}`)
  })
}

/** Vitest colours what it says. */
const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*m`, "g")
/** Without the stack; what a chaos run found stands below the line that names its seed. */
const beginningOf = text =>
  text
    .replaceAll(colours, "")
    .split(/\n\s+at /, 1)[0]
    .replaceAll(/\s*\n\s*/g, " / ")
    .slice(0, 1_000)

const isFailed = test => test.status === "failed"
