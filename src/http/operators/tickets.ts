import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits, type routes } from "../../contract/operators/tickets.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const tickets = ({ storage, clock }: Http<"feedback">): Handlers<typeof routes> => {
  async function ticketOf(id: string) {
    const ticket = await storage.feedback.ticket(id)
    if (!ticket) throw fail("ticket_not_found")
    return ticket
  }

  return {
    listTickets: ({ query: { status_filter, ...place } }) =>
      storage.feedback.tickets({ status: status_filter, ...place }),

    getTicket: ({ params }) => ticketOf(params.ticket_id),

    async setTicketStatus({ params: { ticket_id }, body: { status }, operator }) {
      if (!(await storage.feedback.setTicketStatus(ticket_id, status, operator.id, secondsAt(clock()))))
        throw fail("ticket_not_found")
      return success
    },

    async listTicketNotes({ params: { ticket_id } }) {
      const notes = await storage.feedback.notesOf(ticket_id)
      if (notes.length === 0) await ticketOf(ticket_id)
      return notes
    },

    async addTicketNote({ params: { ticket_id }, body: { content }, operator }) {
      const note = { ticket_id, admin_id: operator.id, content, created_at: secondsAt(clock()) }
      const added = await storage.feedback.addNote(note, limits.notesPerTicket)
      if (added) return added
      await ticketOf(ticket_id)
      throw fail("ticket_note_limit")
    },
  }
}
