import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const RelationshipStatus = z.enum(["friend", "pending_incoming", "pending_outgoing", "blocked"])
export type RelationshipStatus = z.infer<typeof RelationshipStatus>

/** What another is to the caller. */
export const Relationship = z
  .object({
    user_id: Snowflake,
    status: RelationshipStatus,
    created_at: Seconds.describe("When the relationship started"),
  })
  .meta({ id: "RelationshipResponse" })
export type Relationship = z.infer<typeof Relationship>

/** As others see it: who is invisible is offline to them. */
const SeenPresence = z.object({ status: z.enum(["online", "idle", "dnd", "offline"]) }).meta({ id: "SeenPresence" })
export type SeenPresence = z.infer<typeof SeenPresence>

export const ListedRelationship = Relationship.extend({
  username: z.string(),
  avatar_url: z.string().nullable(),
  presence: SeenPresence.nullable().describe(
    "For a friend, null if it is temporarily unknown. For a blocked user always offline. Null while a request is open",
  ),
  message: z.string().nullable().describe("Only for an incoming request that has a message"),
}).meta({ id: "RelationshipListItem" })
export type ListedRelationship = z.infer<typeof ListedRelationship>

const byUser = z.object({ user_id: Snowflake })
/** An id in whatever form: what is none is refused with 400, as it is in a path. */
const UserIdInput = z
  .preprocess(
    // Beyond 53 bits a JSON number has lost its last digits: it is no id.
    value => (typeof value === "number" ? (Number.isSafeInteger(value) ? String(value) : "") : value),
    z.string(),
  )
  .meta({ description: "The id of a user", example: "41771983423143937" })

export const listRelationships = defineRoute({
  method: "GET",
  path: "/relationships/@me",
  summary:
    "List relationships: friends, incoming requests, outgoing requests, blocked users, in this order, each oldest first",
  tag: "Relationships",
  auth: "user",
  reply: z.array(ListedRelationship),
  fails: [],
})

export const requestFriend = defineRoute({
  method: "POST",
  path: "/relationships",
  summary: "Send a friend request. If the other user has already sent one, both become friends at once",
  tag: "Relationships",
  auth: "user",
  body: z
    .object({ user_id: UserIdInput, message: omittable(text(0, limits.friendRequestMessage)) })
    .meta({ id: "RelationshipRequest" }),
  example: { user_id: sample.other, message: "It is me, from the workshop" },
  reply: Relationship,
  fails: [
    "invalid_user_id",
    "self_request",
    "user_not_found",
    "relationship_blocked",
    "relationship_exists",
    "relationship_limit",
  ],
})

export const acceptFriend = defineRoute({
  method: "PUT",
  path: "/relationships/:user_id/accept",
  summary: "Accept a friend request",
  tag: "Relationships",
  auth: "user",
  params: byUser,
  reply: Success,
  fails: ["invalid_user_id", "friend_request_not_found", "relationship_limit"],
})

export const deleteRelationship = defineRoute({
  method: "DELETE",
  path: "/relationships/:user_id",
  summary: "Remove a friend, decline or cancel a request, or remove one's own block",
  tag: "Relationships",
  auth: "user",
  params: byUser,
  reply: Success,
  fails: ["invalid_user_id", "relationship_not_found"],
})

export const blockUser = defineRoute({
  method: "POST",
  path: "/relationships/block",
  summary: "Block a user. A friendship or an open request with them ends",
  tag: "Relationships",
  auth: "user",
  body: z.object({ user_id: UserIdInput }).meta({ id: "BlockRequest" }),
  example: { user_id: sample.other },
  reply: Relationship,
  fails: ["invalid_user_id", "self_block", "user_not_found", "already_blocked", "relationship_limit"],
})

export const routes = { listRelationships, requestFriend, acceptFriend, deleteRelationship, blockUser }

export const RelationshipAdded = Relationship.extend({
  username: z.string().nullable(),
  avatar_url: z.string().nullable(),
  presence: SeenPresence.nullable().optional().describe("Only for a friend. Null if it is temporarily unknown"),
  message: z.string().nullable().optional().describe("Only for an incoming request"),
})
export type RelationshipAdded = z.infer<typeof RelationshipAdded>

export const relationshipAdd = defineEvent({
  name: "RELATIONSHIP_ADD",
  intent: null,
  delivery: "stored",
  summary:
    "The relationship with a user changed: a request, a friend, or the user's own block. It replaces the previous relationship",
  data: RelationshipAdded,
})

export const relationshipRemove = defineEvent({
  name: "RELATIONSHIP_REMOVE",
  intent: null,
  delivery: "stored",
  summary: "The relationship with a user ended",
  data: byUser,
})
