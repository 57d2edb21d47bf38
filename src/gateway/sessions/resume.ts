import type { WorkerStreams } from "../../cluster/worker-streams.ts"
import type { Holder } from "../../cluster/tokens.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { Resume, resumed } from "../../contract/core/gateway.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { Frame, FrameRefused, plainFrame } from "../protocol/frames.ts"
import { LogTruncated } from "../replay/peer-log.ts"
import { rewind } from "../replay/rewinding.ts"
import { cutsOf, locate } from "../state/log-spans.ts"
import { knownAt, type Connection, type Session } from "../state/session.ts"
import type { Restore, ResumeRequest } from "./restore.ts"
import { NotResumable, type SessionClaims } from "./session-claims.ts"
import { ClientDisconnected, type SessionEvents, type Sessions } from "./sessions.ts"
import type { LetIn, TokenCheck } from "./token-check.ts"

export interface ResumeOptions {
  readonly subscriptions: Subscriptions
  readonly homes: HomeSubscriptions
  readonly sessions: Sessions
  readonly claims: SessionClaims
  readonly restore: Restore
  readonly tokens: TokenCheck
  readonly streams: () => Pick<WorkerStreams, "oldest">
  readonly events: SessionEvents
  /** How many sessions may wait to be restored. */
  readonly maxWaiting: number
  readonly log: Log
  readonly metrics: Metrics
}

/** So many sessions are restored at once; in a storm of resumes the others wait. */
const maxRestoring = 256

/**
 * RESUME: a session goes on. Where its client stopped in this worker's own log, it goes on there.
 * Else it is restored:
 *   1  claim         its record becomes this worker's, and the worker that held it lets go
 *   2  join logs     positions of this worker's log are reserved for what the client missed in others
 *   3  hold homes    this worker's log takes the events of its homes; a cut says where it takes over
 *   4  build         the session, with the slices of other logs that it has to be sent
 *   5  rewind        what its user may see, as it was where the client stopped
 *   6  attach        RESUMED, then the slices, then this worker's log up to its head, where the session goes live
 * It keeps:
 *   RES1  A resumed session receives everything after its `seq`, once and in order, or
 *       INVALID_SESSION.
 */
export class ResumeHandler {
  readonly #options: ResumeOptions
  readonly #resuming = new Map<string, Promise<void>>()
  #restoring = 0
  readonly #waiting: (() => void)[] = []

  constructor(options: ResumeOptions) {
    this.#options = options
  }

  async resume(connection: Connection, d: unknown): Promise<void> {
    const { subscriptions, tokens, metrics, log } = this.#options
    if (d === null || typeof d !== "object" || Array.isArray(d)) throw new FrameRefused("decode_error")
    try {
      const asked = Resume.safeParse(d)
      if (!asked.success) throw new NotResumable("malformed")
      const letIn = await tokens.letIn(connection, asked.data)
      if (!letIn) throw new NotResumable("token")
      await this.#inTurn(asked.data.session_id, () => this.#resume(connection, asked.data, letIn))
    } catch (error) {
      const isRefused =
        error instanceof NotResumable || error instanceof ClientDisconnected || error instanceof LogTruncated
      if (!isRefused) throw error
      metrics.gateway.resumes.invalid.inc()
      metrics.gateway.invalidSessions.inc()
      log.debug({ why: error.message }, "session not resumable")
      subscriptions.sendPayload(connection, plainFrame(connection.encoding, "INVALID_SESSION", false))
    }
  }

  /** One RESUME of a session at a time; the last one keeps the session. */
  async #inTurn(id: string, resume: () => Promise<void>): Promise<void> {
    const before = this.#resuming.get(id)
    const mine = (before ?? Promise.resolve()).catch(() => {}).then(resume)
    this.#resuming.set(id, mine)
    try {
      await mine
    } finally {
      if (this.#resuming.get(id) === mine) this.#resuming.delete(id)
    }
  }

