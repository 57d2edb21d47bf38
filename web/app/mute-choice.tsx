import { useState } from "preact/hooks"
import type { NotificationChoiceResponse, NotificationSettingsRequest } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { moment } from "../kit/format.ts"
import { Form, Select, type Choices } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { isQuiet, learn, useSettings, type Place } from "./mutes.ts"
import { me } from "./session.ts"

type Level = NonNullable<NotificationSettingsRequest["level"]>
const hourSeconds = 3_600

/** What notifies in a server, a channel or a DM, and until when nothing does. */
export function MuteChoice({ place, name, onClose }: { place: Place; name: string; onClose: () => void }) {
  const settings = useSettings(place)
  return (
    <Dialog title={t("Notifications of {name}", { name })} onClose={onClose}>
      {settings ? (
        <Levels place={place} settings={settings} onClose={onClose} />
      ) : (
        <p class="loading">
          {t("Loading …")}{" "}
          <button type="button" onClick={onClose}>
            {t("Cancel")}
          </button>
        </p>
      )}
    </Dialog>
  )
}

interface LevelsOptions {
  readonly place: Place
  readonly settings: NotificationChoiceResponse
  readonly onClose: () => void
}

function Levels({ place, settings, onClose }: LevelsOptions) {
  const { client } = me()
  const isServer = "server" in place
  const isDirect = !isServer && me().store.state.directs.has(place.channel)
  const [level, setLevel] = useState<Level>(settings.level ?? "default")
  const before = !isQuiet(isServer ? place.server : place.channel)
    ? "off"
    : settings.muted_until === 0
      ? "0"
      : "as it is"
  const [mute, setMute] = useState(before)
  const levels: Choices<Level> = [
    ["default", isServer ? t("As the server suggests") : isDirect ? t("As usual") : t("As for the whole server")],
    ["all", t("All messages")],
    ["mentions", t("Mentions only")],
    ["nothing", t("Nothing")],
  ]
  const mutes: Choices<string> = [
    ["off", t("Not muted")],
    ...(before === "as it is"
      ? [["as it is", t("Until {time}", { time: moment(settings.muted_until) })] as const]
      : []),
    [String(hourSeconds), t("For 1 hour")],
    [String(8 * hourSeconds), t("For 8 hours")],
    ["0", t("Until I end it")],
  ]
  const save = async () => {
    const seconds = Number(mute)
    const muted_until = seconds === 0 ? 0 : Math.floor(Date.now() / 1_000) + seconds
    const change = {
      level,
      ...(mute === "off" ? { muted: false } : mute !== before && { muted: true, muted_until }),
    }
    learn(
      isServer
        ? await client.putServerNotificationSettings({ server_id: place.server, ...change })
        : await client.putChannelNotificationSettings({ channel_id: place.channel, ...change }),
    )
    onClose()
  }
  return (
    <Form does={t("Save")} onSubmit={save} onCancel={onClose}>
      <Select label={t("What notifies you")} value={level} choices={levels} onValue={setLevel} />
      <Select
        label={t("Mute")}
        value={mute}
        choices={mutes}
        onValue={setMute}
        hint={t("While it is muted nothing in it notifies you.")}
      />
    </Form>
  )
}
