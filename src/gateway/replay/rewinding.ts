import type { Snowflake } from "../../contract/core/fields.ts"
import { isRulesChange, type Control } from "../../domain/core/control.ts"
import { controlOf } from "../fan-out/controls.ts"
import { belongsTo } from "./peer-log.ts"
import type { VisibilityRules } from "../state/visibility-rules.ts"
import type { Session } from "../state/session.ts"
import { append } from "../../std/multi-map.ts"

/**
 * A session that resumes gets back the state that it had where its client stopped. Then it reads
 * the log again, and every change of who sees what happens again between the same events, so that
 * the client is told the same.
 */

/** Goes back to a position of this worker's own log. */
export function rewind(session: Session, seq: number): void {
  for (const { server, s, before } of session.roleChanges.toReversed()) {
    const guild = session.guilds.get(server)
    if (s > seq && guild) session.guilds.put(guild.view.seen(before, guild.rules))
  }
  session.roleChanges = session.roleChanges.filter(({ s }) => s <= seq)
  session.ownRules = undefined
  // What the session was sent from another log was read under later rules.
  for (const { view, roles } of session.guilds.values())
    session.guilds.put(view.seen(roles, view.at(seq, session.cuts?.get(view.id) ?? 0)))
}

interface Past {
  readonly at: number
  readonly control: Control
}

/**
 * Goes back through all that the session is to be sent from other logs, to where the first of it
 * begins.
 */
export function takeBack(session: Session): void {
  const pasts = new Map<Snowflake, Past[]>()
  for (const { segment, items, base, changes } of session.peerSlices!)
    for (const index of changes) {
      const item = items[index]!
      if (!belongsTo(segment, item) || item.header[0] !== "c") continue
      const past = { at: base + index, control: controlOf(item) }
      append(pasts, item.header[3], past)
    }
  for (const [server, past] of pasts) {
    const guild = session.guilds.get(server)
    if (!guild) continue
    const own = past.find(({ control }) => control.type === "memberRoles" && control.user === session.user)
    const roles = own?.control.type === "memberRoles" ? own.control.before : guild.roles
    session.ownRules ??= new Map()
    session.ownRules.set(server, guild.rules)
    session.guilds.put(guild.view.seen(roles, before(guild.rules, past)))
  }
}

/** Thousands of sessions may come from one log: earlier rules are computed once for all of them. */
const earlierRules = new WeakMap<VisibilityRules, Map<string, VisibilityRules>>()

/** The rules before all of these changes, with the transitions that lead from there to now. */
function before(rules: VisibilityRules, past: readonly Past[]): VisibilityRules {
  const changes = past.flatMap(({ at, control }) => (isRulesChange(control) ? [{ at, change: control }] : []))
  const name = changes.map(({ at }) => at).join()
  let known = earlierRules.get(rules)
  if (!known) earlierRules.set(rules, (known = new Map()))
  let from = known.get(name)
  if (!from) {
    from = rules
    for (const { at, change } of changes.toReversed()) {
      const to: VisibilityRules = from
      from = to.after(change, true)
      from.next = { at, change, to }
    }
    known.set(name, from)
  }
  return from
}
