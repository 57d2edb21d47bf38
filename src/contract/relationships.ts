import { z } from "zod"
import { omittable, Seconds, Snowflake, Success, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

export const RelationshipStatus = z.enum(["friend", "pending_incoming", "pending_outgoing", "blocked"])
export type RelationshipStatus = z.infer<typeof RelationshipStatus>

/** What another is to the caller. */
export const Relationship = z
  .object({ user_id: Snowflake, status: RelationshipStatus, created_at: Seconds.describe("When it became so") })
  .meta({ id: "RelationshipResponse" })
export type Relationship = z.infer<typeof Relationship>

/** As others see it: who is invisible is offline to them. */
const SeenPresence = z.object({ status: z.enum(["online", "idle", "dnd", "offline"]) }).meta({ id: "SeenPresence" })
export type SeenPresence = z.infer<typeof SeenPresence>

export const ListedRelationship = Relationship.extend({
  username: z.string(),
  avatar_url: z.string().nullable(),
  presence: SeenPresence.nullable().describe(
    "Of a friend, null where it cannot be known now; of somebody blocked always offline; null while a request is open",
  ),
  message: z.string().nullable().describe("Of an incoming request, if it came with one"),
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
  .meta({ description: "Id of a user", example: "41771983423143937" })

export const listRelationships = defineRoute({
  method: "GET",
  path: "/relationships/@me",
  summary:
    "Friends, incoming requests, outgoing requests and whom the caller has blocked, in this order, the oldest first",
  tag: "Relationships",
  auth: "user",
  reply: z.array(ListedRelationship),
  fails: [],
})

export const requestFriend = defineRoute({
  method: "POST",
  path: "/relationships",
  summary: "Send a friend request; if the other has sent one already, both are friends at once",
  tag: "Relationships",
  auth: "user",
  body: z
    .object({ user_id: UserIdInput, message: omittable(text(0, limits.friendRequestMessage)) })
    .meta({ id: "RelationshipRequest" }),
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
  summary: "End a friendship, decline or cancel a request, or lift the caller's own block",
  tag: "Relationships",
  auth: "user",
  params: byUser,
  reply: Success,
  fails: ["invalid_user_id", "relationship_not_found"],
})

export const blockUser = defineRoute({
  method: "POST",
  path: "/relationships/block",
  summary: "Block a user; a friendship or an open request with him ends",
  tag: "Relationships",
  auth: "user",
  body: z.object({ user_id: UserIdInput }).meta({ id: "BlockRequest" }),
  reply: Relationship,
  fails: ["invalid_user_id", "self_block", "user_not_found", "already_blocked", "relationship_limit"],
})

export const routes = { listRelationships, requestFriend, acceptFriend, deleteRelationship, blockUser }

export const RelationshipAdded = Relationship.extend({
  username: z.string().nullable(),
  avatar_url: z.string().nullable(),
  presence: SeenPresence.nullable().optional().describe("Of a friend; null where it cannot be known now"),
  message: z.string().nullable().optional().describe("Of an incoming request"),
})
export type RelationshipAdded = z.infer<typeof RelationshipAdded>

export const relationshipAdd = defineEvent({
  name: "RELATIONSHIP_ADD",
  intent: null,
  delivery: "stored",
  summary:
    "What another is to the user has changed: a request, a friend, or a block of the user's own. It replaces what was before",
  data: RelationshipAdded,
})

export const relationshipRemove = defineEvent({
  name: "RELATIONSHIP_REMOVE",
  intent: null,
  delivery: "stored",
  summary: "Another is nothing to the user any more",
  data: byUser,
})
