/** The program without the fence: a batch is written in whichever generation the lane is. */
import { Lane } from "../../src/storage/core/lanes.ts"
import { replace } from "./replace.ts"

replace(Lane, "fence", "the fence", () => ({ text: () => "SELECT 1", parameters: [] }))

await import("../../src/main.ts")
