import { useState } from "preact/hooks"
import type { ChannelResponse, Snowflake } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask } from "../../kit/dialog.tsx"
import { Checkbox, Form, Select, TextField, type Choices } from "../../kit/forms.tsx"
import { duration } from "../../kit/format.ts"
import { useResource } from "../../kit/resource.ts"
import { go, linkTo } from "../../kit/router.ts"
import { Empty } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { MakeChannel } from "../channel-list.tsx"
import { byPlace, groupsOf, isCategory, moved, movesFor } from "../channel-order.ts"
import { Icon } from "../icons.tsx"
import { useMay } from "../may.ts"
import { me } from "../session.ts"
import { Overrides } from "./overrides.tsx"
import { MoveButtons, useEvents, useServer, type PartOptions } from "./shared.tsx"

export function Channels({ server, item }: PartOptions) {
  const known = useServer(server)
  if (!known) return <p class="loading">{t("Loading …")}</p>
  if (item === undefined) return <ChannelOrder known={known} />
  const channel = known.channels.get(item)
  return (
    <>
      <p>
        <a href={linkTo(["servers", server, "settings", "channels"])}>← {t("All channels")}</a>
      </p>
      {channel ? (
        <ChannelPage key={channel.id} known={known} channel={channel} />
      ) : (
        <Empty title={t("This channel is not there, or you may not view it.")} />
      )}
    </>
  )
}

