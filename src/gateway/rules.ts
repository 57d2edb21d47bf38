import { hash } from "node:crypto"
import type { Channel } from "../contract/channels.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Permission } from "../contract/permissions.ts"
import type { Audience } from "../domain/audience.ts"
import type { RulesChange } from "../domain/control.ts"
import { everyoneHolds, holds, holdsIn, type AccessRules, type Holder, type Override } from "../domain/permissions.ts"

export type ServerAudience = Exclude<Audience, { kind: "user" }>

interface RuledChannel {
  readonly channel: Channel
  readonly overrides: readonly Override[]
}

/** A change of the rules at its place in the log that a session reads. */
export interface Step {
  readonly at: number
  readonly change: RulesChange
  readonly to: Rules
}

export interface Parts extends AccessRules {
  readonly channels: ReadonlyMap<Snowflake, RuledChannel>
}

/** The audience of everybody in a server. */
export const everybody = "*"
const viewing = "channels.view"
/** More kinds of members than a server has; a bound for what is only remembered. */
export const memberKinds = 4_096

/**
 * What decides who sees what in a server, as of one place in a log. It never changes: `next` leads to what is so after the
 * next change, so that every session stands where it has read to.
 */
export class Rules implements Parts {
  readonly id: Snowflake
  readonly owner_id: Snowflake
  readonly roles: Parts["roles"]
  readonly channels: Parts["channels"]
  next: Step | undefined
  readonly #audienceOfViewers: string
  /** Channels whose overrides say who may view them, with the key of their audience. */
  readonly #special = new Map<Snowflake, string>()
  /** Members that such overrides name. */
  readonly #named = new Set<Snowflake>()
  readonly #keys = new Map<string, readonly string[]>()
  readonly #visible = new Map<string, ReadonlySet<Snowflake>>()

  constructor({ id, owner_id, roles, channels }: Parts) {
    this.id = id
    this.owner_id = owner_id
    this.roles = roles
    this.channels = channels
    this.#audienceOfViewers = everyoneHolds(this, viewing) ? everybody : viewing
    for (const [channel, { overrides }] of channels) {
      const key = keyOf(overrides)
      if (key === undefined) continue
      this.#special.set(channel, key)
      for (const { type, target_id } of overrides) if (type === "member") this.#named.add(target_id)
    }
  }

