import { fail } from "../../contract/core/errors.ts"
import { isBlocked, type Pair } from "../../domain/social/relationships.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import type { Command } from "../../runtime/actor.ts"

/**
 * What the two of a DM are to one another, as their conversation knows it. Another home decides
 * about that: that of the user with the lower id. So a conversation reads it when it first has to
 * know, and forgets it whenever it is told that it has changed.
 */
export const pairFacts = defineFact<ServerState, Pair>({
  keep: 1,
  async load(storage, _direct, keys) {
    const found = new Map<string, Pair>()
    for (const key of keys) {
      const [lower, higher] = key.split(":")
      const pair = (await storage.relationships.pairs(lower!, [higher!])).get(higher!)
      if (pair) found.set(key, pair)
    }
    return found
  },
})

/** The participants stand in the order of their ids. */
const pairKey = ({ participants }: Readonlied<ServerState>): string | undefined =>
  participants?.length === 2 ? participants.join(":") : undefined

/** What has to be known before `isShut` may be asked. */
export function pair(home: Readonlied<ServerState>): Need<ServerState>[] {
  const key = pairKey(home)
  return key === undefined ? [] : [pairFacts.need(key)]
}

/** Whether one of the two has blocked the other. */
export function isShut(home: Readonlied<ServerState>): boolean {
  const key = pairKey(home)
  const known = key === undefined ? undefined : pairFacts.of(home).get(key)
  return Boolean(known && isBlocked(known))
}

/**
 * A user cannot write in an existing DM to a user whom they have blocked, or who has blocked them.
 * Needs `pair`.
 */
export function requireOpen(home: Readonlied<ServerState>): void {
  if (isShut(home)) throw fail("cannot_message")
}

/**
 * A read that is running may return the old state: the home waits for it, and the next caller reads
 * again.
 */
export const forgetPair: Command<ServerState, ServerState, { isShutting?: boolean }, { notified: true }> = {
  needs: (_, { home }) => pair(home),
  turn: ({ home }, { isShutting }) => ({
    remember: draft => pairFacts.of(draft).clear(),
    ...(isShutting && { settled: home.participants ?? [] }),
    reply: { notified: true },
  }),
}
