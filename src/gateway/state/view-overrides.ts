import type { Snowflake } from "../../contract/core/fields.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { LayeredMap } from "../../std/layered-map.ts"

/** A set of channels: the bit of each is at its slot. */
export type ChannelSet = Int32Array

export const has = (set: ChannelSet, slot: number): boolean => ((set[slot >> 5]! >> (slot & 31)) & 1) === 1
export const isSame = (a: ChannelSet, b: ChannelSet): boolean =>
  a === b || (a.length === b.length && a.every((word, i) => word === b[i]))
const add = (set: ChannelSet, slot: number): void => {
  set[slot >> 5]! |= 1 << (slot & 31)
}

/** What one role, or one member, is allowed and denied. */
interface Said {
  readonly allow: ChannelSet
  readonly deny: ChannelSet
}

/** What one channel's overrides say about who may view it. */
export interface Viewers {
  /** The key of their audience. */
  readonly key: string
  readonly said: readonly Pick<Viewing, "target_id" | "type" | "isAllowed">[]
}

export interface Viewing extends Pick<Override, "target_id" | "type"> {
  readonly isAllowed: boolean
}

let layouts = 0

/**
 * What all overrides of a server say about who may view its channels, turned around: by role and by
 * member, as sets of channels. What a member sees is a few operations on such sets for each of
 * their roles, however many overrides there are. Versions of the rules share it as long as no
 * override about viewing changes, and after that the sets of those whom the change is not about.
 */
export class ViewOverrides {
  /** Channels whose overrides decide who may view them, with their slots. */
  readonly slots: LayeredMap<Snowflake, number>
  /** Sets of channels can be compared if their layouts are the same: the slots are the same. */
  readonly layout: string
  readonly keys: LayeredMap<Snowflake, string>
  readonly all: ChannelSet
  readonly none: ChannelSet
  readonly everyone: Said | undefined
  readonly members: LayeredMap<Snowflake, Said>
  /** With that of all members, which has the server's id. */
  readonly #roles: LayeredMap<Snowflake, Said>
  readonly #server: Snowflake

  /** @param like what was said before: channels that both are about keep their slots */
  constructor(server: Snowflake, channels: readonly (readonly [Snowflake, Viewers])[], like?: ViewOverrides) {
    const slots = slotsOf(channels, like)
    this.slots = LayeredMap.like(like?.slots, slots)
    this.layout = like && this.slots === like.slots ? like.layout : (layouts++).toString(36)
    this.keys = LayeredMap.like(like?.keys, new Map(channels.map(([id, { key }]) => [id, key])))
    let end = 0
    for (const slot of slots.values()) end = Math.max(end, slot + 1)
    const words = (end + 31) >> 5
    const roles = new Map<Snowflake, Said>()
    const members = new Map<Snowflake, Said>()
    this.none = new Int32Array(words)
    this.all = new Int32Array(words)
    for (const [id, { said }] of channels) {
      const slot = slots.get(id)!
      add(this.all, slot)
      for (const { target_id, type, isAllowed } of said) {
        const targets = type === "role" ? roles : members
        let sets = targets.get(target_id)
        if (!sets) targets.set(target_id, (sets = { allow: new Int32Array(words), deny: new Int32Array(words) }))
        add(isAllowed ? sets.allow : sets.deny, slot)
      }
    }
    this.#roles = shared(like && like.#roles, roles)
    this.members = shared(like?.members, members)
    this.everyone = this.#roles.get(server)
    this.#server = server
  }

  /**
   * The channels that roles view together: what `@everyone`'s overrides say replaces what the
   * server says, then those of the roles, of which one that allows wins.
   * @param isGranted what the server says
   * @param exists roles that are gone count for nothing
   */
  ofRoles(roles: readonly Snowflake[], isGranted: boolean, exists: (role: Snowflake) => boolean): ChannelSet {
    const words = this.none.length
    const seen = (isGranted ? this.all : this.none).slice()
    if (this.everyone) merge(seen, this.everyone)
    let allow: ChannelSet | undefined
    let deny: ChannelSet | undefined
    for (const role of roles) {
      const said = role === this.#server ? undefined : this.#roles.get(role)
      if (!said || !exists(role)) continue
      allow ??= new Int32Array(words)
      deny ??= new Int32Array(words)
      for (let i = 0; i < words; i++) {
        allow[i]! |= said.allow[i]!
        deny[i]! |= said.deny[i]!
      }
    }
    if (allow && deny) merge(seen, { allow, deny })
    return seen
  }

  /** The channels that a member views, of those that their roles view. */
  ofMember(user: Snowflake, ofRoles: ChannelSet): ChannelSet {
    const own = this.members.get(user)
    if (!own) return ofRoles
    const seen = ofRoles.slice()
    merge(seen, own)
    return seen
  }
}

/** What is allowed wins over what is denied: one target says one of both of a channel. */
function merge(seen: ChannelSet, { allow, deny }: Said): void {
  for (let i = 0; i < seen.length; i++) seen[i] = (seen[i]! & ~deny[i]!) | allow[i]!
}

/** Channels that had a slot keep it. The others take those that are free, so that the sets stay small. */
function slotsOf(channels: readonly (readonly [Snowflake, unknown])[], like?: ViewOverrides): Map<Snowflake, number> {
  const slots = new Map<Snowflake, number>()
  for (const [id] of channels) {
    const slot = like?.slots.get(id)
    if (slot !== undefined) slots.set(id, slot)
  }
  const taken = new Set(slots.values())
  let next = 0
  for (const [id] of channels) {
    if (slots.has(id)) continue
    while (taken.has(next)) next++
    slots.set(id, next++)
  }
  return slots
}

/** What targets are allowed and denied; of those of whom the same was said before, the sets of then. */
function shared(
  before: LayeredMap<Snowflake, Said> | undefined,
  targets: ReadonlyMap<Snowflake, Said>,
): LayeredMap<Snowflake, Said> {
  if (!before) return LayeredMap.of(targets)
  const found = new Map<Snowflake, Said>()
  for (const [id, said] of targets) {
    const known = before.get(id)
    found.set(id, known && isSame(known.allow, said.allow) && isSame(known.deny, said.deny) ? known : said)
  }
  return LayeredMap.like(before, found)
}
