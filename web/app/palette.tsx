import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { go } from "../kit/router.ts"
import { t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { goTo } from "./places.ts"
import { me, signOut, watch } from "./session.ts"

interface Entry {
  readonly key: string
  readonly shown: string
  readonly run: () => void
}
const maxShown = 12

// Types of the element know a combobox only with a list of the browser's own.
const combobox = { role: "combobox", "aria-expanded": "true" } as {}

/** Ctrl K: goes anywhere by name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("")
  const [chosen, choose] = useState(0)
  const entries = entriesFor(text.trim().toLowerCase())
  const run = (entry: Entry | undefined) => {
    if (!entry) return
    onClose()
    entry.run()
  }
  return (
    <Dialog title={t("Go to")} onClose={onClose}>
      <input
        type="text"
        {...combobox}
        aria-controls="palette"
        aria-activedescendant={`palette-${chosen}`}
        aria-label={t("A channel, a person, a server")}
        value={text}
        onInput={event => {
          setText(event.currentTarget.value)
          choose(0)
        }}
        onKeyDown={event => {
          const move = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
          if (move !== 0 && entries.length > 0) {
            event.preventDefault()
            choose((chosen + move + entries.length) % entries.length)
          } else if (event.key === "Enter") run(entries[chosen])
        }}
      />
      <ul id="palette" class="completions open" role="listbox" aria-label={t("Places")}>
        {entries.map((entry, i) => (
          <li key={entry.key} id={`palette-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(entry)}>
            {entry.shown}
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

async function writeTo(user: Snowflake): Promise<void> {
  goTo({ channel: (await me().client.openDirectChannel({ recipient_id: user })).id })
}

function entriesFor(text: string): Entry[] {
  const { state } = watch("servers", "directs", "relationships")
  const all: Entry[] = []
  for (const [server, known] of state.servers) {
    const here = state.names.get(server) ?? ""
    all.push({ key: server, shown: here, run: () => goTo({ server }) })
    for (const { id, name, type } of known?.channels.values() ?? [])
      if (type !== "category")
        all.push({ key: id, shown: `#${name} · ${here}`, run: () => goTo({ server, channel: id }) })
  }
  for (const [id, { recipient }] of state.directs)
    if (recipient) all.push({ key: id, shown: `@${recipient.username}`, run: () => goTo({ channel: id }) })
  const known = new Set([...state.directs.values()].map(({ recipient_id }) => recipient_id))
  for (const [id, { status, username }] of state.relationships)
    if (status === "friend" && username !== null && !known.has(id))
      all.push({ key: id, shown: `@${username}`, run: () => void attempt(() => writeTo(id)) })
  all.push(
    { key: "friends", shown: t("Friends"), run: () => go([]) },
    { key: "settings", shown: t("Settings"), run: () => go(["settings"]) },
    { key: "out", shown: t("Sign out"), run: () => void signOut() },
  )
  return all.filter(({ shown }) => shown.toLowerCase().includes(text)).slice(0, maxShown)
}
