import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Refusal } from "../../kit/api.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Checkbox, Form, TextArea } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useResource } from "../../kit/resource.ts"
import { linkTo } from "../../kit/router.ts"
import { Badge, Facts, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { blockUploads, lock, LockFields, sessionsOf, UserLink } from "../sanctions.tsx"
import type { ContextMessage, MessageReport, UserDetail, UserReport } from "../wire.ts"
import { Preview } from "./preview.tsx"
import { queues, type Kind } from "./queues.ts"
import { StatusBadge } from "./status-badge.tsx"

export interface PaneOptions<R> {
  readonly report: R
  /** The dialog that acts on the report is open. */
  readonly isActing: boolean
  readonly onActed: () => void
  readonly onClose: () => void
}

export function MessageReportPane({ report, ...options }: PaneOptions<MessageReport>) {
  return (
    <Shown kind="messages" report={report} {...options}>
      <h3>{t("The message in context")}</h3>
      <Context report={report} />
    </Shown>
  )
}

export function UserReportPane({ report, ...options }: PaneOptions<UserReport>) {
  return (
    <Shown kind="users" report={report} {...options}>
      {report.evidence_message_ids.length > 0 && (
        <>
          <h3>{t("Messages named as evidence")}</h3>
          <ul>
            {report.evidence_message_ids.map(id => (
              <li key={id}>
                <code>{id}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </Shown>
  )
}

type PersonReport = MessageReport | UserReport

function Shown({
  kind,
  report,
  children,
  isActing,
  onActed,
  onClose,
}: PaneOptions<PersonReport> & { kind: Exclude<Kind, "files">; children: ComponentChildren }) {
  const user = useResource(
    signal => call("GET /users/:user_id", { params: { user_id: report.reported_user_id } }, { signal }),
    [report.reported_user_id],
  )
  // A message of a webhook has that as its author; an account may be gone by now.
  const isNoAccount = user.error instanceof Refusal && user.error.status === 404
  const act = (user?: UserDetail) => (
    <ActDialog kind={kind} report={report} user={user} onActed={onActed} onClose={onClose} />
  )
  return (
    <article class="card" aria-label={t("The report")}>
      <h2>
        {report.reason} <StatusBadge status={report.status} />
      </h2>
      <Facts
        of={[
          [t("Category"), report.category.replaceAll("_", " ")],
          [t("About"), <About report={report} user={user.data} isNoAccount={isNoAccount} />],
          [t("Reported by"), <UserLink id={report.reporter_id} name={report.reporter_username} />],
          [t("When"), <Time at={report.reported_at} />],
          ...(report.details ? [[t("Details"), <q class="text">{report.details}</q>] as const] : []),
          ...(report.reviewed_at === null
            ? []
            : [
                [
                  t("Decided"),
                  <>
                    <Time at={report.reviewed_at} />{" "}
                    {report.reviewed_by_username && t("by {operator}", { operator: report.reviewed_by_username })}
                  </>,
                ] as const,
              ]),
          ...(report.admin_notes ? [[t("Notes"), report.admin_notes] as const] : []),
        ]}
      />
      {children}
      {isActing && (isNoAccount ? act() : <Loaded of={user}>{act}</Loaded>)}
    </article>
  )
}

interface AboutOptions {
  readonly report: PersonReport
  readonly user: UserDetail | undefined
  readonly isNoAccount: boolean
}

function About({ report, user, isNoAccount }: AboutOptions) {
  if (isNoAccount)
    return (
      <>
        {report.reported_username ?? <code>{report.reported_user_id}</code>}{" "}
        <Badge>{"message_id" in report ? t("a webhook, or gone") : t("gone")}</Badge>
      </>
    )
  return (
    <>
      <UserLink id={report.reported_user_id} name={user?.username ?? report.reported_username} />{" "}
      {user?.lock_kind === "operator" && <Badge tone="bad">{t("locked")}</Badge>}
    </>
  )
}

const whatBecame = {
  unchanged: undefined,
  edited: t("It was edited since it was reported."),
  deleted: t("It is deleted by now."),
}

const placeOf = ({ server_id }: MessageReport, channel_name: string | null) =>
  server_id === null
    ? t("In a direct conversation")
    : channel_name === null
      ? t("In a channel that is deleted")
      : t("In #{channel_name}", { channel_name })

function Context({ report }: { report: MessageReport }) {
  const context = useResource(
    signal => call("GET /message-reports/:report_id/context", { params: { report_id: report.id } }, { signal }),
    [report.id],
  )
  return (
    <>
      <Loaded of={context}>
        {({ state, message, before, after, channel_name, server_name }) => (
          <>
            <p class="faint">
              {placeOf(report, channel_name)}
              {server_name !== null && t(" of {server_name}", { server_name })}
              {report.server_id !== null && (
                <>
                  {" "}
                  <code>{report.server_id}</code>{" "}
                  <a href={linkTo(["automod"], { server: report.server_id })}>{t("Rules of the server")}</a>
                </>
              )}
              {whatBecame[state] && <b> {whatBecame[state]}</b>}
            </p>
            <ol class="context">
              {before.map(one => (
                <Said key={one.id} message={one} />
              ))}
              {message && <Said key={message.id} message={message} isMeant />}
              {after.map(one => (
                <Said key={one.id} message={one} />
              ))}
            </ol>
          </>
        )}
      </Loaded>
      {report.message_content !== null && (
        <details>
          <summary>{t("As it was when it was reported")}</summary>
          <p class="text">{report.message_content}</p>
        </details>
      )}
    </>
  )
}

function Said({ message, isMeant = false }: { message: ContextMessage; isMeant?: boolean }) {
  const files = message.attachments.length
  return (
    <li class={isMeant ? "meant" : undefined}>
      <p class="faint">
        {message.webhook_id ? (
          message.author_username
        ) : (
          <UserLink id={message.author_id} name={message.author_username} />
        )}{" "}
        <Time at={message.created_at} /> {isMeant && <Badge tone="bad">{t("reported")}</Badge>}
      </p>
      <p class="text">
        {message.content || <span class="faint">{t("no text")}</span>}
        {files > 0 && <span class="faint"> {count(files, "+ {n} file", "+ {n} files")}</span>}
      </p>
      {isMeant &&
        message.attachments
          .filter(({ content_type }) => content_type.startsWith("image/"))
          .map(({ id, url }) => <Preview key={id} url={url} />)}
    </li>
  )
}

interface ActOptions {
  readonly kind: Exclude<Kind, "files">
  readonly report: PersonReport
  /** Absent: there is no account to act on. */
  readonly user: UserDetail | undefined
  readonly onActed: () => void
  readonly onClose: () => void
}

/** Sanctions first, then the report: if one of them is refused the report waits still. */
function ActDialog({ kind, report, user, onActed, onClose }: ActOptions) {
  const [isLocking, setLocking] = useState(user !== undefined)
  const [length, setLength] = useState("")
  const [isBlocking, setBlocking] = useState(false)
  const [reason, setReason] = useState("")
  const [notes, setNotes] = useState("")
  const username = user?.username ?? report.reported_username ?? report.reported_user_id
  const act = async () => {
    if (user && isLocking) await lock(user, { length, reason }, () => {})
    if (user && isBlocking) await blockUploads(user, report.reason, "", () => {})
    await queues[kind].review(report.id, { action: "action", ...(notes && { notes }) }, {})
    if (!isLocking && !isBlocking) say(t("The report is noted as acted on."))
    onActed()
  }
  return (
    <Dialog title={t("Act on the report about {username}", { username })} onClose={onClose}>
      <Form
        does={isLocking ? t("Lock and close the report") : t("Close the report")}
        isDangerous
        onCancel={onClose}
        onSubmit={act}
      >
        {user && (
          <Checkbox
            label={t("Lock the account")}
            hint={`${sessionsOf(user)} ${t("What the account wrote stays.")}`}
            value={isLocking}
            onValue={setLocking}
          />
        )}
        {isLocking && <LockFields length={length} onLength={setLength} reason={reason} onReason={setReason} />}
        {user && (
          <Checkbox
            label={t("Block uploads")}
            hint={t("The account can send no more files, until an operator takes the block away.")}
            value={isBlocking}
            onValue={setBlocking}
          />
        )}
        <TextArea label={t("Notes for operators")} value={notes} onValue={setNotes} maxLength={2_000} />
        <p class="faint">
          {user
            ? t(
                "The report is noted as acted on. Locks and blocks can be undone; neither the reporter nor {username} is told of the report.",
                { username },
              )
            : t("The report is noted as acted on. There is no account that could be locked.")}
        </p>
      </Form>
    </Dialog>
  )
}
