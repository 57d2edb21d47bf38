import type { Snowflake } from "../../contract/core/fields.ts"
import { userOnly } from "../../domain/core/audience.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { forgetServerChoices, notificationChoices } from "../shared/notification-levels.ts"
import { control, type ActorKind } from "../../runtime/actor.ts"
import { presenceChanged } from "../shared/presence-changed.ts"
import { tellsOf } from "../shared/tells.ts"

/** What a user's home is told of the servers that the user joins and leaves. */
export interface MembershipsCommands {
  /** Told by a server's home after its commit. */
  membershipChanged(input: { server: Snowflake; member: boolean }): void
}

export const membershipsCommands: ActorKind<UserState, UserState, MembershipsCommands>["commands"] = {
  membershipChanged: {
    forListeners: true,
    // What is on its way into memory may be from before.
    needs: ({ member }) => (member ? [] : [notificationChoices]),
    turn: ({ state: user }, { server, member }) => ({
      apply: draft => forgetServerChoices(draft, server),
      publish: [control(userOnly(user.id), { type: "membershipsChanged", user: user.id, server, member })],
      // The other members have seen nothing of the user so far.
      after: member ? [presenceChanged({ other: server, as: "member" })] : [],
      reply: undefined,
    }),
  },
}

const tellUser = tellsOf<MembershipsCommands>("user")
export const membershipChanged = (user: Snowflake, server: Snowflake, isMember: boolean) =>
  tellUser(user, { type: "membershipChanged", server, member: isMember })
