import { writeFileSync } from "node:fs"

/** Tells scripts/test.mjs how many errors belong to no test. */
export default class UncaughtReporter {
  onTestRunEnd(_modules, errors) {
    writeFileSync(process.env.STARLING_TESTS_UNCAUGHT, String(errors.length))
  }
}
