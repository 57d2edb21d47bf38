import { useState } from "preact/hooks"
import type { Snowflake } from "../../../client/contract.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form, TextField } from "../../kit/forms.tsx"
import { t } from "../../kit/text.ts"
import { Icon } from "../icons.tsx"
import { me, watch } from "../session.ts"

export function Channels({ server }: { server: Snowflake }) {
  const { client } = me()
  const known = watch(`server ${server}`).state.servers.get(server)
  const channels = [...(known?.channels.values() ?? [])].toSorted((one, other) => one.position - other.position)
  const remove = (id: Snowflake, name: string) =>
    ask({
      title: t("Delete {name}?", { name }),
      will: <p>{t("All messages in it are gone. This cannot be undone.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: () => client.deleteChannel({ channel_id: id }),
    })
  return (
    <section class="card">
      <h2>{t("Channels")}</h2>
      {channels.map(({ id, name, topic, type }) => (
        <ChannelForm
          key={`${id} ${name} ${topic ?? ""}`}
          id={id}
          name={name}
          topic={topic ?? ""}
          hasTopic={type !== "category"}
          onRemove={() => remove(id, name)}
        />
      ))}
    </section>
  )
}

function ChannelForm({
  id,
  name,
  topic,
  hasTopic,
  onRemove,
}: {
  id: Snowflake
  name: string
  topic: string
  hasTopic: boolean
  onRemove: () => void
}) {
  const [newName, setName] = useState(name)
  const [newTopic, setTopic] = useState(topic)
  const save = () => me().client.editChannel({ channel_id: id, name: newName, ...(hasTopic && { topic: newTopic }) })
  return (
    <Form inline does={t("Save")} isReady={newName !== name || newTopic !== topic} onSubmit={save}>
      <TextField label={t("Name")} value={newName} onValue={setName} required maxLength={100} />
      {hasTopic && <TextField label={t("Topic")} value={newTopic} onValue={setTopic} maxLength={1_024} />}
      <button type="button" class="quiet" aria-label={t("Delete {name}", { name })} onClick={onRemove}>
        <Icon name="bin" />
      </button>
    </Form>
  )
}
