import { signal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import type { NotificationSettingsResponse, Snowflake } from "../../client/contract.ts"
import { me, onLeave, watch, type Session } from "./session.ts"

/** A whole server, or a channel or DM. */
export type Place = { readonly server: Snowflake } | { readonly channel: Snowflake }
const idOf = (place: Place) => ("server" in place ? place.server : place.channel)

/** What was read or told of servers and channels, by id. */
const known = signal<ReadonlyMap<Snowflake, NotificationSettingsResponse>>(new Map())
export const settingsOf = (id: Snowflake) => known.value.get(id)
export const learn = (settings: NotificationSettingsResponse) => {
  const id = settings.channel_id ?? settings.server_id
  if (id !== null) known.value = new Map(known.value).set(id, settings)
}
const forgetAll = () => (known.value = new Map())

/** What the person changes elsewhere is known here too. */
export function followMutes({ gateway }: Session): void {
  gateway.on("NOTIFICATION_SETTINGS_UPDATE", learn)
  // Some of it may have been missed.
  gateway.on("ready", forgetAll)
  onLeave(forgetAll)
}

export const isMuted = (settings: NotificationSettingsResponse | undefined): boolean =>
  settings !== undefined && settings.muted && (settings.muted_until === 0 || settings.muted_until * 1_000 > Date.now())

const read = (place: Place): Promise<NotificationSettingsResponse> =>
  "server" in place
    ? me().client.getServerNotificationSettings({ server_id: place.server })
    : me().client.getChannelNotificationSettings({ channel_id: place.channel })

export function useSettings(place: Place): NotificationSettingsResponse | undefined {
  const id = idOf(place)
  const settings = settingsOf(id)
  // Before that a change could come between what is read and the first event.
  const isLive = watch("connection").connection === "live"
  useEffect(() => {
    if (!settings && isLive) read(place).then(learn, () => {})
  }, [id, settings === undefined, isLive])
  return settings
}
