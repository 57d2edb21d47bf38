import { hash } from "node:crypto"
import type { Channel } from "../../contract/communities/channels.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import { grantsOtherViews } from "../../domain/communities/view-changes.ts"
import type { Audience } from "../../domain/core/audience.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { includes } from "../../domain/core/permission-masks.ts"
import { everyoneHolds, holds, holdsIn, without, type AccessRules, type Holder } from "../../domain/core/permissions.ts"
import { LayeredMap } from "../../std/layered-map.ts"
import { has, isSame, ViewOverrides, type ChannelSet, type Viewers, type Viewing } from "./view-overrides.ts"

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

/** What members see: the channels of whose viewers no override says anything, and some of the others. */
interface Sight {
  readonly seesRest: boolean
  readonly seen: ChannelSet
}

/** Members who see the same of the channels whose overrides decide who may view them. */
export interface ViewerGroup {
  readonly key: string
  readonly layout: string
  readonly seen: ChannelSet
}

/** What is computed for members with the same roles. */
interface ByRoles {
  readonly sight: Sight
  readonly isAdministrator: boolean
  /** Of those of them whom no override names. */
  group: ViewerGroup | null | undefined
  keys: readonly string[] | undefined
  visible: ReadonlySet<Snowflake> | undefined
}

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
  readonly #overrides: ViewOverrides
  /** Of the owner and administrators. */
  readonly #everything: Sight
  /** Lists of roles are shared by the sessions that have them; see `ServerView.seen`. */
  #byRoles = new WeakMap<readonly Snowflake[], ByRoles>()
  #alignment: Alignment | undefined

  /**
   * @param like the rules before
   * @param isSame the channels have the same overrides as there
   */
  constructor({ id, owner_id, roles, channels }: RuleSet, like?: VisibilityRules, isSame = false) {
    this.id = id
    this.owner_id = owner_id
    this.roles = roles
    this.channels = channels
    this.#audienceOfViewers = everyoneHolds(this, viewing) ? everybody : viewing
    const said = like && like.#overrides
    this.#overrides = said && isSame ? said : new ViewOverrides(id, [...decided(channels)], said)
    this.#everything = { seesRest: true, seen: this.#overrides.all }
  }

  /** The rules after a change, or, if it is taken back, before it. */
  after(change: RulesChange, isTakenBack = false): VisibilityRules {
    switch (change.type) {
      case "role": {
        const permissions = isTakenBack ? change.before : change.after
        const granted = permissions && { permissions: new Set<Permission>(permissions) }
        const set = { ...this.#ruleSet, roles: changed(this.roles, change.role, granted) }
        if (isTakenBack)
          return change.overrides
            ? this.#withOverridesOf(set, change.role, change.overrides)
            : this.#withSameOverrides(set)
        return granted ? this.#withSameOverrides(set) : this.#withOverridesOf(set, change.role, [])
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
        return this.#withSameOverrides({ ...this.#ruleSet, channels })
      }
      case "overrides": {
        const known = this.channels.get(change.channel) ?? { channel: change.shown }
        const overrides = isTakenBack ? change.before : change.after
        return this.#withChannel(change.channel, { ...known, overrides })
      }
      case "server": {
        const { owner_id } = isTakenBack ? change.before : change.after
        return this.#withSameOverrides({ ...this.#ruleSet, owner_id })
      }
    }
  }

  /** Other rules in which channels have the same overrides. */
  #withSameOverrides(set: RuleSet): VisibilityRules {
    return new VisibilityRules(set, this, true)
  }

  #withChannel(id: Snowflake, channel: RuledChannel | null): VisibilityRules {
    const set = { ...this.#ruleSet, channels: changed(this.channels, id, channel) }
    const [before, after] = [this.channels.get(id), channel].map(one =>
      one ? viewersBy(one.overrides)?.key : undefined,
    )
    return before === after ? this.#withSameOverrides(set) : new VisibilityRules(set, this)
  }

  /** Other rules in which the overrides of a role are these, and those of other roles and of members are the same. */
  #withOverridesOf(
    set: RuleSet,
    role: Snowflake,
    overridesOfRole: readonly (readonly [channel: Snowflake, override: Override])[],
  ): VisibilityRules {
    const own = new Map(overridesOfRole)
    const channels = new Map(this.channels)
    for (const [id, known] of channels) {
      const [others, override] = [without(known.overrides, role), own.get(id)]
      if (!override && others.length === known.overrides.length) continue
      channels.set(id, { ...known, overrides: override ? [...others, override] : others })
    }
    return new VisibilityRules({ ...set, channels }, this)
  }

  get #ruleSet(): RuleSet {
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
   * What a member's session subscribes to: audiences, and the group of those who see the same of
   * the channels with audiences of their own. It is three at most, however many channels there are.
   * Events of other audiences are sent to each member alone, after a check.
   */
  subscribedKeys(member: Holder): readonly string[] {
    const ofRoles = this.#ofRoles(member.roles)
    const isAlone = this.isAlone(member.user_id)
    if (!isAlone && ofRoles.keys) return ofRoles.keys
    const keys = [everybody]
    if (this.#audienceOfViewers === viewing && holds(this, member, viewing)) keys.push(viewing)
    const group = this.groupOf(member)
    if (group) keys.push(group.key)
    if (!isAlone) ofRoles.keys = keys
    return keys
  }

  /** Whether a member may see something else than all others with the same roles. */
  isAlone(user: Snowflake): boolean {
    return user === this.owner_id || this.#overrides.members.has(user)
  }

  /** Those of whom that holds now, and did not before. */
  *newlyAlone(before: VisibilityRules): Generator<Snowflake> {
    if (this.owner_id !== before.owner_id) {
      yield this.owner_id
      yield before.owner_id
    }
    if (this.#overrides.members === before.#overrides.members) return
    for (const user of this.#overrides.members.keys()) if (!before.isAlone(user)) yield user
  }

  /** The group of a member; null: they see none of those channels. */
  groupOf(member: Holder): ViewerGroup | null {
    const ofRoles = this.#ofRoles(member.roles)
    const { seen } = this.#sightOf(member, ofRoles)
    const isShared = seen === ofRoles.sight.seen
    if (isShared && ofRoles.group !== undefined) return ofRoles.group
    const { layout } = this.#overrides
    const group = seen.every(word => word === 0) ? null : { key: `${sees}${layout} ${seen.join()}`, layout, seen }
    if (isShared) ofRoles.group = group
    return group
  }

  /** Where groups that see the channel say so; undefined: it has no audience of its own. */
  placeOf(channel: Snowflake): { readonly layout: string; readonly slot: number } | undefined {
    const slot = this.#overrides.slots.get(channel)
    return slot === undefined ? undefined : { layout: this.#overrides.layout, slot }
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
    return this.#overrides.keys.get(channel) ?? this.#audienceOfViewers
  }

  /** A channel that is not known here has no overrides. */
  mayView(channel: Snowflake, member: Holder): boolean {
    const slot = this.#overrides.slots.get(channel)
    const ofRoles = this.#ofRoles(member.roles)
    if (slot === undefined || ofRoles.isAdministrator || member.user_id === this.owner_id)
      return ofRoles.sight.seesRest || member.user_id === this.owner_id
    const own = this.#overrides.members.get(member.user_id)
    if (own && has(own.allow, slot)) return true
    return has(ofRoles.sight.seen, slot) && !(own && has(own.deny, slot))
  }

  #mayIn(channel: Snowflake, member: Holder, permission: Permission): boolean {
    return holdsIn(this, this.channels.get(channel)?.overrides ?? [], member, permission)
  }

  #ofRoles(roles: readonly Snowflake[]): ByRoles {
    let known = this.#byRoles.get(roles)
    if (!known) {
      const nobody = { user_id: "", roles }
      const isAdministrator = holds(this, nobody, "administrator")
      const seesRest = holds(this, nobody, viewing)
      const seen = this.#overrides.ofRoles(roles, seesRest, role => this.roles.has(role))
      const sight = isAdministrator ? this.#everything : { seesRest, seen }
      known = { sight, isAdministrator, group: undefined, keys: undefined, visible: undefined }
      this.#byRoles.set(roles, known)
    }
    return known
  }

  #sightOf(member: Holder, { sight, isAdministrator } = this.#ofRoles(member.roles)): Sight {
    if (isAdministrator || member.user_id === this.owner_id) return this.#everything
    const seen = this.#overrides.ofMember(member.user_id, sight.seen)
    return seen === sight.seen ? sight : { ...sight, seen }
  }

  /** The channels that a member may view. */
  visibleTo(member: Holder): ReadonlySet<Snowflake> {
    const ofRoles = this.#ofRoles(member.roles)
    const { seesRest, seen } = this.#sightOf(member, ofRoles)
    const isShared = seen === ofRoles.sight.seen
    if (isShared && ofRoles.visible) return ofRoles.visible
    const visible = new Set<Snowflake>()
    for (const id of this.channels.keys()) {
      const slot = this.#overrides.slots.get(id)
      if (slot === undefined ? seesRest : has(seen, slot)) visible.add(id)
    }
    if (isShared) ofRoles.visible = visible
    return visible
  }

  /** The channels of which a member sees more, or less, than under the rules before. */
  compare(before: Holder, to: VisibilityRules, after: Holder): ViewChanges {
    const [was, is] = [this.#sightOf(before), to.#sightOf(after)]
    if (this.#overrides === to.#overrides && was.seesRest === is.seesRest && isSame(was.seen, is.seen)) return nothing
    if (this.#alignment?.to !== to) this.#alignment = aligned(this, this.#overrides, to, to.#overrides)
    const gained: Channel[] = []
    const lost: Snowflake[] = []
    // In the order of the channels, whatever decides about each of them.
    const concerned = was.seesRest === is.seesRest ? this.#alignment.decided : this.#alignment.all
    for (const { channel, from, at } of concerned) {
      const [saw, now] = [from < 0 ? was.seesRest : has(was.seen, from), at < 0 ? is.seesRest : has(is.seen, at)]
      if (saw && !now) lost.push(channel.id)
      else if (now && !saw) gained.push(channel)
    }
    return gained.length + lost.length === 0 ? nothing : { gained, lost }
  }

  /** Drops what is cached; it is computed again when needed. */
  forget(): void {
    this.#byRoles = new WeakMap()
    this.#alignment = undefined
  }
}

const sees = "sees "

/** The channels that two versions of the rules have, as the later one shows them. */
interface Alignment {
  readonly to: VisibilityRules
  /** With their slots in both; -1: no override says anything there about who views them. */
  readonly all: readonly AlignedChannel[]
  /** Those of whose viewers an override says something in one of the two. */
  readonly decided: readonly AlignedChannel[]
}

interface AlignedChannel {
  readonly channel: Channel
  readonly from: number
  readonly at: number
}

function aligned(before: RuleSet, said: ViewOverrides, to: VisibilityRules, says: ViewOverrides): Alignment {
  const all: AlignedChannel[] = []
  for (const [id, { channel }] of to.channels) {
    if (!before.channels.has(id)) continue
    const [from, at] = [said.slots.get(id) ?? -1, says.slots.get(id) ?? -1]
    all.push({ channel, from, at })
  }
  return { to, all, decided: all.filter(({ from, at }) => from >= 0 || at >= 0) }
}

/** Whether an audience is published to topics. */
export const isSubscribed = (key: string): boolean => key === everybody || key.startsWith(viewing)

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
  const said: Viewing[] = []
  for (const { type, target_id, allow, deny } of overrides) {
    const isAllowed = includes(allow, viewing)
    if (isAllowed || includes(deny, viewing)) said.push({ target_id, type, isAllowed })
  }
  if (said.length === 0) return null
  const texts = said.map(({ target_id, type, isAllowed }) => `${target_id}${isAllowed ? "+" : "-"}${type}`)
  return { key: `${viewing} ${hash("sha256", texts.toSorted().join(), "base64url").slice(0, 16)}`, said }
}

/** The channels whose overrides decide who may view them. */
function* decided(channels: RuleSet["channels"]): Generator<readonly [Snowflake, Viewers]> {
  for (const [id, { overrides }] of channels) {
    const found = overrides.length > 0 ? viewersBy(overrides) : null
    if (found) yield [id, found]
  }
}

/** Versions are kept for minutes: they share what did not change. */
function changed<V extends object>(
  map: ReadonlyMap<Snowflake, V>,
  key: Snowflake,
  value: V | null,
): ReadonlyMap<Snowflake, V> {
  const shared = LayeredMap.of(map)
  return value === null ? shared.without(key) : shared.with(key, value)
}

export interface ViewChanges {
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
  return from.compare(before, to, after)
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
  return grantsOtherViews(
    name => before.includes(name),
    name => after.includes(name),
  )
}
