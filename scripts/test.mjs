/**
 * `npm test [-- what vitest takes]`: prepares what is missing, runs vitest, ends with one line that
 * counts.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { Unprepared, prepare, root } from "./prepare.mjs"

await prepare({ redis: !process.env.TEST_REDIS_URL, tools: true }).catch(error => {
  console.error(error instanceof Unprepared ? error.message : error)
  console.log("0 passed, 1 failed")
  process.exit(1)
})

const folder = mkdtempSync(join(tmpdir(), "starling-results-"))
const results = join(folder, "results.json")
const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${results}`]
const vitest = join(root, "node_modules", "vitest", "vitest.mjs")
const run = spawn(process.execPath, [vitest, "run", ...reporters, ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
  env: { UV_THREADPOOL_SIZE: "8", ...process.env },
})
// A terminal sends Ctrl-C to vitest as well; it stops what it started, and we still count.
process.on("SIGINT", () => {})
process.on("SIGTERM", () => run.kill("SIGTERM"))

run.on("exit", code => {
  const { passed, failed, skipped, failures: reasons } = count()
  rmSync(folder, { recursive: true })
  // Once more at the end, where a reader of a long log looks first.
  if (reasons.length > 0) console.log(`\n${reasons.join("\n")}\n`)
  // Vitest also fails for what belongs to no test, such as an error that nobody caught.
  const failures = code === 0 ? failed : Math.max(failed, 1)
  console.log(`${passed} passed, ${failures} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`)
  process.exit(failures > 0 ? code || 1 : 0)
})

function count() {
  let report
  try {
    report = JSON.parse(readFileSync(results, "utf8"))
  } catch {
    return { passed: 0, failed: 1, skipped: 0, failures: [] } // it did not get so far
  }
  const tests = report.testResults.flatMap(file => file.assertionResults)
  const number = status => tests.filter(test => test.status === status).length
  // A file that could not be loaded has no test that could fail.
  const broken = report.testResults.filter(
    file => file.status === "failed" && !file.assertionResults.some(isFailed),
  ).length
  const passed = number("passed")
  const failed = number("failed") + broken
  return {
    passed,
    failed,
    skipped: tests.length - passed - number("failed"),
    failures: report.testResults.flatMap(reasonsOf),
  }
}

/** Two lines for each test that failed: its name, and what was wrong. */
function reasonsOf({ name, message, assertionResults }) {
  const file = relative(root, name)
  const failures = assertionResults.filter(isFailed)
  if (failures.length === 0 && message) return [`FAILED ${file}\n  ${firstLine(message)}`]
  return failures.map(test => `FAILED ${file}: ${test.fullName}\n  ${firstLine(test.failureMessages[0] ?? "")}`)
}

/** Vitest colours what it says. */
const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*m`, "g")
function firstLine(text) {
  return text.replaceAll(colours, "").split("\n", 1)[0].slice(0, 300)
}

function isFailed(test) {
  return test.status === "failed"
}
