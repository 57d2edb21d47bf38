import { sayFailed } from "../kit/toasts.tsx"
import { useState } from "preact/hooks"
import type { MessageResponse } from "../../client/contract.ts"
import { wordsOf } from "../kit/api.ts"
import { Dialog } from "../kit/dialog.tsx"
import { count, t } from "../kit/text.ts"
import { clock, dayName, exactly } from "./clock.ts"
import { plainText, serverOfChannel } from "./names.ts"
import { goTo, type Where } from "./places.ts"
import { me } from "./session.ts"

/** Messages by the words in them; the server's own operators hold. A hit leads to its place. */
export function Search({ place, onClose }: { place: Where; onClose: () => void }) {
  const [query, setQuery] = useState("")
  const [found, setFound] = useState<readonly MessageResponse[]>()
  const [cursor, setCursor] = useState<string | null>(null)
  const [failure, fail] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const scope =
    place.view === "server"
      ? { server_id: place.server }
      : place.view === "direct"
        ? { conversation_id: place.channel }
        : {}
  const look = async (from?: string) => {
    setBusy(true)
    fail(undefined)
    try {
      const page = await me().client.searchMessages({ query, ...scope, ...(from !== undefined && { cursor: from }) })
      setFound(before => [...(from === undefined ? [] : (before ?? [])), ...page.results])
      setCursor(page.next_cursor)
    } catch (error) {
      fail(wordsOf(error))
    }
    setBusy(false)
  }
  return (
    <Dialog title={t("Search messages")} onClose={onClose} wide>
      <form
        class="inline"
        role="search"
        onSubmit={event => {
          event.preventDefault()
          look().catch(sayFailed)
        }}
      >
        <input
          type="search"
          aria-label={t("Words")}
          value={query}
          required
          maxLength={500}
          onInput={event => setQuery(event.currentTarget.value)}
        />
        <button type="submit" class="strong" disabled={isBusy}>
          {t("Search")}
        </button>
      </form>
      <p class="hint">
        {t('Words, "a phrase", -without, from:name, in:channel, has:image, before:2026-01-31, pinned:true')}
      </p>
      {failure !== undefined && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <p class="unseen" role="status">
        {found && count(found.length, "{n} message found", "{n} messages found")}
      </p>
      <Hits of={found ?? []} onClose={onClose} />
      {found?.length === 0 && <p class="empty">{t("Nothing was found.")}</p>}
      <p class="buttons">
        {cursor !== null && (
          <button type="button" disabled={isBusy} onClick={() => void look(cursor)}>
            {t("More")}
          </button>
        )}
        <button type="button" onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}

/** Messages, each of which leads to its place. */
export function Hits({ of, onClose }: { of: readonly MessageResponse[]; onClose: () => void }) {
  const open = ({ id, channel_id, server_id }: MessageResponse) => {
    onClose()
    goTo({ server: server_id, channel: channel_id, message: id })
  }
  return (
    <ul class="hits">
      {of.map(message => (
        <li key={message.id}>
          <button type="button" class="quiet" onClick={() => open(message)}>
            <b dir="auto">{message.author_username}</b>{" "}
            <span class="faint">
              {placeOf(message)} ·{" "}
              <time dateTime={exactly(message.created_at)}>
                {dayName(message.created_at)}, {clock(message.created_at)}
              </time>
            </span>
            <span class="text" dir="auto">
              {plainText(message.content ?? "", serverOfChannel(message.channel_id)?.[1]) ||
                message.attachments[0]?.filename}
            </span>
          </button>
        </li>
      ))}
    </ul>
  )
}

function placeOf({ channel_id, server_id }: MessageResponse): string {
  if (server_id === null) return t("direct message")
  const name = serverOfChannel(channel_id)?.[1].channels.get(channel_id)?.name
  return name === undefined ? (me().store.state.names.get(server_id) ?? "") : `#${name}`
}
