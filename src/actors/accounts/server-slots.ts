import { fail, unavailable } from "../../contract/core/errors.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineMemory } from "../../runtime/facts.ts"

export interface ServerSlot {
  /** In a server that will be theirs. */
  readonly owns: boolean
  /** In a server that they are not in yet. */
  readonly joins: boolean
  /** For a bot that will be theirs. */
  readonly makesBot?: boolean | undefined
  /** None at all: they are about to delete their account. */
  readonly ends?: true
  /** Unix milliseconds. */
  readonly until: number
}

/**
 * Slots in servers and for bots that a user is about to take, among the commands of the user's home.
 * The homes of servers decide who is a member and who owns them, and a bot has a home of its own.
 * The user's home decides that several requests at once do not exceed what is allowed:
 *   SLOT1  A request for a server slot gets the number of earlier requests that are still open.
 *       They count as used.
 *   SLOT2  A user whose account is not active or is about to be deleted does not become an
 *       owner, and an account is not deleted while a transfer to it is decided.
 * Only memory knows of them: where the home moves, what is asked for in that moment is not counted.
 *
 * No conditional INSERT does this: the server's home answers from memory and commits its turns as one batch of others'
 * rows, where one refused row would fail all of them; and a row reserved before the server is asked is a slot again.
 */
export interface ServerSlotCommands {
  /**
   * Under a token of its own; asked again it keeps its turn. @returns how many are before it, of
   * each kind
   */
  askForServerSlot(input: { token: string; owns: boolean; joins: boolean; makesBot?: boolean }): SlotsAhead
  /**
   * Until `leaveServerSlot` nobody hands the user a server. False: that is being decided just now.
   */
  refuseServerSlots(input: { token: string }): { refused: boolean }
  /** It is decided. */
  leaveServerSlot(input: { token: string }): { left: true }
}

export interface SlotsAhead {
  readonly owned: number
  readonly joined: number
  /** Absent where a worker of the version before answers. */
  readonly bots?: number
}

/** Milliseconds after which nobody waits for a server's answer any longer. */
const slotLastsMs = 20_000
/** Slots that a home remembers; a request beyond them is told that so many are before it. */
const maxSlots = 1_000

/** By token, in the order of asking. */
const serverSlots = defineMemory<UserState, Map<string, ServerSlot>>(() => new Map())

export const serverSlotCommands: ActorKind<UserState, UserState, ServerSlotCommands>["commands"] = {
  askForServerSlot: {
    turn({ state: user, now }, { token, owns, joins, makesBot }) {
      if (user.deletion_status !== "active") throw fail("account_deleted") // SLOT2
      if (owns && holdsSlot(user, now, slot => slot.ends === true)) throw unavailable("account may be about to end")
      const ahead = { owned: 0, joined: 0, bots: 0 }
      for (const [one, slot] of serverSlots.of(user)) {
        if (one === token) break
        if (slot.until <= now) continue
        if (slot.owns) ahead.owned++
        if (slot.joins) ahead.joined++
        if (slot.makesBot) ahead.bots++
      }
      return {
        remember: draft => {
          forgetOld(serverSlots.of(draft), now)
          if (serverSlots.of(draft).has(token) || serverSlots.of(draft).size < maxSlots)
            serverSlots.of(draft).set(token, { owns, joins, makesBot, until: now + slotLastsMs })
        },
        reply: ahead,
      }
    },
  },

  refuseServerSlots: {
    turn({ state: user, now }, { token }) {
      if (holdsSlot(user, now, slot => slot.owns)) return { reply: { refused: false } } // SLOT2
      return {
        remember: draft => {
          forgetOld(serverSlots.of(draft), now)
          serverSlots.of(draft).set(token, { owns: false, joins: false, ends: true, until: now + slotLastsMs })
        },
        reply: { refused: true },
      }
    },
  },

  leaveServerSlot: {
    turn: (_, { token }) => ({
      remember: draft => {
        serverSlots.of(draft).delete(token)
      },
      reply: { left: true },
    }),
  },
}

const holdsSlot = (user: Readonlied<UserState>, now: number, isSuch: (slot: ServerSlot) => boolean): boolean =>
  [...serverSlots.of(user).values()].some(slot => slot.until > now && isSuch(slot))

function forgetOld(slots: Map<string, ServerSlot>, now: number): void {
  for (const [token, { until }] of slots) if (until <= now) slots.delete(token)
}
