import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Message } from "../../contract/messages/messages.ts"
import type { routes } from "../../contract/messages/search.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { ServerHitPlace } from "../../storage/messages/search.ts"
import { Searches, type Places, type SearchSources } from "../../views/search.ts"
import { cursorKey, readCursor, writeCursor } from "../shared/cursors.ts"
import { Encoded, type Handlers } from "../server/handlers.ts"

export function search(sources: SearchSources): Handlers<typeof routes> {
  const searches = new Searches(sources)
  return {
    async searchChannel({
      params: { channel_id },
      query: { content, limit = limits.searchPage, cursor },
      caller: { user_id },
    }) {
      const key = cursorKey("channel", user_id, [channel_id, content])
      const page = { below: idIn(cursor, key), limit }
      const { messages, next } = await searches.inChannel(user_id, channel_id, content, page)
      return new Encoded<Message[]>(JSON.stringify(messages), next === null ? null : writeCursor(next, key))
    },

    async searchMessages({ query: asked, caller: { user_id } }) {
      requireIds(asked)
      const { query, limit = limits.searchPage, cursor, ...places } = asked
      const { conversation_id, server_id, channel_id, author_id } = places
      const key = cursorKey("messages", user_id, [query, conversation_id, server_id, channel_id, author_id])
      const page = { below: idIn(cursor, key), limit }
      const { messages, next } = await searches.messages(user_id, query, places, page)
      return { results: messages, next_cursor: next === null ? null : writeCursor(next, key) }
    },

    async searchUsers({ query: { query, server_id, limit = limits.searchPage, cursor }, caller: { user_id } }) {
      requireIds({ server_id })
      const key = cursorKey("users", user_id, [query, server_id])
      const skip = cursor === undefined ? 0 : Number(readCursor(cursor, key))
      if (!Number.isInteger(skip) || skip < 0 || skip >= limits.usersFound) throw fail("invalid_cursor")
      const { users, more } = await searches.users(user_id, query, server_id, { skip, limit })
      return { results: users, next_cursor: more ? writeCursor(String(skip + users.length), key) : null }
    },

    async searchServers({ query: { query, category = null, limit = limits.searchPage, cursor }, caller: { user_id } }) {
      const key = cursorKey("servers", user_id, [query, category])
      const after = cursor === undefined ? null : serverIn(readCursor(cursor, key))
      const { servers, next } = await searches.servers(user_id, query, { category, after, limit })
      const cursorOf = ({ hundredths, member_count, id }: ServerHitPlace) =>
        writeCursor(`${hundredths}:${member_count}:${id}`, key)
      return { results: servers, next_cursor: next === null ? null : cursorOf(next) }
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

function idIn(cursor: string | undefined, key: string): string | undefined {
  const id = cursor === undefined ? undefined : readCursor(cursor, key)
  if (id !== undefined && !isId(id)) throw fail("invalid_cursor")
  return id
}

function serverIn(text: string): ServerHitPlace {
  const [, hundredths, members, id] = /^(\d{1,3}):(\d{1,9}):(\d+)$/.exec(text) ?? []
  if (id === undefined || !isId(id)) throw fail("invalid_cursor")
  return { hundredths: Number(hundredths), member_count: Number(members), id }
}
