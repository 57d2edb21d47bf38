import { fail } from "../../contract/core/errors.ts"
import { wrapTurns, type UserCommandTable } from "../shared/wrapped-turns.ts"

/**
 * What a purged account still answers to: what brings the purge to its end, what others say to
 * whoever lists it, what only takes away, and signing in, which says itself that there is nobody.
 */
const answered: ReadonlySet<string> = new Set([
  "beginPurge",
  "endPurge",
  "severPair",
  "deleteRelationship",
  "relationshipChanged",
  "regard",
  "announce",
  "otherChanged",
  "accountStatusChanged",
  "startSession",
  "answerChallenge",
  "endSession",
  "expireSession",
  "expireVoice",
])
/** Told by others' homes, which learn nothing of it: what comes late changes nothing. */
const unheard: ReadonlySet<string> = new Set(["voiceChanged", "forgetCall", "directOpened"])

/**
 * The same commands, to most of which a purged account is nobody: nothing can be written back on
 * its stub.
 */
export const unlessPurged = <Some extends UserCommandTable>(commands: Some): Some =>
  wrapTurns(commands, (name, turn) => (context, input) => {
    if (context.state.deletion_status !== "purged" || answered.has(name)) return turn(context, input)
    if (unheard.has(name)) return { reply: undefined }
    throw fail("user_not_found")
  })
