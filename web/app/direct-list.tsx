import type { Snowflake } from "../../client/contract.ts"
import { t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { MutedMark } from "./bell.tsx"
import { latestFirst } from "./heard.ts"
import { isQuiet, shown } from "./mutes.ts"
import { avatarOf } from "./names.ts"
import { goTo, linkToPlace } from "./places.ts"
import { Presence } from "./presence.tsx"
import { me, watch } from "./session.ts"
import { Icon } from "./icons.tsx"

/** DMs, the latest first, and the notes that only oneself reads. */
export function DirectList({ current }: { current: Snowflake | undefined }) {
  const { state } = watch("directs", "unread", "presences")
  const openNotes = () =>
    void attempt(async () => {
      const { id } = await me().client.getNotes()
      goTo({ channel: id })
    })
  return (
    <div class="channel-list">
      <h2>{t("Direct messages")}</h2>
      <ul>
        <li>
          <a class="channel" href="#/">
            <Icon name="people" /> {t("Friends")}
          </a>
        </li>
        <li>
          <button type="button" class="channel quiet" onClick={openNotes}>
            <Icon name="note" /> {t("Your notes")}
          </button>
        </li>
        {latestFirst(state.directs.keys()).map(id => {
          const { recipient, recipient_id } = state.directs.get(id)!
          const unread = shown(id, state.unread.get(id))
          return (
            <li key={id}>
              <a
                href={linkToPlace({ channel: id })}
                class={`channel${id === current ? " current" : ""}${unread ? " unread" : ""}${isQuiet(id) ? " muted" : ""}`}
                aria-current={id === current ? "page" : undefined}
              >
                <img
                  class="avatar small"
                  src={avatarOf(recipient_id, recipient?.avatar_url)}
                  alt=""
                  width={24}
                  height={24}
                />
                <span class="long" dir="auto">
                  {recipient?.username ?? t("somebody")}
                </span>
                <Presence user={recipient_id} />
                <MutedMark id={id} />
                {unread && <span class="mark">{unread.count > 99 ? "99+" : unread.count}</span>}
              </a>
            </li>
          )
        })}
      </ul>
    </div>
  )
}