  /** The rules after a change, or, taken back, before it. */
  after(change: RulesChange, isTakenBack = false): Rules {
    switch (change.type) {
      case "role": {
        const permissions = isTakenBack ? change.before : change.after
        return new Rules({
          ...this.#parts,
          roles: changed(this.roles, change.role, permissions && { permissions: new Set<Permission>(permissions) }),
        })
      }
      case "channel": {
        const channel = isTakenBack ? change.before : change.after
        const overrides = this.channels.get(change.channel)?.overrides ?? []
        const channels = changed(this.channels, change.channel, channel && { channel, overrides })
        return new Rules({ ...this.#parts, channels })
      }
      case "overrides": {
        const known = this.channels.get(change.channel) ?? { channel: change.shown }
        const overrides = isTakenBack ? change.before : change.after
        const channels = changed(this.channels, change.channel, { ...known, overrides })
        return new Rules({ ...this.#parts, channels })
      }
    }
  }

  get #parts(): Parts {
    return { id: this.id, owner_id: this.owner_id, roles: this.roles, channels: this.channels }
  }

  /** Audiences that have the same members share a key, and so their topics. */
  audienceKey(audience: ServerAudience): string {
    if (audience.kind === "members") return everybody
    if (audience.kind === "viewers") {
      const key = this.#keyOfViewers(audience.channel)
      const also = audience.also === undefined ? key : this.#keyOfViewers(audience.also)
      if (key === also || key === everybody) return key
      return also === everybody ? also : `either ${key} ${also}`
    }
    return everyoneHolds(this, audience.permission) ? everybody : audience.permission
  }

  /** The audiences that a member takes by subscription; whatever else there is goes to him one by one, after a check. */
  subscribedKeys(member: Holder): readonly string[] {
    const kind = this.#kindOf(member)
    let keys = this.#keys.get(kind)
    if (!keys) {
      const found = new Set([everybody])
      if (this.#audienceOfViewers === viewing && holds(this, member, viewing)) found.add(viewing)
      for (const [channel, key] of this.#special) if (this.mayView(channel, member)) found.add(key)
      remember(this.#keys, kind, (keys = [...found]))
    }
    return keys
  }

  /** Whether an audience of this server includes a member. */
  includes(audience: ServerAudience, member: Holder): boolean {
    if (audience.kind === "members") return true
    return audience.kind === "viewers"
      ? this.mayView(audience.channel, member) || (audience.also !== undefined && this.mayView(audience.also, member))
      : holds(this, member, audience.permission)
  }

  #keyOfViewers(channel: Snowflake): string {
    return this.#special.get(channel) ?? this.#audienceOfViewers
  }

  /** A channel that is not known here has no overrides. */
  mayView(channel: Snowflake, member: Holder): boolean {
    return holdsIn(this, this.channels.get(channel)?.overrides ?? [], member, viewing)
  }

  visibleTo(member: Holder): ReadonlySet<Snowflake> {
    const kind = this.#kindOf(member)
    let visible = this.#visible.get(kind)
    if (!visible) {
      visible = new Set([...this.channels.keys()].filter(channel => this.mayView(channel, member)))
      remember(this.#visible, kind, visible)
    }
    return visible
  }

  /** Members of one kind see the same. */
  #kindOf(member: Holder): string {
    const isAlone = member.user_id === this.owner_id || this.#named.has(member.user_id)
    return isAlone ? `${member.user_id} ${member.roles.join()}` : member.roles.join()
  }
}

/** Whether an audience is published to topics. */
export const isSubscribed = (key: string): boolean => key === everybody || key.startsWith(viewing)

/** The audience of those who may view a channel with these overrides; undefined: they do not matter for that. */
function keyOf(overrides: readonly Override[]): string | undefined {
  const said = overrides.flatMap(({ type, target_id, allow, deny }) =>
    allow.includes(viewing) ? [`${type}+${target_id}`] : deny.includes(viewing) ? [`${type}-${target_id}`] : [],
  )
  return said.length === 0
    ? undefined
    : `${viewing} ${hash("sha256", said.toSorted().join(), "base64url").slice(0, 16)}`
}

function changed<V>(map: ReadonlyMap<Snowflake, V>, key: Snowflake, value: V | null): ReadonlyMap<Snowflake, V> {
  const copy = new Map(map)
  if (value === null) copy.delete(key)
  else copy.set(key, value)
  return copy
}

function remember<V>(map: Map<string, V>, key: string, value: V): void {
  if (map.size >= memberKinds) map.clear()
  map.set(key, value)
}

/** What a member may view and may not where he stood before. A channel that came or went with the change has an event of its own. */
export function viewChanges(
  from: Rules,
  before: Holder,
  to: Rules,
  after: Holder,
): { gained: readonly Channel[]; lost: readonly Snowflake[] } {
  if (from === to && before.roles === after.roles) return nothing
  if (before === after && from.next?.to === to && !mayMatter(from.next.change, after)) return nothing
  const [was, is] = [from.visibleTo(before), to.visibleTo(after)]
  if (was === is) return nothing
  const gained = [...is].flatMap(id => (was.has(id) || !from.channels.has(id) ? [] : [to.channels.get(id)!.channel]))
  const lost = [...was].filter(id => !is.has(id) && to.channels.has(id))
  return gained.length + lost.length === 0 ? nothing : { gained, lost }
}
const nothing = { gained: [], lost: [] } as const

/** Whether a change can change what a member sees. A role that is new or gone may have overrides. */
function mayMatter(change: RulesChange, member: Holder): boolean {
  if (change.type !== "role") return change.type === "overrides"
  if (change.role !== change.server && !member.roles.includes(change.role)) return false
  const { before, after } = change
  if (before === null || after === null) return true
  return ([viewing, "administrator"] as const).some(name => before.includes(name) !== after.includes(name))
}
