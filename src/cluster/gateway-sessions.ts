import { inBatches } from "../std/batches.ts"
import type { Clock } from "../std/clock.ts"
import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { onNewReplication, replicationOf } from "./replication.ts"
import { longRecord, readRecord, shortRecord, type SessionRecord } from "./session-record.ts"

/** Far above any resume window; records of living sessions are written anew long before. */
const keepSeconds = 86_400

/** Sessions that one script begins, reads or claims: few enough that Redis serves others soon. */
const maxBatchSize = 64
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

interface Claimed {
  readonly id: string
  readonly from: string
  readonly to: string
}

type Loaded = readonly [worker: string | null, record: string | null]

/** The gateway's sessions as they survive their worker. A record belongs to the worker named in it, who writes it again after a fail-over. */
export class GatewaySessions {
  readonly #redis: Redis
  readonly #keys: RedisKeys
  readonly #isShortRead: () => boolean
  #hasWrittenShort = false

  readonly #begin: (begun: Begun) => Promise<readonly string[] | undefined>
  readonly #load: (id: string) => Promise<SessionRecord | undefined>
  readonly #claim: (claimed: Claimed) => Promise<boolean>

  constructor(redis: Redis, keys: RedisKeys, { isShortRead, clock }: GatewaySessionsOptions) {
    this.#redis = redis
    this.#keys = keys
    this.#isShortRead = isShortRead
    for (const script of ["save-session", "connect-session", "disconnect-session"]) defineScript(redis, script, 1)
    for (const script of ["begin-sessions", "load-sessions", "claim-sessions"]) defineScript(redis, script)
    const soon = (action: () => void) => clock.soon(action)
    this.#begin = inBatches<Begun, readonly string[] | undefined>(all => this.#beginAll(all), maxBatchSize, {
      bytes: { maxBytes: maxBegunBytes, bytesOf: ({ text }) => text.length },
      soon,
    })
    this.#load = inBatches<string, SessionRecord | undefined>(ids => this.#loadAll(ids), maxBatchSize, { soon })
    this.#claim = inBatches<Claimed, boolean>(all => this.#claimAll(all), maxBatchSize, { soon })
  }

  /**
   * Writes a session that is new here, and counts its connection. Those that begin in one turn of the event loop cost one
   * script.
   * @returns the workers of its user's live connections, as `connect` does; undefined: it is another worker's, and nothing
   * was done
   */
  begin(record: SessionRecord): Promise<readonly string[] | undefined> {
    const begun = { record, text: this.#textOf(record) }
    return this.#redis.isCluster ? this.#beginApart(begun) : this.#begin(begun)
  }

  /** The user and the session are in different slots, and others' slots may be away. */
  async #beginApart({ record: { user, id, worker }, text }: Begun): Promise<readonly string[] | undefined> {
    const saved = await this.#run<number>("save-session", this.#place(id), worker, text, String(keepSeconds))
    return saved === 1 ? this.connect(user, id, worker) : undefined
  }

  async #beginAll(all: readonly Begun[]): Promise<readonly (readonly string[] | undefined)[]> {
    const keys: string[] = []
    const told: string[] = []
    for (const { record, text } of all) {
      keys.push(this.#keys.gatewayConnections(record.user), this.#place(record.id))
      told.push(record.id, text)
    }
    const answers = await this.#run<(string[] | 0)[]>(
      "begin-sessions",
      String(keys.length),
      ...keys,
      all[0]!.record.worker,
      String(keepSeconds),
      ...told,
    )
    return answers.map(answer => (answer === 0 ? undefined : answer))
  }

  /** Writes a session of this worker; what another has claimed meanwhile stays as it is. */
  async save(record: SessionRecord): Promise<boolean> {
    const text = this.#textOf(record)
    return (
      (await this.#run<number>("save-session", this.#place(record.id), record.worker, text, String(keepSeconds))) === 1
    )
  }

  /** What is asked in one turn of the event loop costs one script. */
  load(id: string): Promise<SessionRecord | undefined> {
    return this.#load(id)
  }

  async #loadAll(ids: readonly string[]): Promise<readonly (SessionRecord | undefined)[]> {
    const found = await this.#each<Loaded>("load-sessions", ids, () => [])
    return ids.map((id, i) => {
      const [worker, record] = found[i]!
      return worker === null || record === null ? undefined : { ...readRecord(record), id, worker }
    })
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
  claim(id: string, from: string, to: string): Promise<boolean> {
    return this.#claim({ id, from, to })
  }

  async #claimAll(all: readonly Claimed[]): Promise<readonly boolean[]> {
    const ids = all.map(({ id }) => id)
    const answers = await this.#each<number>("claim-sessions", ids, i => [all[i]!.from, all[i]!.to])
    return answers.map(answer => answer === 1)
  }

  /** Runs a script for some sessions at once; in a cluster, where they are in different slots, for each by itself. */
  async #each<Answer>(
    script: string,
    ids: readonly string[],
    told: (i: number) => readonly string[],
  ): Promise<Answer[]> {
    const run = (some: readonly string[], args: readonly string[]) =>
      this.#run<Answer[]>(script, String(some.length), ...some.map(id => this.#place(id)), ...args)
    if (!this.#redis.isCluster)
      return run(
        ids,
        ids.flatMap((_, i) => told(i)),
      )
    const answers = await Promise.all(ids.map((id, i) => run([id], told(i))))
    return answers.map(([answer]) => answer!)
  }

  /** The session cannot be resumed any more. Only its holder may say so. */
  async forget(id: string, holder: string): Promise<void> {
    await this.#claim({ id, from: holder, to: "" })
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
