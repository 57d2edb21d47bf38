import type { Snowflake } from "../../contract/core/fields.ts"
import { notifyMentioned } from "../../contract/core/jobs.ts"
import { mentionsIn } from "../../domain/messages/mentions.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { insertMention } from "../../storage/messages/mentions.ts"
import type { Write } from "../../storage/core/write.ts"
import { Access } from "../shared/access.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Publication } from "../../runtime/actor.ts"

/**
 * The job that notifies everybody whom a new message mentions, and its row. Who may mention
 * everybody is decided here, with the author's permissions at this moment: `@everyone`, `@here` and
 * roles that are not mentionable take `messages.mention_everyone`. A webhook has no permissions, so
 * it mentions people and mentionable roles only. In a conversation outside servers its participants
 * can be called. Undefined: nobody is mentioned.
 */
export function mentioning(
  server: Readonlied<ServerState>,
  {
    id,
    channel_id,
    server_id,
    author_id,
    content,
  }: Pick<MessageState, "id" | "channel_id" | "server_id" | "author_id" | "content">,
  author: Readonlied<MemberState> | null,
  now: number,
): { write: Write[]; publish: Publication[] } | undefined {
  // As nearly every message.
  if (content === null || !content.includes("@")) return undefined
  const { users, roles, everyone, here } = mentionsIn(content)
  const others = users.filter(user => user !== author_id)
  if (server.participants !== null) return job(others.filter(user => server.participants!.includes(user)))
  if (others.length === 0 && roles.length === 0 && !everyone && !here) return job([])
  const mayCallAll = author !== null && new Access(server, channel_id, author, now).may("messages.mention_everyone")
  const called = roles.filter(role => role !== server.id && (mayCallAll || server.roles.get(role)?.mentionable))
  return job(
    others,
    called.filter(role => server.roles.has(role)),
    // `@everyone` is a role as well.
    mayCallAll && (everyone || roles.includes(server.id)),
    mayCallAll && here,
  )

  function job(named: Snowflake[], ofRoles: Snowflake[] = [], all = false, present = false) {
    if (named.length === 0 && ofRoles.length === 0 && !all && !present) return undefined
    const whom = { users: named, roles: ofRoles, everyone: all, here: present }
    const row = { server_id, channel_id, message_id: id, ...whom }
    return { write: [insertMention(row)], publish: [notifyMentioned.at(row, { key: `mentions:${channel_id}:${id}` })] }
  }
}
