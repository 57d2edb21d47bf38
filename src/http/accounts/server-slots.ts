import { randomBytes } from "node:crypto"
import { setTimeout as pause } from "node:timers/promises"
import type { SlotsAhead } from "../../actors/accounts/server-slots.ts"
import { userActor } from "../../actors/user.ts"
import { Failure, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { isBelowLimit, limitsOf, maxServers } from "../../domain/accounts/tiers.ts"
import type { Http } from "../shared/http.ts"

export type NoSlot = "server_limit" | "too_many_servers" | "bot_share_limit"

interface SlotHolder {
  readonly user_id: Snowflake
  readonly tier: string
  readonly bot: boolean
  /** Of a bot. */
  readonly owner_id?: Snowflake | null | undefined
}

interface WantedSlot {
  readonly owns: boolean
  readonly joins: boolean
  /** The server that a bot is to be added to: few may be of one owner. */
  readonly sharedBy?: Snowflake
}

/** How often, and how far apart, a request looks that waits for earlier ones of the same user. */
const maxLooks = 40
const lookEveryMs = 50

const none: SlotsAhead = { owned: 0, joined: 0, bots: 0 }

/** Does something under a token of its own, which the user's home forgets once it is decided. */
export async function underToken<T>(
  { ask }: Pick<Http, "ask">,
  user_id: Snowflake,
  act: (token: string) => Promise<T>,
): Promise<T> {
  const token = randomBytes(12).toString("base64url")
  // Nobody waits for it; forgotten, it is over by itself.
  const leave = () => void ask(userActor, user_id, { type: "leaveServerSlot", token }).catch(() => {})
  try {
    const result = await act(token)
    leave()
    return result
  } catch (error) {
    // What nobody has answered may still come about.
    if (error instanceof Failure && error.code !== "unavailable") leave()
    throw error
  }
}

/**
 * Waits as long as only earlier requests stand in the way: one that is ahead may be counted twice, and may come to nothing.
 * @returns what is lacking
 */
export async function lackInTurn<Lack>(
  before: () => Promise<SlotsAhead>,
  lacking: (ahead: SlotsAhead) => Promise<Lack | undefined>,
): Promise<Lack | undefined> {
  for (let look = 1; ; look++) {
    // In this order: what is no longer ahead is in the tables.
    const ahead = await before()
    const lack = await lacking(ahead)
    const isWaiting = ahead.owned + ahead.joined + (ahead.bots ?? 0) > 0
    if (!lack || !isWaiting || look === maxLooks || (await lacking(none))) return lack
    await pause(lookEveryMs)
  }
}

/**
 * Limits how many servers a user owns and is in, also when they ask for several at once; see
 * actors/server-slots.ts.
 */
export function createServerSlots({ ask, storage }: Pick<Http<"servers">, "ask" | "storage">) {
  /**
   * Does what makes a user the owner of one more server, or a member of one more.
   * @param act receives what is lacking: it, or the server, decides what the caller is told
   */
  return async function withServerSlot<T>(
    user: SlotHolder,
    wanted: WantedSlot,
    act: (lacking: NoSlot | undefined) => Promise<T>,
  ): Promise<T> {
    const { owner_id } = user
    if (!wanted.owns || !owner_id) return withOwnSlot(user, wanted, act)
    // A bot's servers count with its owner's, so both wait for their turn.
    const owner = { user_id: owner_id, tier: user.tier, bot: false }
    return withOwnSlot(owner, { owns: true, joins: false }, lack => withOwnSlot(user, wanted, own => act(lack ?? own)))
  }

  async function withOwnSlot<T>(
    user: SlotHolder,
    { sharedBy, ...wanted }: WantedSlot,
    act: (lacking: NoSlot | undefined) => Promise<T>,
  ): Promise<T> {
    const { user_id, tier, bot } = user
    const lacking = async (ahead: SlotsAhead): Promise<NoSlot | undefined> => {
      const has = await storage.servers.countsOf(user_id)
      if (wanted.owns && !isBelowLimit(has.owned + ahead.owned, limitsOf(tier).max_servers)) return "server_limit"
      if (wanted.joins && !isBelowLimit(has.joined + ahead.joined, maxServers(tier, bot))) return "too_many_servers"
      if (sharedBy === undefined) return undefined
      const shared = await storage.servers.sharedWithOwner(user_id, sharedBy)
      return shared + ahead.joined >= limits.serversOfOneOwnerPerBot ? "bot_share_limit" : undefined
    }
    return underToken({ ask }, user_id, async token => {
      const before = () => ask(userActor, user_id, { type: "askForServerSlot", token, ...wanted })
      return act(await lackInTurn(before, lacking))
    })
  }
}

/** Does what ends an account: meanwhile nobody hands its user a server. */
export const createRefusal = ({ ask }: Pick<Http, "ask">) =>
  async function withoutServerSlots<T>(user_id: Snowflake, act: () => Promise<T>): Promise<T> {
    return underToken({ ask }, user_id, async token => {
      const { refused } = await ask(userActor, user_id, { type: "refuseServerSlots", token })
      if (!refused) throw unavailable("a server may be about to be theirs")
      return act()
    })
  }
