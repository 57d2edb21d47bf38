import { z } from "zod"
import { queryInt, Snowflake, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { Message } from "./messages.ts"
import { defineRoute } from "./registry.ts"

const limit = queryInt(1, limits.pageSize).optional().describe(`Default ${limits.searchPage}`)
const cursor = z.string().optional().describe("The `next_cursor` of the page before, with everything else unchanged")
const next_cursor = z.string().nullable().describe("Null: the last page")
const id = z.string().optional()

export const searchChannel = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/search",
  summary: "Messages of a channel whose text holds another, whatever the case of its letters; newest first",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: z.object({ channel_id: Snowflake }),
  query: z.object({ content: text(1, limits.searchQuery), limit }),
  reply: z.array(Message),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied", "search_too_short"],
})

export const searchMessages = defineRoute({
  method: "GET",
  path: "/search/messages",
  summary: "Messages in all that the caller may read, newest first; `query` takes words, phrases and operators",
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(1, limits.searchQuery).describe(
      'Words, all of which are wanted; "a phrase"; -without; from:, in:, mentions:, has:, before:, after:, pinned:',
    ),
    conversation_id: id.describe("A DM or notes channel"),
    server_id: id,
    channel_id: id,
    author_id: id,
    limit,
    cursor,
  }),
  reply: z.object({ results: z.array(Message), next_cursor }).meta({ id: "MessageSearchResponse" }),
  fails: [
    "invalid_channel_id",
    "invalid_server_id",
    "invalid_user_id",
    "invalid_cursor",
    "server_not_found",
    "channel_not_found",
    "access_denied",
    "permission_denied",
  ],
})

export const FoundUser = z
  .object({
    user_id: Snowflake,
    username: z.string(),
    display_name: z.null(),
    avatar_url: z.string().nullable(),
    badges: z.array(z.string()),
    score: z.number().describe("How much of the name was given, to 1: all of it"),
  })
  .meta({ id: "UserSearchResult" })
export type FoundUser = z.infer<typeof FoundUser>

export const searchUsers = defineRoute({
  method: "GET",
  path: "/search/users",
  summary: `Users by the beginning of their names, ${limits.usersFound} at most; those who blocked the caller and whom he did are left out`,
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(limits.userQuery, limits.searchQuery),
    server_id: id.describe("Only its members"),
    limit,
    cursor,
  }),
  reply: z.object({ results: z.array(FoundUser), next_cursor }).meta({ id: "UserSearchResponse" }),
  fails: ["invalid_server_id", "invalid_cursor", "server_not_found", "access_denied"],
})

export const FoundServer = z
  .object({
    server_id: Snowflake,
    name: z.string(),
    description: z.string().nullable(),
    icon_url: z.string().nullable(),
    member_count: z.int(),
    category: z.string().nullable(),
    score: z.number().describe("1: the name itself; then its beginning, a part of it, a part of the description"),
  })
  .meta({ id: "ServerSearchResult" })
export type FoundServer = z.infer<typeof FoundServer>

export const searchServers = defineRoute({
  method: "GET",
  path: "/search/servers",
  summary: "Public servers by name and description, the best and then the largest first",
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(1, limits.searchQuery),
    category: z.string().max(limits.serverCategory).optional(),
    limit,
    cursor,
  }),
  reply: z.object({ results: z.array(FoundServer), next_cursor }).meta({ id: "ServerSearchResponse" }),
  fails: ["invalid_cursor"],
})

export const routes = { searchChannel, searchMessages, searchUsers, searchServers }
