import { defineConfig } from "vitest/config"
// @ts-expect-error: plain JavaScript
import { openScratch } from "./scripts/scratch.mjs"
import { isLostInSetup } from "./src/storage/core/database.ts"
import { compileModules, type CompiledModules } from "./tests/kit/compiled-modules.ts"
import { EvenLoad } from "./tests/kit/sequencer.ts"

const alone = [
  "tests/chaos/chaos.test.ts",
  "tests/chaos/chaos-systems.test.ts",
  "tests/security/bad-neighbour/bad-neighbour.test.ts",
]
/** Thousands of clients, whose waits are judged: beside other files they would wait for the cores. */
const storms = ["tests/gateway/resume-storm.test.ts", "tests/security/slow-http-readers.test.ts"]
/**
 * They wait for minutes, for time-outs and for what becomes of a user after a while, and compute little. Beside others that compute they would
 * keep a core from having something to do; beside one another they hardly do.
 */
const patient = [
  "tests/process/dependencies-redis.test.ts",
  "tests/process/dependencies-slow-redis.test.ts",
  "tests/process/dependencies-postgres.test.ts",
  "tests/process/dependencies-slow-postgres.test.ts",
  "tests/process/dependencies-files.test.ts",
  "tests/voice/voice.test.ts",
  "tests/social/presence.test.ts",
  "tests/communities/temporary-members.test.ts",
]

// Once: every project reads this file.
const scratch = openScratch() as { path: string; remove: () => void } | undefined
if (scratch) {
  process.env["TMPDIR"] = scratch.path
  process.on("exit", scratch.remove)
}
const place = globalThis as { starlingModules?: Promise<CompiledModules> }
// Who watches wants what they change.
const compiled = process.argv.includes("run") ? await (place.starlingModules ??= compileModules()) : undefined

export default defineConfig({
  plugins: compiled ? [compiled.plugin] : [],
  test: {
    server: { deps: { external: compiled ? [compiled.external] : [] } },
    pool: "forks", // uWebSockets.js and sharp are native modules
    testTimeout: 180_000,
    hookTimeout: 120_000,
    // A red that is seen once, on another machine, has to say all it found.
    chaiConfig: { truncateThreshold: 2_000 },
    // What no process of the program ends for: a pool that a test closes while a connection is made says it, too. And for
    // what the build mends: postgres.js 3.4.9 writes to a connection that was just cut (scripts/mended-packages.mjs).
    onUnhandledError: error =>
      !isLostInSetup(Object.assign(new Error(error.message), error)) &&
      !/postgres\/src\/connection\.js/.test(String(error.stack).split("\n")[1] ?? ""),
    sequence: { sequencer: EvenLoad },
    projects: [
      {
        extends: true,
        test: {
          name: "stories",
          include: [
            "demo/**/*.test.ts",
            "src/**/*.test.ts",
            "tests/**/*.test.ts",
            "client/**/*.test.ts",
            "web/**/*.test.ts",
            "bench/load/**/*.test.ts",
          ],
          exclude: [...alone, ...storms, ...patient],
          globalSetup: "tests/kit/global-setup.ts",
          maxWorkers: 5,
          // Files of one worker share what they import: loading it anew for each would cost more than most of them do.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "storms",
          include: storms,
          globalSetup: "tests/kit/global-setup.ts",
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "patient",
          include: patient,
          globalSetup: "tests/kit/global-setup.ts",
          maxWorkers: 6,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        // When everything else is done, one after the other: they kill and pause processes, fill disks, and measure how long clients wait.
        test: {
          name: "chaos",
          include: alone,
          globalSetup: "tests/kit/global-setup.ts",
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
