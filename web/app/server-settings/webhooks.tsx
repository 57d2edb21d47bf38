import { useState } from "preact/hooks"
import type { ListedWebhookResponse, Snowflake, WebhookResponse } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { ask, Dialog } from "../../kit/dialog.tsx"
import { CopyButton, Form, Select, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { say } from "../../kit/toasts.tsx"
import { nameIn } from "../names.ts"
import { me } from "../session.ts"
import { useEvents, useServer, type PartOptions } from "./shared.tsx"

export function Webhooks({ server }: PartOptions) {
  const known = useServer(server)
  const { client } = me()
  const webhooks = useResource(() => client.listServerWebhooks({ server_id: server }), [server])
  useEvents(["WEBHOOKS_UPDATE"], ({ server_id }) => server_id === server, webhooks.reload)
  const [shown, show] = useState<WebhookResponse>()
  if (!known) return <p class="loading">{t("Loading …")}</p>
  const onToken = (webhook: WebhookResponse) => {
    show(webhook)
    webhooks.reload()
  }
  return (
    <section class="card">
      <h2>{t("Webhooks")}</h2>
      <p class="hint">{t("A webhook is a web address to which programs send messages for a channel.")}</p>
      <MakeWebhook known={known} onDone={onToken} />
      <Loaded of={webhooks}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("There are none.")} />
          ) : (
            <ul class="notes">
              {list.map(one => (
                <Webhook key={one.id} known={known} of={one} onToken={onToken} onChange={webhooks.reload} />
              ))}
            </ul>
          )
        }
      </Loaded>
      {shown && <Address of={shown} onClose={() => show(undefined)} />}
    </section>
  )
}

const channelsOf = (known: KnownServer) =>
  [...known.channels.values()]
    .filter(({ type }) => type === "text" || type === "announcement")
    .toSorted((one, other) => one.position - other.position)
    .map(({ id, name }) => [id, `#${name}`] as const)

const faults = {
  name: /^Invalid name|webhook name/i,
  avatar_url: /avatar_url|private networks/i,
  channel_id: /channel/i,
}

function MakeWebhook({ known, onDone }: { known: KnownServer; onDone: (webhook: WebhookResponse) => void }) {
  const channels = channelsOf(known)
  const [name, setName] = useState("")
  const [channel, setChannel] = useState<Snowflake>()
  const [avatar, setAvatar] = useState("")
  const make = async () => {
    const webhook = await me().client.createWebhook({
      channel_id: channel ?? channels[0]![0],
      name: name.trim(),
      ...(avatar.trim() !== "" && { avatar_url: avatar.trim() }),
    })
    setName("")
    setAvatar("")
    onDone(webhook)
  }
  return (
    <Form does={t("Make a webhook")} isReady={name.trim() !== "" && channels.length > 0} onSubmit={make} at={faults}>
      <div class="bar">
        <TextField name="name" label={t("Name")} value={name} onValue={setName} required maxLength={80} />
        <Select
          label={t("Channel")}
          value={channel ?? channels[0]?.[0] ?? ""}
          choices={channels}
          onValue={setChannel}
        />
        <TextField
          name="avatar_url"
          label={t("Address of its picture")}
          hint={t("May stay empty.")}
          value={avatar}
          onValue={setAvatar}
          maxLength={2_048}
        />
      </div>
    </Form>
  )
}

interface WebhookOptions {
  readonly known: KnownServer
  readonly of: ListedWebhookResponse
  readonly onToken: (webhook: WebhookResponse) => void
  readonly onChange: () => void
}

function Webhook({ known, of, onToken, onChange }: WebhookOptions) {
  const { client } = me()
  const { id, name, channel_id, avatar_url, creator_id, created_at } = of
  const [isEditing, edit] = useState(false)
  const [change, setChange] = useState<{ name?: string; channel_id?: Snowflake; avatar_url?: string }>({})
  const set = (more: typeof change) => setChange(before => ({ ...before, ...more }))
  const save = async () => {
    await client.editWebhook({ webhook_id: id, ...change })
    setChange({})
    edit(false)
    onChange()
    say(t("Saved."))
  }
  const renew = () =>
    ask({
      title: t("A new address for {name}?", { name }),
      will: <p>{t("The present one ends at once.")}</p>,
      does: t("Make a new one"),
      isDangerous: true,
      work: async () => onToken(await client.regenerateWebhookToken({ webhook_id: id })),
    })
  const remove = () =>
    ask({
      title: t("Delete {name}?", { name }),
      will: <p>{t("Its address ends at once. What it wrote stays.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: async () => {
        await client.deleteWebhook({ webhook_id: id })
        onChange()
      },
    })
  return (
    <li>
      <p>
        <b class="long">{name}</b> <span class="long">#{known.channels.get(channel_id)?.name ?? channel_id}</span>{" "}
        <span class="faint">
          {nameIn(known, creator_id, "")} <Time at={created_at} apart />
        </span>
      </p>
      {isEditing ? (
        <Form does={t("Save")} onSubmit={save} onCancel={() => edit(false)} at={faults}>
          <TextField
            name="name"
            label={t("Name")}
            value={change.name ?? name}
            onValue={text => set({ name: text })}
            required
            maxLength={80}
          />
          <Select
            label={t("Channel")}
            value={change.channel_id ?? channel_id}
            choices={channelsOf(known)}
            onValue={to => set({ channel_id: to })}
          />
          <TextField
            name="avatar_url"
            label={t("Address of its picture")}
            value={change.avatar_url ?? avatar_url ?? ""}
            onValue={text => set({ avatar_url: text })}
            maxLength={2_048}
          />
        </Form>
      ) : (
        <p class="buttons start">
          <button type="button" class="small" aria-label={t("Change {name}", { name })} onClick={() => edit(true)}>
            {t("Change")}
          </button>
          <button type="button" class="small" aria-label={t("New address of {name}", { name })} onClick={renew}>
            {t("New address")}
          </button>
          <button type="button" class="small" aria-label={t("Delete {name}", { name })} onClick={remove}>
            {t("Delete")}
          </button>
        </p>
      )}
    </li>
  )
}

/** Shown once: the server keeps only what proves it. */
function Address({ of: { name, url }, onClose }: { of: WebhookResponse; onClose: () => void }) {
  const address = new URL(url ?? "", location.origin).href
  const command = `curl -X POST -H 'Content-Type: application/json' -d '{"content": "Hello"}' '${address}'`
  return (
    <Dialog title={t("The address of {name}", { name })} onClose={onClose}>
      <p>{t("Keep it now: it is not shown again. Anybody who has it can write as this webhook.")}</p>
      <p class="share">
        <input readOnly value={address} aria-label={t("Address")} />
        <CopyButton text={address} />
      </p>
      <h3>{t("Try it")}</h3>
      <pre tabIndex={0}>{command}</pre>
      <CopyButton text={command} label={t("Copy the command")} />
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Done")}
        </button>
      </p>
    </Dialog>
  )
}