  async #resume(connection: Connection, request: ResumeRequest, letIn: LetIn): Promise<void> {
    const { subscriptions, claims, metrics } = this.#options
    const { access } = letIn
    const { session_id: id, seq } = request
    const local = subscriptions.byId.get(id)
    if (local && local.user !== access.user_id) throw new NotResumable("another user's")
    // Positions of a worker that has claimed the session meanwhile look like this one's.
    if (!local || locate(local.spans, seq) !== local.spans.at(-1) || !(await claims.isOwn(id)))
      return this.#whenFree(() => this.#restoreClaimed(connection, request, letIn))
    await this.#resumeHere(connection, local, request, access)
    metrics.gateway.resumes.same_worker.inc()
  }

  /**
   * So many at once that their queries share statements, and so few that each is answered in time.
   */
  async #whenFree(act: () => Promise<void>): Promise<void> {
    if (this.#restoring >= maxRestoring) {
      if (this.#waiting.length >= this.#options.maxWaiting) throw new FrameRefused("try_again_later")
      await new Promise<void>(resolve => this.#waiting.push(resolve))
    } else this.#restoring++
    try {
      await act()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#restoring--
    }
  }

  async #restoreClaimed(connection: Connection, request: ResumeRequest, letIn: LetIn): Promise<void> {
    const { claims, restore, events, metrics } = this.#options
    if (connection.closed) throw new ClientDisconnected()
    const { record, origin } = await claims.claim(request.session_id, letIn.access, request.seq)
    events.moved(await restore.restore(connection, { record, request, letIn }))
    metrics.gateway.resumes[origin].inc()
  }

  /** The session is on this worker: its log goes on where the client stopped. */
  async #resumeHere(
    connection: Connection,
    session: Session,
    { seq, compress }: ResumeRequest,
    access: Holder,
  ): Promise<void> {
    const { sessions, events } = this.#options
    this.#requireOwn(session, seq)
    await this.#countIn(connection, session, seq)
    sessions.leaveSocket(session)
    events.named(session, seq)
    session.accessSession = access.session_id
    session.peerSlices = undefined
    session.cuts = cutsOf(session.spans.at(-1))
    session.repeatedUntil = Math.max(session.repeatedUntil, session.cursor)
    session.cursor = seq
    rewind(session, seq)
    session.hidden = undefined
    const unsure = this.#goBack(session, seq)
    session.encoding = sessions.encodingFor(connection, compress)
    sessions.attach(connection, session, new Frame(resumed.name, seq, "{}"))
    for (const server of unsure) sessions.reconcile(session, server)
    sessions.save(session)
  }

  /**
   * Counts the new connection. Meanwhile the session may have ended, moved, or lost its old socket.
   */
  async #countIn(connection: Connection, session: Session, seq: number): Promise<void> {
    const { sessions, subscriptions } = this.#options
    const before = session.connection
    try {
      await sessions.count(session)
      if (subscriptions.byId.get(session.id) !== session) throw new FrameRefused("try_again_later")
      this.#requireOwn(session, seq)
      if (connection.closed) throw new ClientDisconnected()
    } catch (error) {
      if (!session.connection) await sessions.uncount(session)
      throw error
    }
    // The end of the old socket meanwhile has removed the session from the count.
    if (session.connection !== before) sessions.countAgain(session)
  }

  /** Refuses unless the session's own log after this position can be read again. */
  #requireOwn(session: Session, seq: number): void {
    const { subscriptions, streams } = this.#options
    if (locate(session.spans, seq) !== session.spans.at(-1)) throw new FrameRefused("try_again_later")
    // Positions that an earlier socket was sent are valid, too, wherever a later RESUME began.
    if (seq < streams().oldest || seq > Math.max(subscriptions.position, session.cursor))
      throw new NotResumable("out of reach")
  }

  /**
   * Undoes what the session learned of servers after `seq`, because its client was not told. The
   * log is read again from there.
   * @returns servers of which the log did not tell it
   */
  #goBack(session: Session, seq: number): Snowflake[] {
    const { subscriptions, homes } = this.#options
    const known = knownAt(seq, session.guilds.keys(), session.changes)
    const unsure = session.changes.flatMap(change => (change.s > seq && change.isLookedUp ? [change.server] : []))
    for (const server of session.guilds.keys()) {
      if (known.has(server)) continue
      subscriptions.removeGuild(session, server)
      homes.release(server)
    }
    // The changes are kept: until they are read again they say what the client still knows,
    // wherever it resumes next.
    return unsure
  }
}
