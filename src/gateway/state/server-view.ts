import type { Snowflake } from "../../contract/fields.ts"
import type { RulesChange } from "../../domain/control.ts"
import type { ServerOutline } from "../../storage/servers.ts"
import type { Encoding } from "../protocol/frames.ts"
import { memberKinds, VisibilityRules } from "./visibility-rules.ts"
import type { Guild, Session } from "./session.ts"

/** Sessions that receive the same bytes of an audience: one topic, one publish. */
export interface SubscriberClass {
  readonly topic: string
  readonly intents: number
  readonly encoding: Encoding
  count: number
  /** Monotonic milliseconds. */
  publishedAt: number
}

/** VisibilityRules with the place from which on they were so: in the worker's log, and among the rows of the server's shard. */
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
  /** Sessions that hold this server, live or not. */
  readonly sessions = new Set<Session>()
  /** Classes of live sessions, by audience key and class key. */
  readonly classes = new Map<string, Map<string, SubscriberClass>>()
  /** Sessions beyond the bound of classes: served one by one. */
  readonly individual = new Set<Session>()
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

/** Bits of a session's intents that decide about a server's events. */
const serverIntents = 0x0fff

export const classIntents = (intents: number): number => intents & serverIntents
