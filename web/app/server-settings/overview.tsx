import { useState } from "preact/hooks"
import type { ServerResponse, Snowflake } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { Checkbox, Form, Select, TextArea, TextField } from "../../kit/forms.tsx"
import { count, t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt, say } from "../../kit/toasts.tsx"
import { useMay } from "../may.ts"
import { fileOf } from "../files.ts"
import { me } from "../session.ts"
import { useServer, type PartOptions } from "./shared.tsx"

export function Overview({ server }: PartOptions) {
  const may = useMay(server)
  const known = useServer(server)
  if (!known) return <p class="loading">{t("Loading …")}</p>
  const { name, description, member_count, created_at } = known.facts
  return (
    <section class="card">
      <h2>{name}</h2>
      <p class="faint">
        {count(member_count, "{n} member", "{n} members")} · <Time at={created_at} />
      </p>
      {may("server.manage") ? <Facts known={known} /> : <p class="text">{description}</p>}
    </section>
  )
}

type Change = Partial<Pick<ServerResponse, "name" | "public">> & {
  description?: string
  category?: string
  default_channel_id?: Snowflake
  default_message_notifications?: 0 | 1
}

/** Only what was changed here is sent, so that a change by somebody else meanwhile stays. */
function Facts({ known }: { known: KnownServer }) {
  const { client } = me()
  const { facts, channels } = known
  const [change, setChange] = useState<Change>({})
  const set = (more: Change) => setChange(before => ({ ...before, ...more }))
  const shown = { ...facts, ...change }
  const save = async () => {
    await client.editServer({ server_id: facts.id, ...change })
    setChange({})
    say(t("Saved."))
  }
  const setIcon = async (file: File | undefined) => {
    if (!file) return
    const icon = await fileOf(file)
    await attempt(() => client.putIcon({ server_id: facts.id, file: icon }), t("The icon is changed."))
  }
  const texts = [...channels.values()]
    .filter(({ type }) => type === "text")
    .toSorted((one, other) => one.position - other.position)
  return (
    <Form
      does={t("Save")}
      isReady={Object.keys(change).length > 0}
      onSubmit={save}
      at={{ name: /^Invalid name/i, description: /description/i, category: /category/i, channel: /channel/i }}
    >
      <TextField
        name="name"
        label={t("Name")}
        value={shown.name}
        onValue={name => set({ name })}
        required
        maxLength={100}
      />
      <TextArea
        name="description"
        label={t("Description")}
        value={shown.description ?? ""}
        onValue={description => set({ description })}
        maxLength={1_000}
      />
      <TextField
        name="category"
        label={t("What it is about")}
        value={shown.category ?? ""}
        onValue={category => set({ category })}
        maxLength={50}
      />
      <Select
        name="channel"
        label={t("Where newcomers arrive")}
        value={shown.default_channel_id ?? "0"}
        choices={[["0", t("In the first channel")], ...texts.map(({ id, name }) => [id, `#${name}`] as const)]}
        onValue={default_channel_id => set({ default_channel_id })}
      />
      <Select
        label={t("Members are notified of")}
        hint={t("Until they choose otherwise.")}
        value={String(shown.default_message_notifications)}
        choices={[
          ["0", t("all messages")],
          ["1", t("mentions")],
        ]}
        onValue={level => set({ default_message_notifications: level === "1" ? 1 : 0 })}
      />
      <Checkbox
        label={t("Everybody may join, without an invite")}
        value={shown.public}
        onValue={isPublic => set({ public: isPublic })}
      />
      <p class="field">
        <label for="icon">{t("Icon")}</label>
        <input
          id="icon"
          type="file"
          accept="image/png,image/jpeg,image/gif,image/webp"
          onChange={event => void setIcon(event.currentTarget.files?.[0])}
        />
      </p>
    </Form>
  )
}
