import { useEffect, useRef, useState } from "preact/hooks"
import { Tabs } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { usePages, useResource } from "../../kit/resource.ts"
import { linkTo, place, setQuery } from "../../kit/router.ts"
import { Badge, Empty, Failed, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { count, t } from "../../kit/text.ts"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { UserRow } from "../wire.ts"

const settledAfterMs = 250

export function Users() {
  const { query } = place.value
  const tab = query.get("list") === "deletions" ? "deletions" : "find"
  return (
    <>
      <Header title={t("Users")} />
      <Tabs
        label={t("List")}
        value={tab}
        choices={[
          ["find", t("Find")],
          ["deletions", t("In deletion")],
        ]}
        onValue={list => setQuery({ list })}
      />
      {tab === "find" ? <Find /> : <Deletions />}
    </>
  )
}

function Find() {
  const [text, setText] = useState(place.value.query.get("q") ?? "")
  const [q, setQ] = useState(text.trim())
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const timer = setTimeout(() => {
      setQ(text.trim())
      setQuery({ q: text.trim() })
    }, settledAfterMs)
    return () => clearTimeout(timer)
  }, [text])
  useEffect(() => input.current?.focus(), [])
  useKeys(t("Users"), [{ key: "/", does: t("Go to the search"), run: () => input.current?.select() }])

  const pages = usePages(
    async (page, signal) =>
      q === "" ? [] : (await call("GET /users/search", { query: { q, ...page } }, { signal })).users,
    ({ id }) => id,
    [q],
  )
  return (
    <>
      <p class="field">
        <label for="find">{t("Name, a part of one, or an id")}</label>
        <input
          ref={input}
          id="find"
          type="search"
          value={text}
          autocomplete="off"
          spellcheck={false}
          onInput={event => setText(event.currentTarget.value)}
        />
      </p>
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      {q !== "" && (
        <Table<UserRow>
          caption={t("Users found")}
          rows={pages.items}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => linkTo(["users", id])}
          onEnd={pages.more}
          isLoading={pages.isLoading}
          empty={pages.error === undefined && <Empty title={t("Nobody has such a name or id.")} />}
          columns={[
            { title: t("Name"), cell: user => <NameCell of={user} /> },
            { title: t("Id"), rem: 12, from: "large", cell: ({ id }) => <code>{id}</code> },
            { title: t("Tier"), rem: 7, from: "medium", cell: ({ tier }) => tier },
            {
              title: t("Badges"),
              rem: 12,
              from: "large",
              cell: ({ badges }) => badges.join(", ") || <span class="faint">–</span>,
            },
            { title: t("Since"), rem: 11, from: "medium", cell: user => <Time at={user.created_at} /> },
            { title: t("State"), rem: 7.5, cell: user => <DeletionBadge of={user} /> },
          ]}
        />
      )}
      {q === "" && <Empty title={t("Type a name to find somebody.")} />}
    </>
  )
}

const NameCell = ({ of: { username, bot } }: { of: UserRow }) => (
  <>
    <strong>{username}</strong> {bot && <Badge tone="cool">{t("bot")}</Badge>}
  </>
)

export function DeletionBadge({ of }: { of: Pick<UserRow, "deletion_status" | "account_locked"> }) {
  if (of.account_locked && of.deletion_status !== "purged") return <Badge tone="bad">{t("locked")}</Badge>
  if (of.deletion_status === "active") return <Badge tone="good">{t("active")}</Badge>
  if (of.deletion_status === "frozen") return <Badge tone="warm">{t("in deletion")}</Badge>
  return <Badge tone="bad">{t("deleted")}</Badge>
}

function Deletions() {
  const deletions = useResource(signal => call("GET /users/scheduled-deletions", {}, { signal }), [])
  return (
    <Loaded of={deletions}>
      {({ deletions }) => (
        <Table
          caption={t("Accounts in deletion")}
          rows={deletions}
          keyOf={({ user_id }) => user_id}
          hrefOf={({ user_id }) => linkTo(["users", user_id])}
          empty={<Empty title={t("No account waits for its deletion.")} />}
          columns={[
            { title: t("Name"), cell: ({ username }) => <strong>{username}</strong> },
            { title: t("Asked"), rem: 11, from: "medium", cell: one => <Time at={one.scheduled_at} /> },
            { title: t("Deleted on"), rem: 11, cell: one => <Time at={one.deletion_at} /> },
            {
              title: t("Left"),
              rem: 6,
              from: "medium",
              kind: "number",
              cell: one => count(one.days_left, "{n} day", "{n} days"),
            },
          ]}
        />
      )}
    </Loaded>
  )
}
