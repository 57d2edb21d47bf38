/** `npm run build`: makes dist/ without starting anything. */
import { Unprepared, prepare } from "./prepare.mjs"

await prepare({ redis: false }).catch(error => {
  console.error(error instanceof Unprepared ? error.message : error)
  process.exit(1)
})
