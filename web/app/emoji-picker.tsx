import { useLayoutEffect, useRef } from "preact/hooks"
import { t } from "../kit/text.ts"
import { moveAmong } from "./board-keys.ts"
import { emojis } from "./emoji.ts"
import { base, watch } from "./session.ts"
import { where } from "./places.ts"

interface PickerOptions {
  readonly onPick: (emoji: string) => void
  readonly onClose: () => void
  /** With a field for all those that are not on the board. */
  readonly takesAny?: boolean
}

/** A small board of emoji, those of the server first. */
export function EmojiPicker({ onPick, onClose, takesAny = false }: PickerOptions) {
  const element = useRef<HTMLDivElement>(null)
  const place = where()
  const server = place.view === "server" ? watch(`server ${place.server}`).state.servers.get(place.server) : undefined
  // At once: the next key is about it already.
  useLayoutEffect(() => {
    const before = document.activeElement
    // Where there is no place below, it opens above.
    const { current } = element
    const around = current?.closest(".scroller")
    if (current && around && current.getBoundingClientRect().bottom > around.getBoundingClientRect().bottom)
      current.classList.add("above")
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
      {takesAny && (
        <input
          aria-label={t("Another emoji")}
          placeholder={t("Another emoji")}
          maxLength={16}
          enterKeyHint="done"
          onKeyDown={event => {
            const emoji = event.currentTarget.value.trim()
            if (event.key !== "Enter" || event.isComposing || emoji === "") return
            event.preventDefault()
            onPick(emoji)
          }}
        />
      )}
    </div>
  )
}
