import { channelCreate } from "../contract/communities/channels.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { PublicUser } from "../contract/accounts/users.ts"
import { directObject, directRow, notesObject, type DirectRow, newDirectState } from "../domain/social/directs.ts"
import type { ServerState } from "../domain/communities/servers.ts"
import { insertDirect } from "../storage/social/directs.ts"
import type { DirectAccountCommands } from "./accounts/account.ts"
import { forgetPair } from "./social/direct-privacy.ts"
import type { DirectRelationCommands, RelationshipCommands } from "./social/relationships.ts"
import { defineActor } from "../runtime/actor.ts"
import type { Storage } from "../storage/storage.ts"
import { serverHome } from "./server.ts"
import { renameAuthor } from "./messages/history-version.ts"
import { tellsOf } from "./shared/tells.ts"
import { toUser } from "./shared/relay.ts"

/**
 * A conversation outside servers: a DM or somebody's notes. What is said in it goes through its
 * channel, see channel.ts.
 *   DM1  Two users have one DM, regardless of who creates it and how often. A user has one notes
 *       channel.
 *   DM2  After the response to a block no message is accepted until it is lifted, and earlier
 *       ones are in the logs. A DM that is created during a block may exist, but is closed from the
 *       response on.
 */
export interface DirectCommands extends DirectAccountCommands, DirectRelationCommands {
  openDirect(input: { user: PublicUser; other: PublicUser }): DirectRow
  openNotes(input: { user: Snowflake }): DirectRow
}

const tellUser = tellsOf<RelationshipCommands>("user")

export const directActor = defineActor<ServerState, ServerState, DirectCommands, Storage>({
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
            tellUser(row.user_id, {
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
        remember: draft => renameAuthor(draft, user.id, user.username, user.badges),
        reply: undefined,
      }),
    },
  },
})
