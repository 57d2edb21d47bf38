import type { TemplatedApp } from "uWebSockets.js"
import { events } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { sessionPosition } from "../../contract/core/gateway.ts"
import { closeCodes, type CloseName } from "../../contract/core/gateway-codes.ts"
import { intentBit, type Audience } from "../../domain/core/audience.ts"
import type { Clock } from "../../std/clock.ts"
import type { LogHeader, LogItem } from "../../domain/core/log-entry.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { opened } from "../protocol/compression.ts"
import { Frame, isCompressed, type Encoding, type Payload } from "../protocol/frames.ts"
import { wholeMs, type Connection, type Session } from "../state/session.ts"
import { has } from "../state/view-overrides.ts"
import { everybody, isSubscribed, type ServerAudience, type VisibilityRules } from "../state/visibility-rules.ts"
import type { Guild, ServerView } from "../state/server-view.ts"
import { PackedSet, type ReadonlyPackedSet } from "../../std/packed-set.ts"
import { wireText } from "../../std/wire-text.ts"
import { kindOf, MemberKinds, type Kind } from "./member-kinds.ts"

type EventHeader = Extract<LogHeader, readonly ["e" | "x", ...unknown[]]>

/** The bit of the intents that an event needs among members of a server; 0: none. */
const serverBits = new Map<string, number>(
  Object.values(events).map(event => [event.name, intentBit(event, "members")]),
)
/** The bit that it needs when it is for a user alone. */
const userBits = new Map<string, number>(Object.values(events).map(event => [event.name, intentBit(event, "user")]))

/** Sessions that receive the same bytes of an audience: one topic, one publish. */
interface SubscriberClass {
  readonly topic: string
  readonly intents: number
  readonly encoding: Encoding
  count: number
  /** Monotonic milliseconds. */
  publishedAt: number
  /** The last turn in which something was published to it, and how many bytes. */
  turn: number
  turnBytes: number
}

/** What was sent in one turn of the event loop. */
interface Turn {
  /** The most sessions that one event was published to, in all their encodings. */
  reached: number
  /** Sockets that something was published to: each is written to once. */
  sockets: number
  /** Frames that were published to them. */
  frames: number
  /** The most that one socket of a large audience was given. */
  bytes: number
}

/** Of a WebSocket frame of up to 64 KiB that a server sends. */
const frameHeaderBytes = 4
/** An audience of so many sessions is large. */
const largeAudience = 100

/** Classes of live sessions, by class key. */
type Classes = Map<string, SubscriberClass>

/** The sessions of one server's members, and how its events reach them. */
interface Members {
  /** Sessions that hold the server, live or not. */
  readonly sessions: PackedSet<Session>
  /** By the key of the audience, or of the group. */
  readonly classes: Map<string, Classes>
  /** Live sessions by what they see. */
  readonly kinds: MemberKinds
  /** Live sessions above the bound of classes: each is sent to individually. */
  readonly individual: Set<Session>
  /** Monotonic milliseconds: when anything was last published in one of its topics. */
  publishedAt: number
}

export interface SubscriptionsOptions {
  readonly app: TemplatedApp
  readonly view: (server: Snowflake) => ServerView | undefined
  readonly classesPerAudience: number
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * All sessions of this worker, and how an event reaches the live ones: one publish per class,
 * however many sessions it has. It keeps:
 *   SUB1  A live session is subscribed to exactly what it may receive.
 *   SUB2  Nothing is sent on a closed socket.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly byId = new Map<string, Session>()
  readonly #members = new WeakMap<ServerView, Members>()
  /** Most users have one: that one is by itself. */
  readonly #byUser = new Map<Snowflake, Session | readonly Session[]>()
  /** The position at which every live session stands. */
  position = 0
  /**
   * Live sessions are being moved past a change of the rules: no session goes live until all of
   * them have passed it.
   */
  isMoving = false
  /** The most bytes that any one socket was given since the buffers were last checked. */
  unlookedBytes = 0
  /** Bytes that were given to single sockets, ever. */
  sentBytes = 0
  #counted = { text: "", bytes: 0 }
  #turns = 0
  readonly turn: Turn = { reached: 0, sockets: 0, frames: 0, bytes: 0 }
  /** Sessions that the event at hand was published to. */
  #reached = 0
  /** Log items as dispatches, for sessions that read them; kept as long as the items are. */
  readonly #read = new WeakMap<LogItem, Frame>()
  #positionFrame: Frame | undefined
  /** As of any server's members. */
  #publishedAt = 0
  /**
   * Live sessions for which uWS refused to buffer a frame. The frame is lost, so they are closed
   * before anything else is sent.
   */
  readonly holed = new Set<Connection>()

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** What was sent is counted from here on. */
  beginTurn(): void {
    this.#turns++
    Object.assign(this.turn, { reached: 0, sockets: 0, frames: 0, bytes: 0 } satisfies Turn)
  }

