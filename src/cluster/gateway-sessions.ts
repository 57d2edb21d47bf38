import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { onNewReplication, replicationOf } from "./replication.ts"

/** What another worker needs to go on with a session. */
export interface SessionRecord {
  readonly id: string
  /** The worker that holds it. */
  readonly worker: string
  readonly user: string
  readonly accessSession: string
  readonly intents: number
  /** The servers that the client knows. */
  readonly guilds: readonly string[]
  /** What it was last told of servers; see the gateway's `GuildChange`. */
  readonly changes: unknown
  /** Which positions of which logs the client has been sent; see the gateway's `Span`. */
  readonly spans: unknown
  /** The call that it holds, if any; see the gateway's `VoiceHold`. */
  readonly voice?: unknown
}

/** Far above any resume window; records of living sessions are written anew long before. */
const keepSeconds = 86_400

/** The gateway's sessions as they survive their worker. A record belongs to the worker named in it, who writes it again after a fail-over. */
export class GatewaySessions {
  readonly #redis: Redis
  readonly #keys: RedisKeys

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
    for (const script of ["claim-session", "save-session", "connect-session", "disconnect-session"])
      defineScript(redis, script, 1)
  }

  /** Writes a session of this worker; what another has claimed meanwhile stays as it is. */
  async save(record: SessionRecord): Promise<boolean> {
    const key = this.#place(record.id)
    const { worker, ...rest } = record
    return (await this.#run<number>("save-session", key, worker, JSON.stringify(rest), String(keepSeconds))) === 1
  }

  async load(id: string): Promise<SessionRecord | undefined> {
    const { worker, record } = await this.#redis.hgetall(this.#place(id))
    return worker === undefined || record === undefined
      ? undefined
      : { ...(JSON.parse(record) as Omit<SessionRecord, "worker">), worker }
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

  #place(id: string): string {
    return this.#keys.gatewaySession(id, replicationOf(this.#redis, id))
  }

  #run<Answer>(script: string, ...args: string[]): Promise<Answer> {
    return (this.#redis as unknown as Record<string, (...args: string[]) => Promise<Answer>>)[script]!(...args)
  }
}
