import { presenceUpdate, type Activity, type Status } from "../../contract/social/presence.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { looksSame, type Shown } from "../../domain/core/presences.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { putPresence } from "../../storage/social/presences.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { presenceChanged } from "../shared/presence-changed.ts"

/** The presence that a user shows, among the commands of their home. */
export interface PresenceCommands {
  /** What the user shows from now on; omitted fields stay as they are. */
  setPresence(input: {
    status: Status
    custom_status?: string | null | undefined
    custom_emoji?: string | null | undefined
    activities?: readonly Activity[] | undefined
    /** The gateway session that asked: it knows. */
    by?: string
  }): Shown
}

export const presenceCommands: ActorKind<UserState, UserState, PresenceCommands>["commands"] = {
  setPresence: {
    turn({ state: user }, { status, custom_status, custom_emoji, activities, by }) {
      const before = user.presence
      const presence: Shown = {
        status,
        custom_status: custom_status === undefined ? before.custom_status : custom_status || null,
        custom_emoji: custom_emoji === undefined ? before.custom_emoji : custom_emoji || null,
      }
      // The user's own other sessions are always told the real choice; others what they may see, if
      // that is news.
      const except = by === undefined ? [] : [by]
      const publish = [presenceUpdate.to(userOnly(user.id), { user_id: user.id, ...presence }, { except })]
      if (activities === undefined && looksSame(before, presence)) return { publish, reply: presence }
      return {
        apply: draft => {
          draft.presence = presence
        },
        write: [putPresence({ user_id: user.id, ...presence, activities })],
        publish,
        after: [presenceChanged()],
        reply: presence,
      }
    },
  },
}
