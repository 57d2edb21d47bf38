import type { Snowflake } from "../contract/core/fields.ts"
import { append } from "../std/multi-map.ts"

/** Messages by their channel, each in the order in which they came. */
export function byChannel<M extends { readonly channel_id: Snowflake }>(
  messages: readonly M[],
): ReadonlyMap<Snowflake, readonly M[]> {
  const grouped = new Map<Snowflake, M[]>()
  for (const message of messages) append(grouped, message.channel_id, message)
  return grouped
}
