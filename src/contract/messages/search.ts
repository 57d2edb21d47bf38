import { z } from "zod"
import { queryInt, Snowflake, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Message } from "./messages.ts"
import { defineRoute } from "../core/registry.ts"

const limit = queryInt(1, limits.pageSize).optional().describe(`Default ${limits.searchPage}`)
const cursor = z
  .string()
  .optional()
  .describe("The `next_cursor` of the previous page. All other parameters must be the same")
const next_cursor = z.string().nullable().describe("Null on the last page")
const id = z.string().optional()

export const searchChannel = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/search",
  summary: "Search the messages of a channel for a part of the text, case ignored, newest first",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: z.object({ channel_id: Snowflake }),
  query: z.object({
    content: text(1, limits.searchQuery),
    limit,
    cursor: z
      .string()
      .optional()
      .describe(
        "The `X-Next-Cursor` header of the previous page, with everything else unchanged. A page may hold fewer than `limit` messages, or none, while there are more",
      ),
  }),
  hasNextCursor: true,
  reply: z.array(Message),
  fails: [
    "invalid_channel_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "invalid_cursor",
    "search_busy",
  ],
})

export const searchMessages = defineRoute({
  method: "GET",
  path: "/search/messages",
  summary: "Search all messages that the caller may read, newest first. `query` takes words, phrases and operators",
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(1, limits.searchQuery).describe(
      'Words, all of which must match; "a phrase"; -without; from:, in:, mentions:, has:, before:, after:, pinned:',
    ),
    conversation_id: id.describe("A DM or the notes channel"),
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
    "search_busy",
  ],
})

export const FoundUser = z
  .object({
    user_id: Snowflake,
    username: z.string(),
    display_name: z.null(),
    avatar_url: z.string().nullable(),
    badges: z.array(z.string()),
    score: z.number().describe("The share of the name that matches. 1: the whole name"),
  })
  .meta({ id: "UserSearchResult" })
export type FoundUser = z.infer<typeof FoundUser>

export const searchUsers = defineRoute({
  method: "GET",
  path: "/search/users",
  summary: `Search users by the start of their names, ${limits.usersFound} at most. Users whom the caller has blocked, or who have blocked the caller, are left out`,
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(limits.userQuery, limits.searchQuery),
    server_id: id.describe("Only members of this server"),
    limit,
    cursor,
  }),
  reply: z.object({ results: z.array(FoundUser), next_cursor }).meta({ id: "UserSearchResponse" }),
  fails: ["invalid_server_id", "invalid_cursor", "server_not_found", "access_denied", "search_busy"],
})

export const FoundServer = z
  .object({
    server_id: Snowflake,
    name: z.string(),
    description: z.string().nullable(),
    icon_url: z.string().nullable(),
    member_count: z.int(),
    category: z.string().nullable(),
    score: z
      .number()
      .describe("1: the whole name. Then the start of the name, a part of it, a part of the description"),
  })
  .meta({ id: "ServerSearchResult" })
export type FoundServer = z.infer<typeof FoundServer>

export const searchServers = defineRoute({
  method: "GET",
  path: "/search/servers",
  summary: "Search public servers by name and description, best match first, then largest first",
  tag: "Search",
  auth: "user",
  query: z.object({
    query: text(1, limits.searchQuery),
    category: z.string().max(limits.serverCategory).optional(),
    limit,
    cursor,
  }),
  reply: z.object({ results: z.array(FoundServer), next_cursor }).meta({ id: "ServerSearchResponse" }),
  fails: ["invalid_cursor", "search_busy"],
})

export const routes = { searchChannel, searchMessages, searchUsers, searchServers }