  add(session: Session): void {
    this.byId.set(session.id, session)
    const others = this.#byUser.get(session.user)
    this.#byUser.set(session.user, others === undefined ? session : listOf(others).concat(session))
  }

  remove(session: Session): void {
    this.byId.delete(session.id)
    const [one, ...more] = this.ofUser(session.user).filter(other => other !== session)
    if (one) this.#byUser.set(session.user, more.length > 0 ? [one, ...more] : one)
    else this.#byUser.delete(session.user)
  }

  ofUser(user: Snowflake): readonly Session[] {
    const found = this.#byUser.get(user)
    return found === undefined ? none : listOf(found)
  }

  /** The sessions that hold a server, live or not. */
  sessionsOf(view: ServerView): ReadonlyPackedSet<Session> {
    return this.#membersOf(view).sessions
  }

  #membersOf(view: ServerView): Members {
    let members = this.#members.get(view)
    if (!members)
      this.#members.set(
        view,
        (members = {
          sessions: new PackedSet(),
          classes: new Map(),
          kinds: new MemberKinds(view),
          individual: new Set(),
          publishedAt: 0,
        }),
      )
    return members
  }

  /** From this tick on what is published reaches the session, which has read so far. */
  goLive(session: Session): void {
    const { metrics } = this.#options
    metrics.gateway.sessions.reading.dec()
    metrics.gateway.sessions.live.inc()
    session.state = "live"
    session.cursor = this.position
    const key = classKey(session)
    session.guilds.replaceAll(({ view, roles, rules }) => {
      const members = this.#membersOf(view)
      const kind = members.kinds.enter(session.user, roles, rules)
      this.#subscribeIn(members, session, kind, key)
      return kind
    })
  }

  /** From this tick on nothing that is published reaches it. */
  goReading(session: Session): void {
    const place = this.placeOf(session)
    if (session.state === "live") {
      const { metrics } = this.#options
      metrics.gateway.sessions.live.dec()
      metrics.gateway.sessions.reading.inc()
      session.guilds.replaceAll(guild => {
        this.#unsubscribe(session, kindOf(guild))
        // In the middle of a change its kind may have passed it already, and the session has not read it.
        return guild.view.seen(guild.roles, guild.view.at(place))
      })
    }
    session.state = "reading"
    session.cursor = place
  }

  /** A session begins or ceases to see a server. */
  addGuild(session: Session, view: ServerView, roles: readonly Snowflake[], rules: VisibilityRules): Guild {
    if (session.guilds.get(view.id)?.view !== view) this.#membersOf(view).sessions.add(session)
    const guild = session.state === "live" ? this.#subscribed(session, view, roles, rules) : view.seen(roles, rules)
    session.guilds.put(guild)
    return guild
  }

  /** A session that is new and has no socket yet sees all of its servers. */
  addGuilds(session: Session, guilds: readonly Guild[]): void {
    for (const { view } of guilds) this.#membersOf(view).sessions.add(session)
    session.guilds.fill(guilds)
  }

  /** The rules or roles that decide what a session sees of a server have changed. */
  regroup(session: Session, guild: Guild, rules: VisibilityRules, roles: readonly Snowflake[]): void {
    const { view } = guild
    if (session.state !== "live") return session.guilds.put(view.seen(roles, rules))
    const { kinds } = this.#membersOf(view)
    const before = kindOf(guild)
    const after = kinds.enter(session.user, roles, rules)
    if (isSame(before.keys, after.keys)) kinds.leave(before)
    else {
      this.#unsubscribe(session, before)
      this.#subscribe(session, after)
    }
    session.guilds.put(after)
  }

  removeGuild(session: Session, server: Snowflake): boolean {
    const guild = session.guilds.get(server)
    if (!guild) return false
    if (session.state === "live") this.#unsubscribe(session, kindOf(guild))
    session.guilds.delete(server)
    this.#membersOf(guild.view).sessions.delete(session)
    return true
  }

  /** Moves the live sessions of a server past a change of its rules; see `MemberKinds`. */
  passing(view: ServerView, from: VisibilityRules): Iterator<Session | undefined> {
    const { kinds, sessions } = this.#membersOf(view)
    return kinds.passing(from, sessions, user => this.ofUser(user))
  }

  /** Sends an event to every live session that is to have it. */
  publish(item: LogItem, header: EventHeader): void {
    const [, , , , audience, name, except] = header
    const frame = new Frame(name, item.s, item.data)
    if (audience.kind === "user") {
      for (const session of this.ofUser(audience.user))
        if (session.state === "live" && passes(session, userBits, name) && !except.includes(session.id))
          this.send(session, frame)
      return
    }
    const view = this.#options.view(audience.server)
    if (view && this.sessionsOf(view).size > 0) this.#publishIn(view, audience, frame, except)
  }

  /**
   * Sends one event, for the members of some servers and for some users, to each live session once.
   * Members of the first server are reached by its topics, all others one by one, so the first
   * should be the largest. The caller may pause between servers. The frame is asked for anew,
   * because sessions may stand at another position by then.
   */
  *spread(
    frame: () => Frame,
    [first, ...others]: readonly ServerView[],
    users: readonly Snowflake[],
    except: readonly string[],
  ): Generator<void> {
    const left = new Set(except)
    if (first) this.#publishIn(first, { kind: "members", server: first.id }, frame(), except)
    const reached = new Set<Session>()
    const send = (session: Session, now: Frame) => {
      if (session.state !== "live" || !passes(session, serverBits, now.name)) return
      if (left.has(session.user) || reached.has(session)) return
      if (first && session.guilds.has(first.id)) return
      reached.add(session)
      this.send(session, now)
    }
    for (const view of others) {
      yield
      const now = frame()
      // Most clients do not ask for presences.
      if (this.#isHeard(view, now.name)) for (const session of this.sessionsOf(view)) send(session, now)
    }
    yield
    for (const user of users) for (const session of this.ofUser(user)) send(session, frame())
  }

  /** Whether any live session of a server's members is told of an event that is for all of them. */
  #isHeard(view: ServerView, name: string): boolean {
    const bit = serverBits.get(name) ?? 0
    const { classes, individual } = this.#membersOf(view)
    if (bit === 0 || individual.size > 0) return true
    for (const { count, intents } of classes.get(everybody)?.values() ?? [])
      if (count > 0 && (intents & bit) !== 0) return true
    return false
  }

  #publishIn(view: ServerView, audience: ServerAudience, frame: Frame, except: readonly string[]): void {
    const bit = serverBits.get(frame.name) ?? 0
    const members = this.#membersOf(view)
    const { sessions, classes: byAudience, kinds, individual } = members
    const key = view.now.audienceKey(audience)
    if (!isSubscribed(key)) return this.#sendEach(sessions, view, audience, frame, bit, except)
    members.publishedAt = this.#publishedAt = wholeMs(this.#options.clock)

    const place = audience.kind === "viewers" ? view.now.placeOf(audience.channel) : undefined
    const isTo = (subscribed: string): boolean => {
      if (!place) return subscribed === key
      const content = kinds.group(subscribed)?.content
      return content !== undefined && content.layout === place.layout && has(content.seen, place.slot)
    }
    const left = except.length > 0 ? this.#leaveOut(except, view, isTo) : undefined
    this.#reached = 0
    if (!place) this.#publishTo(byAudience.get(key), frame, bit)
    else for (const { id } of kinds.groups) if (isTo(id)) this.#publishTo(byAudience.get(id), frame, bit)
    left?.()
    this.turn.reached = Math.max(this.turn.reached, this.#reached)
    if (individual.size > 0) this.#sendEach(individual, view, audience, frame, bit, except)
  }

  #publishTo(classes: Classes | undefined, frame: Frame, bit: number): void {
    if (!classes) return
    for (const subscribers of classes.values()) {
      if (subscribers.count === 0 || (bit !== 0 && (subscribers.intents & bit) === 0)) continue
      const payload = frame.in(subscribers.encoding)
      this.#options.app.publish(subscribers.topic, wireText(payload), typeof payload !== "string", false)
      subscribers.publishedAt = wholeMs(this.#options.clock)
      this.#countTurn(subscribers, this.#count(payload, subscribers.count))
    }
  }

  /** Whether an event is for a session, as of now. */
  isFor(session: Session, audience: Audience, name: string, except: readonly string[]): boolean {
    if (except.length > 0 && except.includes(session.user)) return false
    if (audience.kind === "user") return audience.user === session.user && passes(session, userBits, name)
    if (!passes(session, serverBits, name)) return false
    const guild = session.guilds.get(audience.server)
    return guild !== undefined && guild.rules.includes(audience, { user_id: session.user, roles: guild.roles })
  }

  /** Whether the session's intents include an event that its own worker makes about a server. */
  hearsOf(session: Session, name: string): boolean {
    return passes(session, serverBits, name)
  }

  /**
   * Whether a live session was sent no frame with a position after a moment. Of servers that were quiet as a whole the classes
   * are not looked at: it is asked at each heartbeat.
   */
  isQuietSince(session: Session, since: number): boolean {
    if (session.sentAt > since) return false
    if (this.#publishedAt <= since) return true
    const ofSession = classKey(session)
    for (const guild of session.guilds.values()) {
      const { publishedAt, classes } = this.#membersOf(guild.view)
      if (publishedAt <= since) continue
      for (const key of kindOf(guild).keys)
        if ((classes.get(key)?.get(ofSession)?.publishedAt ?? 0) > since) return false
    }
    return true
  }

  /**
   * The first dispatch on a session's socket: from here on all frames are in the session's
   * encoding.
   */
  open(session: Session, frame: Frame): void {
    const { connection, encoding } = session
    if (!connection) return
    session.sentAt = wholeMs(this.#options.clock)
    connection.encoding = encoding
    const payload = frame.in(encoding)
    this.sendPayload(connection, isCompressed(encoding) ? opened(payload as Uint8Array) : payload)
  }

  /**
   * Sends one log item to one session that reads. JSON is made by joining texts. Other encodings
   * cost more, so they are made once for all sessions that read the item at that position.
   */
  sendItem(session: Session, item: LogItem, name: string, s: number): void {
    if (session.encoding === "json") return this.send(session, new Frame(name, s, item.data))
    let frame = this.#read.get(item)
    if (frame?.s !== s) this.#read.set(item, (frame = new Frame(name, s, item.data)))
    this.send(session, frame)
  }

  /**
   * The position of what a session was sent last. A live session may have been moved past a rules
   * change already.
   */
  placeOf(session: Session): number {
    return session.state === "live" ? Math.max(this.position, session.cursor) : session.cursor
  }

  /** Tells a live session its position. */
  sendPosition(session: Session): void {
    const s = this.placeOf(session)
    if (this.#positionFrame?.s !== s) this.#positionFrame = new Frame(sessionPosition.name, s, "{}")
    this.send(session, this.#positionFrame)
  }

  /** Sends one dispatch to one session. */
  send(session: Session, frame: Frame): void {
    session.sentAt = wholeMs(this.#options.clock)
    if (session.connection) this.sendPayload(session.connection, frame.in(session.encoding))
  }

  sendPayload(connection: Connection, payload: Payload): void {
    if (connection.closed || this.holed.has(connection)) return // SUB2
    const outcome = connection.ws.send(wireText(payload), typeof payload !== "string", false)
    if (outcome === 2) this.holed.add(connection)
    this.sentBytes += this.#count(payload, 1)
  }

  /** Closes a connection with a close code of the contract. */
  close(connection: Connection, name: CloseName): void {
    if (connection.closed) return
    const { code, reason } = closeCodes[name]
    this.#options.metrics.gateway.closes.of(code).inc()
    connection.ws.end(code, reason)
  }

  #sendEach(
    sessions: Iterable<Session>,
    view: ServerView,
    audience: ServerAudience,
    frame: Frame,
    bit: number,
    except: readonly string[],
  ): void {
    const left = new Set(except)
    for (const session of sessions) {
      if (session.state !== "live" || (bit !== 0 && (session.intents & bit) === 0)) continue
      const guild = session.guilds.get(view.id)
      const member = guild && { user_id: session.user, roles: guild.roles }
      if (member && !left.has(session.user) && guild.rules.includes(audience, member)) this.send(session, frame)
    }
  }

  /**
   * Unsubscribes users' sessions from what an event is published to. What is returned subscribes them again, in the same
   * tick.
   */
  #leaveOut(users: readonly string[], view: ServerView, isTo: (key: string) => boolean): (() => void) | undefined {
    const left: { session: Session; topic: string }[] = []
    const { individual } = this.#membersOf(view)
    for (const user of users)
      for (const session of this.ofUser(user)) {
        const guild = session.guilds.get(view.id)
        if (session.state !== "live" || !guild || !session.connection || individual.has(session)) continue
        const key = kindOf(guild).keys.find(isTo)
        if (key === undefined) continue
        const topic = topicOf(view, key, session)
        session.connection.ws.unsubscribe(topic)
        left.push({ session, topic })
      }
    if (left.length === 0) return undefined
    return () => {
      for (const { session, topic } of left) session.connection!.ws.subscribe(topic)
    }
  }

  #subscribed(session: Session, view: ServerView, roles: readonly Snowflake[], rules: VisibilityRules): Kind {
    const kind = this.#membersOf(view).kinds.enter(session.user, roles, rules)
    this.#subscribe(session, kind)
    return kind
  }

  #subscribe(session: Session, kind: Kind): void {
    this.#subscribeIn(this.#membersOf(kind.view), session, kind, classKey(session))
  }

  #subscribeIn(members: Members, session: Session, { view, keys }: Kind, ofSession: string): void {
    // A list that grows has space for 17 from the beginning, and most have one key.
    let classes: readonly SubscriberClass[] = none
    for (const key of keys) {
      const subscribers = this.#classOf(members, session, view, key, ofSession)
      if (!subscribers) {
        members.individual.add(session)
        return
      }
      classes = classes.length === 0 ? [subscribers] : classes.concat(subscribers)
    }
    for (const subscribers of classes) {
      session.connection!.ws.subscribe(subscribers.topic)
      subscribers.count++
    }
  }

  #unsubscribe(session: Session, kind: Kind): void {
    const members = this.#membersOf(kind.view)
    members.kinds.leave(kind)
    if (members.individual.delete(session)) return
    for (const key of kind.keys) {
      const classes = members.classes.get(key)
      const subscribers = classes?.get(classKey(session))
      if (!subscribers) continue
      if (session.connection && !session.connection.closed) session.connection.ws.unsubscribe(subscribers.topic)
      if (--subscribers.count > 0) continue
      classes!.delete(classKey(session))
      if (classes!.size === 0) members.classes.delete(key)
    }
  }

  #classOf(
    members: Members,
    session: Session,
    view: ServerView,
    key: string,
    ofSession: string,
  ): SubscriberClass | undefined {
    let classes = members.classes.get(key)
    if (!classes) members.classes.set(key, (classes = new Map()))
    let subscribers = classes.get(ofSession)
    if (!subscribers) {
      if (classes.size >= this.#options.classesPerAudience) return undefined
      subscribers = {
        topic: topicOf(view, key, session),
        intents: classIntents(session.intents),
        encoding: session.encoding,
        count: 0,
        publishedAt: wholeMs(this.#options.clock),
        turn: 0,
        turnBytes: 0,
      }
      classes.set(ofSession, subscribers)
    }
    return subscribers
  }

  #countTurn(subscribers: SubscriberClass, bytes: number): void {
    const { turn } = this
    const { count } = subscribers
    if (subscribers.turn !== this.#turns) {
      subscribers.turn = this.#turns
      subscribers.turnBytes = 0
      turn.sockets += count
    }
    subscribers.turnBytes += bytes + frameHeaderBytes
    turn.frames += count
    this.#reached += count
    if (count >= largeAudience && subscribers.turnBytes > turn.bytes) turn.bytes = subscribers.turnBytes
  }

  /** The same text often goes to many sockets in a row: it is counted once. */
  #bytesOf(text: string): number {
    if (text !== this.#counted.text) this.#counted = { text, bytes: Buffer.byteLength(text) }
    return this.#counted.bytes
  }

  /** @returns the bytes of one frame */
  #count(payload: Payload, receivers: number): number {
    const bytes = typeof payload === "string" ? this.#bytesOf(payload) : payload.length
    this.unlookedBytes += bytes
    const { gateway } = this.#options.metrics
    gateway.publishes.inc()
    gateway.deliveries.inc(receivers)
    gateway.sentBytes.inc(bytes * receivers)
    return bytes
  }
}

