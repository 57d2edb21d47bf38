import type { Regard } from "../../domain/core/presences.ts"
import type { AfterCommit } from "../../runtime/actor.ts"

/**
 * What others see of the user whose home it is may have changed; with a regard: what one of them, or
 * a server, may see.
 */
export const presenceChanged = (regard?: Regard): AfterCommit => ({ extension: "presence", value: regard })

/** The user whose home it is has no session any more, so none of a dead worker's can go on. */
export const signedOutEverywhere: AfterCommit = { extension: "signedOut", value: undefined }
