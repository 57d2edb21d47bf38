import { useEffect, useRef, useState } from "preact/hooks"
import { Tabs, type Choices } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import type { KeyBinding } from "../../kit/keys.ts"
import { usePages, useResource, type Pages } from "../../kit/resource.ts"
import { place, setQuery } from "../../kit/router.ts"
import { Empty, Failed } from "../../kit/states.tsx"
import { Table, type Column } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { doSoon } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { HashReportPane } from "../reports/hash-report.tsx"
import { MessageReportPane, UserReportPane } from "../reports/person-report.tsx"
import { queues, type Kind, type Queue, type Report } from "../reports/queues.ts"

const kinds: Choices<Kind> = [
  ["messages", t("Messages")],
  ["users", t("Users")],
  ["files", t("Files")],
]

/** The reports that wait, and those that are decided: one queue for each kind. */
export function Reviews() {
  const { query } = place.value
  const kind = kinds.find(([kind]) => kind === query.get("kind"))?.[0] ?? "messages"
  const status = query.get("status") ?? "pending"
  const counts = useResource(
    async signal => {
      const [messages, users, files] = await Promise.all([
        call("GET /message-reports/counts", {}, { signal }),
        call("GET /user-reports/counts", {}, { signal }),
        call("GET /hash-reports/counts", {}, { signal }),
      ])
      return { messages, users, files }
    },
    [],
    { everyMs: 15_000 },
  )
  return (
    <>
      <Header
        title={t("Reports")}
        about={t(
          "Select one with j and k; the keys on the buttons decide. What only closes a report can be undone for a few seconds.",
        )}
      />
      <div class="bar">
        <Tabs
          label={t("Kind")}
          value={kind}
          choices={kinds.map(([kind, title]) => [kind, title, counts.data?.[kind].pending] as const)}
          onValue={kind => setQuery({ kind, status: undefined })}
        />
        <Tabs
          label={t("State")}
          value={status}
          choices={["pending", ...queues[kind].decided].map(status => [status, capital(status)] as const)}
          onValue={status => setQuery({ status })}
        />
      </div>
      <ReviewQueue
        key={`${kind} ${status}`}
        kind={kind}
        status={status}
        pending={counts.data?.[kind].pending}
        onDecided={counts.reload}
      />
    </>
  )
}

const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

interface QueueOptions {
  readonly kind: Kind
  readonly status: string
  /** How many wait, as far as is known. */
  readonly pending: number | undefined
  readonly onDecided: () => void
}

function ReviewQueue({ kind, status, pending, onDecided }: QueueOptions) {
  const queue = queues[kind] as Queue<Report>
  /** Decided here, though the server may not know yet. */
  const [decided, setDecided] = useState<ReadonlySet<string>>(new Set())
  const [active, setActive] = useState<Report>()
  const [isOpen, setOpen] = useState(false)
  const [sanction, setSanction] = useState(false)
  const isPending = status === "pending"
  const pages: Pages<Report> = usePages<Report>(
    ({ limit, offset }, signal) => {
      // What was decided here does not wait any more: the rows behind it have moved up.
      const left = isPending ? Math.max(0, offset - (pages.items.length - rows.length)) : offset
      return queue.list({ limit, offset: left, status_filter: status }, signal)
    },
    ({ id }) => id,
    [kind, status],
  )
  const rows = pages.items.filter(({ id }) => !decided.has(id))
  const pendingBefore = useRef(pending)
  useEffect(() => {
    if (isPending && pending !== undefined && pending > (pendingBefore.current ?? pending)) pages.reload()
    pendingBefore.current = pending
  }, [pending])
  const report = rows.find(({ id }) => id === active?.id)

  const mark = (id: string, isDecided: boolean) =>
    setDecided(before => {
      const after = new Set(before)
      if (isDecided) after.add(id)
      else after.delete(id)
      return after
    })
  /** The next row takes its place. */
  const decide = (report: Report, action: string, done: string) => {
    setOpen(false)
    if (isPending) mark(report.id, true)
    doSoon(
      done,
      async options => {
        await queue.review(report.id, { action }, options)
        onDecided()
        if (!isPending) pages.reload()
      },
      () => mark(report.id, false),
    )
  }
  const decisions = (report: Report | undefined): KeyBinding[] =>
    queue.decisions.map(({ key, action, does, done }) => ({
      key,
      does,
      run: report && (() => (done === undefined ? setSanction(true) : decide(report, action, done))),
    }))
  const acted = () => {
    setSanction(false)
    setOpen(false)
    if (report && isPending) mark(report.id, true)
    else pages.reload()
    onDecided()
  }

  const Pane = panes[kind]
  return (
    <>
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      <div class="panes" data-open={isOpen}>
        <div class="master">
          <Table
            caption={t("Reports")}
            rows={rows}
            keyOf={({ id }) => id}
            onActive={setActive}
            onOpen={() => setOpen(true)}
            onEnd={pages.more}
            isLoading={pages.isLoading}
            keysFor={decisions}
            empty={
              pages.error === undefined && (
                <Empty title={isPending ? t("Nothing waits. Well done.") : t("There is none of this kind.")} />
              )
            }
            columns={columns}
          />
        </div>
        {report && (
          <div class="detail">
            <p class="back">
              <button type="button" class="quiet" onClick={() => setOpen(false)}>
                ← {t("Back to the list")}
              </button>
            </p>
            <div class="buttons start">
              {decisions(report).map(({ key, does, run }, i) => (
                <button key={key} type="button" class={queue.decisions[i]?.tone} onClick={run}>
                  {does} <kbd>{key}</kbd>
                </button>
              ))}
            </div>
            <Pane
              key={report.id}
              report={report as never}
              isActing={sanction}
              onActed={acted}
              onClose={() => setSanction(false)}
            />
          </div>
        )}
      </div>
    </>
  )
}

const panes = { messages: MessageReportPane, users: UserReportPane, files: HashReportPane }

const columns: readonly Column<Report>[] = [
  {
    title: t("Reason"),
    cell: report => (
      <>
        <strong>{report.reason}</strong>
        {"category" in report && <small>{report.category.replaceAll("_", " ")}</small>}
      </>
    ),
  },
  { title: t("Reported"), rem: 7.5, cell: ({ reported_at }) => <Time at={reported_at} apart /> },
]
