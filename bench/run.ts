/**
 * `npm run bench`: what this server costs, beside a bare one where there is one. Prints the figures
 * beside what we aim for and keeps every raw number in `results/`. A line of the table is a bench.
 */
import { accounts } from "./accounts/run.ts"
import { benchBatch } from "./batch.ts"
import { command, entryOf, type Entry } from "./bench.ts"
import { communities } from "./communities/run.ts"
import { benchCompare } from "./compare.ts"
import { benchCompression } from "./compression.ts"
import { deliveries } from "./deliveries/run.ts"
import { files } from "./files/run.ts"
import { flames } from "./flames/run.ts"
import { gateway } from "./gateway/run.ts"
import { benchGuarantees } from "./guarantees.ts"
import { history } from "./history/run.ts"
import { main } from "./main.ts"
import { page } from "./page/run.ts"
import { peerServers } from "./peers/run.ts"
import { pictures } from "./pictures/run.ts"
import { benchReadme, showRows } from "./readme.ts"
import { readState } from "./read-state/run.ts"
import { scaling } from "./scaling/run.ts"
import { search } from "./search/run.ts"
import { Stop } from "./stop.ts"

const table: Readonly<Record<string, Entry>> = {
  "": entryOf(main),
  gateway: entryOf(gateway),
  accounts: entryOf(accounts),
  communities: entryOf(communities),
  history: entryOf(history),
  "read-state": entryOf(readState),
  search: entryOf(search),
  deliveries: entryOf(deliveries),
  pictures: entryOf(pictures),
  files: entryOf(files),
  page: entryOf(page),
  peers: entryOf(peerServers),
  flames: entryOf(flames),
  compare: command("two commits beside each other; --against A: that one and this checkout", benchCompare),
  batch: command("what one batch of posts costs PostgreSQL, and forms of the outbox's row", benchBatch),
  guarantees: command("what the guarantees cost, see docs/internals/guarantees.md", benchGuarantees),
  compression: command("what compressed frames cost, shared and per socket", benchCompression),
  scaling: entryOf(scaling),
  readme: command("measures the rows of the README and of bench/README.md and prints them, half an hour", benchReadme),
  rows: command("prints the same rows of the latest kept results", showRows),
  help: command("prints this list", async () => void process.stdout.write(`${usage()}\n`)),
}

const usage = () =>
  Object.entries(table)
    .map(([name, { about }]) => `npm run bench${name && ` -- ${name}`}`.padEnd(30) + about)
    .join("\n")

const started = performance.now()
const say = (what: string) =>
  process.stderr.write(`${((performance.now() - started) / 1_000).toFixed(0).padStart(4)} s  ${what}\n`)

try {
  const args = process.argv.slice(2)
  const first = args[0] === "--against" ? "compare" : (args[0] ?? "")
  const isNamed = first !== "" && !first.startsWith("-")
  const entry = table[isNamed ? first : ""]
  if (!entry) throw new Stop(`there is no bench ${first}\n\n${usage()}`)
  await entry.run(isNamed ? first : "", args.slice(isNamed ? 1 : 0), say)
} catch (cause) {
  process.stderr.write(`${cause instanceof Stop ? cause.message : (cause as Error).stack}\n`)
  process.exitCode = 1
}
