import type { GatewaySessions } from "../../cluster/gateway-sessions.ts"
import type { SessionRecord } from "../../cluster/session-record.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { guildCreate } from "../../contract/communities/servers.ts"
import type { Clock } from "../../std/clock.ts"
import { guildObject } from "../../domain/communities/servers.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { Storage } from "../../storage/storage.ts"
import { compressed, type Frame, FrameRefused, type Encoding } from "../protocol/frames.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { noteChange, shownTo, type CatchUpReader } from "../replay/catch-up-reader.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import { wholeMs, type Connection, type Session } from "../state/session.ts"

/** Events of sessions for other parts of the gateway. */
export interface SessionEvents {
  /** The connection has a session from here on. */
  opened(connection: Connection): void
  /** The client says up to which position it has received what it was sent. */
  named(session: Session, position: number): void
  /** The session came here from another worker and goes on. */
  moved(session: Session): void
  /** The session has ended for good. */
  ended(session: Session): void
}

export interface SessionsOptions {
  readonly self: string
  readonly subscriptions: Subscriptions
  readonly reader: CatchUpReader
  readonly homes: HomeSubscriptions
  readonly records: GatewaySessions
  readonly storage: Pick<Storage, "servers">
  readonly isLiving: (worker: string) => boolean
  readonly policy: {
    readonly connectionsPerUser: number
    /** Whether clients that ask for compressed frames get them. */
    readonly compression: boolean
  }
  readonly events: SessionEvents
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The client disconnected while its request was handled. Its session stays as it is. */
export class ClientDisconnected extends Error {}

/**
 * The life of this worker's sessions from beginning to end, and the records that other workers
 * read.
 */
export class Sessions {
  readonly #options: SessionsOptions
  /** Those without a socket. */
  readonly #detached = new Set<Session>()

  constructor(options: SessionsOptions) {
    this.#options = options
  }

  /** The session lives on this worker from now on; it has no socket yet. */
  add(session: Session): void {
    const { subscriptions, metrics } = this.#options
    subscriptions.add(session)
    this.#detached.add(session)
    metrics.gateway.sessions.detached.inc()
  }

  /**
   * The session gets a socket: its first frame, the frames that follow at once, then the log from
   * its cursor on.
   */
  attach(connection: Connection, session: Session, first: Frame, others: readonly Frame[] = []): void {
    const { subscriptions, reader, metrics, events } = this.#options
    session.connection = connection
    session.state = "reading"
    session.waiting = false
    connection.session = session
    this.#detached.delete(session)
    metrics.gateway.sessions.detached.dec()
    metrics.gateway.sessions.reading.inc()
    connection.ws.cork(() => {
      subscriptions.open(session, first)
      for (const frame of others) subscriptions.send(session, frame)
      reader.open(session)
      events.opened(connection)
    })
  }

  /** The old socket ends without the effects of a disconnect. */
  leaveSocket(session: Session): void {
    const { connection } = session
    this.detach(session)
    if (!connection) return
    connection.session = undefined
    this.#options.subscriptions.close(connection, "resumed_elsewhere")
  }

  /** The socket is gone; the session waits for a RESUME. */
  detach(session: Session): void {
    const { subscriptions, reader, metrics, clock } = this.#options
    if (session.state === "detached") return
    if (session.state === "live") subscriptions.goReading(session)
    metrics.gateway.sessions.reading.dec()
    this.#detached.add(session)
    metrics.gateway.sessions.detached.inc()
    reader.leave(session)
    session.state = "detached"
    session.waiting = false
    session.connection = undefined
    session.progressAt = wholeMs(clock)
  }

  /** The session leaves this worker: it has ended, or moved to another. */
  drop(session: Session, isMoved = false): void {
    const { subscriptions, homes, metrics } = this.#options
    if (subscriptions.byId.get(session.id) !== session) return
    this.detach(session)
    this.#detached.delete(session)
    metrics.gateway.sessions.detached.dec()
    for (const server of session.guilds.keys()) {
      subscriptions.removeGuild(session, server)
      homes.release(server)
    }
    homes.release(session.user, isMoved ? session.accessSession : undefined)
    subscriptions.remove(session)
  }

