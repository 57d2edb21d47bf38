/**
 * The program without the record of a session that another worker would resume it from. The count
 * of a user's connections, which one script writes with it, is left out, too.
 */
import { GatewaySessions } from "../../src/cluster/gateway-sessions.ts"
import { replace } from "./replace.ts"

replace(GatewaySessions, "begin", "the record", async () => [])
replace(GatewaySessions, "save", "the record's changes", async () => true)

await import("../../src/main.ts")
