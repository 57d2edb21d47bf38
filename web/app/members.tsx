import { memo } from "preact/compat"
import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import type { KnownMember, KnownServer } from "../../client/state.ts"
import { byLocale, t } from "../kit/text.ts"
import { later } from "./later.tsx"
import { avatarOf, colorStyleIn } from "./names.ts"
import { Presence } from "./presence.tsx"
import { watch } from "./session.ts"

const MemberCard = later(async () => (await import("./dialogs.ts")).MemberCard)

/** So many are listed; more of a large server are found by their name. */
const maxListed = 200

/** Who is in the server: those of a role that stands out first, who is there before who is not. */
export const Members = memo(function Members({ server }: { server: Snowflake }) {
  const { state } = watch(`server ${server}`, "presences")
  const known = state.servers.get(server)
  const [chosen, choose] = useState<Snowflake>()
  if (!known) return <aside class="members" />
  const groups = groupsOf(known, user => state.presences.get(user)?.status)
  return (
    <aside class="members" aria-label={t("Members")}>
      {groups.map(({ title, members }) => (
        <section key={title} aria-label={title}>
          <h2 class="faint">
            {title} – {members.length}
          </h2>
          <ul>
            {members.slice(0, maxListed).map(([id, member]) => (
              <li key={id}>
                <button type="button" class="channel quiet" onClick={() => choose(id)}>
                  <img
                    class="avatar small"
                    src={avatarOf(id, member.avatar_url)}
                    alt=""
                    loading="lazy"
                    width={28}
                    height={28}
                  />
                  <span class="long" dir="auto" style={colorStyleIn(known, id)}>
                    {member.nickname ?? member.username}
                  </span>
                  {member.bot && <span class="badge cool">{t("Bot")}</span>}
                  <Presence user={id} />
                </button>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {chosen !== undefined && known.members.has(chosen) && (
        <MemberCard known={known} id={chosen} onClose={() => choose(undefined)} />
      )}
    </aside>
  )
})

const collator = byLocale(locale => new Intl.Collator(locale))

function groupsOf(known: KnownServer, statusOf: (user: Snowflake) => string | undefined) {
  const hoisted = [...known.roles.values()]
    .filter(({ hoist }) => hoist)
    .toSorted((one, other) => other.position - one.position)
  const groups = new Map<string, [Snowflake, KnownMember][]>()
  for (const entry of known.members) {
    const [id, member] = entry
    const status = statusOf(id)
    const isThere = status !== undefined && status !== "offline" && status !== "invisible"
    const role = hoisted.find(one => member.roles.includes(one.id))
    const title = isThere ? (role?.name ?? t("Online")) : t("Offline")
    const group = groups.get(title)
    if (group) group.push(entry)
    else groups.set(title, [entry])
  }
  const order = [...hoisted.map(({ name }) => name), t("Online"), t("Offline")]
  const nameOf = ([, { nickname, username }]: [Snowflake, KnownMember]) => nickname ?? username
  return [...new Set(order)].flatMap(title => {
    const members = groups.get(title)
    return members
      ? [{ title, members: members.toSorted((one, other) => collator().compare(nameOf(one), nameOf(other))) }]
      : []
  })
}
