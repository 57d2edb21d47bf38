import { hash } from "node:crypto"
import type { Channel } from "../../contract/communities/channels.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Audience } from "../../domain/core/audience.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { everyoneHolds, holds, holdsIn, without, type AccessRules, type Holder } from "../../domain/core/permissions.ts"

export type ServerAudience = Exclude<Audience, { kind: "user" }>

interface RuledChannel {
  readonly channel: Channel
  readonly overrides: readonly Override[]
}

/** A change of the rules at its position in the log that a session reads. */
export interface RulesTransition {
  readonly at: number
  readonly change: RulesChange
  readonly to: VisibilityRules
}

export interface RuleSet extends AccessRules {
  readonly channels: ReadonlyMap<Snowflake, RuledChannel>
}

/** The audience of all members of a server. */
export const everybody = "*"
const viewing = "channels.view"
/** More kinds of members than a server has. It bounds what is only cached. */
export const memberKinds = 4_096

/**
 * The rules that decide who sees what in a server, as of one position in a log. They are immutable:
 * `after` makes those after the next change, so that every session has the rules of the position
 * that it has read.
 */
export class VisibilityRules implements RuleSet {
  readonly id: Snowflake
  readonly owner_id: Snowflake
  readonly roles: RuleSet["roles"]
  readonly channels: RuleSet["channels"]
  next: RulesTransition | undefined
  readonly #audienceOfViewers: string
  /** Channels whose overrides decide who may view them, with the key of their audience. */
  readonly #special: ReadonlyMap<Snowflake, string>
  /** Members that such overrides name. */
  readonly #named: ReadonlySet<Snowflake>
  readonly #keys = new Map<string, readonly string[]>()
  readonly #visible = new Map<string, ReadonlySet<Snowflake>>()

  /** @param like rules whose channels have the same overrides */
  constructor({ id, owner_id, roles, channels }: RuleSet, like?: VisibilityRules) {
    this.id = id
    this.owner_id = owner_id
    this.roles = roles
    this.channels = channels
    this.#audienceOfViewers = everyoneHolds(this, viewing) ? everybody : viewing
    if (like) {
      this.#special = like.#special
      this.#named = like.#named
      return
    }
    const special = new Map<Snowflake, string>()
    const named = new Set<Snowflake>()
    for (const [channel, { overrides }] of channels) {
      const found = viewersBy(overrides)
      if (!found) continue
      special.set(channel, found.key)
      for (const member of found.members) named.add(member)
    }
    this.#special = special
    this.#named = named
  }

  /** The rules after a change, or, if it is taken back, before it. */
  after(change: RulesChange, isTakenBack = false): VisibilityRules {
    switch (change.type) {
      case "role": {
        const permissions = isTakenBack ? change.before : change.after
        const granted = permissions && { permissions: new Set<Permission>(permissions) }
        const parts = { ...this.#parts, roles: changed(this.roles, change.role, granted) }
        if (isTakenBack)
          return change.overrides ? this.#saying(parts, change.role, change.overrides) : this.#like(parts)
        return granted ? this.#like(parts) : this.#saying(parts, change.role, [])
      }
      case "channel": {
        const channel = isTakenBack ? change.before : change.after
        const known = this.channels.get(change.channel)?.overrides
        const overrides = known ?? (isTakenBack && change.overrides ? change.overrides : [])
        return this.#withChannel(change.channel, channel && { channel, overrides })
      }
      case "channelsMoved": {
        const channels = new Map(this.channels)
        for (const { channel: id, before, after } of change.moves) {
          const known = channels.get(id)
          if (known) channels.set(id, { ...known, channel: { ...known.channel, ...(isTakenBack ? before : after) } })
        }
        return this.#like({ ...this.#parts, channels })
      }
      case "overrides": {
        const known = this.channels.get(change.channel) ?? { channel: change.shown }
        const overrides = isTakenBack ? change.before : change.after
        return this.#withChannel(change.channel, { ...known, overrides })
      }
      case "server": {
        const { owner_id } = isTakenBack ? change.before : change.after
        return this.#like({ ...this.#parts, owner_id })
      }
    }
  }

  /** Other rules in which channels have the same overrides. */
  #like(parts: RuleSet): VisibilityRules {
    return new VisibilityRules(parts, this)
  }

  #withChannel(id: Snowflake, channel: RuledChannel | null): VisibilityRules {
    const parts = { ...this.#parts, channels: changed(this.channels, id, channel) }
    const [before, after] = [this.channels.get(id), channel].map(one =>
      one ? viewersBy(one.overrides)?.key : undefined,
    )
    return before === after ? this.#like(parts) : new VisibilityRules(parts)
  }

