/**
 * The gates: `node scripts/check.mjs` runs all of them, `node scripts/check.mjs lint types` those
 * that are named. Each prints one line with the number of files it looked at, then what it objects
 * to. A gate that looked at no file has failed, whatever its tool says. The gates look at the
 * directory in which they are started.
 */
import { spawn } from "node:child_process"
import { availableParallelism } from "node:os"
import { join, sep } from "node:path"

const root = process.cwd()
const lastNumber = (output, pattern) => Number([...output.matchAll(pattern)].at(-1)?.[1] ?? 0)
const isOwnFile = line => line.startsWith(root + sep) && !line.includes("node_modules")

/**
 * The slowest first. `looked` reads from the output at how many files the tool looked; `noise` is
 * kept from the report.
 */
const gates = {
  lint: {
    command: "oxlint -c oxlint.config.mjs --format=default",
    looked: output => lastNumber(output, /^Finished in .* on (\d+) files/gm),
    noise: /^(Found|Finished) /,
  },
  knip: {
    command: "knip --no-progress --no-config-hints --reporter symbols --reporter ./scripts/knip-count.mjs",
    looked: output => lastNumber(output, /^knip looked at (\d+) files/gm),
    noise: /^knip looked at /,
  },
  types: {
    command: "tsc --noEmit --incremental false --pretty false --listFiles",
    looked: output => output.split("\n").filter(isOwnFile).length,
    noise: /^\/|^[A-Z]:[\\/]/,
  },
  pages: {
    command: "tsc -p web --pretty false --listFiles",
    looked: output => output.split("\n").filter(line => line.startsWith(join(root, "web") + sep)).length,
    noise: /^\/|^[A-Z]:[\\/]/,
  },
  docs: {
    command: "tsx scripts/docs.ts --check",
    looked: output => new Set(output.match(/\bdocs\/[\w./-]+\.\w+/g)).size,
  },
  metrics: {
    command: "node scripts/metrics-written.mjs",
    looked: output => lastNumber(output, /^looked at (\d+) files/gm),
    noise: /^looked at \d/,
  },
  words: {
    command: "node scripts/words.mjs",
    looked: output => lastNumber(output, /^looked at (\d+) files/gm),
    noise: /^looked at \d/,
  },
  format: {
    command: "oxfmt --check",
    looked: output => lastNumber(output, /^Finished in .* on (\d+) files/gm),
    noise: /^(Checking formatting|Finished in |All matched files)/,
  },
}

/** Runs one gate to its end, at the latest after two minutes. */
function run({ command, looked, noise }) {
  const [program, ...args] = command.split(" ")
  const started = performance.now()
  return new Promise(resolve => {
    let output = ""
    const path = program === "node" ? process.execPath : join(root, "node_modules/.bin", program)
    const tool = spawn(path, args, {
      timeout: 300_000,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined },
    })
    const end = failure => {
      const files = looked(output)
      const complaints = output.split("\n").filter(line => !noise?.test(line))
      if (failure !== undefined) complaints.push(failure)
      if (files === 0) complaints.push("looked at no files")
      resolve({
        ok: failure === undefined && files > 0,
        files,
        complaints,
        seconds: (performance.now() - started) / 1000,
      })
    }
    for (const stream of [tool.stdout, tool.stderr]) stream.setEncoding("utf8").on("data", text => (output += text))
    tool.on("error", error => end(error.message))
    tool.on("close", (code, signal) => end(code === 0 ? undefined : `${program} ended with ${signal ?? code}`))
  })
}

const asked = process.argv.slice(2)
const unknown = asked.filter(name => !Object.hasOwn(gates, name))
if (unknown.length > 0) {
  console.error(`no such gate: ${unknown.join(", ")}; there are ${Object.keys(gates).join(", ")}`)
  process.exit(2)
}

const waiting = Object.keys(gates).filter(name => asked.length === 0 || asked.includes(name))
const failed = []
async function takeTurns() {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    const { ok, files, complaints, seconds } = await run(gates[name])
    console.log(
      `${ok ? "ok  " : "FAIL"}  ${name.padEnd(7)}  ${String(files).padStart(4)} files  ${seconds.toFixed(1)} s`,
    )
    if (!ok) failed.push({ name, complaints })
  }
}
await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, takeTurns))

for (const { name, complaints } of failed) console.log(`\n${name}\n${complaints.join("\n").trim()}`)
process.exitCode = failed.length === 0 ? 0 : 1
