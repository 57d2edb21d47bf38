import type { z } from "zod"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { ready } from "../../contract/core/gateway.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import { ownText } from "../../std/own-text.ts"
import type { ServerOutline } from "../../storage/communities/servers.ts"
import { memberKinds, VisibilityRules } from "./visibility-rules.ts"

/**
 * A server as a session sees it. Sessions that see the server alike share one, and most do. Those of
 * live sessions move on with the log (`fan-out/member-kinds.ts`), all others are immutable.
 */
export interface Guild {
  readonly view: ServerView
  readonly roles: readonly Snowflake[]
  /** The rules for who sees what, at the position up to which the session has read. */
  readonly rules: VisibilityRules
}

type ReadyGuild = z.output<typeof ready.data>["guilds"][number]

/**
 * Rules, and since when they hold: the position in the worker's log, and the row of the server's
 * shard.
 */
interface Version {
  readonly at: number
  readonly row: number
  readonly rules: VisibilityRules
}

/**
 * What the worker knows of a server whose members' sessions it holds. Its own log keeps this
 * current.
 */
export class ServerView {
  readonly id: Snowflake
  /** New sessions are told the newest name. A change of it follows in their stream, too. */
  name: string
  /** The log has a gap, so this view may be wrong. No session may begin to use it. */
  isOver = false
  /** The views that sessions share, by the roles of their users. */
  readonly #seen = new WeakMap<VisibilityRules, Map<string, Guild>>()
  /** Oldest first, as far back as the log can be read. */
  readonly #versions: Version[]
  readonly #loadedRow: number
  #ready: { readonly name: string; readonly json: string } | undefined

  constructor(outline: ServerOutline) {
    this.id = outline.id
    this.name = outline.name
    this.#loadedRow = outline.row
    this.#versions = [{ at: 0, row: outline.row, rules: new VisibilityRules(outline) }]
  }

  /** What READY tells every session of the server, as JSON. */
  get ready(): string {
    const { id, name } = this
    if (this.#ready?.name !== name)
      this.#ready = { name, json: JSON.stringify({ id, name, unavailable: false } satisfies ReadyGuild) }
    return this.#ready.json
  }

  /** The rules where live sessions stand. */
  get now(): VisibilityRules {
    return this.#versions.at(-1)!.rules
  }

  /** The server as members with these roles see it under some rules. */
  seen(roles: readonly Snowflake[], rules: VisibilityRules): Guild {
    let guilds = this.#seen.get(rules)
    if (!guilds) this.#seen.set(rules, (guilds = new Map()))
    const kind = roles.length === 0 ? "" : roles.join()
    let guild = guilds.get(kind)
    if (!guild) {
      guild = { view: this, roles: roles.map(ownText), rules }
      if (guilds.size < memberKinds) guilds.set(kind, guild)
    }
    return guild
  }

  /**
   * Applies a change of the rules from the worker's own log. Changes from before the view was
   * loaded are in it already. All live sessions have left the version before the last by now: its
   * caches there take more memory than the version itself, so they are dropped.
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

  /**
   * The rules for a session that has read its worker's log to a position, and other logs up to a
   * row.
   */
  at(position: number, row = 0): VisibilityRules {
    return (this.#versions.findLast(version => version.at <= position || version.row <= row) ?? this.#versions[0]!)
      .rules
  }
}
