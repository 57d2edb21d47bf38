import { channelCreate } from "../contract/channels.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { PublicUser, ShownUser } from "../contract/users.ts"
import { directObject, directRow, notesObject, type DirectRow } from "../domain/directs.ts"
import type { ServerState } from "../domain/states.ts"
import { insertDirect, newDirectState } from "../storage/directs.ts"
import { forgetPair } from "./direct-privacy.ts"
import type { RelationshipCommands } from "./relationships.ts"
import { defineActor, tell } from "./runtime/actor.ts"
import { serverHome } from "./server.ts"
import { renameInTails } from "./tails.ts"
import { toUser } from "./viewers.ts"

/**
 * A conversation outside servers: a DM or somebody's notes. What is said in it goes through its channel, see channel.ts.
 *   DM1  Two people have one DM, whoever opens it and however often; somebody has one channel for notes.
 *   DM2  Once a block has been answered no message is taken until it is lifted, and what was taken before stands in the logs. A DM
 *       whose opening crosses a block may still open; then it is shut from the answer on.
 */
export interface DirectCommands {
  openDirect(input: { user: PublicUser; other: PublicUser }): DirectRow
  openNotes(input: { user: Snowflake }): DirectRow
  /**
   * What the two are to one another has changed, and that is committed. `isShutting`: who asks has blocked, and waits until what
   * was taken before stands in the logs.
   */
  relationChanged(input: { isShutting?: boolean }): { heard: true }
  /** Told by the home of one of the two: what is remembered of what he wrote bears his name. */
  participantChanged(input: { user: ShownUser }): void
}

export const directActor = defineActor<ServerState, ServerState, DirectCommands>({
  kind: "direct",
  home: serverHome,
  find: home => (home.participants === null ? undefined : home),
  missing: "channel_not_found",
  commands: {
    openDirect: {
      create({ id }, { user, other }) {
        const row = directRow(id, user.id, other.id)
        return {
          home: newDirectState(row),
          write: [insertDirect(row)], // DM1
          publish: [
            toUser(user.id, channelCreate, directObject(row, other, null)),
            toUser(other.id, channelCreate, directObject(row, user, null)),
            tell<unknown, unknown, RelationshipCommands, "directOpened">({ kind: "user" }, row.user_id, {
              type: "directOpened",
              other: row.other_id!,
              direct: row.id,
            }),
          ],
          reply: row,
        }
      },
    },

    openNotes: {
      create({ id }, { user }) {
        const row = directRow(id, user, null)
        return {
          home: newDirectState(row),
          write: [insertDirect(row)], // DM1
          publish: [toUser(user, channelCreate, notesObject(row, null))],
          reply: row,
        }
      },
    },

    relationChanged: forgetPair, // DM2

    participantChanged: {
      forListeners: true,
      turn: (_, { user }) => ({
        remember: draft => renameInTails(draft, user.id, user.username, user.badges),
        reply: undefined,
      }),
    },
  },
})
