import type { Snowflake } from "../../contract/core/fields.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { defineMemory } from "../../runtime/facts.ts"

/**
 * Rows of messages have their authors' names. One that is told of while they are on their way may
 * not be in them yet.
 */

type Rename = Pick<MessageState, "author_username" | "author_badges">
type Renames = ReadonlyMap<Snowflake, Rename>

/** By reading of messages that is under way: who is called something else since it began. */
export const renamesUnderWay = defineMemory<ServerState, Set<Map<Snowflake, Rename>>>(() => new Set())

/** Reads messages, and keeps them in the same breath: what is told from then on finds them. */
export async function readMessages<Rows>(
  home: ServerState,
  read: () => Promise<Rows>,
  keep: (rows: Rows, renames: Renames) => void,
): Promise<void> {
  const renames = new Map()
  renamesUnderWay.of(home).add(renames)
  try {
    keep(await read(), renames)
  } finally {
    renamesUnderWay.of(home).delete(renames)
  }
}

/** A member is called something else from now on. */
export function noteRename(draft: ServerState, user: Snowflake, name: string, badges: readonly string[]): void {
  for (const renames of renamesUnderWay.of(draft)) renames.set(user, { author_username: name, author_badges: badges })
}
