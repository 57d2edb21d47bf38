import { WorkerGone, type Bus } from "../../cluster/bus.ts"
import type { GatewaySessions } from "../../cluster/gateway-sessions.ts"
import type { SessionRecord } from "../../cluster/session-record.ts"
import type { Holder } from "../../cluster/tokens.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { FrameRefused } from "../protocol/frames.ts"
import { LogTruncated, type PeerLogs } from "../replay/peer-log.ts"
import { locate, type Span } from "../state/log-spans.ts"
import type { Sessions } from "./sessions.ts"

export interface SessionClaimsOptions {
  readonly self: string
  readonly subscriptions: Subscriptions
  readonly sessions: Sessions
  readonly peerLogs: PeerLogs
  readonly records: GatewaySessions
  readonly bus: Bus
  readonly isLiving: (worker: string) => boolean
  /** What is known of an access session now; undefined: it has ended. */
  readonly known: (access: Snowflake) => Promise<object | undefined>
  readonly clock: Clock
}

/** The session cannot go on here. The client is told so and may identify. */
export class NotResumable extends Error {}

/** The servers that a session's client knows, and the call that the session holds. */
type Known = Pick<SessionRecord, "guilds" | "changes" | "voice">

/** The worker where a claimed session was. */
export type Origin = "same_worker" | "other_worker_alive" | "dead_worker"

export interface Claim {
  readonly record: SessionRecord
  readonly origin: Origin
}

/**
 * After a fail-over of Redis workers write their sessions' records again within so many
 * milliseconds.
 */
const recordsRewrittenWithinMs = 2_000
const claimAttempts = 3
/** The worker that holds a session has so long to hand it over. */
const handOverTimeoutMs = 2_000
const retryPauseMs = 50

/**
 * Decides which worker has a session. A worker that wants one claims its record, and asks the
 * holder for what it knows.
 */
export class SessionClaims {
  readonly #options: SessionClaimsOptions
  /** Monotonic: when records were lost that their workers write again. */
  #lostAt = -Infinity

  constructor(options: SessionClaimsOptions) {
    this.#options = options
    const { records, bus, clock } = options
    records.onLoss(() => (this.#lostAt = clock.monotonic()))
    bus.handle<{ session: string }, Known | null>("claimSession", ({ session }) => this.#handOver(session))
  }

  /**
   * Whether a session that is on this worker is still its own. Another worker may have claimed it
   * while this one did not answer.
   */
  async isOwn(id: string): Promise<boolean> {
    const { records, self } = this.#options
    // A record that was lost is written again by the worker that has the session.
    return ((await records.holderOf(id)) ?? self) === self
  }

  /**
   * Makes the session this worker's. The claim fails for a position that was never given out: a
   * wrong position costs the session nothing, and does not take it away from the worker that holds
   * it.
   */
  async claim(id: string, access: Holder, seq: number): Promise<Claim> {
    const { self, isLiving } = this.#options
    const record = await this.#claimRecord(id, access, seq)
    // What is here of a session that another worker has claimed is of before.
    const here = await this.#handOver(id)
    // The record may be slightly out of date; the worker that holds the session is not.
    if (record.worker === self) return { record: { ...record, ...here }, origin: "same_worker" }
    if (!isLiving(record.worker)) return { record, origin: "dead_worker" }
    return { record: { ...record, ...(await this.#askHolder(record)) }, origin: "other_worker_alive" }
  }

  /**
   * The resume has failed and nothing was sent: the next one begins where this one did, unless what
   * the client missed is lost.
   */
  async giveBack(record: SessionRecord, error: unknown): Promise<void> {
    const { records, self } = this.#options
    await (error instanceof LogTruncated ? records.forget(record.id, self) : records.save({ ...record, worker: self }))
  }

  async #claimRecord(id: string, access: Holder, seq: number): Promise<SessionRecord> {
    const { records, self, known } = this.#options
    for (let attempt = 0; attempt < claimAttempts; attempt++) {
      const record = await this.#load(id)
      if (!record) throw new NotResumable("unknown")
      if (record.user !== access.user_id) throw new NotResumable("another user's")
      // A session ends with its access session, also for another one of the same user: the worker
      // that had it takes the user's events no more.
      if (record.accessSession !== access.session_id && !(await known(record.accessSession)))
        throw new NotResumable("signed out")
      await this.#requireReach(record.spans, seq)
      if (await records.claim(id, record.worker, self)) return record
    }
    throw new FrameRefused("try_again_later")
  }

  async #load(id: string): Promise<SessionRecord | undefined> {
    const { records, clock } = this.#options
    for (;;) {
      const record = await records.load(id)
      if (record || clock.monotonic() - this.#lostAt >= recordsRewrittenWithinMs) return record
      await clock.sleep(retryPauseMs)
    }
  }

  async #requireReach(spans: readonly Span[], seq: number): Promise<void> {
    const { peerLogs } = this.#options
    const from = locate(spans, seq)
    if (!from) throw new NotResumable("out of reach")
    const position = await peerLogs.positionAt(from, seq)
    const { oldest, last } = await peerLogs.ends(from.log)
    if (position < oldest - 1 || position > last) throw new NotResumable("out of reach")
  }

  /** Asks the holder, which closes the session's socket and releases the session. */
  async #askHolder({ id: session, worker }: SessionRecord): Promise<Known | null> {
    const { bus, clock, isLiving } = this.#options
    const id = bus.newId()
    const deadlineMs = clock.monotonic() + handOverTimeoutMs
    for (;;)
      try {
        return await bus.request<Known | null>(worker, "claimSession", { session }, deadlineMs - clock.monotonic(), id)
      } catch (error) {
        if (!(error instanceof WorkerGone) && !(error instanceof Failure)) throw error
        // The holder is dead or silent: by its record the session is ours, and what the holder
        // still sends reaches nobody.
        if (error instanceof Failure || !isLiving(worker)) return null
        // The holder may just be moving its inbox to another Redis.
        await clock.sleep(retryPauseMs)
        if (clock.monotonic() >= deadlineMs) return null
      }
  }

  /**
   * Releases a session that was claimed.
   * @returns what its client knows; null: the session is not here
   */
  async #handOver(id: string): Promise<Known | null> {
    const { subscriptions, sessions } = this.#options
    const session = subscriptions.byId.get(id)
    if (!session) return null
    const { connection } = session
    const known = { guilds: [...session.guilds.keys()], changes: session.changes, voice: session.voice ?? null }
    sessions.leaveSocket(session)
    sessions.drop(session, true)
    // The end of the socket does not remove the session from the count any more, and the claiming
    // worker may fail before it counts its own.
    if (connection) await sessions.uncount(session)
    return known
  }
}
