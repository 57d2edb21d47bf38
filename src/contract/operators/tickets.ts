import { z } from "zod"
import { Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"
import { listQuery, RowId } from "./fields.ts"

export const limits = { notesPerTicket: 500 } as const
export const limitNotes: LimitNotes<typeof limits> = { notesPerTicket: refused("notes", "ticket_note_limit") }

const TicketStatus = z.enum(["open", "in_progress", "resolved", "closed"])
const byTicket = z.object({ ticket_id: RowId })

/** What a user sent as feedback. */
const Ticket = z
  .object({
    id: Snowflake,
    user_id: Snowflake,
    username: z.string().describe("`Unknown`: the account is gone"),
    content: z.string(),
    category: z.string().nullable(),
    rating: z.int().nullable(),
    status: TicketStatus,
    created_at: Seconds,
    resolved_at: Seconds.nullable().describe("When it was resolved or closed"),
    resolved_by: RowId.nullable().describe("The operator who did that"),
    resolved_by_username: z.string().nullable(),
  })
  .meta({ id: "Ticket" })

const TicketNote = z
  .object({
    id: RowId,
    ticket_id: Snowflake,
    admin_id: RowId,
    admin_username: z.string().describe("`Unknown`: there is no such operator any more"),
    content: z.string(),
    created_at: Seconds,
  })
  .meta({ id: "TicketNote" })

export const listTickets = defineRoute({
  method: "GET",
  path: "/admin/tickets",
  mount: "operators",
  summary: "List users' feedback, the newest first",
  tag: "Operators",
  auth: "operator",
  query: z.object({ status_filter: TicketStatus.optional(), ...listQuery() }),
  reply: z.array(Ticket),
  fails: [],
})

export const getTicket = defineRoute({
  method: "GET",
  path: "/admin/tickets/:ticket_id",
  mount: "operators",
  summary: "Get one user's feedback",
  tag: "Operators",
  auth: "operator",
  params: byTicket,
  reply: Ticket,
  fails: ["ticket_not_found"],
})

export const setTicketStatus = defineRoute({
  method: "PATCH",
  path: "/admin/tickets/:ticket_id/status",
  mount: "operators",
  summary: "Say how far a ticket is. Nobody is notified",
  tag: "Operators",
  auth: "operator",
  trail: { keeps: ["status"] },
  params: byTicket,
  body: z.object({ status: TicketStatus }).meta({ id: "TicketStatusInput" }),
  example: { status: "in_progress" },
  reply: Success,
  fails: ["ticket_not_found"],
})

export const listTicketNotes = defineRoute({
  method: "GET",
  path: "/admin/tickets/:ticket_id/notes",
  mount: "operators",
  summary: "List what operators noted about a ticket, the oldest first",
  tag: "Operators",
  auth: "operator",
  params: byTicket,
  reply: z.array(TicketNote),
  fails: ["ticket_not_found"],
})

export const addTicketNote = defineRoute({
  method: "POST",
  path: "/admin/tickets/:ticket_id/notes",
  mount: "operators",
  summary: "Note something about a ticket. Its author never sees that",
  tag: "Operators",
  auth: "operator",
  params: byTicket,
  body: z.object({ content: text(1, 2000) }).meta({ id: "TicketNoteInput" }),
  example: { content: "Asked for the version of the client" },
  reply: TicketNote,
  fails: ["ticket_not_found", "ticket_note_limit"],
})

export const routes = { listTickets, getTicket, setTicketStatus, listTicketNotes, addTicketNote }
