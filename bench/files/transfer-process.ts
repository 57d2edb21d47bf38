/**
 * Sends files and fetches them again until it is told to end. Its clients would be on other machines,
 * so whatever else runs here goes before them.
 */
import { constants, setPriority } from "node:os"
import { fetchFile, sendFile, type Target } from "./transfers.ts"

export interface Transfers {
  /** One for each file that is on its way at any time. */
  readonly targets: readonly Target[]
  readonly bytes: number
}

setPriority(constants.priority.PRIORITY_LOW)
const ending = new AbortController()
let moved = 0

process.once("disconnect", () => process.exit())
process.once("message", ({ targets, bytes }: Transfers) => {
  const lane = async (target: Target) => {
    while (!ending.signal.aborted) {
      await fetchFile(target, await sendFile(target, bytes))
      moved += 2 * bytes
    }
  }
  process.once("message", () => ending.abort())
  Promise.all(targets.map(lane)).then(
    () => process.send!(moved, () => process.disconnect()),
    (cause: unknown) => {
      process.stderr.write(`${String(cause)}\n`)
      process.exit(1)
    },
  )
})
