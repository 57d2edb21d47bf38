import { signal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import type { NotificationChoiceResponse, Snowflake } from "../../client/contract.ts"
import type { Unread } from "../../client/state.ts"
import { me, onLeave, watch, type Session } from "./session.ts"

/** A whole server, or a channel or DM. */
export type Place = { readonly server: Snowflake } | { readonly channel: Snowflake }
const idOf = (place: Place) => ("server" in place ? place.server : place.channel)

const nothing: NotificationChoiceResponse = {
  server_id: null,
  guild_id: null,
  channel_id: null,
  level: null,
  muted: false,
  muted_until: 0,
}

/** What the person has chosen, by server, channel or DM; undefined: not read yet. */
const known = signal<ReadonlyMap<Snowflake, NotificationChoiceResponse> | undefined>(undefined)
/** What was told while it was read. */
let heard: NotificationChoiceResponse[] | undefined
const place = ({ channel_id, server_id }: NotificationChoiceResponse) => channel_id ?? server_id ?? ""

export function learn(settings: NotificationChoiceResponse): void {
  heard?.push(settings)
  if (known.value) put([...known.value.values(), settings])
}

function put(all: readonly NotificationChoiceResponse[]): void {
  known.value = new Map(all.map(one => [place(one), one]))
  clearTimeout(ending)
  const ends = all.flatMap(({ muted, muted_until }) => (muted && muted_until > 0 ? [muted_until * 1_000] : []))
  const next = Math.min(...ends.filter(end => end > Date.now()))
  // A mute ends by itself: what shows it is shown again.
  if (next < Infinity) ending = setTimeout(() => put(all), Math.min(next - Date.now() + 50, 86_400_000))
}
let ending: ReturnType<typeof setTimeout> | undefined

async function read({ client }: Session): Promise<void> {
  if (heard) return
  const since = (heard = [] as NotificationChoiceResponse[])
  try {
    const read = await client.listNotificationSettings()
    if (heard === since) put([...read, ...since])
  } finally {
    if (heard === since) heard = undefined
  }
}

function forget(): void {
  clearTimeout(ending)
  known.value = heard = undefined
}

/** What the person changes elsewhere is known here too. */
export function followMutes(session: Session): void {
  const { gateway, store } = session
  const readAgain = () => {
    heard = undefined
    read(session).catch(() => {})
  }
  gateway.on("NOTIFICATION_SETTINGS_UPDATE", learn)
  // Some of it may have been missed.
  gateway.on("ready", readAgain)
  if (store.connection === "live") readAgain()
  onLeave(forget)
}

const isMuted = ({ muted, muted_until }: NotificationChoiceResponse): boolean =>
  muted && (muted_until === 0 || muted_until * 1_000 > Date.now())

/** Of a server, a channel or a DM; a channel of a muted server is asked for with that. */
export const isQuiet = (id: Snowflake): boolean => isMuted(known.value?.get(id) ?? nothing)

/** What is unread in a channel or DM, as far as it is to be shown: of what is muted only what mentions the person. */
export function shown(id: Snowflake, unread: Unread | undefined, isServerQuiet = false): Unread | undefined {
  if (!unread || !(isServerQuiet || isQuiet(id))) return unread
  return unread.mentions > 0 ? { count: unread.mentions, mentions: unread.mentions } : undefined
}

/** Undefined: not known yet. */
export function useSettings(of: Place): NotificationChoiceResponse | undefined {
  const all = known.value
  const isLive = watch("connection").connection === "live"
  useEffect(() => {
    if (!all && isLive) read(me()).catch(() => {})
  }, [all === undefined, isLive])
  return all && (all.get(idOf(of)) ?? nothing)
}
