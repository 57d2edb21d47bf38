import { useLayoutEffect, useRef } from "preact/hooks"
import { t } from "../kit/text.ts"
import { moveAmong } from "./board-keys.ts"
import { emojis } from "./emoji.ts"
import { base, watch } from "./session.ts"
import { where } from "./places.ts"

/** A small board of emoji, those of the server first. */
export function EmojiPicker({ onPick, onClose }: { onPick: (emoji: string) => void; onClose: () => void }) {
  const element = useRef<HTMLDivElement>(null)
  const place = where()
  const server = place.view === "server" ? watch(`server ${place.server}`).state.servers.get(place.server) : undefined
  // At once: the next key is about it already.
  useLayoutEffect(() => {
    const before = document.activeElement
    element.current?.querySelector("button")?.focus()
    const leave = (event: PointerEvent) => {
      if (event.target instanceof Node && !element.current?.contains(event.target)) onClose()
    }
    addEventListener("pointerdown", leave)
    return () => {
      removeEventListener("pointerdown", leave)
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <div
      ref={element}
      class="emoji-picker"
      role="dialog"
      aria-label={t("Choose an emoji")}
      onKeyDown={event => {
        if (event.key === "Escape") onClose()
        moveAmong(element.current, event)
      }}
    >
      {(server?.emojis ?? []).slice(0, 100).map(({ id, name }) => (
        <button key={id} type="button" title={`:${name}:`} onClick={() => onPick(`<:${name}:${id}>`)}>
          <img class="emoji" src={`${base}/api/v1/media/emojis/${id}`} alt={`:${name}:`} loading="lazy" />
        </button>
      ))}
      {emojis.map(([emoji, words]) => (
        <button key={emoji} type="button" title={t(words)} aria-label={t(words)} onClick={() => onPick(emoji)}>
          {emoji}
        </button>
      ))}
    </div>
  )
}
