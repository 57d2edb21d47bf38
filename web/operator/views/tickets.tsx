import { useState } from "preact/hooks"
import { Form, Select, Tabs, TextArea, type Choices } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { usePages, useResource } from "../../kit/resource.ts"
import { linkTo, place, setQuery } from "../../kit/router.ts"
import { Badge, Empty, Facts, Failed, Loaded, type Tone } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { attempt, sayFailed } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { UserLink } from "../sanctions.tsx"
import type { Ticket, TicketStatus } from "../wire.ts"

const statuses: Choices<TicketStatus> = [
  ["open", t("Open")],
  ["in_progress", t("In progress")],
  ["resolved", t("Resolved")],
  ["closed", t("Closed")],
]
const tones: Record<TicketStatus, Tone> = { open: "warm", in_progress: "cool", resolved: "good", closed: "plain" }
const named = (status: TicketStatus) => statuses.find(([one]) => one === status)?.[1] ?? status

const StatusBadge = ({ of }: { of: TicketStatus }) => <Badge tone={tones[of]}>{named(of)}</Badge>

export function Tickets() {
  const status = place.value.query.get("status") ?? "open"
  const counts = useResource(async signal => {
    const { tickets, db_status } = await call("GET /dashboard", {}, { signal })
    return db_status === "healthy" ? tickets : null
  }, [])
  const pages = usePages(
    (page, signal) =>
      call("GET /tickets", { query: { ...page, ...(status !== "all" && { status_filter: status }) } }, { signal }),
    ({ id }) => id,
    [status],
  )
  return (
    <>
      <Header title={t("Tickets")} about={t("What users wrote to you.")} />
      <Tabs
        label={t("State")}
        value={status}
        choices={[
          ...statuses.map(([one, title]) => [one, title, counts.data?.[one]] as const),
          ["all", t("All"), counts.data?.total] as const,
        ]}
        onValue={status => setQuery({ status })}
      />
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      <Table<Ticket>
        caption={t("Tickets")}
        rows={pages.items}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => linkTo(["tickets", id])}
        onEnd={pages.more}
        isLoading={pages.isLoading}
        empty={pages.error === undefined && <Empty title={t("There is no such ticket.")} />}
        columns={[
          { title: t("Text"), cell: ({ content }) => content },
          { title: t("From"), rem: 9, from: "medium", cell: ({ username }) => username },
          {
            title: t("About"),
            rem: 8,
            from: "large",
            cell: ({ category }) => category ?? <span class="faint">–</span>,
          },
          { title: t("Rating"), rem: 7, from: "large", cell: ({ rating }) => <Rating of={rating} /> },
          { title: t("Written"), rem: 8, from: "medium", cell: ({ created_at }) => <Time at={created_at} apart /> },
          { title: t("State"), rem: 7.5, cell: ({ status }) => <StatusBadge of={status} /> },
        ]}
      />
    </>
  )
}

const Rating = ({ of }: { of: number | null }) =>
  of === null ? (
    <span class="faint">–</span>
  ) : (
    <span role="img" aria-label={t("{n} of 5", { n: of })}>
      {"★".repeat(of)}
      <span class="faint">{"★".repeat(5 - of)}</span>
    </span>
  )

export function TicketPage({ id }: { id: string }) {
  const params = { ticket_id: id }
  const ticket = useResource(signal => call("GET /tickets/:ticket_id", { params }, { signal }), [id])
  const notes = useResource(signal => call("GET /tickets/:ticket_id/notes", { params }, { signal }), [id])
  const put = async (status: TicketStatus) => {
    await call("PATCH /tickets/:ticket_id/status", { params, body: { status } })
    ticket.reload()
  }
  const setStatus = (status: TicketStatus) => {
    const before = ticket.data?.status
    if (before === undefined || before === status) return
    attempt(
      () => put(status),
      t("The ticket is now: {status}.", { status: named(status) }),
      () => attempt(() => put(before), t("Undone.")),
    ).catch(sayFailed)
  }
  useKeys(t("This ticket"), [
    { key: "e", does: t("Resolve"), run: () => setStatus("resolved") },
    { key: "i", does: t("In progress"), run: () => setStatus("in_progress") },
    { key: "x", does: t("Close"), run: () => setStatus("closed") },
    { key: "n", does: t("Write a note"), run: () => document.querySelector<HTMLElement>("#note textarea")?.focus() },
  ])
  return (
    <>
      <p class="back">
        <a href={linkTo(["tickets"])}>{t("Tickets")}</a>
      </p>
      <Loaded of={ticket}>
        {ticket => (
          <>
            <Header
              title={
                <>
                  {t("Ticket of {username}", { username: ticket.username })} <StatusBadge of={ticket.status} />
                </>
              }
            />
            <div class="columns">
              <section class="card" aria-labelledby="text">
                <h2 id="text">{t("Text")}</h2>
                <p class="text">{ticket.content}</p>
                <Facts
                  of={[
                    [t("From"), <UserLink id={ticket.user_id} name={ticket.username} />],
                    [t("Written"), <Time at={ticket.created_at} />],
                    [t("About"), ticket.category ?? "–"],
                    [t("Rating"), <Rating of={ticket.rating} />],
                    ...(ticket.resolved_at === null
                      ? []
                      : [
                          [
                            t("Done"),
                            <>
                              <Time at={ticket.resolved_at} />{" "}
                              {ticket.resolved_by_username &&
                                t("by {operator}", { operator: ticket.resolved_by_username })}
                            </>,
                          ] as const,
                        ]),
                  ]}
                />
                <Select label={t("State")} value={ticket.status} choices={statuses} onValue={setStatus} />
              </section>
              <section class="card" id="note" aria-labelledby="note-title">
                <h2 id="note-title">{t("Notes")}</h2>
                <Loaded of={notes}>
                  {data => (
                    <ul class="notes">
                      {data.map(note => (
                        <li key={note.id}>
                          <p class="faint">
                            {note.admin_username} · <Time at={note.created_at} />
                          </p>
                          <p class="text">{note.content}</p>
                        </li>
                      ))}
                      {data.length === 0 && <li class="faint">{t("None yet. The person does not see them.")}</li>}
                    </ul>
                  )}
                </Loaded>
                <NewNote
                  send={async content => {
                    await call("POST /tickets/:ticket_id/notes", { params, body: { content } })
                    notes.reload()
                  }}
                />
              </section>
            </div>
          </>
        )}
      </Loaded>
    </>
  )
}

function NewNote({ send }: { send: (content: string) => Promise<void> }) {
  const [content, setContent] = useState("")
  return (
    <Form
      does={t("Add the note")}
      isReady={content.trim() !== ""}
      onSubmit={async () => {
        await send(content)
        setContent("")
      }}
    >
      <TextArea label={t("A note for operators")} value={content} onValue={setContent} maxLength={2_000} />
    </Form>
  )
}