  /** Ends those that have been without a socket since before a monotonic time. */
  endDetached(since: number): void {
    for (const session of this.#detached) if (session.progressAt < since) this.end(session)
  }

  /** The session has ended for good. */
  end(session: Session): void {
    const { records, self, log } = this.#options
    this.drop(session)
    this.#options.events.ended(session)
    Promise.all([records.forget(session.id, self), records.disconnect(session.user, session.id, self)]).catch(
      (error: unknown) => log.warn({ err: error }, "session record not deleted"),
    )
  }

  /** Writes the session's record, because it has changed. */
  save(session: Session): void {
    this.#options.records
      .save(this.recordOf(session))
      .catch((error: unknown) => this.#options.log.warn({ err: error }, "session record not written"))
  }

  /**
   * The log did not tell the session in full where its user is a member, so PostgreSQL is asked.
   */
  reconcile(session: Session, server: Snowflake): void {
    this.#reconcile(session, server).catch((error: unknown) =>
      this.#options.log.warn({ err: error, server }, "membership not reconciled"),
    )
  }

  async #reconcile(session: Session, server: Snowflake): Promise<void> {
    const { homes, storage, subscriptions, reader } = this.#options
    const held = homes.hold(server)
    let kept = false
    try {
      await held
      const view = await homes.need(server)
      const member = view && (await storage.servers.members(server, [session.user])).get(session.user)
      const state = member && !session.guilds.has(server) ? await storage.servers.load(server) : undefined
      if (session.state === "detached" || subscriptions.byId.get(session.id) !== session) return
      if (view?.isOver) return await this.#reconcile(session, server)
      const s = subscriptions.placeOf(session)
      if (view && state && member && !session.guilds.has(server)) {
        kept = true
        subscriptions.addGuild(session, view, member.roles, view.at(s))
        noteChange(session, { server, s, isMember: true, isLookedUp: true })
        reader.tell(session, guildCreate.name, JSON.stringify(shownTo(session, guildObject(state, member))), s)
        this.save(session)
        // Members who left between the read and now were not known to the stream as members.
        const still = (await storage.servers.members(server, [session.user])).has(session.user)
        if (!still && session.guilds.has(server))
          reader.control(session, { type: "left", server, user: session.user }, subscriptions.placeOf(session))
      } else if (!member && session.guilds.has(server))
        reader.control(session, { type: "left", server, user: session.user }, s)
    } finally {
      if (!kept) homes.release(server)
    }
  }

  encodingFor({ plainEncoding }: Connection, compress: unknown): Encoding {
    return compress && this.#options.policy.compression ? compressed(plainEncoding) : plainEncoding
  }

  recordOf(session: Session, guilds: readonly Snowflake[] = [...session.guilds.keys()]): SessionRecord {
    return {
      id: session.id,
      worker: this.#options.self,
      user: session.user,
      accessSession: session.accessSession,
      intents: session.intents,
      guilds,
      changes: session.changes,
      spans: session.spans,
      voice: session.voice ?? null,
    }
  }

  /** Limits the live connections of one user over all workers. */
  async count(session: Session): Promise<void> {
    const { records, self } = this.#options
    this.#requireFew(await records.connect(session.user, session.id, self))
  }

  /**
   * Counts the connection of a session that is new here and writes its record. If another worker has claimed the session
   * since, it is there, and the frame is refused.
   */
  async begin(session: Session, guilds?: readonly Snowflake[]): Promise<void> {
    const connections = await this.#options.records.begin(this.recordOf(session, guilds))
    if (connections === undefined) throw new FrameRefused("try_again_later")
    this.#requireFew(connections)
  }

  #requireFew(connections: readonly string[]): void {
    const { policy, isLiving } = this.#options
    if (connections.filter(worker => isLiving(worker)).length > policy.connectionsPerUser)
      throw new FrameRefused("rate_limited")
  }

  /** The count of a user's connections may have been lost, or may expire. */
  countAgain(session: Session): void {
    const { records, self, log } = this.#options
    records
      .connect(session.user, session.id, self)
      .catch((error: unknown) => log.warn({ err: error }, "connection not counted"))
  }

  async uncount(session: Session): Promise<void> {
    const { records, self, log } = this.#options
    await records
      .disconnect(session.user, session.id, self)
      .catch((error: unknown) => log.warn({ err: error }, "connection count not decreased"))
  }
}
