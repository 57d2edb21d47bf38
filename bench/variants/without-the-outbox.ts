/** The program without the outbox: what a batch publishes is not written with it. */
import { Lane } from "../../src/storage/core/lanes.ts"
import { replace } from "./replace.ts"

replace(Lane, "keep", "the outbox", sql => sql`SELECT 1`)

await import("../../src/main.ts")
