import type { Snowflake } from "../../contract/core/fields.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import type { ServerOutline } from "../../storage/communities/servers.ts"
import { memberKinds, VisibilityRules } from "./visibility-rules.ts"

/** A server as a session sees it. It never changes. Sessions that see it alike share it, and most do. */
export interface Guild {
  readonly view: ServerView
  readonly roles: readonly Snowflake[]
  /** Who sees what, at the position up to which the session has read. */
  readonly rules: VisibilityRules
}

/** Rules, and since when they hold: the position in the worker's log, and the row of the server's shard. */
interface Version {
  readonly at: number
  readonly row: number
  readonly rules: VisibilityRules
}

/** What the worker knows of a server whose members' sessions it holds; its own log keeps it current. */
export class ServerView {
  readonly id: Snowflake
  /** Whoever comes is told the newest; a change follows in his stream, too. */
  name: string
  /** The log has a gap: what is known here may be wrong, and nobody may come to it any more. */
  isOver = false
  /** What sessions share, by the roles of their users. */
  readonly #seen = new WeakMap<VisibilityRules, Map<string, Guild>>()
  /** Oldest first, as far back as the log can be read. */
  readonly #versions: Version[]
  readonly #loadedRow: number

  constructor(outline: ServerOutline) {
    this.id = outline.id
    this.name = outline.name
    this.#loadedRow = outline.row
    this.#versions = [{ at: 0, row: outline.row, rules: new VisibilityRules(outline) }]
  }

  /** Where live sessions stand. */
  get now(): VisibilityRules {
    return this.#versions.at(-1)!.rules
  }

  /** The server as members with these roles see it under some rules. */
  seen(roles: readonly Snowflake[], rules: VisibilityRules): Guild {
    let guilds = this.#seen.get(rules)
    if (!guilds) this.#seen.set(rules, (guilds = new Map()))
    const kind = roles.join()
    let guild = guilds.get(kind)
    if (!guild) {
      guild = { view: this, roles, rules }
      if (guilds.size < memberKinds) guilds.set(kind, guild)
    }
    return guild
  }

  /**
   * A change of the rules, from the worker's own log. What was so before the view was loaded is in it. By then all live
   * sessions have left the version before the last: what is remembered for them there is more than the version itself.
   */
  apply(change: RulesChange, row: number, at: number, oldest: number): void {
    if (row <= this.#loadedRow) return
    if (change.type === "server") {
      this.name = change.after.name
      if (change.before.owner_id === change.after.owner_id) return
    }
    const before = this.now
    const left = this.#versions.at(-2)?.rules
    if (left) {
      left.forget()
      this.#seen.delete(left)
    }
    const rules = before.after(change)
    before.next = { at, change, to: rules }
    this.#versions.push({ at, row, rules })
    while (this.#versions.length > 1 && this.#versions[1]!.at < oldest) this.#versions.shift()
  }

  /** The rules of a session that has read its worker's log to a position, and everything up to a row from elsewhere. */
  at(position: number, row = 0): VisibilityRules {
    return (this.#versions.findLast(version => version.at <= position || version.row <= row) ?? this.#versions[0]!)
      .rules
  }
}
