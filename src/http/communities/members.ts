import { serverActor } from "../../actors/server.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { ListedMember, routes } from "../../contract/communities/members.ts"
import type { Member } from "../../contract/communities/servers.ts"
import { shownBadges } from "../../domain/accounts/badges.ts"
import { memberObject } from "../../domain/communities/servers.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import type { ListedMember as ListedRow } from "../../storage/communities/guild-members.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import { actorOf, type Call, type Handlers } from "../server/handlers.ts"
import type { Http, Live } from "../shared/http.ts"

type Listed = Pick<UserRow, "id" | "username" | "bot" | "badges">

const shownAs = ({ id, username, bot, badges }: Listed): Actor => ({ id, username, bot, badges: shownBadges(badges) })

/**
 * A user as a turn shows them as a member. Who has no account is no member; whether the caller is to
 * know that the server says.
 */
export async function shownMember(storage: Http<"users">["storage"], user: Snowflake): Promise<Actor> {
  const found = await storage.users.find(user)
  return found ? shownAs(found) : { id: user, username: "", bot: false, badges: [] }
}

export const members = ({
  ask,
  storage,
  live: { presences },
}: Http<"guildMembers" | "users"> & { readonly live: Pick<Live, "presences"> }): Handlers<typeof routes> => {
  /**
   * A user whose presence cannot be looked up now, or who is in a block with the caller, is shown
   * as offline.
   */
  const withPresences = async <M extends Member>(list: readonly M[], caller: Snowflake): Promise<ListedMember[]> => {
    const users = list.map(({ user_id }) => user_id)
    const blocked = await storage.guildMembers.blocked(caller, users)
    const { seen } = await presences.lookUp(users.filter(user => !blocked.has(user)))
    return list.map(one => ({ ...one, presence: { status: seen.get(one.user_id)?.status ?? "offline" } }))
  }

  const edit = async (
    { caller, reason }: Pick<Call<(typeof routes)["editMember"]>, "caller" | "reason">,
    server_id: Snowflake,
    target: Actor,
    patch: Parameters<typeof patchOf>[0],
  ) => {
    const edited = await ask(serverActor, server_id, {
      type: "editMember",
      user: caller.user_id,
      reason,
      member_id: target.id,
      target,
      patch: patchOf(patch),
    })
    return (await withPresences([edited], caller.user_id))[0]!
  }

  return {
    async listMembers({ params: { server_id }, query: { limit = limits.membersPage.usual, after = "0" }, caller }) {
      const known = await ask(serverActor, server_id, { type: "requireMember", user: caller.user_id })
      const rows = await storage.guildMembers.page(server_id, after, limit)
      return withPresences(listedIn(known, rows), caller.user_id)
    },

    async getMember({ params: { server_id, member_id }, caller }) {
      const known = await ask(serverActor, server_id, { type: "requireMember", user: caller.user_id })
      const rows = await storage.guildMembers.some(server_id, [member_id])
      if (rows.length === 0) throw fail("member_not_found")
      return (await withPresences(listedIn(known, rows), caller.user_id))[0]!
    },

    async editMember({ params: { server_id, member_id }, body, caller, reason }) {
      return edit({ caller, reason }, server_id, await shownMember(storage, member_id), body)
    },

    editOwnMember: ({ params: { server_id }, body, caller, reason }) =>
      edit({ caller, reason }, server_id, actorOf(caller), body),
  }
}

function listedIn(
  { server_id: id, roles }: { server_id: Snowflake; roles: readonly Snowflake[] },
  rows: readonly ListedRow[],
): Member[] {
  const server = { id, roles: new Map(roles.map(role => [role, true])) }
  return rows.map(row => memberObject(server, row, shownAs({ ...row, id: row.user_id })))
}

/** As the home takes it: empty and 0 are none, what is left out stays. */
function patchOf({
  nickname,
  timeout_until,
  timeout_seconds,
  timeout_reason,
}: {
  nickname?: string | undefined
  timeout_until?: number | undefined
  timeout_seconds?: number | undefined
  timeout_reason?: string | undefined
}) {
  const reason = timeout_reason || null
  const isOver = timeout_until === 0 || timeout_seconds === 0
  const until = timeout_until !== undefined && { until: timeout_until, reason }
  const seconds = timeout_seconds !== undefined && { seconds: timeout_seconds, reason }
  const timeout = isOver ? null : until || seconds || undefined
  return { nickname: nickname === undefined ? undefined : nickname || null, timeout }
}
