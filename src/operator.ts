/**
 * `npm run operator`: what an operator says to the service, through its database. It reads the same configuration as the
 * server, and runs beside it; where PostgreSQL is embedded the server has to be running, on this machine. `doctor` and
 * `top` look at the server and what it needs, and change nothing.
 */
import { looking } from "./process/operator/looking.ts"
import { operator } from "./process/operator/operator.ts"

const words = process.argv.slice(2)
const seen = await looking(words, process.env, {
  isTerminal: process.stdout.isTTY,
  print: text => console.log(text),
  complain: text => console.error(text),
})
if (seen === undefined) {
  const { code, out, said } = await operator(words, process.env)
  if (code === 0) console.log(out)
  else console.error(said)
  process.exitCode = code
} else process.exitCode = seen
