/** Appends lines to the log files of a folder as a process of the program does; see tests/process/log-files.test.ts. */
import { LogFile } from "../../src/observability/log-file.ts"

const [folder, name, count, manner] = process.argv.slice(2) as [
  string,
  string,
  string,
  "fast" | "slow" | "exit" | "late",
]
const said: string[] = []
const file = new LogFile({
  folder,
  onTrouble: error => said.push(`trouble ${(error as NodeJS.ErrnoException).code}`),
  onRecovery: lost => said.push(`recovered ${lost}`),
})
process.on("exit", () => file.finish())

/** What is written goes on its way, but no further: the event loop does not turn. */
const begin = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

// Each line says itself how long it is, and they differ.
const line = (i: number) => `${name} ${i} ${"x".repeat((i * 37) % 300)}.`
for (let i = 0; i < Number(count); i++) {
  file.write(line(i))
  if (manner === "slow") await new Promise(resolve => setTimeout(resolve, 1))
  else if (manner === "exit" && i === Number(count) >> 1) await begin()
  else if (manner === "late" && i === 0) await new Promise(resolve => setTimeout(resolve, 200))
  else if (manner === "fast" && i % 20 === 0) await new Promise(resolve => setImmediate(resolve))
}
if (manner === "exit" || manner === "late") {
  if (manner === "late") await begin()
  console.log(JSON.stringify(said))
  process.exit(0)
}
await file.close()
console.log(JSON.stringify(said))