const none: readonly never[] = []
const listOf = (sessions: Session | readonly Session[]): readonly Session[] =>
  Array.isArray(sessions) ? (sessions as readonly Session[]) : [sessions as Session]

/** Bits of a session's intents that decide about a server's events. */
const serverIntents = 0x0fff
const classIntents = (intents: number): number => intents & serverIntents

const isSame = (a: readonly string[], b: readonly string[]): boolean =>
  a === b || (a.length === b.length && a.every((key, i) => key === b[i]))

/** By the bits and the encoding: a text that is made anew is hashed anew wherever it is looked up. */
const classKeys = new Map<Encoding, Map<number, string>>()

function classKey({ intents, encoding }: Session): string {
  let keys = classKeys.get(encoding)
  if (!keys) classKeys.set(encoding, (keys = new Map()))
  const bits = classIntents(intents)
  let key = keys.get(bits)
  if (key === undefined) keys.set(bits, (key = `${bits} ${encoding}`))
  return key
}

const topicOf = (view: ServerView, key: string, session: Session) => `${view.id} ${key} ${classKey(session)}`

function passes({ intents }: Session, bits: ReadonlyMap<string, number>, name: string): boolean {
  const bit = bits.get(name) ?? 0
  return bit === 0 || (intents & bit) !== 0
}
