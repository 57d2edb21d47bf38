import type { ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { RelationshipStatus } from "../../contract/social/relationships.ts"
import { compareIds } from "../core/snowflake.ts"

/**
 * What two users are to one another: a row on each side. One home decides for a pair, that of the
 * user with the lower id, and writes both rows in one commit. So it keeps:
 *   REL1  The two sides of a pair always match: both friends; one requested and the other
 *       received; or each side by itself blocks or has nothing.
 *   REL2  Concurrent commands of a pair have one order, which is the same for both users.
 *   REL3  After a response the list has its effect on any worker: it is read from the rows,
 *       which are committed before.
 *   REL4  Each user receives every change of their own side, once, in order; the one with the
 *       higher id through a tell to their home, possibly after the response. Nothing else of a pair
 *       is sent.
 *   REL5  A blocked user learns at most that there is no relationship any more, as after the end
 *       of a friendship or a request, and that the other is offline.
 */
export interface Side {
  readonly status: RelationshipStatus
  /** Of an incoming request. */
  readonly message: string | null
  /** Unix seconds. */
  readonly created_at: number
}

/** Null: nothing. */
export interface Pair {
  readonly lower: Side | null
  readonly higher: Side | null
}
export const strangers: Pair = { lower: null, higher: null }

/** A pair as the one sees it who asks. */
export interface View {
  readonly mine: Side | null
  readonly theirs: Side | null
}

/** Whether one of the two has blocked the other, or both have. */
export const isBlocked = ({ lower, higher }: Readonly<Pair>): boolean =>
  lower?.status === "blocked" || higher?.status === "blocked"

export const lowerOf = (one: Snowflake, other: Snowflake): Snowflake => (compareIds(one, other) < 0 ? one : other)

/** How many rows a user has, by status. */
export type RelationshipCounts = Readonly<Record<RelationshipStatus, number>>
/**
 * As they were just before the decision: what others decide at the same moment may pass a bound by
 * as much.
 */
export interface BothCounts {
  readonly mine: RelationshipCounts
  readonly theirs: RelationshipCounts
}

type Refusal = Extract<
  ErrorCode,
  | "relationship_blocked"
  | "relationship_exists"
  | "relationship_limit"
  | "friend_request_not_found"
  | "relationship_not_found"
  | "already_blocked"
>

const isFull = (counts: RelationshipCounts, status: RelationshipStatus) =>
  counts[status] >= limits.relationshipsOfAStatus

const befriended = (counts: BothCounts, now: number): View | Refusal => {
  if (isFull(counts.mine, "friend") || isFull(counts.theirs, "friend")) return "relationship_limit"
  const friend: Side = { status: "friend", message: null, created_at: now }
  return { mine: friend, theirs: friend }
}

/** A request that meets one of the other's is as good as accepting it. */
export function requested(
  { mine, theirs }: View,
  message: string | null,
  counts: BothCounts,
  now: number,
): View | Refusal {
  if (mine?.status === "blocked" || theirs?.status === "blocked") return "relationship_blocked"
  if (mine?.status === "pending_incoming") return befriended(counts, now)
  if (mine) return "relationship_exists"
  if (isFull(counts.mine, "pending_outgoing") || isFull(counts.theirs, "pending_incoming")) return "relationship_limit"
  return {
    mine: { status: "pending_outgoing", message: null, created_at: now },
    theirs: { status: "pending_incoming", message, created_at: now },
  }
}

export const accepted = ({ mine }: View, counts: BothCounts, now: number): View | Refusal =>
  mine?.status === "pending_incoming" ? befriended(counts, now) : "friend_request_not_found"

/** Removes both sides, but a block only from the side of the user who made it. */
export function removed({ mine, theirs }: View): View | Refusal {
  if (!mine) return "relationship_not_found"
  return { mine: null, theirs: mine.status === "blocked" ? theirs : null }
}

/** Whatever there was: one of the two is gone for good. */
export const severed: View = { mine: null, theirs: null }

export function blocked({ mine, theirs }: View, counts: BothCounts, now: number): View | Refusal {
  if (mine?.status === "blocked") return "already_blocked"
  if (isFull(counts.mine, "blocked")) return "relationship_limit"
  return {
    mine: { status: "blocked", message: null, created_at: now },
    theirs: theirs?.status === "blocked" ? theirs : null,
  }
}