  /** The channels whose overrides say this of one role, and nothing else. */
  #saying(
    parts: RuleSet,
    role: Snowflake,
    said: readonly (readonly [channel: Snowflake, override: Override])[],
  ): VisibilityRules {
    const own = new Map(said)
    const channels = new Map(this.channels)
    for (const [id, known] of channels) {
      const [others, override] = [without(known.overrides, role), own.get(id)]
      if (!override && others.length === known.overrides.length) continue
      channels.set(id, { ...known, overrides: override ? [...others, override] : others })
    }
    return new VisibilityRules({ ...parts, channels })
  }

  get #parts(): RuleSet {
    return { id: this.id, owner_id: this.owner_id, roles: this.roles, channels: this.channels }
  }

  /** Audiences that have the same members share a key, and so their topics. */
  audienceKey(audience: ServerAudience): string {
    if (audience.kind === "members") return everybody
    if (audience.kind === "viewers") {
      if (audience.permission !== undefined) return `${audience.permission} in ${audience.channel}`
      const key = this.#keyOfViewers(audience.channel)
      const also = audience.also === undefined ? key : this.#keyOfViewers(audience.also)
      if (key === also || key === everybody) return key
      return also === everybody ? also : `either ${key} ${also}`
    }
    return everyoneHolds(this, audience.permission) ? everybody : audience.permission
  }

  /**
   * The audiences to which a member subscribes. Events of other audiences are sent to each member
   * alone, after a check.
   */
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
    if (audience.kind === "holders") return holds(this, member, audience.permission)
    const { channel, also, permission } = audience
    if (permission !== undefined) return this.mayView(channel, member) && this.#mayIn(channel, member, permission)
    return this.mayView(channel, member) || (also !== undefined && this.mayView(also, member))
  }

  #keyOfViewers(channel: Snowflake): string {
    return this.#special.get(channel) ?? this.#audienceOfViewers
  }

  /** A channel that is not known here has no overrides. */
  mayView(channel: Snowflake, member: Holder): boolean {
    return this.#mayIn(channel, member, viewing)
  }

  #mayIn(channel: Snowflake, member: Holder, permission: Permission): boolean {
    return holdsIn(this, this.channels.get(channel)?.overrides ?? [], member, permission)
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

  /** Drops what is cached; it is computed again when needed. */
  forget(): void {
    this.#keys.clear()
    this.#visible.clear()
  }

  /** Members of one kind see the same. */
  #kindOf(member: Holder): string {
    const isAlone = member.user_id === this.owner_id || this.#named.has(member.user_id)
    return isAlone ? `${member.user_id} ${member.roles.join()}` : member.roles.join()
  }
}

/** Whether an audience is published to topics. */
export const isSubscribed = (key: string): boolean => key === everybody || key.startsWith(viewing)

/** What overrides say about who may view a channel. */
interface Viewers {
  /** The key of their audience. */
  readonly key: string
  readonly members: readonly Snowflake[]
}

/**
 * Versions of the rules share the overrides that did not change. Null: they do not decide who views
 * the channel.
 */
const viewers = new WeakMap<readonly Override[], Viewers | null>()

function viewersBy(overrides: readonly Override[]): Viewers | null {
  let known = viewers.get(overrides)
  if (known === undefined) viewers.set(overrides, (known = readViewers(overrides)))
  return known
}

function readViewers(overrides: readonly Override[]): Viewers | null {
  const said: string[] = []
  const members: Snowflake[] = []
  for (const { type, target_id, allow, deny } of overrides) {
    const isAllowed = allow.includes(viewing)
    if (!isAllowed && !deny.includes(viewing)) continue
    said.push(`${target_id}${isAllowed ? "+" : "-"}${type}`)
    if (type === "member") members.push(target_id)
  }
  if (said.length === 0) return null
  return { key: `${viewing} ${hash("sha256", said.toSorted().join(), "base64url").slice(0, 16)}`, members }
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

interface ViewChanges {
  readonly gained: readonly Channel[]
  readonly lost: readonly Snowflake[]
}

/**
 * The channels that a member may view, or may not view any more, compared with the rules before. A
 * channel that was created or deleted by the change has an event of its own.
 */
export function viewChanges(from: VisibilityRules, before: Holder, to: VisibilityRules, after: Holder): ViewChanges {
  if (from === to && before.roles === after.roles) return nothing
  if (before === after && from.next?.to === to) {
    const { change } = from.next
    if (!mayMatter(change, after)) return nothing
    if (change.type === "overrides") return viewChangesIn(change.channel, from, to, after)
  }
  const [was, is] = [from.visibleTo(before), to.visibleTo(after)]
  if (was === is) return nothing
  const gained = [...is].flatMap(id => (was.has(id) || !from.channels.has(id) ? [] : [to.channels.get(id)!.channel]))
  const lost = [...was].filter(id => !is.has(id) && to.channels.has(id))
  return gained.length + lost.length === 0 ? nothing : { gained, lost }
}
const nothing = { gained: [], lost: [] } as const

/**
 * The same if only the overrides of one channel changed: there is no need to compute what members
 * may view of the others.
 */
function viewChangesIn(channel: Snowflake, from: VisibilityRules, to: VisibilityRules, member: Holder): ViewChanges {
  const known = to.channels.get(channel)
  if (!known || !from.channels.has(channel)) return nothing
  const mayView = to.mayView(channel, member)
  if (mayView === from.mayView(channel, member)) return nothing
  return mayView ? { gained: [known.channel], lost: [] } : { gained: [], lost: [channel] }
}

/**
 * Whether a change can affect what a member sees. A role that is new or deleted may have overrides.
 */
function mayMatter(change: RulesChange, member: Holder): boolean {
  if (change.type === "server") return [change.before.owner_id, change.after.owner_id].includes(member.user_id)
  if (change.type !== "role") return change.type === "overrides"
  if (change.role !== change.server && !member.roles.includes(change.role)) return false
  const { before, after } = change
  if (before === null || after === null) return true
  return ([viewing, "administrator"] as const).some(name => before.includes(name) !== after.includes(name))
}
