import { useState } from "preact/hooks"
import type { AuditLogEntryResponse } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { Select } from "../../kit/forms.tsx"
import { usePages } from "../../kit/resource.ts"
import { Empty, Failed } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { nameIn } from "../names.ts"
import { me } from "../session.ts"
import { titleOf } from "../permission-words.ts"
import { MemberPicker, useServer, type PartOptions } from "./shared.tsx"

type Action = AuditLogEntryResponse["action"]

/** What was done, as a sentence that begins with who did it. */
const sentences = (what: string, id: string): Readonly<Record<Action, string>> => ({
  SERVER_CREATE: t("made the server"),
  SERVER_UPDATE: t("changed the server"),
  CHANNEL_CREATE: t("made the channel {what}", { what }),
  CHANNEL_UPDATE: t("changed the channel {what}", { what }),
  CHANNEL_DELETE: t("deleted the channel {what}", { what }),
  ROLE_CREATE: t("made the role {what}", { what }),
  ROLE_UPDATE: t("changed the role {what}", { what }),
  ROLE_DELETE: t("deleted the role {what}", { what }),
  MEMBER_JOIN: t("joined"),
  MEMBER_LEAVE: t("left"),
  BOT_ADD: t("added the bot {what}", { what }),
  MEMBER_KICK: t("removed {what}", { what }),
  MEMBER_BAN: t("banned {what}", { what }),
  MEMBER_UNBAN: t("lifted the ban of {what}", { what }),
  MEMBER_UPDATE: t("changed the member {what}", { what }),
  MEMBER_ROLE_ADD: t("gave {what} a role", { what }),
  MEMBER_ROLE_REMOVE: t("took a role from {what}", { what }),
  INVITE_CREATE: t("made the invite {id}", { id }),
  INVITE_USE: t("came with the invite {id}", { id }),
  INVITE_DELETE: t("ended the invite {id}", { id }),
  OVERRIDE_CREATE: t("set permissions in {what}", { what }),
  OVERRIDE_UPDATE: t("changed permissions in {what}", { what }),
  OVERRIDE_DELETE: t("took back permissions in {what}", { what }),
  EMOJI_CREATE: t("added the emoji {what}", { what }),
  EMOJI_UPDATE: t("renamed the emoji {what}", { what }),
  EMOJI_DELETE: t("deleted the emoji {what}", { what }),
  STICKER_CREATE: t("added the sticker {what}", { what }),
  STICKER_DELETE: t("deleted the sticker {what}", { what }),
  AUTOMOD_RULE_CREATE: t("made the rule {what}", { what }),
  AUTOMOD_RULE_UPDATE: t("changed the rule {what}", { what }),
  AUTOMOD_RULE_DELETE: t("deleted the rule {what}", { what }),
  MESSAGE_DELETE: t("deleted a message"),
  MESSAGE_BULK_DELETE: t("deleted several messages"),
  MESSAGE_PIN: t("pinned a message"),
  MESSAGE_UNPIN: t("took a pin away"),
  WEBHOOK_CREATE: t("made the webhook {what}", { what }),
  WEBHOOK_UPDATE: t("changed the webhook {what}", { what }),
  WEBHOOK_DELETE: t("deleted the webhook {what}", { what }),
})

export function AuditLog({ server }: PartOptions) {
  const known = useServer(server)
  const [action, setAction] = useState<Action | "">("")
  const [user, setUser] = useState<string>()
  const { client } = me()
  const pages = usePages(
    (_, __, last: AuditLogEntryResponse | undefined) =>
      client.listAuditLog({
        server_id: server,
        limit: String(pageSize),
        ...(action !== "" && { action }),
        ...(user !== undefined && { user_id: user }),
        ...(last && { before: last.id }),
      }),
    ({ id }) => id,
    [server, action, user],
    pageSize,
  )
  if (!known) return <p class="loading">{t("Loading …")}</p>
  const kinds = Object.entries(sentences("…", "…")) as [Action, string][]
  return (
    <section class="card">
      <h2>{t("Audit log")}</h2>
      <div class="bar">
        <Select
          label={t("What was done")}
          value={action}
          choices={[["", t("Everything")], ...kinds.map(([name, words]) => [name, capital(words)] as const)]}
          onValue={setAction}
        />
        <MemberPicker known={known} label={t("By")} onPick={setUser} />
        {user !== undefined && (
          <button type="button" onClick={() => setUser(undefined)}>
            {t("By {name} ×", { name: nameIn(known, user, user) })}
          </button>
        )}
      </div>
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      {pages.items.length === 0 && !pages.isLoading && <Empty title={t("There are none.")} />}
      <ul class="notes">
        {pages.items.map(entry => (
          <Entry key={entry.id} known={known} of={entry} />
        ))}
      </ul>
      {pages.isLoading && <p class="loading">{t("Loading …")}</p>}
      {pages.hasMore && (
        <button type="button" onClick={pages.more}>
          {t("Older ones")}
        </button>
      )}
    </section>
  )
}
const pageSize = 50
const capital = (words: string) => words.charAt(0).toUpperCase() + words.slice(1)

function Entry({ known, of: entry }: { known: KnownServer; of: AuditLogEntryResponse }) {
  const { action, user, user_id, target_type, target_id, target_name, changes, reason, created_at } = entry
  const id = target_id ?? ""
  const what = target_type === "member" ? nameIn(known, id, target_name ?? id) : (target_name ?? t("something hidden"))
  const rows = Object.entries(changes)
  return (
    <li>
      <p>
        <b class="long">{nameIn(known, user_id, user?.username ?? user_id)}</b>{" "}
        <span class="long">{sentences(what, id)[action]}</span> <Time at={created_at} apart />
      </p>
      {reason !== "" && <p class="faint long">{t("Reason: {reason}", { reason })}</p>}
      {rows.length > 0 && (
        <details>
          <summary class="faint">{t("What changed")}</summary>
          <dl class="facts">
            {rows.map(([field, { old: before, new: after }]) => (
              <div key={field}>
                <dt>{wordsOf(field)}</dt>
                <dd>
                  <Difference known={known} before={before} after={after} />
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </li>
  )
}

/** `slowmode_seconds` as `Slowmode seconds`. */
const wordsOf = (field: string) => capital(field.replaceAll("_", " "))

/** Of two lists only what is in one of them. */
function Difference({ known, before, after }: { known: KnownServer; before: unknown; after: unknown }) {
  if (Array.isArray(before) || Array.isArray(after)) {
    const [old, now] = [listOf(before), listOf(after)]
    const [gone, come] = [old.filter(one => !now.includes(one)), now.filter(one => !old.includes(one))]
    return (
      <>
        {come.length > 0 && <ins>{come.map(one => shown(known, one)).join(", ")}</ins>}{" "}
        {gone.length > 0 && <del>{gone.map(one => shown(known, one)).join(", ")}</del>}
      </>
    )
  }
  return (
    <>
      {before !== null && before !== undefined && <del>{shown(known, before)}</del>}{" "}
      {after !== null && after !== undefined && <ins>{shown(known, after)}</ins>}
    </>
  )
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** With names for permissions, roles, channels and members. */
function shown(known: KnownServer, value: unknown): string {
  if (typeof value === "boolean") return value ? t("yes") : t("no")
  if (typeof value !== "string") return JSON.stringify(value)
  return known.roles.get(value)?.name ?? known.channels.get(value)?.name ?? nameIn(known, value, titleOf(value))
}
