import { useRef, useState } from "preact/hooks"
import type { Snowflake, StickerResponse } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { TextField } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { moveAmong } from "./board-keys.ts"
import { isPicture, stickerUrl, usePacks } from "./stickers.ts"

/** A server may have 2,500, and a DM offers those of all servers. */
const maxShown = 120

interface PickerOptions {
  readonly server: Snowflake | undefined
  readonly onPick: (sticker: StickerResponse) => void
  readonly onClose: () => void
}

export function StickerPicker({ server, onPick, onClose }: PickerOptions) {
  const [word, setWord] = useState("")
  const board = useRef<HTMLUListElement>(null)
  const stickers = usePacks(server).flatMap(pack => pack.stickers.filter(isPicture))
  const wanted = word.trim().toLowerCase()
  const found = stickers.filter(({ name, tags }) => [name, ...tags].some(one => one.toLowerCase().includes(wanted)))
  const pick = (sticker: StickerResponse | undefined) => {
    if (!sticker) return
    onClose()
    onPick(sticker)
  }
  return (
    <Dialog title={t("Send a sticker")} wide onClose={onClose}>
      <form
        onSubmit={event => {
          event.preventDefault()
          pick(found[0])
        }}
      >
        <TextField label={t("Name or word")} value={word} onValue={setWord} autocomplete="off" maxLength={30} />
      </form>
      {found.length === 0 && <p class="faint">{t("No sticker is called so.")}</p>}
      <ul class="sticker-board" ref={board} onKeyDown={event => moveAmong(board.current, event)}>
        {found.slice(0, maxShown).map(sticker => (
          <li key={sticker.id}>
            <button type="button" aria-label={sticker.name} title={sticker.name} onClick={() => pick(sticker)}>
              <img src={stickerUrl(sticker.id)} alt="" width={72} height={72} loading="lazy" />
            </button>
          </li>
        ))}
      </ul>
      {found.length > maxShown && <p class="faint">{t("There are more: type a word to find them.")}</p>}
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Cancel")}
        </button>
      </p>
    </Dialog>
  )
}
