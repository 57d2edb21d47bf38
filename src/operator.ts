/**
 * `npm run operator`: what an operator says to the service, through its database. It reads the same configuration as the
 * server, and runs beside it; where PostgreSQL is embedded the server has to be running, on this machine.
 */
import { operator } from "./process/operator/operator.ts"

const { code, out, said } = await operator(process.argv.slice(2), process.env)
if (code === 0) console.log(out)
else console.error(said)
process.exitCode = code
