import type { AuditTarget } from "../../contract/communities/audit-log.ts"
import type { AuditAction } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Changes } from "../../domain/communities/audit.ts"
import { secondsAt } from "../../std/clock.ts"
import { insertAuditEntry } from "../../storage/communities/audit-log.ts"
import type { Write } from "../../storage/core/write.ts"
import type { Moment } from "../../runtime/actor.ts"

/** Who changes something in a server, and why, as its audit log shows it. */
export interface AuditContext {
  readonly user: Snowflake
  readonly reason?: string | undefined
}

/**
 * The row of an entry in a server's audit log: committed with the change that it tells of. Names of
 * people are no part of it: they are looked up when the log is read.
 */
export const auditEntry = (
  { now, newId, server, user, reason = "" }: AuditContext & Moment & { readonly server: Snowflake },
  action: AuditAction,
  target: { readonly type: AuditTarget; readonly id: string | null; readonly name?: string | null | undefined },
  changes: Changes = {},
): Write =>
  insertAuditEntry({
    server_id: server,
    id: newId(),
    user_id: user,
    action,
    target_type: target.type,
    target_id: target.id,
    target_name: target.name ?? null,
    changes,
    reason,
    created_at: secondsAt(now),
  })

/** Without a name: what the log shows is looked up when it is read. */
export const memberTarget = (id: Snowflake) => ({ type: "member", id }) as const
