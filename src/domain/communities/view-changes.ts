import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Override } from "../core/overrides.ts"
import { includes } from "../core/permission-masks.ts"

/** So many changes at once, then so many per second. */
interface Rate {
  readonly burst: number
  readonly perSecond: number
}

/** What is left of a budget, and since when. */
interface Left {
  readonly left: number
  readonly atMs: number
}

/**
 * What is left of a server's budget of changes that decide who views channels: of all of it, of what everybody but the
 * owner may take of it together, and of what each of them may.
 */
export interface ChangeBudget {
  readonly all: Left | undefined
  readonly others: Left | undefined
  /** Those of whose share something is used up. Others' are full. */
  readonly shares: ReadonlyMap<Snowflake, Left>
}

/** One change: by whom, and what it costs. */
export interface CostedChange {
  readonly user: Snowflake
  readonly isOwner: boolean
  /** How many changes it counts for. */
  readonly weight: number
}

const { all, others, each, eventsPerChange } = limits.viewChangesPerServer

/**
 * The budget after one more change, or the seconds until there may be one. The owner takes of the whole budget, so there
 * is something left for them whatever those do to whom they gave rights. A clock that goes back gives nothing.
 */
export function changeTaken(
  before: ChangeBudget | undefined,
  { user, isOwner, weight }: CostedChange,
  nowMs: number,
): ChangeBudget | { readonly waitSeconds: number } {
  const used = [
    { rate: all, left: leftOf(before?.all, all, nowMs) },
    ...(isOwner
      ? []
      : [
          { rate: others, left: leftOf(before?.others, others, nowMs) },
          { rate: each, left: leftOf(before?.shares.get(user), each, nowMs) },
        ]),
  ]
  const waitSeconds = Math.max(...used.map(({ rate, left }) => (weight - left) / rate.perSecond))
  if (waitSeconds > 0) return { waitSeconds }
  const [ofAll, ofOthers, own] = used.map(({ left }): Left => ({ left: left - weight, atMs: nowMs }))
  // Those that are full again are forgotten, so there are never more than those who took something lately.
  const shares = new Map(
    [...(before?.shares ?? [])].filter(([id, share]) => id !== user && leftOf(share, each, nowMs) < each.burst),
  )
  if (own) shares.set(user, own)
  return { all: ofAll, others: ofOthers ?? before?.others, shares }
}

const leftOf = (before: Left | undefined, { burst, perSecond }: Rate, nowMs: number): number =>
  before ? Math.min(burst, before.left + (Math.max(0, nowMs - before.atMs) / 1_000) * perSecond) : burst

/**
 * How many changes a command counts for that sends so many events to everybody who views a channel or is a member, beside
 * what it does to who views what: those of a few are nothing special.
 */
export const weightOfEvents = (events: number): number => Math.floor(events / eventsPerChange)

/** Whether an override says something else about viewing the channel than the one before. */
export const changesViewing = (before: Override | undefined, after: Override | undefined): boolean =>
  saysOfViewing(before) !== saysOfViewing(after)

function saysOfViewing(override: Override | undefined): boolean | undefined {
  if (!override) return undefined
  if (includes(override.allow, "channels.view")) return true
  return includes(override.deny, "channels.view") ? false : undefined
}

type Grants = (permission: Permission) => boolean
/** Whether a role that is changed lets its members view other channels. */
export const grantsOtherViews = (before: Grants, after: Grants): boolean =>
  (["channels.view", "administrator"] as const).some(name => before(name) !== after(name))
