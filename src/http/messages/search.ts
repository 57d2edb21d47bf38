import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Message } from "../../contract/messages/messages.ts"
import type { ReplyOf } from "../../contract/core/registry.ts"
import type { routes } from "../../contract/messages/search.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { Secrets } from "../../integrations/secrets.ts"
import type { ServerHitPlace } from "../../storage/messages/search.ts"
import { Searches, type Places, type SearchSources } from "../../views/search.ts"
import { searchCursor, type SearchCursor } from "../shared/cursors.ts"
import type { Uses } from "../shared/http.ts"
import { Encoded, type Handlers } from "../server/handlers.ts"

export function search(sources: SearchSources & Uses<{ readonly secrets: Secrets }>): Handlers<typeof routes> {
  const searches = new Searches(sources)
  const cursorOf = (kind: string, user: Snowflake, asked: readonly unknown[]) =>
    searchCursor(sources.integrations.secrets, { kind, user, asked })
  return {
    async searchChannel({
      params: { channel_id },
      query: { content, limit = limits.searchPage, cursor },
      caller: { user_id },
    }) {
      const cursors = cursorOf("channel", user_id, [channel_id, content])
      const page = { below: idIn(cursor, cursors), limit }
      const { json, next } = await searches.inChannel(user_id, channel_id, content, page)
      return new Encoded<Message[]>(json, cursors.write(next))
    },

    async searchMessages({ query: asked, caller: { user_id } }) {
      requireIds(asked)
      const { query, limit = limits.searchPage, cursor, ...places } = asked
      const { conversation_id, server_id, channel_id, author_id } = places
      const cursors = cursorOf("messages", user_id, [query, conversation_id, server_id, channel_id, author_id])
      const page = { below: idIn(cursor, cursors), limit }
      const { json, next } = await searches.messages(user_id, query, places, page)
      const next_cursor = JSON.stringify(cursors.write(next))
      return new Encoded<ReplyOf<typeof routes.searchMessages>>(`{"results":${json},"next_cursor":${next_cursor}}`)
    },

    async searchUsers({ query: { query, server_id, limit = limits.searchPage, cursor }, caller: { user_id } }) {
      requireIds({ server_id })
      const cursors = cursorOf("users", user_id, [query, server_id])
      const skip = cursor === undefined ? 0 : Number(cursors.read(cursor))
      if (!Number.isInteger(skip) || skip < 0 || skip >= limits.usersFound) throw fail("invalid_cursor")
      const { users, more } = await searches.users(user_id, query, server_id, { skip, limit })
      return { results: users, next_cursor: cursors.write(more ? String(skip + users.length) : null) }
    },

    async searchServers({ query: { query, category = null, limit = limits.searchPage, cursor }, caller: { user_id } }) {
      const cursors = cursorOf("servers", user_id, [query, category])
      const after = cursor === undefined ? null : serverIn(cursors.read(cursor))
      const { servers, next } = await searches.servers(user_id, query, { category, after, limit })
      const placeText = ({ hundredths, member_count, id }: ServerHitPlace) => `${hundredths}:${member_count}:${id}`
      return { results: servers, next_cursor: cursors.write(next && placeText(next)) }
    },
  }
}

const idErrors: Readonly<Record<keyof Places, ErrorCode>> = {
  conversation_id: "invalid_channel_id",
  channel_id: "invalid_channel_id",
  server_id: "invalid_server_id",
  author_id: "invalid_user_id",
}
function requireIds(places: Places): void {
  for (const [name, code] of Object.entries(idErrors) as [keyof Places, ErrorCode][]) {
    const id = places[name]
    if (id !== undefined && !isId(id)) throw fail(code)
  }
}

function idIn(cursor: string | undefined, cursors: SearchCursor): string | undefined {
  const id = cursor === undefined ? undefined : cursors.read(cursor)
  if (id !== undefined && !isId(id)) throw fail("invalid_cursor")
  return id
}

function serverIn(text: string): ServerHitPlace {
  const [, hundredths, members, id] = /^(\d{1,3}):(\d{1,9}):(\d+)$/.exec(text) ?? []
  if (id === undefined || !isId(id)) throw fail("invalid_cursor")
  return { hundredths: Number(hundredths), member_count: Number(members), id }
}
