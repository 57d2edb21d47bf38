import type { Snowflake } from "../../contract/core/fields.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelDeletion } from "../communities/channel-settings.ts"
import { messageFacts } from "./message-facts.ts"
import { noteRename } from "./renames.ts"
import { defineMemory } from "../../runtime/facts.ts"

/**
 * What the state of a channel's messages is called, so that a worker that keeps a page of it knows
 * whether the page is current.
 *   HIST1  Between two asks that are answered with the same version no turn has changed a message
 *          of the channel, and no member was renamed. The answer comes after everything that the
 *          home decided before it is committed, so a page that is read from PostgreSQL behind an
 *          answer has all that its version has.
 */
interface Versions {
  /** Unique to this time in memory; empty until somebody asks. */
  name: string
  renames: number
  readonly changes: Map<Snowflake, number>
}
const versions = defineMemory<ServerState, Versions>(() => ({ name: "", renames: 0, changes: new Map() }))

/** @param name what this time in memory is called, unless it has a name; see `nameHistory` */
export function historyVersion(home: Readonlied<ServerState>, channel: Snowflake, name: string): string {
  const known = versions.of(home)
  return `${known.name || name} ${known.renames} ${known.changes.get(channel) ?? 0}`
}

export const hasHistoryName = (home: Readonlied<ServerState>): boolean => versions.of(home).name !== ""

export function nameHistory(draft: ServerState, name: string): void {
  versions.of(draft).name ||= name
}

/** A message of the channel was sent, has changed, or is gone. */
export function noteHistoryChange(draft: ServerState, channel: Snowflake): void {
  const { changes } = versions.of(draft)
  changes.set(channel, (changes.get(channel) ?? 0) + 1)
}

/** The history of a channel ends with it. Its id is not used again. */
export const historyDeletion: ChannelDeletion = {
  effects: (_, channel) => ({
    apply: draft => {
      versions.of(draft).changes.delete(channel)
    },
  }),
}

/** A member is called something else from now on. */
export function renameAuthor(draft: ServerState, user: Snowflake, name: string, badges: readonly string[]): void {
  noteRename(draft, user, name, badges)
  versions.of(draft).renames++
  for (const [key, message] of messageFacts.of(draft))
    if (message?.author_id === user)
      messageFacts.of(draft).set(key, { ...message, author_username: name, author_badges: badges })
}
