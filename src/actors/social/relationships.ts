import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import {
  relationshipAdd,
  relationshipRemove,
  type Relationship,
  type RelationshipAdded,
  type SeenPresence,
} from "../../contract/social/relationships.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Regard } from "../../domain/core/presences.ts"
import {
  accepted,
  blocked,
  isBlocked,
  removed,
  requested,
  severed,
  strangers,
  type Pair,
  type BothCounts,
  type Side,
  type View,
} from "../../domain/social/relationships.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { deleteRelationship, putRelationship } from "../../storage/social/relationships.ts"

import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineFact } from "../shared/facts.ts"
import { type ActorKind, type Publication } from "../../runtime/actor.ts"
import { presenceChanged } from "../shared/presence-changed.ts"
import { tellsOf } from "../shared/tells.ts"

/** What the DM of two people is told. */
export interface DirectRelationCommands {
  /**
   * What the two are to one another has changed, and that is committed. `isShutting`: one of them
   * has blocked, and waits until what was taken before stands in the logs.
   */
  relationChanged(input: { isShutting?: boolean }): { notified: true }
}

const tellUser = tellsOf<RelationshipCommands>("user")
const tellDirect = tellsOf<DirectRelationCommands>("direct")

/**
 * Friends, requests and blocks, among the commands of the home of the lower id. What they keep
 * stands with the rules: REL1 to REL5.
 */
export interface RelationshipCommands {
  requestFriend(input: Two & { message: string | null; counts: BothCounts }): Relationship
  /** `by` has a request of the other's. */
  acceptFriend(input: Two & { counts: BothCounts }): Relationship
  /** `lifted`: one of the two had blocked the other, and by now neither has. */
  deleteRelationship(input: Two): { lifted: boolean }
  blockUser(input: Two & { counts: BothCounts }): Relationship
  /** `by` is nobody any longer: nothing is left on either side. */
  severPair(input: Two): { severed: true }
  /** Told by the home of the lower id after its commit; null: nothing any more. */
  relationshipChanged(input: { other: Snowflake; shown: RelationshipAdded | null }): void
  /** Told by a DM that was opened: `other` has the higher id. */
  directOpened(input: { other: Snowflake; direct: Snowflake }): void
  /** Tells this user what they see of the other. */
  regard(input: Regard): void
}

/** A user as the other user sees them. `presence` is asked for where the two may become friends. */
export interface Party {
  id: Snowflake
  username: string
  avatar_url: string | null
  presence: SeenPresence | null
}
/**
 * Who asks, and whom it is about. One of them is the user whose home this is, the other has a
 * higher id.
 */
export interface Two {
  by: Party
  other: Party
}

export const pairFacts = defineFact<UserState, Pair>({
  keep: 100,
  load: (storage, user, others) => storage.relationships.pairs(user, others),
})
const needed = (other: Snowflake) => pairFacts.need(other)

/** The DM of the user with another, once there is one. */
export const directFacts = defineFact<UserState, Snowflake>({
  keep: 100,
  async load(storage, user, others) {
    const found = new Map<Snowflake, Snowflake>()
    for (const other of others) {
      const direct = await storage.directs.find(user, other)
      if (direct) found.set(other, direct.id)
    }
    return found
  },
})
const directWith = (other: Snowflake) => directFacts.need(other)

const needsPair = ({ by, other }: Two, { id }: { readonly id: Snowflake }) => [needed(by.id === id ? other.id : by.id)]
/** Of a change that can shut their DM, or open it again. */
const needsPairAndDirect = (two: Two, home: { readonly id: Snowflake }) =>
  needsPair(two, home).flatMap(({ key }) => [needed(key), directWith(key)])

export const relationshipCommands: ActorKind<UserState, UserState, RelationshipCommands>["commands"] = {
  requestFriend: {
    needs: needsPair,
    turn: ({ state: user, now }, { message, counts, ...two }) =>
      becoming(user, two, view => requested(view, message, counts, secondsAt(now))),
  },

  acceptFriend: {
    needs: needsPair,
    turn: ({ state: user, now }, { counts, ...two }) =>
      becoming(user, two, view => accepted(view, counts, secondsAt(now))),
  },

  deleteRelationship: {
    needs: needsPairAndDirect,
    turn({ state: user }, two) {
      const { effects, lifted } = change(user, two, removed)
      return { ...effects, reply: { lifted } }
    },
  },

  blockUser: {
    needs: needsPairAndDirect,
    turn: ({ state: user, now }, { counts, ...two }) =>
      becoming(user, two, view => blocked(view, counts, secondsAt(now))),
  },

  severPair: {
    needs: needsPairAndDirect,
    turn: ({ state: user }, two) => ({ ...change(user, two, () => severed).effects, reply: { severed: true } }),
  },

  // Not for listeners only: what reaches nobody is marked as seen all the same. Told again by a
  // next owner, an old word must not come after a newer one that was heard.
  relationshipChanged: {
    turn: ({ state: user }, { other, shown }) => ({ publish: [changed(user.id, other, shown)], reply: undefined }),
  },

  // The DM may have been opened by a user who did not know of a block yet, and what it has read
  // since may be old.
  directOpened: {
    turn: (_, { other, direct }) => ({
      apply: draft => {
        directFacts.of(draft).set(other, direct)
      },
      publish: [directTold(direct)],
      reply: undefined,
    }),
  },

  regard: { turn: (_, regard) => ({ after: [presenceChanged(regard)], reply: undefined }) },
}

