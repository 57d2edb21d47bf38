import { useRef } from "preact/hooks"
import { t } from "../kit/text.ts"
import { sayFailed } from "../kit/toasts.tsx"
import { fileOf, type FileToUpload } from "./files.ts"

/** Chooses a picture from those of the machine. */
export function PictureButton({ onPick }: { onPick: (file: FileToUpload) => Promise<unknown> }) {
  const picker = useRef<HTMLInputElement>(null)
  const pick = async (file: File | undefined) => file && onPick(await fileOf(file))
  return (
    <>
      <button type="button" onClick={() => picker.current?.click()}>
        {t("Choose a picture")}
      </button>
      <input
        ref={picker}
        type="file"
        accept="image/png,image/jpeg,image/gif,image/webp"
        hidden
        onChange={event => {
          pick(event.currentTarget.files?.[0]).catch(sayFailed)
          event.currentTarget.value = ""
        }}
      />
    </>
  )
}
