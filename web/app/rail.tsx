import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { Dialog, present } from "../kit/dialog.tsx"
import { Form, TextField } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { isQuiet, shown } from "./mutes.ts"
import { initials, pathOnServer } from "./names.ts"
import { goTo, linkToPlace, where } from "./places.ts"
import { me, watch } from "./session.ts"
import { codeIn, firstInvite, ShareLink } from "./invite.tsx"
import { Icon } from "./icons.tsx"

/** The servers of the person, and how to get to another. */
export function Rail() {
  const [isAdding, add] = useState(false)
  const { state } = watch("servers", "unread", "directs")
  const place = where()
  const current = place.view === "server" || place.view === "serverSettings" ? place.server : undefined
  const directs = [...state.directs.keys()].reduce((sum, id) => sum + (shown(id, state.unread.get(id))?.count ?? 0), 0)
  return (
    <ul class="rail">
      <li>
        <a
          href="#/"
          class={current === undefined ? "tile current" : "tile"}
          aria-current={current === undefined ? "page" : undefined}
          title={t("Direct messages")}
        >
          <Icon name="mail" />
          <span class="unseen">{t("Direct messages")}</span>
          {directs > 0 && <Mark n={directs} />}
        </a>
      </li>
      {[...state.servers.keys()].map(id => (
        <ServerTile key={id} id={id} isCurrent={id === current} />
      ))}
      <li>
        <button type="button" class="tile" title={t("Make or join a server")} onClick={() => add(true)}>
          <Icon name="plus" />
          <span class="unseen">{t("Make or join a server")}</span>
        </button>
      </li>
      {isAdding && <AddServer onClose={() => add(false)} />}
    </ul>
  )
}

const Mark = ({ n }: { n: number }) => (
  <span class="mark">
    {n > 99 ? "99+" : n}
    <span class="unseen"> {t("unread")}</span>
  </span>
)

function ServerTile({ id, isCurrent }: { id: Snowflake; isCurrent: boolean }) {
  const { state } = watch(`server ${id}`, "unread")
  const known = state.servers.get(id)
  const name = state.names.get(id) ?? "…"
  const isMuted = isQuiet(id)
  const channels = [...(known?.channels.keys() ?? [])].flatMap(
    channel => shown(channel, state.unread.get(channel), isMuted) ?? [],
  )
  const mentions = channels.reduce((sum, entry) => sum + entry.mentions, 0)
  return (
    <li class={`${channels.length > 0 ? "has-unread" : ""}${isMuted ? " muted" : ""}`}>
      <a
        href={linkToPlace({ server: id })}
        class={isCurrent ? "tile current" : "tile"}
        aria-current={isCurrent ? "page" : undefined}
        title={name}
      >
        {known?.facts.icon_url ? (
          <img src={pathOnServer(known.facts.icon_url)} alt="" />
        ) : (
          <span aria-hidden="true">{initials(name)}</span>
        )}
        <span class="unseen">
          {name}
          {channels.length > 0 && mentions === 0 && `, ${t("unread")}`}
          {isMuted && `, ${t("Muted")}`}
        </span>
        {mentions > 0 && <Mark n={mentions} />}
      </a>
    </li>
  )
}

/** One field makes a server; a link or code joins one. */
export function AddServer({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("Make or join a server")} onClose={onClose}>
      <MakeServer onDone={onClose} />
      <hr />
      <JoinServer onDone={onClose} />
    </Dialog>
  )
}

export function MakeServer({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState("")
  const make = async () => {
    const { id } = await me().client.createServer({ name: name.trim() })
    // The server is there, also where a link could not be made.
    const first = await firstInvite(id).catch(() => undefined)
    onDone()
    goTo({ server: id })
    if (first) present(async () => onClose => <ShareLink {...first} onClose={onClose} />)
  }
  return (
    <Form does={t("Make a server")} onSubmit={make}>
      <TextField
        label={t("Name of the new server")}
        value={name}
        onValue={setName}
        required
        maxLength={100}
        takesFocus
      />
    </Form>
  )
}

export function JoinServer({ onDone }: { onDone: () => void }) {
  const [link, setLink] = useState("")
  const join = async () => {
    const { server_id } = await me().client.joinByInvite({ invite_code: codeIn(link) })
    onDone()
    goTo({ server: server_id })
  }
  return (
    <Form does={t("Join")} onSubmit={join}>
      <TextField label={t("Invite link or code")} value={link} onValue={setLink} required maxLength={300} />
    </Form>
  )
}
