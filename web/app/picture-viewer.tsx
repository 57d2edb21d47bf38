import { useEffect, useState } from "preact/hooks"
import type { AttachmentResponse } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { t } from "../kit/text.ts"
import { pathOnServer } from "./names.ts"

interface ViewerOptions {
  readonly of: readonly AttachmentResponse[]
  readonly first: number
  readonly onClose: () => void
}

/** Its place before it is there: as large as it is, and no higher than the style sheet lets it be. */
const sizeOf = ({ width, height }: AttachmentResponse) =>
  width && height ? { width, height, style: { width: `min(${width}px, ${(65 * width) / height}vh)` } } : {}

/** The pictures of one message, one at a time and as they were sent. */
export function PictureViewer({ of, first, onClose }: ViewerOptions) {
  const [at, setAt] = useState(first)
  const file = of[at]!
  const url = pathOnServer(file.url)
  const step = (by: number) => setAt(now => (now + by + of.length) % of.length)
  // Who clicks the picture takes the focus from the buttons; the keys stay.
  useEffect(() => {
    const pressed = ({ key }: KeyboardEvent) => {
      const onward = getComputedStyle(document.documentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight"
      if (key === "ArrowRight" || key === "ArrowLeft") step(key === onward ? 1 : -1)
      else if (key === "Home") setAt(0)
      else if (key === "End") setAt(of.length - 1)
    }
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  }, [])
  useEffect(() => {
    const next = of[(at + 1) % of.length]!
    if (next !== file) new Image().src = pathOnServer(next.url)
  }, [at])
  return (
    <Dialog title={file.filename} wide onClose={onClose}>
      <p class="viewer">
        <img key={file.id} src={url} alt={file.filename} {...sizeOf(file)} />
      </p>
      <p class="buttons">
        {of.length > 1 && (
          <>
            <span role="status">{t("{n} of {total}", { n: at + 1, total: of.length })}</span>
            <button type="button" aria-label={t("Picture before")} onClick={() => step(-1)}>
              <kbd aria-hidden="true">←</kbd>
            </button>
            <button type="button" aria-label={t("Next picture")} data-first onClick={() => step(1)}>
              <kbd aria-hidden="true">→</kbd>
            </button>
          </>
        )}
        <a class="button" href={url} target="_blank" rel="noopener">
          {t("Original in a new tab")}
        </a>
        <button type="button" data-first={of.length === 1 ? true : undefined} onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
