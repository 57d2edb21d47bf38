import type { UserState } from "../../domain/accounts/user-state.ts"
import type { ActorKind, Command } from "../../runtime/actor.ts"

export type UserCommandTable = ActorKind<UserState, UserState, Record<string, (input: never) => unknown>>["commands"]
type Turn = Command<UserState, UserState, unknown, unknown>["turn"]

/** The same commands with something around every turn. */
export function wrapTurns<Some extends UserCommandTable>(
  commands: Some,
  wrap: (name: string, turn: Turn) => Turn,
): Some {
  const wrapped = Object.entries(commands).map(([name, command]) => {
    if (!("turn" in command)) return [name, command]
    return [name, { ...command, turn: wrap(name, command.turn as unknown as Turn) }]
  })
  return Object.fromEntries(wrapped) as Some
}
