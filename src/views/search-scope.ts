import type { Snowflake } from "../contract/core/fields.ts"
import { fail } from "../contract/core/errors.ts"
import { holdsIn } from "../domain/core/permissions.ts"
import { isId } from "../domain/core/snowflake.ts"
import type { MemberOutline, Places } from "../storage/messages/search.ts"
import type { Storage } from "../storage/storage.ts"

export type Index = Storage["search"]

/** Where a reader may look. */
export interface Scope extends Places {
  /** Whose conversations outside servers belong to it. */
  readonly participant: Snowflake | null
}
const nowhere: Scope = { homes: [], hidden: [], channels: [], participant: null }

/**
 * @param channels the only ones that are asked for, which the reader may read; null: all that they may
 */
export async function scopeOf(
  index: Index,
  user: Snowflake,
  channels: readonly Snowflake[] | null,
  server: Snowflake | undefined,
): Promise<Scope> {
  // No message is in two channels.
  if (channels) return channels.length === 1 ? { ...nowhere, channels } : nowhere
  const outlines = await index.outlinesFor(user, server ?? null)
  if (server !== undefined && outlines.length === 0) throw fail("access_denied")
  return { ...readableIn(user, outlines), participant: server === undefined ? user : null }
}

/** The part of a scope that `in:` names. */
export async function narrowedTo(
  names: readonly string[],
  scope: Scope,
  { index, user, server }: { readonly index: Index; readonly user: Snowflake; readonly server: Snowflake | undefined },
): Promise<Scope> {
  const ids = names.filter(isId)
  const named = server === undefined || ids.length === names.length ? [] : await index.channelsNamed(server, names)
  const wanted = [...new Set([...ids, ...named])]
  const homes = await index.homesOf(wanted)
  const direct = scope.participant === null ? [] : wanted.filter(id => homes.get(id) === id)
  const own = direct.length === 0 ? new Set() : await index.participates(user, direct)
  const channels = wanted.filter(id => {
    const home = homes.get(id)
    if (home === undefined) return false
    if (scope.channels.includes(id) || own.has(id)) return true
    return scope.homes.includes(home) && !scope.hidden.includes(id)
  })
  return { ...nowhere, channels }
}

const mayRead = (outline: MemberOutline, user: Snowflake, channel: Snowflake | null): boolean => {
  const member = { user_id: user, roles: outline.member_roles }
  const overrides = (channel !== null && outline.overrides.get(channel)) || []
  return holdsIn(outline, overrides, member, "channels.view") && holdsIn(outline, overrides, member, "messages.read")
}

/** Only channels with overrides have to be looked at: the others are as their server is. */
function readableIn(user: Snowflake, outlines: readonly MemberOutline[]): Places {
  const homes: Snowflake[] = []
  const hidden: Snowflake[] = []
  const channels: Snowflake[] = []
  for (const outline of outlines) {
    const isOpen = mayRead(outline, user, null)
    if (isOpen) homes.push(outline.id)
    for (const channel of outline.overrides.keys())
      if (mayRead(outline, user, channel) !== isOpen) (isOpen ? hidden : channels).push(channel)
  }
  return { homes, hidden, channels }
}
