import type { Snowflake } from "../../contract/core/fields.ts"
import type { Control } from "../../domain/core/control.ts"
import type { LogHeader, LogItem } from "../../domain/core/log-entry.ts"

type ControlHeader = Extract<LogHeader, readonly ["c", ...unknown[]]>

const parsed = new WeakMap<LogItem, Control>()

/** What a control entry says; parsed once for all sessions that come to it. */
export function controlOf(item: LogItem): Control {
  let control = parsed.get(item)
  if (!control) parsed.set(item, (control = JSON.parse(item.data) as Control))
  return control
}

/**
 * The user whose sessions alone a control entry concerns. Undefined: it is about a server. A join
 * entry holds a whole server, so other sessions need not read it.
 */
export const userOf = ([, , , , audience]: ControlHeader): Snowflake | undefined =>
  audience.kind === "user" ? audience.user : undefined
