import type { Snowflake } from "../../contract/core/fields.ts"
import { isRulesChange, type Control } from "../../domain/core/control.ts"
import { controlOf } from "../fan-out/controls.ts"
import { belongsTo } from "./peer-log.ts"
import type { VisibilityRules } from "../state/visibility-rules.ts"
import type { Session } from "../state/session.ts"

/**
 * A session that resumes is taken back to what was so where its client stopped: who sees what then changes again where it
 * changed, between the same events, and the client is told the same.
 */

/** Back to a position of the worker's own log. */
export function rewind(session: Session, seq: number): void {
  for (const { server, s, before } of session.roleChanges.toReversed()) {
    const guild = session.guilds.get(server)
    if (s > seq && guild) session.guilds.put(guild.view.seen(before, guild.rules))
  }
  session.roleChanges = session.roleChanges.filter(({ s }) => s <= seq)
  session.ownRules = undefined
  // What it was sent of another log was read under later rules.
  for (const { view, roles } of session.guilds.values())
    session.guilds.put(view.seen(roles, view.at(seq, session.cuts?.get(view.id) ?? 0)))
}

interface Past {
  readonly at: number
  readonly control: Control
}

/** Back through all that the session has to be sent of other logs, to where the first of it begins. */
export function takeBack(session: Session): void {
  const pasts = new Map<Snowflake, Past[]>()
  for (const { segment, items, base, changes } of session.peerSlices!)
    for (const index of changes) {
      const item = items[index]!
      if (!belongsTo(segment, item) || item.header[0] !== "c") continue
      const past = { at: base + index, control: controlOf(item) }
      const mine = pasts.get(item.header[3])
      if (mine) mine.push(past)
      else pasts.set(item.header[3], [past])
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

/** Thousands may come from one log: the way back is made once. */
const ways = new WeakMap<VisibilityRules, Map<string, VisibilityRules>>()

/** The rules before all of these changes, with the steps that lead from there. */
function before(rules: VisibilityRules, past: readonly Past[]): VisibilityRules {
  const changes = past.flatMap(({ at, control }) => (isRulesChange(control) ? [{ at, change: control }] : []))
  const name = changes.map(({ at }) => at).join()
  let known = ways.get(rules)
  if (!known) ways.set(rules, (known = new Map()))
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
