import type { UserState } from "../domain/states.ts"
import { isOfAccount } from "../storage/users.ts"
import { renew, type ActorKind, type Command } from "./runtime/actor.ts"

type Commands = ActorKind<UserState, UserState, Record<string, (input: never) => unknown>>["commands"]
type Turn = Command<UserState, UserState, unknown, unknown>

/**
 * The same commands, each of which, where it writes the account, has the doors forget what they know with its sessions before
 * it is answered: `GET /users/@me` is answered with that.
 */
export function renewing<Some extends Commands>(commands: Some): Some {
  const renewed = Object.entries(commands).map(([name, command]) => {
    if (!("turn" in command)) return [name, command]
    const { turn } = command as unknown as Turn
    const renewingTurn: Turn["turn"] = (context, input) => {
      const effects = turn(context, input)
      const sessions = [...context.state.sessions.keys()]
      if (sessions.length === 0 || !effects.write?.some(isOfAccount)) return effects
      return { ...effects, publish: [renew(...sessions), ...(effects.publish ?? [])] }
    }
    return [name, { ...command, turn: renewingTurn }]
  })
  return Object.fromEntries(renewed) as Some
}
