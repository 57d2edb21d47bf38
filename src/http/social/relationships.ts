import { directActor } from "../../actors/direct.ts"
import type { Party } from "../../actors/social/relationships.ts"
import { userActor } from "../../actors/user.ts"
import type { Caller } from "../../cluster/admission.ts"
import { fail, Failure, type ErrorCode } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import type { routes, SeenPresence } from "../../contract/social/relationships.ts"
import { lowerOf, type BothCounts } from "../../domain/social/relationships.ts"
import { publicUser, shownUser } from "../../storage/accounts/users.ts"
import type { Handlers } from "../server/handlers.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { Http, Live } from "../shared/http.ts"

export const relationships = ({
  ask,
  storage,
  live: { presences },
}: Http<"directs" | "relationships" | "users"> & { readonly live: Pick<Live, "presences"> }): Handlers<
  typeof routes
> => {
  /** The caller and the other, as each is shown to the other. */
  const partiesOf = async (
    caller: Caller,
    id: Snowflake,
    isMissing: ErrorCode,
    mayBePurged = false,
  ): Promise<{ by: Party; other: Party }> => {
    const found = await storage.users.find(id)
    if (!found || (found.deletion_status === "purged" && !mayBePurged)) throw fail(isMissing)
    const { username, avatar_url } = publicUser(found)
    const own = shownUser({ ...caller, id: caller.user_id })
    return {
      by: { id: own.id, username: own.username, avatar_url: own.avatar_url, presence: null },
      other: { id, username, avatar_url, presence: null },
    }
  }

  const listCountsOf = async ({ user_id }: Caller, other: Snowflake): Promise<BothCounts> => {
    const counts = await storage.relationships.counts([user_id, other])
    return { mine: counts.get(user_id)!, theirs: counts.get(other)! }
  }

  /** The presences of users; null: it cannot be looked up now. */
  const statusesOf = async (users: readonly Snowflake[]): Promise<(user: Snowflake) => SeenPresence | null> => {
    if (users.length === 0) return () => null
    const { seen, unknown } = await presences.lookUp(users)
    return user => (unknown.has(user) ? null : { status: seen.get(user)?.status ?? "offline" })
  }

  /**
   * What the home decides on. Who has been asked and now agrees becomes a friend: friends see one
   * another's presence.
   */
  const maybeFriends = async (caller: Caller, id: Snowflake, isMissing: ErrorCode) => {
    const [{ by, other }, counts, status] = await Promise.all([
      partiesOf(caller, id, isMissing),
      listCountsOf(caller, id),
      storage.relationships.status(caller.user_id, id),
    ])
    const presenceOf = await statusesOf(status === "pending_incoming" ? [by.id, other.id] : [])
    const withPresence = (party: Party): Party => ({ ...party, presence: presenceOf(party.id) })
    return { by: withPresence(by), other: withPresence(other), counts }
  }

  /** Resolves when the DM of the two knows that it is closed, or open again. */
  const heed = async ({ user_id }: Caller, other: Snowflake, isShutting: boolean): Promise<void> => {
    const direct = await storage.directs.find(user_id, other)
    if (direct) await ask(directActor, direct.id, { type: "relationChanged", isShutting })
  }

  return {
    async listRelationships({ caller }) {
      const list = await storage.relationships.list(caller.user_id)
      const presenceOf = await statusesOf(list.flatMap(({ status, user_id }) => (status === "friend" ? [user_id] : [])))
      const presenceIn = ({ status, user_id }: (typeof list)[number]): SeenPresence | null => {
        if (status === "friend") return presenceOf(user_id)
        return status === "blocked" ? { status: "offline" } : null
      }
      return list.map(row => ({ ...row, presence: presenceIn(row) }))
    },

    async requestFriend({ body: { user_id, message = "" }, caller }) {
      if (!isId(user_id)) throw fail("invalid_user_id")
      if (user_id === caller.user_id) throw fail("self_request")
      const two = await maybeFriends(caller, user_id, "user_not_found")
      return ask(userActor, lowerOf(caller.user_id, user_id), {
        type: "requestFriend",
        ...two,
        message: message === "" ? null : message,
      })
    },

    async acceptFriend({ params: { user_id }, caller }) {
      if (user_id === caller.user_id) throw fail("friend_request_not_found")
      const two = await maybeFriends(caller, user_id, "friend_request_not_found")
      await ask(userActor, lowerOf(caller.user_id, user_id), { type: "acceptFriend", ...two })
      return success
    },

    async deleteRelationship({ params: { user_id }, caller }) {
      if (user_id === caller.user_id) throw fail("relationship_not_found")
      const two = await partiesOf(caller, user_id, "relationship_not_found", true)
      const { lifted } = await ask(userActor, lowerOf(caller.user_id, user_id), { type: "deleteRelationship", ...two })
      if (lifted) await heed(caller, user_id, false)
      return success
    },

    async blockUser({ body: { user_id }, caller }) {
      if (!isId(user_id)) throw fail("invalid_user_id")
      if (user_id === caller.user_id) throw fail("self_block")
      const [two, counts] = await Promise.all([
        partiesOf(caller, user_id, "user_not_found"),
        listCountsOf(caller, user_id),
      ])
      try {
        const made = await ask(userActor, lowerOf(caller.user_id, user_id), { type: "blockUser", ...two, counts })
        await heed(caller, user_id, true)
        return made
      } catch (error) {
        // The request that made it may not have come so far.
        if (error instanceof Failure && error.code === "already_blocked") await heed(caller, user_id, true)
        throw error
      }
    },
  }
}
