import { useState } from "preact/hooks"
import type { Snowflake } from "../../../client/contract.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form, TextField } from "../../kit/forms.tsx"
import { go } from "../../kit/router.ts"
import { count, t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt, say } from "../../kit/toasts.tsx"
import { useMay } from "../may.ts"
import { me, ownId, watch } from "../session.ts"

export function Overview({ server }: { server: Snowflake }) {
  const may = useMay(server)
  const { client } = me()
  const facts = watch(`server ${server}`).state.servers.get(server)?.facts
  const [name, setName] = useState<string>()
  const [description, setDescription] = useState<string>()
  if (!facts) return <p class="loading">{t("Loading …")}</p>
  const isOwner = facts.owner_id === ownId()
  const save = async () => {
    await client.editServer({
      server_id: server,
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
    })
    say(t("Saved."))
  }
  const setIcon = async (file: File | undefined) => {
    if (!file) return
    const content = new Uint8Array(await file.arrayBuffer())
    await attempt(
      () => client.putIcon({ server_id: server, file: { bytes: content, filename: file.name, type: file.type } }),
      t("The icon is changed."),
    )
  }
  const leave = () =>
    ask({
      title: isOwner ? t("Delete {name}?", { name: facts.name }) : t("Leave {name}?", { name: facts.name }),
      will: (
        <p>
          {isOwner
            ? t("The server is gone for everybody, with all that was written in it.")
            : t("You can come back with an invite.")}
        </p>
      ),
      does: isOwner ? t("Delete the server") : t("Leave"),
      isDangerous: true,
      ...(isOwner && { typed: facts.name }),
      work: async () => {
        await (isOwner ? client.deleteServer({ server_id: server }) : client.leaveServer({ server_id: server }))
        go([])
      },
    })
  return (
    <>
      <section class="card">
        <h2>{facts.name}</h2>
        <p class="faint">
          {count(facts.member_count, "{n} member", "{n} members")} · <Time at={facts.created_at} />
        </p>
        {may("server.manage") ? (
          <Form does={t("Save")} onSubmit={save}>
            <TextField label={t("Name")} value={name ?? facts.name} onValue={setName} required maxLength={100} />
            <TextField
              label={t("Description")}
              value={description ?? facts.description ?? ""}
              onValue={setDescription}
              maxLength={1_000}
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
        ) : (
          <p>{facts.description}</p>
        )}
      </section>
      <section class="card">
        <button type="button" class="danger" onClick={leave}>
          {isOwner ? t("Delete the server") : t("Leave the server")}
        </button>
      </section>
    </>
  )
}
