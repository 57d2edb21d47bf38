/**
 * `npm test [-- what vitest takes]`: prepares what is missing, runs vitest, looks once more at files
 * that failed, ends with one line that counts.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { checkersFolder, findNode24, installPrograms } from "./companions.mjs"
import { Unprepared, buildObjectStore, prepare, root } from "./prepare.mjs"
import { brokenOf, count, isWorthASecondLook, merged, reasonsOf } from "./test-results.mjs"

const asked = process.argv.slice(2)
// What some tests meet. Before the tests, as an installation takes a core for half a minute; beside the modules', which takes
// another. Where it cannot be had, they say so.
const programs = asked.length === 0 ? installPrograms() : undefined
programs?.catch(() => {}) // waited for below
await prepare({ redis: !process.env.TEST_REDIS_URL, tools: true }).catch(error => {
  console.error(error instanceof Unprepared ? error.message : error)
  console.log("0 passed, 1 failed")
  process.exit(1)
})
await programs
if (asked.length === 0) {
  // Meanwhile the tests run; those that need it wait for it, and say so if it cannot be had.
  for (const bring of [buildObjectStore, checkersFolder, findNode24]) bring().catch(() => {})
}

const folder = mkdtempSync(join(tmpdir(), "starling-results-"))
const vitest = join(root, "node_modules", "vitest", "vitest.mjs")

let running
let isStopped = false
// A terminal sends Ctrl-C to vitest as well; it stops what it started, and we still count.
process.on("SIGINT", () => {
  isStopped = true
})
process.on("SIGTERM", () => {
  isStopped = true
  running?.kill("SIGTERM")
})

const first = await runTests("first", asked)
const isWanted = asked.length === 0 && !isStopped && isWorthASecondLook(first)
const again = isWanted ? await lookAgain(brokenOf(first)) : undefined
rmSync(folder, { recursive: true })

const final = again ? merged(first, again) : first
const { passed, failed, skipped } = count(final)
// Once more at the end, where a reader of a long log looks first.
const reasons = reasonsOf(final, "FAILED", root)
if (again) reasons.push(...reasonsOf(first, "FAILED AT FIRST", root))
if (reasons.length > 0) console.log(`\n${reasons.join("\n")}\n`)
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`)
process.exit(failed > 0 ? 1 : 0)

/** What vitest says; no file when it did not get so far. */
async function runTests(name, args) {
  const results = join(folder, `${name}.json`)
  const uncaught = join(folder, `${name}.uncaught`)
  const own = join(root, "scripts", "uncaught-reporter.mjs")
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${results}`, `--reporter=${own}`]
  running = spawn(process.execPath, [vitest, "run", ...reporters, ...args], {
    cwd: root,
    stdio: "inherit",
    env: {
      UV_THREADPOOL_SIZE: "8",
      ...process.env,
      STARLING_TESTS_UNCAUGHT: uncaught,
    },
  })
  const [exit] = await once(running, "exit")
  try {
    const { testResults } = JSON.parse(readFileSync(results, "utf8"))
    return { code: exit ?? 1, uncaught: Number(readFileSync(uncaught, "utf8")), files: testResults }
  } catch {
    return { code: exit || 1, uncaught: 0, files: [] }
  }
}

/**
 * Some stories wait for other processes, within bounds that a user would set. On a busy machine such a wait can end
 * too late through no fault of the program. So files that failed run once more with nothing beside them. What fails twice has
 * failed; what failed at first is listed with its reason.
 */
function lookAgain(broken) {
  console.log(`\nstarling: ${broken.length} file(s) failed and run once more, one at a time`)
  return runTests("again", ["--no-file-parallelism", ...broken.map(({ name }) => relative(root, name))])
}
