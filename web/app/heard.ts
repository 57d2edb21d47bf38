import { signal } from "@preact/signals"
import type { MessageResponse, Snowflake } from "../../client/contract.ts"
import { isLater } from "../../client/state.ts"
import { t } from "../kit/text.ts"
import { onLeave, watch, type Session } from "./session.ts"

/**
 * What events tell beside what the store keeps: how far others have read, in which DM somebody wrote
 * last, and whose picture may be another one.
 */
const reads = signal<ReadonlyMap<Snowflake, ReadonlyMap<Snowflake, Snowflake>>>(new Map())
const latest = signal<ReadonlyMap<Snowflake, Snowflake>>(new Map())
/**
 * When something of somebody changed: the address of a picture stays the same, and browsers keep what
 * it led to.
 */
const changes = signal<ReadonlyMap<Snowflake, number>>(new Map())
/** Those that were heard of last. */
const maxHeard = 200

const having = <V>(map: ReadonlyMap<Snowflake, V>, key: Snowflake, value: V): ReadonlyMap<Snowflake, V> =>
  new Map([...map].filter(([one]) => one !== key).slice(1 - maxHeard)).set(key, value)

export function listen({ gateway, store }: Session): void {
  gateway.on("MESSAGE_ACK", ({ channel_id, user_id, message_id }) => {
    if (message_id === null || user_id === store.state.user?.id) return
    const readers = new Map(reads.value.get(channel_id)).set(user_id, message_id)
    reads.value = having(reads.value, channel_id, readers)
  })
  gateway.on("MESSAGE_CREATE", ({ id, channel_id }) => {
    if (store.state.directs.has(channel_id)) latest.value = having(latest.value, channel_id, id)
  })
  gateway.on("USER_UPDATE", ({ id }) => {
    changes.value = having(changes.value, id, Date.now())
  })
  // The server says again what it is so far.
  gateway.on("ready", forget)
  onLeave(forget)
}
function forget(): void {
  reads.value = latest.value = new Map()
}

/** What an address of somebody's picture ends with, so that it is loaded again when it has changed. */
export function pictureVersion(user: Snowflake): string {
  const at = changes.value.get(user)
  return at === undefined ? "" : `?${at}`
}

/** The ids of DMs, the one in which somebody wrote last first. */
export function latestFirst(directs: Iterable<Snowflake>): Snowflake[] {
  const { value } = latest
  const order = [...value.keys()]
  return [...directs].toSorted((one, other) => order.indexOf(other) - order.indexOf(one))
}

export interface Seen {
  readonly id: Snowflake
  /** Of those whose names are known. */
  readonly names: readonly string[]
  readonly count: number
}

/** Who has read one's newest message that anybody has read, as far as they let others know. */
export function seenAmong(messages: readonly MessageResponse[], server: Snowflake | undefined): Seen | undefined {
  const { state } = watch("user")
  const channel = messages[0]?.channel_id
  if (channel === undefined) return undefined
  const told = reads.value.get(channel)
  const known = server === undefined ? undefined : state.servers.get(server)
  // As `read_by` has it.
  const nameOf = (user: Snowflake) =>
    known?.members.get(user)?.username ?? state.directs.get(channel)?.recipient?.username ?? t("somebody")
  for (let at = messages.length - 1; at >= 0; at--) {
    const { id, author_id, webhook_id, read_by, read_count } = messages[at]!
    if (author_id !== state.user?.id || webhook_id !== undefined) continue
    const names = new Set(read_by)
    for (const [user, upTo] of told ?? []) if (!isLater(id, upTo)) names.add(nameOf(user))
    if (names.size > 0) return { id, names: [...names], count: Math.max(names.size, read_count) }
  }
  return undefined
}
