/** The program without the fence: a batch is written in whichever generation the lane is. */
import { Lane } from "../../src/storage/core/lanes.ts"

Lane.prototype.fence = sql => sql`SELECT 1`

await import("../../src/main.ts")
