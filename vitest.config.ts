import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["demo/**/*.test.ts", "src/**/*.test.ts", "tests/**/*.test.ts", "client/**/*.test.ts"],
    globalSetup: "tests/kit/global-setup.ts",
    pool: "forks", // uWebSockets.js and sharp are native modules
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
