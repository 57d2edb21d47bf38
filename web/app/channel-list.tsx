import { useState } from "preact/hooks"
import type { ChannelResponse, Snowflake } from "../../client/contract.ts"
import { isForVoice } from "../../client/state.ts"
import { Dialog } from "../kit/dialog.tsx"
import { Form, Select, TextField } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { ShareLink } from "./invite.tsx"
import { Bell, MutedMark } from "./bell.tsx"
import { groupsOf, isCategory } from "./channel-order.ts"
import { isQuiet, shown } from "./mutes.ts"
import { linkToPlace } from "./places.ts"
import { useMay } from "./may.ts"
import { me, watch } from "./session.ts"
import { Icon } from "./icons.tsx"
import { InVoice } from "./voice/voice-channel.tsx"

/** The channels of a server, in their categories. */
export function ChannelList({ server, current }: { server: Snowflake; current: Snowflake | undefined }) {
  const { state } = watch(`server ${server}`, "unread", "servers")
  const known = state.servers.get(server)
  const may = useMay(server)
  const [isInviting, invite] = useState(false)
  const [isMaking, make] = useState(false)
  const [apart = [], ...groups] = groupsOf([...(known?.channels.values() ?? [])])
  const first = [apart, ...groups].flat().find(one => !isCategory(one))
  return (
    <div class="channel-list">
      <h2 class="long" dir="auto">
        {known?.facts.name ?? state.names.get(server) ?? ""}
      </h2>
      <p class="buttons start">
        {may("invites.create") && first && (
          <button type="button" class="small" onClick={() => invite(true)}>
            {t("Invite people")}
          </button>
        )}
        {may("channels.manage") && (
          <button
            type="button"
            class="small"
            onClick={() => make(true)}
            aria-label={t("Make a channel")}
            title={t("Make a channel")}
          >
            <Icon name="plus" />
          </button>
        )}
        {known && <Bell key={server} place={{ server }} name={known.facts.name} small />}
        <a
          class="button small"
          href={`#/servers/${server}/settings`}
          aria-label={t("About this server")}
          title={t("About this server")}
        >
          <Icon name="gear" />
        </a>
      </p>
      <Channels of={apart} server={server} current={current} />
      {groups.map(([category, ...of]) => (
        <section key={category!.id} aria-label={category!.name}>
          <h3 class="faint" dir="auto">
            {category!.name}
          </h3>
          <Channels of={of} server={server} current={current} />
        </section>
      ))}
      {isInviting && first && <ShareLink channel={current ?? first.id} onClose={() => invite(false)} />}
      {isMaking && (
        <MakeChannel server={server} categories={groups.map(([category]) => category!)} onClose={() => make(false)} />
      )}
    </div>
  )
}

function Channels({
  of,
  server,
  current,
}: {
  of: readonly ChannelResponse[]
  server: Snowflake
  current: Snowflake | undefined
}) {
  const { state } = watch("unread")
  return (
    <ul>
      {of.map(({ id, name, type }) => {
        const unread = shown(id, state.unread.get(id))
        const isVoice = isForVoice({ type })
        return (
          <li key={id}>
            <a
              href={linkToPlace({ server, channel: id })}
              class={`channel${id === current ? " current" : ""}${unread ? " unread" : ""}${isQuiet(id) ? " muted" : ""}`}
              aria-current={id === current ? "page" : undefined}
            >
              {isVoice ? <Icon name="sound" /> : <span aria-hidden="true">#</span>}
              <span class="long" dir="auto">
                {name}
              </span>
              <MutedMark id={id} />
              {unread && unread.mentions > 0 && <span class="mark">{unread.mentions}</span>}
              {unread && <span class="unseen">{t("unread")}</span>}
            </a>
            {isVoice && <InVoice server={server} channel={id} />}
          </li>
        )
      })}
    </ul>
  )
}

export function MakeChannel({
  server,
  categories,
  onClose,
}: {
  server: Snowflake
  categories: readonly ChannelResponse[]
  onClose: () => void
}) {
  const [name, setName] = useState("")
  const [type, setType] = useState<"text" | "announcement" | "voice" | "category">("text")
  const [category, setCategory] = useState("")
  const make = async () => {
    await me().client.createChannel({
      server_id: server,
      name: name.trim(),
      type,
      ...(category && { category_id: category }),
    })
    onClose()
  }
  return (
    <Dialog title={t("Make a channel")} onClose={onClose}>
      <Form does={t("Make")} onCancel={onClose} onSubmit={make}>
        <TextField label={t("Name")} value={name} onValue={setName} required maxLength={100} takesFocus />
        <Select
          label={t("Kind")}
          value={type}
          onValue={setType}
          choices={[
            ["text", t("Text")],
            ["announcement", t("Announcements")],
            ["voice", t("Voice")],
            ["category", t("Category")],
          ]}
        />
        {type !== "category" && categories.length > 0 && (
          <Select
            label={t("Category")}
            value={category}
            onValue={setCategory}
            choices={[["", t("None")], ...categories.map(({ id, name }) => [id, name] as const)]}
          />
        )}
      </Form>
    </Dialog>
  )
}
