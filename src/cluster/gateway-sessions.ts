import { inBatches } from "../std/batches.ts"
import type { Clock } from "../std/clock.ts"
import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { onNewReplication, replicationOf } from "./replication.ts"
import { longRecord, readRecord, shortRecord, type SessionRecord } from "./session-record.ts"

/** Far above any resume window; records of living sessions are written anew long before. */
const keepSeconds = 86_400

/** Sessions that begin with one script: few enough that Redis serves others soon. */
const maxBegun = 64
const maxBegunBytes = 128 * 1024

export interface GatewaySessionsOptions {
  /** Whether every worker that may be given a session reads the short form of its record. */
  readonly isShortRead: () => boolean
  readonly clock: Pick<Clock, "soon">
}

interface Begun {
  readonly record: SessionRecord
  readonly text: string
}

/** The gateway's sessions as they survive their worker. A record belongs to the worker named in it, who writes it again after a fail-over. */
export class GatewaySessions {
  readonly #redis: Redis
  readonly #keys: RedisKeys
  readonly #isShortRead: () => boolean
  #hasWrittenShort = false

  readonly #begin: (begun: Begun) => Promise<readonly string[]>

  constructor(redis: Redis, keys: RedisKeys, { isShortRead, clock }: GatewaySessionsOptions) {
    this.#redis = redis
    this.#keys = keys
    this.#isShortRead = isShortRead
    for (const script of ["claim-session", "save-session", "connect-session", "disconnect-session"])
      defineScript(redis, script, 1)
    defineScript(redis, "begin-sessions")
    this.#begin = inBatches<Begun, readonly string[]>(all => this.#beginAll(all), maxBegun, {
      bytes: { maxBytes: maxBegunBytes, bytesOf: ({ text }) => text.length },
      soon: action => clock.soon(action),
    })
  }

  /**
   * Writes a session that is new, and counts its connection. Those that begin in one turn of the event loop cost one script.
   * @returns the workers of its user's live connections, as `connect` does
   */
  async begin(record: SessionRecord): Promise<readonly string[]> {
    const text = this.#textOf(record)
    if (!this.#redis.isCluster) return this.#begin({ record, text })
    // The user and the session are in different slots, and others' slots may be away.
    const { user, id, worker } = record
    const [workers] = await Promise.all([
      this.connect(user, id, worker),
      this.#run("save-session", this.#place(id), worker, text, String(keepSeconds)),
    ])
    return workers
  }

  #beginAll(all: readonly Begun[]): Promise<readonly (readonly string[])[]> {
    const keys = all.flatMap(({ record }) => [this.#keys.gatewayConnections(record.user), this.#place(record.id)])
    const told = all.flatMap(({ record, text }) => [record.id, text])
    return this.#run(
      "begin-sessions",
      String(keys.length),
      ...keys,
      all[0]!.record.worker,
      String(keepSeconds),
      ...told,
    )
  }

  /** Writes a session of this worker; what another has claimed meanwhile stays as it is. */
  async save(record: SessionRecord): Promise<boolean> {
    const text = this.#textOf(record)
    return (
      (await this.#run<number>("save-session", this.#place(record.id), record.worker, text, String(keepSeconds))) === 1
    )
  }

  async load(id: string): Promise<SessionRecord | undefined> {
    const { worker, record } = await this.#redis.hgetall(this.#place(id))
    return worker === undefined || record === undefined ? undefined : { ...readRecord(record), id, worker }
  }

  /** The worker that holds a session; undefined: nothing is recorded of it. */
  async holderOf(id: string): Promise<string | undefined> {
    return (await this.#redis.hget(this.#place(id), "worker")) ?? undefined
  }

  /** True once after records were written in a form that somebody who has come since does not read. */
  takeUnreadable(): boolean {
    if (!this.#hasWrittenShort || this.#isShortRead()) return false
    this.#hasWrittenShort = false
    return true
  }

  /** Takes a session over from the worker that holds it; false when somebody else was faster. */
  async claim(id: string, from: string, to: string): Promise<boolean> {
    return (await this.#run<number>("claim-session", this.#place(id), from, to)) === 1
  }

  /** The session cannot be resumed any more. Only its holder may say so. */
  async forget(id: string, holder: string): Promise<void> {
    await this.#run("claim-session", this.#place(id), holder, "")
  }

  /** Counts a user's live connections over all workers; each is named by its session and its worker. */
  async connect(user: string, session: string, worker: string): Promise<readonly string[]> {
    const key = this.#keys.gatewayConnections(user)
    return this.#run<string[]>("connect-session", key, session, worker, String(keepSeconds))
  }

  /**
   * Counts a connection of this worker out; one that the session has on another worker by now stays counted.
   * @returns the workers of the connections that are left
   */
  async disconnect(user: string, session: string, worker: string): Promise<readonly string[]> {
    return this.#run<string[]>("disconnect-session", this.#keys.gatewayConnections(user), session, worker)
  }

  /** Acts when records are to be written again, because what this Redis says of them may be of long ago. */
  onLoss(act: () => void): void {
    onNewReplication(this.#redis, act)
  }

  #textOf(record: SessionRecord): string {
    const isShort = this.#isShortRead()
    if (isShort) this.#hasWrittenShort = true
    return isShort ? shortRecord(record) : longRecord(record)
  }

  #place(id: string): string {
    return this.#keys.gatewaySession(id, replicationOf(this.#redis, id))
  }

  #run<Answer>(script: string, ...args: string[]): Promise<Answer> {
    return (this.#redis as unknown as Record<string, (...args: string[]) => Promise<Answer>>)[script]!(...args)
  }
}
