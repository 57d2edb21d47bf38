import { fail } from "../contract/errors.ts"
import type { UserState } from "../domain/states.ts"
import type { ActorKind, Command } from "./runtime/actor.ts"

type Commands = ActorKind<UserState, UserState, Record<string, (input: never) => unknown>>["commands"]
type Turn = Command<UserState, UserState, unknown, unknown>

/**
 * What a purged account still answers to: what brings the purge to its end, what others say to whoever lists it, what only
 * takes away, and signing in, which says itself that there is nobody.
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
  "standingChanged",
  "startSession",
  "answerChallenge",
  "endSession",
  "expireSession",
  "expireVoice",
])
/** Told by others' homes, which learn nothing of it: what comes late changes nothing. */
const unheard: ReadonlySet<string> = new Set(["voiceChanged", "forgetCall"])

/** The same commands, to most of which a purged account is nobody: nothing can be written back on its stub. */
export function unlessPurged<Some extends Commands>(commands: Some): Some {
  const guarded = Object.entries(commands).map(([name, command]) => {
    if (!("turn" in command) || answered.has(name)) return [name, command]
    const { turn } = command as unknown as Turn
    const guardedTurn: Turn["turn"] = (context, input) => {
      if (context.state.deletion_status !== "purged") return turn(context, input)
      if (unheard.has(name)) return { reply: undefined }
      throw fail("user_not_found")
    }
    return [name, { ...command, turn: guardedTurn }]
  })
  return Object.fromEntries(guarded) as Some
}
