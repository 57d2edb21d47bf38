import { useState } from "preact/hooks"
import { t } from "../../kit/text.ts"
import { attempt } from "../../kit/toasts.tsx"
import { base, session } from "../client.ts"

/** A file of this server, read with the operator's token. It is shown only when it is asked for. */
export function Preview({ url }: { url: string }) {
  const [shown, setShown] = useState<string>()
  const path = pathIn(url)
  if (path === undefined) return <p class="faint">{t("The file is not on this server.")}</p>
  const load = async () => {
    const answer = await fetch(path, {
      headers: { Authorization: `Bearer ${session.token.value ?? ""}` },
      credentials: "omit",
      cache: "no-store",
    })
    if (!answer.ok) throw new Error(t("The file cannot be read: {status}.", { status: answer.status }))
    const content = await answer.blob()
    const { size, type } = content
    if (!/^image\/(png|jpeg|gif|webp|avif)$/.test(type))
      throw new Error(t("It is no picture: {type}, {size} bytes.", { type: type || "?", size }))
    setShown(await dataUrlOf(content))
  }
  return shown === undefined ? (
    <p class="buttons start">
      <button type="button" onClick={() => void attempt(load)}>
        {t("Show the picture")}
      </button>
    </p>
  ) : (
    <img class="evidence" src={shown} alt={t("The reported picture")} />
  )
}

/**
 * The path of an attachment in an address that somebody gave. Anything else would get the
 * operator's token, or tell another server that the report is being looked at.
 */
function pathIn(url: string): string | undefined {
  if (!URL.canParse(url, location.origin)) return undefined
  const { origin, pathname } = new URL(url, location.origin)
  if (origin !== location.origin) return undefined
  const path = pathname.startsWith(`${base}/api/`) ? pathname.slice(base.length) : pathname
  return /^\/api\/v1\/media\/attachments\/[^/]+$/.test(path) ? `${base}${path}` : undefined
}

/** The page's policy allows no other address of a picture that is in memory. */
const dataUrlOf = (content: Blob) =>
  new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener("load", () => resolve(reader.result as string))
    reader.addEventListener("error", () => reject(reader.error ?? new Error("not read")))
    reader.readAsDataURL(content)
  })
