/** A Prometheus of a test's own, of Debian's package, which also brings promtool. */
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import type { TestContext } from "vitest"
import { freePort, spawnServer } from "../../src/std/child-server.ts"
import { requirePrograms } from "./companions.ts"
import { until } from "./until.ts"

/** Debian's package brings both. */
export const requirePrometheus = (skip: TestContext["skip"]): Promise<void> =>
  requirePrograms(skip, "prometheus", "promtool")

/** What promtool says. It throws when that is a complaint. */
export async function promtool(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("promtool", args)
  return stdout
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [at: number, value: string]
}

export interface Prometheus {
  /** The value of an expression now. It throws when Prometheus does not take it. */
  query(expr: string): Promise<Sample[]>
  rules(): Promise<{ name: string; health: string; state: string; lastError?: string }[]>
  stop(): Promise<void>
}

/** Scrapes `target` (host:port) twice a second as `job: starling`, with rules from a file. */
export async function startPrometheus(target: string, rulesFile: string): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), "starling-prometheus-"))
  const port = await freePort()
  const config = {
    global: { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" },
    rule_files: [rulesFile],
    scrape_configs: [{ job_name: "starling", static_configs: [{ targets: [target] }] }],
  }
  await writeFile(join(folder, "prometheus.yml"), JSON.stringify(config))
  const server = await spawnServer({
    command: "prometheus",
    args: [
      `--config.file=${join(folder, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    logFile: join(folder, "log"),
    account: undefined,
    shutdownSignals: [
      ["SIGTERM", 5_000],
      ["SIGKILL", 5_000],
    ],
  })
  const ask = async <T>(path: string): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    const { status, data, error } = (await response.json()) as { status: string; data: T; error?: string }
    if (status !== "success") throw new Error(`${path}: ${error}`)
    return data
  }
  const isUp = () =>
    ask("status/config").then(
      () => true,
      () => false,
    )
  const prometheus: Prometheus = {
    async query(expr) {
      const { result } = await ask<{ result: Sample[] }>(`query?query=${encodeURIComponent(expr)}`)
      return result
    },
    rules: async () => (await ask<{ groups: { rules: never[] }[] }>("rules")).groups.flatMap(({ rules }) => rules),
    async stop() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
  await until("Prometheus answers", isUp, { timeoutMs: 30_000 })
  return prometheus
}
