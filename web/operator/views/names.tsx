import { useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Checkbox, Form, TextField } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { Badge, Empty, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { BannedName } from "../wire.ts"

export function Names() {
  const names = useResource(signal => call("GET /security/banned-usernames", {}, { signal }), [])
  const [filter, setFilter] = useState("")
  const [isAdding, setAdding] = useState(false)
  useKeys(t("Banned names"), [{ key: "c", does: t("Ban a name"), run: () => setAdding(true) }])
  const remove = ({ id, pattern, is_regex, reason }: BannedName) =>
    attempt(
      () => call("DELETE /security/banned-usernames/:pattern_id", { params: { pattern_id: id } }),
      t("{pattern} is free.", { pattern }),
      async () => {
        const body = { pattern, is_regex, ...(reason !== null && { reason }) }
        await attempt(
          () => call("POST /security/banned-usernames", { body }),
          t("{pattern} is banned again.", { pattern }),
        )
        names.reload()
      },
    ).then(names.reload)
  return (
    <>
      <Header
        title={t("Banned names")}
        about={t("Nobody can register or rename themselves so. Names that exist are not touched.")}
      >
        <button type="button" class="strong" onClick={() => setAdding(true)}>
          {t("Ban a name …")} <kbd>c</kbd>
        </button>
      </Header>
      <Loaded of={names}>
        {rows => (
          <>
            {rows.length > 20 && <TextField label={t("Filter")} type="search" value={filter} onValue={setFilter} />}
            <Table<BannedName>
              caption={t("Banned names")}
              rows={rows.filter(({ pattern }) => pattern.toLowerCase().includes(filter.toLowerCase()))}
              keyOf={({ id }) => id}
              empty={<Empty title={t("No name is banned.")} />}
              columns={[
                {
                  title: t("Name"),

                  cell: ({ pattern, is_regex }) => (
                    <>
                      <code>{pattern}</code> {is_regex && <Badge tone="cool">{t("pattern")}</Badge>}
                    </>
                  ),
                },
                {
                  title: t("Reason"),
                  rem: 18,
                  from: "medium",
                  cell: ({ reason }) => reason ?? <span class="faint">–</span>,
                },
                { title: t("Since"), rem: 11, from: "medium", cell: ({ created_at }) => <Time at={created_at} /> },
                {
                  title: t("Change"),
                  rem: 6,
                  cell: row => (
                    <button
                      type="button"
                      class="small"
                      aria-label={t("Free {pattern}", { pattern: row.pattern })}
                      onClick={() => void remove(row)}
                    >
                      {t("Free")}
                    </button>
                  ),
                },
              ]}
            />
          </>
        )}
      </Loaded>
      {isAdding && <Ban onClose={() => setAdding(false)} onChange={names.reload} />}
    </>
  )
}

function Ban({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [pattern, setPattern] = useState("")
  const [reason, setReason] = useState("")
  const [isRegex, setRegex] = useState(false)
  return (
    <Dialog title={t("Ban a name")} onClose={onClose}>
      <Form
        does={t("Ban")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await call("POST /security/banned-usernames", {
            body: { pattern, is_regex: isRegex, ...(reason && { reason }) },
          })
          say(t("{pattern} is banned.", { pattern }), async () => {
            const bans = await call("GET /security/banned-usernames")
            const ban = bans.find(one => one.pattern === pattern && one.is_regex === isRegex)
            if (ban) await call("DELETE /security/banned-usernames/:pattern_id", { params: { pattern_id: ban.id } })
            say(t("{pattern} is free.", { pattern }))
            onChange()
          })
          onChange()
          onClose()
        }}
      >
        <TextField
          label={t("Name or pattern")}
          hint={
            isRegex
              ? t("It is looked for anywhere in a name, ignoring case. A short pattern hits many names.")
              : t("The whole name, ignoring case. Look-alikes such as 4dm1n are meant, too.")
          }
          value={pattern}
          onValue={setPattern}
          required
          maxLength={100}
          spellcheck={false}
          takesFocus
        />
        <Checkbox label={t("It is a regular expression")} value={isRegex} onValue={setRegex} />
        <TextField label={t("Reason, which people see")} value={reason} onValue={setReason} maxLength={200} />
      </Form>
    </Dialog>
  )
}
