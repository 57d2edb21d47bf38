import { useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, Select, Tabs, TextField, type Choices } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { usePages, useResource } from "../../kit/resource.ts"
import { place, setQuery } from "../../kit/router.ts"
import { Badge, Empty, Failed, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { hours, UserLink } from "../sanctions.tsx"
import type { BlockedAddress, BlockedHash, BlockedUploader } from "../wire.ts"

type Kind = "addresses" | "files" | "uploaders"
const kinds: Choices<Kind> = [
  ["addresses", t("Addresses")],
  ["files", t("Files")],
  ["uploaders", t("Uploaders")],
]

/** What stands on the lists. Each row can be taken off, and put back. */
export function Blocks() {
  const asked = place.value.query.get("kind")
  const kind = kinds.find(([kind]) => kind === asked)?.[0] ?? "addresses"
  const List = lists[kind]
  return (
    <>
      <Header title={t("Blocks")} about={about[kind]} />
      <Tabs label={t("Kind")} value={kind} choices={kinds} onValue={kind => setQuery({ kind })} />
      <List />
    </>
  )
}

const about: Readonly<Record<Kind, string>> = {
  addresses: t("Nothing is answered to these addresses, and their connections are closed."),
  files: t("Nobody can send these files."),
  uploaders: t("These users can send no files. Everything else is open to them."),
}

const AddButton = ({ does, onAdd }: { does: string; onAdd: () => void }) => {
  useKeys(t("Blocks"), [{ key: "c", does, run: onAdd }])
  return (
    <p class="buttons start">
      <button type="button" class="strong" onClick={onAdd}>
        {does} <kbd>c</kbd>
      </button>
    </p>
  )
}

const RemoveButton = ({ what, onRemove }: { what: string; onRemove: () => void }) => (
  <button type="button" class="small" aria-label={t("Unblock {what}", { what })} onClick={onRemove}>
    {t("Unblock")}
  </button>
)

const secondsPerHour = 3_600
/** What is left of a block, for putting it back. */
const hoursLeft = (expiresAt: number | null) =>
  expiresAt === null
    ? {}
    : { duration_hours: Math.max(1, Math.ceil((expiresAt - Date.now() / 1_000) / secondsPerHour)) }

function Addresses() {
  const list = useResource(signal => call("GET /security/blocked-ips", {}, { signal }), [])
  const [isAdding, setAdding] = useState(false)
  const remove = (row: BlockedAddress) =>
    attempt(
      () => call("DELETE /security/unblock-ip/:ip_address*", { params: { ip_address: row.ip_address } }),
      t("{address} is open again.", { address: row.ip_address }),
      async () => {
        await attempt(
          () =>
            call("POST /security/block-ip", {
              body: {
                ip_address: row.ip_address,
                ...(row.reason !== null && { reason: row.reason }),
                ...hoursLeft(row.expires_at),
              },
            }),
          t("{address} is blocked again.", { address: row.ip_address }),
        )
        list.reload()
      },
    ).then(list.reload)
  return (
    <>
      <AddButton does={t("Block an address …")} onAdd={() => setAdding(true)} />
      <Loaded of={list}>
        {rows => (
          <Table<BlockedAddress>
            caption={t("Blocked addresses")}
            rows={rows}
            keyOf={({ ip_address }) => ip_address}
            empty={<Empty title={t("No address is blocked.")} />}
            columns={[
              { title: t("Address"), cell: ({ ip_address }) => <code>{ip_address}</code> },
              {
                title: t("Reason"),
                rem: 16,
                from: "medium",
                cell: ({ reason }) => reason ?? <span class="faint">–</span>,
              },
              { title: t("Since"), rem: 11, from: "large", cell: ({ blocked_at }) => <Time at={blocked_at} /> },
              {
                title: t("Until"),
                rem: 8,
                cell: ({ expires_at }) => <Time at={expires_at} none={t("for good")} apart />,
              },
              {
                title: t("Change"),
                rem: 7,
                cell: row => <RemoveButton what={row.ip_address} onRemove={() => void remove(row)} />,
              },
            ]}
          />
        )}
      </Loaded>
      {isAdding && <BlockAddress onClose={() => setAdding(false)} onChange={list.reload} />}
    </>
  )
}

/** How many addresses a range holds, in words. */
function sizeOf(text: string): string {
  const [address = "", prefix] = text.trim().split("/")
  if (address === "" || prefix === undefined) return t("One address.")
  const left = (address.includes(":") ? 128 : 32) - Number(prefix)
  if (!(left >= 0)) return ""
  return left > 40 ? t("2 to the power of {left} addresses.", { left }) : t("{n} addresses.", { n: 2 ** left })
}

function BlockAddress({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [address, setAddress] = useState("")
  const [reason, setReason] = useState("")
  const [length, setLength] = useState("")
  return (
    <Dialog title={t("Block an address")} onClose={onClose}>
      <Form
        does={t("Block")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          const ip_address = address.trim()
          await call("POST /security/block-ip", {
            body: { ip_address, ...(reason && { reason }), ...(length && { duration_hours: Number(length) }) },
          })
          say(t("{address} is blocked.", { address: ip_address }), async () => {
            await attempt(
              () => call("DELETE /security/unblock-ip/:ip_address*", { params: { ip_address } }),
              t("{address} is open again.", { address: ip_address }),
            )
            onChange()
          })
          onChange()
          onClose()
        }}
      >
        <TextField
          label={t("Address or range")}
          hint={
            <>
              {t("Such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/32.")} <b aria-live="polite">{sizeOf(address)}</b>
            </>
          }
          value={address}
          onValue={setAddress}
          required
          maxLength={64}
          spellcheck={false}
          takesFocus
        />
        <TextField label={t("Reason, for operators")} value={reason} onValue={setReason} maxLength={500} />
        <Select label={t("For how long")} value={length} choices={hours} onValue={setLength} />
        <p class="faint">
          {t(
            "Everybody who comes from there is cut off within a second: a school or a provider may share one address. It can be undone.",
          )}
        </p>
      </Form>
    </Dialog>
  )
}

function Files() {
  const pages = usePages(
    (query, signal) => call("GET /blocked-hashes", { query }, { signal }),
    ({ hash_value }) => hash_value,
    [],
  )
  const [isAdding, setAdding] = useState(false)
  const remove = (row: BlockedHash) =>
    attempt(
      () => call("DELETE /blocked-hashes/:hash_value", { params: { hash_value: row.hash_value } }),
      t("The file may be sent again."),
      async () => {
        const { hash_value, reason } = row
        await attempt(() => call("POST /blocked-hashes", { body: { hash_value, reason } }), t("It is blocked again."))
        pages.reload()
      },
    ).then(pages.reload)
  return (
    <>
      <AddButton does={t("Block a file …")} onAdd={() => setAdding(true)} />
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      <Table<BlockedHash>
        caption={t("Blocked files")}
        rows={pages.items}
        keyOf={({ hash_value }) => hash_value}
        onEnd={pages.more}
        isLoading={pages.isLoading}
        empty={pages.error === undefined && <Empty title={t("No file is blocked.")} />}
        columns={[
          { title: t("Digest"), cell: ({ hash_value }) => <code>{hash_value}</code> },
          {
            title: t("Kind"),
            rem: 9,
            from: "large",
            cell: row => (row.hash_type === "phash" ? t("looks like it") : t("the same bytes")),
          },
          { title: t("Reason"), rem: 16, from: "medium", cell: ({ reason }) => reason },
          {
            title: t("By"),
            rem: 7.5,
            from: "large",
            cell: ({ auto_blocked }) => (auto_blocked ? <Badge tone="cool">{t("reports")}</Badge> : t("an operator")),
          },
          { title: t("Since"), rem: 11, from: "medium", cell: ({ blocked_at }) => <Time at={blocked_at} /> },
          {
            title: t("Change"),
            rem: 7,
            cell: row => <RemoveButton what={row.hash_value} onRemove={() => void remove(row)} />,
          },
        ]}
      />
      {isAdding && <BlockFile onClose={() => setAdding(false)} onChange={pages.reload} />}
    </>
  )
}

function BlockFile({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [hash, setHash] = useState("")
  const [reason, setReason] = useState("")
  return (
    <Dialog title={t("Block a file")} onClose={onClose}>
      <Form
        does={t("Block")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          const hash_value = hash.trim().toLowerCase()
          await call("POST /blocked-hashes", { body: { hash_value, reason } })
          say(t("The file is blocked for everybody."), async () => {
            await attempt(() => call("DELETE /blocked-hashes/:hash_value", { params: { hash_value } }), t("Undone."))
            onChange()
          })
          onChange()
          onClose()
        }}
      >
        <TextField
          label={t("Digest in hex")}
          hint={t(
            "SHA-256 (64 digits) means these very bytes. A perceptual hash (16 to 32 digits) means every picture that looks like it.",
          )}
          value={hash}
          onValue={setHash}
          required
          pattern="[0-9a-fA-F]{16,128}"
          spellcheck={false}
          takesFocus
        />
        <TextField label={t("Reason")} value={reason} onValue={setReason} required maxLength={500} />
      </Form>
    </Dialog>
  )
}

function Uploaders() {
  const pages = usePages(
    (query, signal) => call("GET /blocked-users", { query }, { signal }),
    ({ user_id }) => user_id,
    [],
  )
  const [isAdding, setAdding] = useState(false)
  const remove = (row: BlockedUploader) =>
    attempt(
      () => call("DELETE /blocked-users/:user_id", { params: { user_id: row.user_id } }),
      t("{username} may send files again.", { username: row.username ?? row.user_id }),
      async () => {
        const body = { user_id: row.user_id, reason: row.reason, ...hoursLeft(row.expires_at) }
        await attempt(() => call("POST /blocked-users", { body }), t("Undone."))
        pages.reload()
      },
    ).then(pages.reload)
  return (
    <>
      <AddButton does={t("Block an uploader …")} onAdd={() => setAdding(true)} />
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      <Table<BlockedUploader>
        caption={t("Blocked uploaders")}
        rows={pages.items}
        keyOf={({ user_id }) => user_id}
        onEnd={pages.more}
        isLoading={pages.isLoading}
        empty={pages.error === undefined && <Empty title={t("Nobody is blocked from uploads.")} />}
        columns={[
          { title: t("User"), cell: row => <UserLink id={row.user_id} name={row.username} /> },
          { title: t("Reason"), rem: 16, from: "medium", cell: ({ reason }) => reason },
          { title: t("Since"), rem: 11, from: "large", cell: ({ blocked_at }) => <Time at={blocked_at} /> },
          { title: t("Until"), rem: 8, cell: ({ expires_at }) => <Time at={expires_at} none={t("for good")} apart /> },
          {
            title: t("Change"),
            rem: 7,
            cell: row => <RemoveButton what={row.username ?? row.user_id} onRemove={() => void remove(row)} />,
          },
        ]}
      />
      {isAdding && <BlockUploader onClose={() => setAdding(false)} onChange={pages.reload} />}
    </>
  )
}

function BlockUploader({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [id, setId] = useState("")
  const [reason, setReason] = useState("")
  const [length, setLength] = useState("")
  return (
    <Dialog title={t("Block an uploader")} onClose={onClose}>
      <Form
        does={t("Block uploads")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          const user_id = id.trim()
          await call("POST /blocked-users", {
            body: { user_id, reason, ...(length && { duration_hours: Number(length) }) },
          })
          say(t("The user can send no more files."), async () => {
            await attempt(() => call("DELETE /blocked-users/:user_id", { params: { user_id } }), t("Undone."))
            onChange()
          })
          onChange()
          onClose()
        }}
      >
        <TextField
          label={t("User id")}
          hint={t("One account. It can write still, and files that were sent stay.")}
          value={id}
          onValue={setId}
          required
          inputMode="numeric"
          pattern="\d{1,19}"
          takesFocus
        />
        <TextField label={t("Reason")} value={reason} onValue={setReason} required maxLength={500} />
        <Select label={t("For how long")} value={length} choices={hours} onValue={setLength} />
      </Form>
    </Dialog>
  )
}

const lists = { addresses: Addresses, files: Files, uploaders: Uploaders }
