import type { Snowflake } from "../../contract/core/fields.ts"
import type { Session } from "../state/session.ts"
import type { Guild, ServerView } from "../state/server-view.ts"
import {
  everybody,
  viewChanges,
  type ViewChanges,
  type ViewerGroup,
  type VisibilityRules,
} from "../state/visibility-rules.ts"

/** Groups that come to see the same are put together if one of them has at most so many sessions. */
const mergedSessions = 64
/** If a change tells more sessions than this of channels, they read it, so that the others do not wait until all have been told. */
const maxToldSessions = 1_000
/** Sessions that a change does not concern are passed over; after so many of them other work may have its turn. */
const passedOver = 256

/**
 * Kinds who see the same of the channels that have audiences of their own: they share a topic. What they see may change
 * while they share it.
 */
interface Group {
  readonly id: string
  content: ViewerGroup
  readonly kinds: Set<Kind>
}

/**
 * The live sessions of a server's members who have the same roles. A member whom an override names, and the owner, are a
 * kind of their own. Unlike other guilds it changes: a change of the rules that does not concern these members is one
 * assignment here for all of them.
 */
export class Kind implements Guild {
  readonly view: ServerView
  readonly roles: readonly Snowflake[]
  rules: VisibilityRules
  /** Of a kind of its own; else empty. */
  readonly user: Snowflake
  /** What its sessions are subscribed to. */
  readonly keys: readonly string[]
  readonly group: Group | undefined
  count = 0
  /** Its sessions pass the change at which the log stands one by one. */
  isLeaving = false
  /** What the change does to each of them, if that is known. */
  changes: ViewChanges | undefined
  /** They read the change, because it tells so many. */
  isToRead = false

  constructor({ view, roles, rules }: Guild, user: Snowflake, keys: readonly string[], group: Group | undefined) {
    this.view = view
    this.roles = roles
    this.rules = rules
    this.user = user
    this.keys = keys
    this.group = group
  }
}

/** A live session holds kinds and nothing else. */
export function kindOf(guild: Guild): Kind {
  if (!(guild instanceof Kind)) throw new Error("a live session without a kind")
  return guild
}

/**
 * The kinds of live sessions of one server. It keeps:
 *   KIND1  Outside of a change all kinds have the rules that hold where live sessions stand.
 *   KIND2  Nobody whom an override names, nor the owner, is in a kind with others.
 */
export class MemberKinds {
  readonly #view: ServerView
  readonly #kinds = new Map<string, Kind>()
  readonly #groups = new Map<string, Group>()
  /** By what they see. */
  readonly #groupOf = new Map<string, Group>()
  #groupsMade = 0
  /** Sessions that have not yet passed the change. */
  #leaving = 0

  constructor(view: ServerView) {
    this.#view = view
  }

  get groups(): Iterable<Group> {
    return this.#groups.values()
  }

  group(id: string): Group | undefined {
    return this.#groups.get(id)
  }

