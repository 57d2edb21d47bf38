/** `npm run scenario -- FILE [-e NAME=VALUE …]`: a scenario without k6, with k6's own way to set values. */
import { writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { parseArgs } from "node:util"
import { runScenario } from "./run.ts"

const usage = `npm run scenario -- load-tests/chat.ts [-e VARIANT=smoke] [-e TARGET=http://127.0.0.1:8000] …

Runs a scenario as "k6 run" does, and ends with 99 when a limit is crossed. load-tests/README.md says what can be set.`

const { values, positionals } = parseArgs({
  options: { env: { type: "string", short: "e", multiple: true, default: [] } },
  allowPositionals: true,
})
const pairs = values.env.map(text => /^([A-Z_0-9]+)=(.*)$/s.exec(text))
if (positionals.length !== 1 || pairs.includes(null)) {
  process.stderr.write(`${usage}\n`)
  process.exit(2)
}
const ending = new AbortController()
process.once("SIGINT", () => ending.abort()).once("SIGTERM", () => ending.abort())

const env = {
  ...(process.env as Record<string, string>),
  ...Object.fromEntries(pairs.map(pair => [pair![1], pair![2]])),
}
try {
  const { summary, errors, isGood } = await runScenario(resolve(positionals[0]!), env, ending.signal)
  for (const cause of errors.slice(0, 5)) process.stderr.write(`${cause.stack}\n`)
  if (errors.length > 5) process.stderr.write(`… and ${errors.length - 5} errors more\n`)
  for (const [where, text] of Object.entries(summary))
    if (where === "stdout") process.stdout.write(text)
    else if (where === "stderr") process.stderr.write(text)
    else await writeFile(where, text)
  process.exitCode = isGood ? 0 : 99
} catch (cause) {
  process.stderr.write(`${(cause as Error).message}\n`)
  process.exitCode = 1
}
