import type { AttachmentResponse } from "../../client/contract.ts"
import { present } from "../kit/dialog.tsx"
import { pathOnServer } from "./names.ts"

interface PictureOptions {
  readonly of: readonly AttachmentResponse[]
}

/** A picture as large as it may be, several as a grid; their places are as large before they are there. */
export function Pictures({ of }: PictureOptions) {
  if (of.length === 0) return null
  const [only, second] = of
  if (!second) return <Picture of={of} at={0} side={512} {...sizeOf(only!)} />
  const isWide = of.length === 2 || of.length === 4
  return (
    <ul class={isWide ? "gallery wide" : "gallery"}>
      {of.map((file, at) => (
        <li key={file.id}>
          <Picture of={of} at={at} side={isWide ? 512 : 256} />
        </li>
      ))}
    </ul>
  )
}

/** Undefined: the server has not looked at it yet, or will not, so it gets a place of one size. */
function sizeOf({ width, height }: AttachmentResponse): { width: number; height: number } | undefined {
  if (!width || !height) return undefined
  const scale = Math.min(1, 400 / width, 300 / height)
  return { width: Math.round(width * scale), height: Math.round(height * scale) }
}

interface OneOptions extends PictureOptions {
  readonly at: number
  readonly side: 256 | 512
  readonly width?: number
  readonly height?: number
}

/** A link to the original, for who opens it elsewhere; a click shows it here. */
function Picture({ of, at, side, width, height }: OneOptions) {
  const file = of[at]!
  const url = pathOnServer(file.url)
  // A thumbnail does not move.
  const shown = file.thumbnails && !file.content_type.endsWith("gif") ? pathOnServer(file.thumbnails[side]) : url
  return (
    <a
      href={url}
      target="_blank"
      rel="noopener"
      title={file.filename}
      aria-haspopup="dialog"
      onClick={event => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        view(of, at)
      }}
    >
      <img
        class={of.length === 1 && width === undefined ? "picture unknown" : "picture"}
        src={shown}
        alt={file.filename}
        loading="lazy"
        {...(width !== undefined && { width, height })}
      />
    </a>
  )
}

const view = (of: readonly AttachmentResponse[], first: number) =>
  present(async () => {
    const { PictureViewer } = await import("./dialogs.ts")
    return onClose => <PictureViewer of={of} first={first} onClose={onClose} />
  })
