import type { z } from "zod"
import { events, type EventName } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { EventDefinition } from "../../contract/core/registry.ts"
import { userOnly } from "../../domain/core/audience.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { ActorKind, Tell } from "../../runtime/actor.ts"
import { tellsOf } from "./tells.ts"

/** What a user's home does for the other homes: it tells the user's sessions. */
export interface RelayCommands {
  /** An event for this user alone, by its wire name. */
  relay(input: { event: string; data: unknown }): void
}

export const relayCommands: ActorKind<UserState, UserState, RelayCommands>["commands"] = {
  relay: {
    forListeners: true,
    turn: ({ state: user }, { event, data }) => ({
      publish: [events[event as EventName].to(userOnly(user.id), data as never)],
      reply: undefined,
    }),
  },
}

const tellUser = tellsOf<RelayCommands>("user")

/** An event for a user, through their own home. */
export const toUser = <D extends z.ZodType>(
  user: Snowflake,
  event: EventDefinition<string, D>,
  data: z.output<D>,
): Tell => ({
  ...tellUser(user, { type: "relay", event: event.name, data }),
  ...(event.about && { about: event.about(data) }),
  ...(event.delivery === "ephemeral" && { isEphemeral: true }),
})
