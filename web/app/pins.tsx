import { useEffect, useRef } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { useResource } from "../kit/resource.ts"
import { Loaded } from "../kit/states.tsx"
import { t } from "../kit/text.ts"
import { Hits } from "./search.tsx"
import { me } from "./session.ts"

/** What is pinned in a channel, the latest pin first; it follows what others pin meanwhile. */
export function Pins({ channel, onClose }: { channel: Snowflake; onClose: () => void }) {
  const pins = useResource(() => me().client.listPins({ channel_id: channel }), [channel])
  const latest = useRef(pins)
  latest.current = pins
  useEffect(() => {
    const { gateway } = me()
    const changed = (ids: readonly Snowflake[], isPinned = false) => {
      if (isPinned || latest.current.data?.some(({ id }) => ids.includes(id))) latest.current.reload()
    }
    const ends = [
      gateway.on("MESSAGE_UPDATE", ({ id, channel_id, pinned }) => changed([id], pinned && channel_id === channel)),
      gateway.on("MESSAGE_DELETE", ({ id }) => changed([id])),
      gateway.on("MESSAGE_DELETE_BULK", ({ ids }) => changed(ids)),
      gateway.on("ready", () => latest.current.reload()),
    ]
    return () => ends.forEach(end => end())
  }, [channel])
  return (
    <Dialog title={t("Pinned messages")} onClose={onClose} wide>
      <Loaded of={pins}>
        {list =>
          list.length > 0 ? <Hits of={list} onClose={onClose} /> : <p class="empty">{t("Nothing is pinned here.")}</p>
        }
      </Loaded>
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
