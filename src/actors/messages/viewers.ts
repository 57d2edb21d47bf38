import type { z } from "zod"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { EventDefinition, MessageRefs } from "../../contract/core/registry.ts"
import { viewersOf } from "../../domain/core/audience.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import { toUser } from "../shared/relay.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Publication } from "../../runtime/actor.ts"
import { RawJson } from "../../runtime/row.ts"

/**
 * An event for everybody who may view a channel. In a server they listen to its home; the
 * participants of a conversation outside servers are reached through their own homes.
 */
export function toViewers<D extends z.ZodType>(
  home: Readonlied<ServerState>,
  channel: Snowflake,
  event: EventDefinition<string, D>,
  data: z.output<D>,
  options: { except?: readonly Snowflake[] } = {},
): Publication[] {
  if (home.participants === null) return [event.to(viewersOf(home.id, channel), data, options)]
  return home.participants.flatMap(user => (options.except?.includes(user) ? [] : [toUser(user, event, data)]))
}

/** The same of a server, of data that is JSON already. `about`: the messages that the event is about. */
export const textToViewers = (
  home: Readonlied<ServerState>,
  channel: Snowflake,
  event: EventDefinition,
  text: string,
  about: MessageRefs,
): Publication => ({
  kind: "event",
  event,
  audience: viewersOf(home.id, channel),
  data: new RawJson(text),
  except: nobody,
  about,
})
const nobody: readonly never[] = []

/** Which server something belongs to, as events say it: none, outside servers. */
export function inServer(home: Readonlied<ServerState>): { server_id: Snowflake | null; guild_id: Snowflake | null } {
  const server = home.participants === null ? home.id : null
  return { server_id: server, guild_id: server }
}
