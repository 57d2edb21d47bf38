import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { ask } from "../kit/dialog.tsx"
import { CopyButton, Form, TextField } from "../kit/forms.tsx"
import { useResource } from "../kit/resource.ts"
import { go, linkTo } from "../kit/router.ts"
import { Empty, Loaded } from "../kit/states.tsx"
import { count, t } from "../kit/text.ts"
import { Time } from "../kit/time.tsx"
import { attempt, say } from "../kit/toasts.tsx"
import { linkOf } from "./invite.tsx"
import { useMay } from "./may.ts"
import { me, ownId, watch } from "./session.ts"
import { Icon } from "./icons.tsx"

const parts = [
  ["overview", "Overview", undefined],
  ["channels", "Channels", "channels.manage"],
  ["invites", "Invites", "server.manage"],
  ["bans", "Bans", "members.ban"],
  ["log", "Audit log", "server.view_audit_log"],
] as const

export function ServerSettings({ server, part }: { server: Snowflake; part: string }) {
  const may = useMay(server)
  const { state } = watch(`server ${server}`, "servers")
  if (!state.servers.has(server)) return <Empty title={t("You are not in this server.")} />
  return (
    <div class="page">
      <nav class="parts" aria-label={t("About this server")}>
        {parts
          .filter(([, , permission]) => permission === undefined || may(permission))
          .map(([name, title]) => (
            <a
              key={name}
              href={linkTo(["servers", server, "settings", name])}
              aria-current={name === part ? "page" : undefined}
            >
              {t(title)}
            </a>
          ))}
      </nav>
      {part === "channels" ? (
        <Channels server={server} />
      ) : part === "invites" ? (
        <Invites server={server} />
      ) : part === "bans" ? (
        <Bans server={server} />
      ) : part === "log" ? (
        <AuditLog server={server} />
      ) : (
        <Overview server={server} />
      )}
    </div>
  )
}

function Overview({ server }: { server: Snowflake }) {
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

function Channels({ server }: { server: Snowflake }) {
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

function Invites({ server }: { server: Snowflake }) {
  const { client } = me()
  const invites = useResource(() => client.listInvites({ server_id: server }), [server])
  const end = (code: string) =>
    void attempt(() => client.deleteInvite({ invite_code: code }), t("The invite has ended.")).then(invites.reload)
  return (
    <section class="card">
      <h2>{t("Invites")}</h2>
      <Loaded of={invites}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("There are none.")} />
          ) : (
            <ul class="rows">
              {list.map(({ code, uses, created_at }) => (
                <li key={code}>
                  <code>{code}</code> <span class="faint">{count(uses, "used {n} time", "used {n} times")}</span>{" "}
                  <Time at={created_at} apart />
                  <CopyButton text={linkOf(code)} />
                  <button type="button" class="small" onClick={() => end(code)}>
                    {t("End")}
                  </button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}

function Bans({ server }: { server: Snowflake }) {
  const { client } = me()
  const bans = useResource(() => client.listBans({ server_id: server }), [server])
  const lift = (user: Snowflake) =>
    void attempt(() => client.unbanUser({ server_id: server, user_id: user }), t("The ban is lifted.")).then(
      bans.reload,
    )
  return (
    <section class="card">
      <h2>{t("Bans")}</h2>
      <Loaded of={bans}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("Nobody is banned.")} />
          ) : (
            <ul class="rows">
              {list.map(({ user_id, reason, banned_at }) => (
                <li key={user_id}>
                  <UserName id={user_id} /> <span class="faint long">{reason}</span> <Time at={banned_at} apart />
                  <button type="button" class="small" onClick={() => lift(user_id)}>
                    {t("Lift the ban")}
                  </button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}

/** Of somebody who is in no list any more. */
function UserName({ id }: { id: Snowflake }) {
  const { data } = useResource(() => me().client.getUser({ user_id: id }), [id])
  return <b>{data?.username ?? id}</b>
}

function AuditLog({ server }: { server: Snowflake }) {
  const entries = useResource(() => me().client.listAuditLog({ server_id: server, limit: "100" }), [server])
  return (
    <section class="card">
      <h2>{t("Audit log")}</h2>
      <Loaded of={entries}>
        {list => (
          <ul class="rows">
            {list.map(entry => (
              <li key={entry.id}>
                <Time at={entry.created_at} apart /> <b>{entry.user?.username ?? entry.user_id}</b>{" "}
                <code>{entry.action}</code> <span class="long">{entry.target_name}</span>{" "}
                <span class="faint long">{entry.reason}</span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}