function ChannelOrder({ known }: { known: KnownServer }) {
  const { id: server } = known.facts
  const [isMaking, make] = useState(false)
  const mayManage = useMay(server)("channels.manage")
  const groups = groupsOf([...known.channels.values()])
  const move = (id: Snowflake, step: -1 | 1) => {
    const next = mayManage ? moved(groups, id, step) : undefined
    return (
      next && (() => void attempt(() => me().client.reorderChannels({ server_id: server, channels: movesFor(next) })))
    )
  }
  return (
    <section class="card">
      <h2>{t("Channels")}</h2>
      <ul class="rows order">
        {groups.flat().map(channel => {
          const { id, name, type, category_id } = channel
          const [onUp, onDown] = [move(id, -1), move(id, 1)]
          return (
            <li
              key={id}
              class={category_id === null ? undefined : "inner"}
              onKeyDown={event => {
                if (!event.altKey || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return
                event.preventDefault()
                ;(event.key === "ArrowUp" ? onUp : onDown)?.()
              }}
            >
              {type === "voice" || type === "stage" ? (
                <Icon name="sound" />
              ) : (
                <span aria-hidden="true">{isCategory(channel) ? "▾" : "#"}</span>
              )}
              <a class="long" href={linkTo(["servers", server, "settings", "channels", id])}>
                {isCategory(channel) ? <b>{name}</b> : name}
              </a>
              {isCategory(channel) && <span class="faint">{t("Category")}</span>}
              {mayManage && <MoveButtons name={name} onUp={onUp} onDown={onDown} />}
            </li>
          )
        })}
      </ul>
      {mayManage && (
        <>
          <p class="hint">
            {t("The arrows move a channel, at the edge of a category into the next; so do Alt ↑ and Alt ↓.")}
          </p>
          <p class="buttons start">
            <button type="button" onClick={() => make(true)}>
              {t("Make a channel")}
            </button>
          </p>
        </>
      )}
      {isMaking && (
        <MakeChannel server={server} categories={groups.flat().filter(isCategory)} onClose={() => make(false)} />
      )}
    </section>
  )
}

/** Seconds between two messages of a member. */
const slowModes = [0, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600]
const slowModeChoices = (current: number): Choices<string> =>
  [...new Set([...slowModes, current])]
    .toSorted((one, other) => one - other)
    .map(seconds => [String(seconds), seconds === 0 ? t("Off") : duration(seconds)])

type Change = Partial<
  Pick<
    ChannelResponse,
    "name" | "topic" | "slowmode_seconds" | "nsfw" | "read_receipts_enabled" | "user_limit" | "bitrate"
  >
>

/** Only what was changed here is sent, so that a change by somebody else meanwhile stays. */
function ChannelPage({ known, channel }: { known: KnownServer; channel: ChannelResponse }) {
  const { client } = me()
  const { id: server } = known.facts
  // What one may in this channel: it may say something else than the server.
  const mine = useResource(
    () => client.getServerPermissions({ server_id: server, channel_id: channel.id }),
    [server, channel.id],
  )
  useEvents(
    ["CHANNEL_UPDATE", "GUILD_ROLE_UPDATE", "GUILD_MEMBER_UPDATE"],
    ({ id, server_id }) => id === channel.id || server_id === server,
    mine.reload,
  )
  const remove = () =>
    ask({
      title: t("Delete {name}?", { name: channel.name }),
      will: (
        <p>
          {isCategory(channel)
            ? t("Its channels stay, without a category.")
            : t("All messages in it are gone. This cannot be undone.")}
        </p>
      ),
      does: t("Delete"),
      isDangerous: true,
      ...(!isCategory(channel) && { typed: channel.name }),
      work: async () => {
        await client.deleteChannel({ channel_id: channel.id })
        go(["servers", server, "settings", "channels"])
      },
    })
  if (!mine.data) return <p class="loading">{t("Loading …")}</p>
  return (
    <>
      {mine.data["channels.manage"] ? <ChannelForm known={known} channel={channel} /> : <h2>{channel.name}</h2>}
      {mine.data["roles.manage"] ? (
        <Overrides known={known} channel={channel} />
      ) : (
        <p class="notice">{t("Who may manage roles decides who may do what here.")}</p>
      )}
      {mine.data["channels.manage"] && (
        <section class="card">
          <button type="button" class="danger" onClick={remove}>
            {isCategory(channel) ? t("Delete the category") : t("Delete the channel")}
          </button>
        </section>
      )}
    </>
  )
}

function ChannelForm({ known, channel }: { known: KnownServer; channel: ChannelResponse }) {
  const [change, setChange] = useState<Change>({})
  const [category, setCategory] = useState<Snowflake>()
  const set = (more: Change) => setChange(before => ({ ...before, ...more }))
  const shown = { ...channel, ...change }
  const isForVoice = channel.type === "voice" || channel.type === "stage"
  const categories = [...known.channels.values()].filter(isCategory).toSorted(byPlace)
  const save = async () => {
    const { topic, ...rest } = change
    await me().client.editChannel({
      channel_id: channel.id,
      ...rest,
      ...(topic !== undefined && { topic: topic ?? "" }),
      ...(category !== undefined && { category_id: category }),
    })
    setChange({})
    setCategory(undefined)
    say(t("Saved."))
  }
  const isChanged = Object.keys(change).length > 0 || category !== undefined
  return (
    <section class="card">
      <h2>{channel.name}</h2>
      <Form
        does={t("Save")}
        isReady={isChanged}
        onSubmit={save}
        at={{ name: /name/i, topic: /topic/i, user_limit: /user_limit/, bitrate: /bitrate/ }}
      >
        <TextField
          name="name"
          label={t("Name")}
          value={shown.name}
          onValue={name => set({ name })}
          required
          maxLength={100}
        />
        {!isCategory(channel) && (
          <>
            <TextField
              name="topic"
              label={t("Topic")}
              value={shown.topic ?? ""}
              onValue={topic => set({ topic })}
              maxLength={1_024}
            />
            <Select
              label={t("Category")}
              value={category ?? channel.category_id ?? "0"}
              choices={[["0", t("None")], ...categories.map(({ id, name }) => [id, name] as const)]}
              onValue={setCategory}
            />
            <Select
              label={t("Slow mode")}
              hint={t("How long members wait between two messages.")}
              value={String(shown.slowmode_seconds)}
              choices={slowModeChoices(shown.slowmode_seconds)}
              onValue={seconds => set({ slowmode_seconds: Number(seconds) })}
            />
            <Checkbox label={t("Not for everybody's eyes (18+)")} value={shown.nsfw} onValue={nsfw => set({ nsfw })} />
            <Checkbox
              label={t("Show who has read a message")}
              value={shown.read_receipts_enabled}
              onValue={read_receipts_enabled => set({ read_receipts_enabled })}
            />
          </>
        )}
        {isForVoice && (
          <>
            <TextField
              name="user_limit"
              label={t("Most people at once")}
              hint={t("0: no limit.")}
              type="number"
              min={0}
              max={99}
              value={String(shown.user_limit)}
              onValue={text => set({ user_limit: Number(text) })}
            />
            <TextField
              name="bitrate"
              label={t("Bit rate, in bits per second")}
              type="number"
              min={8_000}
              max={384_000}
              step="any"
              value={String(shown.bitrate)}
              onValue={text => set({ bitrate: Number(text) })}
            />
          </>
        )}
      </Form>
    </section>
  )
}
