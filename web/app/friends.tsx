import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import type { KnownRelationship } from "../../client/state.ts"
import { Form, TextField } from "../kit/forms.tsx"
import { Empty } from "../kit/states.tsx"
import { msgid, t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { avatarOf } from "./names.ts"
import { goTo } from "./places.ts"
import { Presence } from "./presence.tsx"
import { JoinServer, MakeServer } from "./rail.tsx"
import { me, watch } from "./session.ts"

type Status = KnownRelationship["status"]
const titles: readonly (readonly [Status, string])[] = [
  ["pending_incoming", msgid("They would like to be friends")],
  ["friend", msgid("Friends")],
  ["pending_outgoing", msgid("Asked by you")],
  ["blocked", msgid("Blocked")],
]

/** What one sees first: a way to begin, then people. */
export function Friends() {
  const { state } = watch("relationships", "servers", "presences")
  const known = [...state.relationships]
  return (
    <div class="page">
      {state.servers.size === 0 && (
        <section class="card first">
          <h2>{t("Begin here")}</h2>
          <p>{t("A server is a place for you and the people you invite. One field makes it.")}</p>
          <MakeServer onDone={() => {}} />
          <p>{t("Has somebody invited you?")}</p>
          <JoinServer onDone={() => {}} />
        </section>
      )}
      <AddFriend />
      {titles.map(([status, title]) => {
        const people = known.filter(([, one]) => one.status === status)
        return (
          people.length > 0 && (
            <section key={status} aria-label={t(title)}>
              <h2>
                {t(title)} <span class="count">{people.length}</span>
              </h2>
              <ul class="people">
                {people.map(([id, one]) => (
                  <Known key={id} id={id} one={one} />
                ))}
              </ul>
            </section>
          )
        )
      })}
      {known.length === 0 && <Empty title={t("Nobody is here yet. Add a friend by their name.")} />}
    </div>
  )
}

function AddFriend() {
  const [name, setName] = useState("")
  const ask = async () => {
    const { client } = me()
    const { id } = await client.findUser({ username: name.trim() })
    await client.requestFriend({ user_id: id })
    setName("")
  }
  return (
    <Form inline does={t("Ask")} onSubmit={ask}>
      <TextField
        label={t("Add a friend by name")}
        value={name}
        onValue={setName}
        required
        maxLength={32}
        autocapitalize="none"
      />
    </Form>
  )
}

function Known({ id, one }: { id: Snowflake; one: KnownRelationship }) {
  const { client } = me()
  const write = async () => goTo({ channel: (await client.openDirectChannel({ recipient_id: id })).id })
  const button = (label: string, work: () => Promise<unknown>, kind = "") => (
    <button type="button" class={`small ${kind}`} onClick={() => void attempt(work)}>
      {label}
    </button>
  )
  const end = () => client.deleteRelationship({ user_id: id })
  return (
    <li>
      <img class="avatar small" src={avatarOf(id, one.avatar_url)} alt="" width={32} height={32} />
      <b class="long" dir="auto">
        {one.username ?? t("somebody")}
      </b>
      <Presence user={id} />
      {one.message !== null && <bdi class="faint long">“{one.message}”</bdi>}
      <span class="buttons">
        {one.status === "friend" && button(t("Message"), write, "strong")}
        {one.status === "pending_incoming" && button(t("Accept"), () => client.acceptFriend({ user_id: id }), "strong")}
        {one.status === "blocked"
          ? button(t("Unblock"), end)
          : button(
              one.status === "friend" ? t("Remove") : one.status === "pending_outgoing" ? t("Take back") : t("Decline"),
              end,
            )}
        {one.status !== "blocked" && button(t("Block"), () => client.blockUser({ user_id: id }))}
      </span>
    </li>
  )
}