  /** A live session of a member with these roles is of this kind from now on. */
  enter(user: Snowflake, roles: readonly Snowflake[], rules: VisibilityRules): Kind {
    const own = rules.isAlone(user) ? user : ""
    const key = keyOf(own, roles)
    const listed = this.#kinds.get(key)
    if (listed?.rules === rules) {
      listed.count++
      return listed
    }
    const content = rules.groupOf({ user_id: own, roles })
    const group = content ? this.#groupWith(content) : undefined
    const plain = plainKeys(rules, own, roles)
    const kind = new Kind({ view: this.#view, roles, rules }, own, group ? [...plain, group.id] : plain, group)
    group?.kinds.add(kind)
    kind.count = 1
    if (rules === this.#view.now) {
      if (listed) this.#part(listed, undefined)
      this.#kinds.set(key, kind)
    } else {
      // It came in the middle of a change, from before it.
      kind.isLeaving = true
      this.#leaving++
    }
    return kind
  }

  /** A session is no longer of the kind. */
  leave(kind: Kind): void {
    if (kind.isLeaving) this.#leaving--
    if (--kind.count > 0) return
    const key = keyOf(kind.user, kind.roles)
    if (this.#kinds.get(key) === kind) this.#kinds.delete(key)
    this.#leaveGroup(kind)
  }

  /**
   * Moves all live sessions from the rules before a change to those that hold now. What it costs depends on how many kinds
   * of members there are, and on how many sessions the change concerns. Yields each session that has to pass the change by
   * itself, and nothing wherever other work may have its turn.
   * @param sessions those that hold the server, live or not
   */
  *passing(
    from: VisibilityRules,
    sessions: Iterable<Session>,
    ofUser: (user: Snowflake) => readonly Session[],
  ): Generator<Session | undefined> {
    const to = this.#view.now
    const staying: Kind[] = []
    const told: Kind[] = []
    const contents = new Map<Group, ViewerGroup>()
    for (const kind of this.#kinds.values()) {
      if (kind.rules === to) continue
      if (this.#mayStay(kind, to, contents)) staying.push(kind)
      else if (tells(kind)) told.push(kind)
      yield undefined
    }
    for (const user of to.newlyAlone(from)) for (const session of ofUser(user)) this.#setApart(session, user)
    this.#rename(contents)
    for (const kind of staying) if (!kind.isLeaving) kind.rules = to
    if (countOf(told) > maxToldSessions) for (const kind of told) kind.isToRead = true
    let passed = 0
    for (const session of sessions) {
      if (this.#leaving === 0) return
      const guild = session.state === "live" ? session.guilds.get(this.#view.id) : undefined
      if (guild && kindOf(guild).isLeaving) yield session
      else if (++passed % passedOver === 0) yield undefined
    }
  }

  /**
   * Whether members of a kind see what they saw and go on with the topics that they have; if not, each of them passes the
   * change by itself.
   * @param contents what the groups see then
   */
  #mayStay(kind: Kind, to: VisibilityRules, contents: Map<Group, ViewerGroup>): boolean {
    const { rules, roles, user, group } = kind
    const holder = { user_id: user, roles }
    const changes = viewChanges(rules, holder, to, holder)
    const content = to.groupOf(holder)
    const isSame =
      changes.gained.length + changes.lost.length === 0 &&
      plainKeys(to, user, roles).length === kind.keys.length - (group ? 1 : 0) &&
      (group === undefined) === (content === null)
    const planned = group && contents.get(group)
    if (!isSame || (planned && planned.key !== content!.key)) {
      this.#part(kind, changes)
      return false
    }
    if (group && !planned) contents.set(group, content!)
    return true
  }

  #part(kind: Kind, changes: ViewChanges | undefined): void {
    const key = keyOf(kind.user, kind.roles)
    if (this.#kinds.get(key) === kind) this.#kinds.delete(key)
    kind.isLeaving = true
    kind.changes = changes
    this.#leaving += kind.count
  }

  /** KIND2: somebody of whom the rules say something of their own now. */
  #setApart(session: Session, user: Snowflake): void {
    const guild = session.state === "live" ? session.guilds.get(this.#view.id) : undefined
    if (!guild) return
    const shared = kindOf(guild)
    if (shared.isLeaving && shared.user === user) return
    const own = new Kind(shared, user, shared.keys, shared.group)
    shared.group?.kinds.add(own)
    own.isLeaving = true
    own.count = 1
    this.#leaving++
    session.guilds.put(own)
    this.leave(shared)
  }

  /** Groups see these from now on, under the topics that they have. */
  #rename(contents: Map<Group, ViewerGroup>): void {
    // Their last sessions have gone since they were looked at.
    for (const group of contents.keys()) if (group.kinds.size === 0) contents.delete(group)
    for (const [group, { key }] of contents)
      if (group.content.key !== key && this.#groupOf.get(group.content.key) === group)
        this.#groupOf.delete(group.content.key)
    for (const [group, content] of contents) {
      group.content = content
      const other = this.#groupOf.get(content.key)
      if (other === group) continue
      const [small, large] = !other || countOf(other.kinds) < countOf(group.kinds) ? [other, group] : [group, other]
      this.#groupOf.set(content.key, large)
      // Two topics for the same cost a publish each time, to put them together costs once for each session.
      if (small && countOf(small.kinds) <= mergedSessions)
        for (const kind of small.kinds) if (!kind.isLeaving) this.#part(kind, undefined)
    }
  }

  #groupWith(content: ViewerGroup): Group {
    let group = this.#groupOf.get(content.key)
    if (!group) {
      group = { id: `sees ${(this.#groupsMade++).toString(36)}`, content, kinds: new Set() }
      this.#groups.set(group.id, group)
      this.#groupOf.set(content.key, group)
    }
    return group
  }

  #leaveGroup(kind: Kind): void {
    const { group } = kind
    if (!group || !group.kinds.delete(kind) || group.kinds.size > 0) return
    this.#groups.delete(group.id)
    if (this.#groupOf.get(group.content.key) === group) this.#groupOf.delete(group.content.key)
  }
}

/** Of most it is one text, which is not hashed anew. */
const keyOf = (user: Snowflake, roles: readonly Snowflake[]): string =>
  user === "" && roles.length === 0 ? " " : `${user} ${roles.join()}`

/** The audiences that a member subscribes to beside their group. */
const plainKeys = (rules: VisibilityRules, user: Snowflake, roles: readonly Snowflake[]): readonly string[] =>
  rules.subscribedKeys({ user_id: user, roles }).filter(key => key === everybody || !key.startsWith("sees "))

const tells = ({ changes }: Kind): boolean => changes !== undefined && changes.gained.length + changes.lost.length > 0

function countOf(kinds: Iterable<Kind>): number {
  let count = 0
  for (const kind of kinds) count += kind.count
  return count
}
