import type { Snowflake } from "../contract/fields.ts"
import type { MessageState, ServerState } from "../domain/states.ts"

/** Rows of messages have their authors' names. One that is told of while they are on their way may not be in them yet. */

type Renames = ReadonlyMap<Snowflake, Pick<MessageState, "author_username" | "author_badges">>

/** Reads messages, and keeps them in the same breath: what is told from then on finds them. */
export async function readMessages<Rows>(
  home: ServerState,
  read: () => Promise<Rows>,
  keep: (rows: Rows, renames: Renames) => void,
): Promise<void> {
  const renames = new Map()
  home.renames.add(renames)
  try {
    keep(await read(), renames)
  } finally {
    home.renames.delete(renames)
  }
}

/** A member is called something else from now on. */
export function noteRename(draft: ServerState, user: Snowflake, name: string, badges: readonly string[]): void {
  for (const renames of draft.renames) renames.set(user, { author_username: name, author_badges: badges })
}
