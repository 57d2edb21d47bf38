import { fail } from "../../contract/core/errors.ts"
import { wrapTurns, type UserCommandTable } from "../shared/wrapped-turns.ts"

/**
 * Commands that a purged account still answers: those that finish the purge, messages from users
 * who list it, those that only remove something, signing in, which itself answers that there is
 * no such user, and what an operator asks about a deletion that is over.
 */
const answered: ReadonlySet<string> = new Set([
  "beginPurge",
  "reopenPurge",
  "endPurge",
  "cancelDeletion",
  "delayDeletion",
  "severPair",
  "deleteRelationship",
  "relationshipChanged",
  "regard",
  "announce",
  "otherChanged",
  "accountStatusChanged",
  "startSession",
  "answerChallenge",
  "signInWithPasskey",
  "answerByPasskey",
  "endSession",
  "expireSession",
  "expireVoice",
])
/** Sent by others' homes, which get no error: what arrives late changes nothing. */
const unheard: ReadonlySet<string> = new Set(["voiceChanged", "forgetCall", "directOpened"])

/**
 * The same commands, of which a purged account refuses most: nothing can be written back on its
 * stub.
 */
export const unlessPurged = <Some extends UserCommandTable>(commands: Some): Some =>
  wrapTurns(commands, (name, turn) => (context, input) => {
    if (context.state.deletion_status !== "purged" || answered.has(name)) return turn(context, input)
    if (unheard.has(name)) return { reply: undefined }
    throw fail("user_not_found")
  })
