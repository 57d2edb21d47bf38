import type { AuditTarget } from "../../contract/communities/audit-log.ts"
import type { AuditAction } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Changes } from "../../domain/communities/audit.ts"
import { secondsAt } from "../../std/clock.ts"
import { insertAuditEntry } from "../../storage/communities/audit-log.ts"
import type { Turn } from "../../runtime/actor.ts"

/** Who changes something in a server, and why, as its audit log shows it. */
export interface AuditContext {
  readonly user: Snowflake
  readonly reason?: string | undefined
}

/** The turn of a server or of one of its channels. */
export type AuditedTurn = Turn & { readonly home: { readonly id: Snowflake } }

/**
 * Adds an entry to the server's audit log. It is committed with the change that it is about. Names
 * of people are no part of it: they are looked up when the log is read.
 */
export const audit = (
  { home, now, newId, write, user, reason = "" }: AuditedTurn & AuditContext,
  action: AuditAction,
  target: { readonly type: AuditTarget; readonly id: string | null; readonly name?: string | null | undefined },
  changes: Changes = {},
): void =>
  write(
    insertAuditEntry({
      server_id: home.id,
      id: newId(),
      user_id: user,
      action,
      target_type: target.type,
      target_id: target.id,
      target_name: target.name ?? null,
      changes,
      reason,
      created_at: secondsAt(now),
    }),
  )

export const memberTarget = (id: Snowflake) => ({ type: "member", id }) as const
