import { serverActor } from "../../actors/server.ts"
import type { Routes } from "../../contract/contract.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const auditLog = ({ ask, storage }: Http<"auditLog">): Handlers<Pick<Routes, "listAuditLog">> => ({
  async listAuditLog({ params: { server_id }, query, caller }) {
    const allowed = { type: "requirePermission", user: caller.user_id, permission: "server.view_audit_log" } as const
    await ask(serverActor, server_id, allowed)
    return storage.auditLog.page(server_id, query)
  },
})
