/** The program without the outbox: what a batch publishes is not written with it. */
import { Lane } from "../../src/storage/core/lanes.ts"

Lane.prototype.keep = sql => sql`SELECT 1`

await import("../../src/main.ts")
