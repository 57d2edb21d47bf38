import { serverActor } from "../../actors/server.ts"
import type { routes } from "../../contract/communities/audit-log.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const auditLog = ({ ask, storage }: Http<"auditLog">): Handlers<typeof routes> => ({
  async listAuditLog({ params: { server_id }, query, caller }) {
    const allowed = { type: "requirePermission", user: caller.user_id, permission: "server.view_audit_log" } as const
    await ask(serverActor, server_id, allowed)
    return storage.auditLog.page(server_id, query)
  },
})
