import { basename } from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

const chaos = ["tests/chaos.test.ts", "tests/chaos-systems.test.ts"]

/** Whatever takes longest begins first; what is short fills the end. */
const longest = [
  "dependencies-redis",
  "dependencies-postgres",
  "planted-bugs",
  "take-over",
  "histories",
  "resume",
  "redis-failover",
  "barrier",
  "redis-cluster",
  "presence",
  "relationships",
  "voice",
  "rolling-restart",
]

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longest.indexOf(basename(moduleId, ".test.ts"))
      return at < 0 ? longest.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    pool: "forks", // uWebSockets.js and sharp are native modules
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "stories",
          include: ["demo/**/*.test.ts", "src/**/*.test.ts", "tests/**/*.test.ts", "client/**/*.test.ts"],
          exclude: chaos,
          globalSetup: "tests/kit/global-setup.ts",
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        // One after the other when everything else is done: they kill and pause processes, fill disks, and measure how long
        // clients wait. They start servers of their own.
        test: { name: "chaos", include: chaos, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
