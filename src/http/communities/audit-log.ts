import { serverActor } from "../../actors/server.ts"
import type { AuditEntry, Routes } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const auditLog = ({ ask, storage }: Http<"auditLog">): Handlers<Pick<Routes, "listAuditLog">> => ({
  async listAuditLog({ params: { server_id }, query, caller }) {
    const scope = await ask(serverActor, server_id, { type: "readAuditScope", user: caller.user_id })
    const page = await storage.auditLog.page(server_id, query)
    const viewed = new Set(scope.channels)
    return page.map(({ webhook_channel_id, ...entry }) => {
      const channel = channelOf(entry, webhook_channel_id)
      const isShown = scope.viewsAll || channel === undefined || (channel !== null && viewed.has(channel))
      return isShown ? entry : { ...entry, target_name: null, changes: {} }
    })
  },
})

/** The channel that an entry is about; null: one that is not known any more. Undefined: it is about none. */
function channelOf({ target_type, target_id }: AuditEntry, ofWebhook: Snowflake | null): Snowflake | null | undefined {
  if (target_type === "webhook") return ofWebhook
  return target_type === "channel" || target_type === "category" || target_type === "override" ? target_id : undefined
}
