import type { AuditAction, AuditTarget } from "../contract/audit-log.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Changes } from "../domain/audit.ts"
import { insertAuditEntry } from "../storage/audit-log.ts"
import type { Write } from "../storage/write.ts"

/** Who does something in a server, and why, as its log shows it. */
export interface Deed {
  readonly user: Snowflake
  readonly reason?: string | undefined
}

interface Moment {
  readonly now: number
  readonly newId: () => Snowflake
}

/**
 * The row that notes a deed in a server's audit log: committed with what it tells of. Names of people
 * are no part of it: they are looked up when the log is read.
 */
export const audited = (
  { now, newId }: Moment,
  server: Snowflake,
  { user, reason = "" }: Deed,
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
    created_at: Math.floor(now / 1000),
  })
