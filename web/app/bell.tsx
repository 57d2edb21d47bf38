import type { Snowflake } from "../../client/contract.ts"
import { present } from "../kit/dialog.tsx"
import { t } from "../kit/text.ts"
import { Icon } from "./icons.tsx"
import { isQuiet, type Place } from "./mutes.ts"

/** Beside what is muted. */
export const MutedMark = ({ id }: { id: Snowflake }) =>
  isQuiet(id) ? (
    <span class="muted-mark" title={t("Muted")}>
      <Icon name="silent" />
      <span class="unseen">{t("Muted")}</span>
    </span>
  ) : null

const choose = (place: Place, name: string) =>
  present(async () => {
    const { MuteChoice } = await import("./dialogs.ts")
    return onClose => <MuteChoice place={place} name={name} onClose={onClose} />
  })

/** Says whether a place is muted, and leads to what notifies there. */
export function Bell({ place, name, small = false }: { place: Place; name: string; small?: boolean }) {
  const isMuted = isQuiet("server" in place ? place.server : place.channel)
  const title = isMuted ? t("Notifications of {name}: muted", { name }) : t("Notifications of {name}", { name })
  return (
    <button
      type="button"
      class={small ? "small" : "quiet"}
      aria-label={title}
      title={title}
      onClick={() => choose(place, name)}
    >
      <Icon name={isMuted ? "silent" : "bell"} />
    </button>
  )
}