/** A change that leaves something on the caller's side: that is the answer. */
function becoming(user: Readonlied<UserState>, two: Two, decide: (view: View) => View | ErrorCode) {
  const { effects, after } = change(user, two, decide)
  const { status, created_at } = after.mine!
  return { ...effects, reply: { user_id: two.other.id, status, created_at } }
}

/**
 * The effects of a change of a pair: rows on both sides (REL1), and a message to each user whose
 * side it changes (REL4).
 */
function change(user: Readonlied<UserState>, { by, other }: Two, decide: (view: View) => View | ErrorCode) {
  const isBy = by.id === user.id
  const [lower, higher] = isBy ? [by, other] : [other, by]
  const pair = pairFacts.of(user).get(higher.id) ?? strangers
  const after = decide(isBy ? { mine: pair.lower, theirs: pair.higher } : { mine: pair.higher, theirs: pair.lower })
  if (typeof after === "string") throw fail(after)
  const next: Pair = isBy ? { lower: after.mine, higher: after.theirs } : { lower: after.theirs, higher: after.mine }
  const isChanged = { lower: next.lower !== pair.lower, higher: next.higher !== pair.higher }
  const publish: Publication[] = []
  if (isChanged.lower) publish.push(changed(lower.id, higher.id, shownAs(next.lower, higher)))
  if (isChanged.higher) publish.push(changedElsewhere(higher.id, lower.id, shownAs(next.higher, lower)))
  const as = regardOf(next) === regardOf(pair) ? undefined : regardOf(next)
  const regardOn = (party: Party, other: Party, as: Regard["as"]): Regard => ({
    other: other.id,
    as,
    wereFriends: pair.lower?.status === "friend",
    isToldOffline: party.presence?.status === "offline",
  })
  const direct = directFacts.of(user).get(higher.id)
  if (direct && isBlocked(next) !== isBlocked(pair)) publish.push(directTold(direct))
  if (as) publish.push(regardedElsewhere(higher.id, regardOn(higher, lower, as)))
  return {
    after,
    lifted: isBlocked(pair) && !isBlocked(next),
    effects: {
      apply: (draft: UserState) => {
        pairFacts.of(draft).set(higher.id, next)
      },
      write: [
        ...(isChanged.lower ? [rowOf(lower.id, higher.id, next.lower)] : []),
        ...(isChanged.higher ? [rowOf(higher.id, lower.id, next.higher)] : []),
      ],
      publish,
      ...(as && { after: [presenceChanged(regardOn(lower, higher, as))] }),
    },
  }
}

/** From now on each sees that the other is there, or neither does; undefined: as before. */
function regardOf(pair: Pair): Regard["as"] | undefined {
  if (pair.lower?.status === "friend") return "friend"
  return isBlocked(pair) ? "blocked" : undefined
}

const rowOf = (user_id: Snowflake, other_id: Snowflake, side: Side | null) =>
  side ? putRelationship({ user_id, other_id, ...side }) : deleteRelationship({ user_id, other_id })

const shownAs = (side: Side | null, { id, username, avatar_url, presence }: Party): RelationshipAdded | null =>
  side && {
    user_id: id,
    username,
    avatar_url,
    status: side.status,
    created_at: side.created_at,
    ...(side.status === "friend" && { presence }),
    ...(side.status === "pending_incoming" && { message: side.message }),
  }

const changed = (user: Snowflake, other: Snowflake, shown: RelationshipAdded | null) =>
  shown ? relationshipAdd.to(userOnly(user), shown) : relationshipRemove.to(userOnly(user), { user_id: other })

const changedElsewhere = (user: Snowflake, other: Snowflake, shown: RelationshipAdded | null) =>
  tellUser(user, {
    type: "relationshipChanged",
    other,
    shown,
  })

const regardedElsewhere = (user: Snowflake, regard: Regard) => tellUser(user, { type: "regard", ...regard })

const directTold = (direct: Snowflake) => tellDirect(direct, { type: "relationChanged" })
