import type { Snowflake } from "../../contract/core/fields.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"
import { isTransient } from "../../runtime/transient.ts"

export interface TemporaryMembersOptions {
  readonly store: Pick<Storage["guildMembers"], "temporary">
  /** Ends one membership, if it is temporary still. */
  readonly end: (server: Snowflake, user: Snowflake) => Promise<unknown>
  /** Whether this worker owns the user's home, and no worker takes their events. */
  readonly isGone: (user: Snowflake) => boolean
  /** A session that was left by a worker's death may be resumed for so many milliseconds. */
  readonly resumeWindowMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Milliseconds between two tries of what could not be done for the moment. */
const again = 2_000
/** Until what a server refused is asked for once more. */
const againLater = 30_000

/**
 * Ends the memberships of people who joined for as long as they are there. It keeps:
 *   TEMP1  A member is removed only after a whole resume window without any session, counted
 *       again after each return.
 *   TEMP2  No removal is lost: until it is done, the record beside the shard lets the next owner
 *       start again.
 */
export class TemporaryMembers {
  readonly #options: TemporaryMembersOptions
  readonly #timers = new Map<Snowflake, Timer | undefined>()
  #stopped = false

  constructor(options: TemporaryMembersOptions) {
    this.#options = options
  }

  /** They have just gone, and that is written down. */
  gone(left: readonly Snowflake[]): void {
    if (this.#stopped) return
    // The user may have come back while it was recorded.
    const users = left.filter(user => this.#options.isGone(user))
    const news = users.filter(user => !this.#timers.has(user))
    for (const user of users) if (this.#timers.get(user)) this.#after(this.#options.resumeWindowMs, user)
    if (news.length === 0) return
    for (const user of news) this.#timers.set(user, undefined)
    this.#look(news).catch((error: unknown) => {
      this.#options.log.error({ err: error }, "temporary memberships not checked")
      for (const user of news) this.#timers.delete(user)
    })
  }

  /** The user is connected. After the next disconnect they have the whole window again. */
  back(user: Snowflake): void {
    this.#timers.get(user)?.stop()
    this.#timers.delete(user) // TEMP1
  }

  /** TEMP2 */
  isPending(user: Snowflake): boolean {
    return this.#timers.has(user)
  }

  stop(): void {
    this.#stopped = true
    for (const timer of this.#timers.values()) timer?.stop()
    this.#timers.clear()
  }

  /** Most have none. */
  async #look(users: readonly Snowflake[]): Promise<void> {
    const { resumeWindowMs } = this.#options
    const found = await this.#retryWhileStarting(() => this.#options.store.temporary(users))
    if (this.#stopped) return
    const affected = new Set(found?.map(({ user_id }) => user_id))
    for (const user of users.filter(one => this.#timers.has(one)))
      if (affected.has(user)) this.#after(resumeWindowMs, user)
      else this.#timers.delete(user)
  }

  #after(milliseconds: number, user: Snowflake): void {
    this.#timers.get(user)?.stop()
    const timer = this.#options.clock.after(milliseconds, () => {
      const isDue = () => this.#timers.get(user) === timer && this.#options.isGone(user)
      this.#end(user, isDue)
        .then(isDone => {
          if (this.#timers.get(user) !== timer) return
          if (isDone) this.#timers.delete(user)
          else this.#after(againLater, user) // TEMP2
        })
        .catch((error: unknown) => {
          this.#options.log.error({ err: error }, "temporary memberships not checked")
          if (this.#timers.get(user) === timer) this.#timers.delete(user)
        })
    })
    this.#timers.set(user, timer)
  }

  /**
   * Checked before every step: a user who came back stays. A server that fails does not delay the
   * others.
   */
  async #end(user: Snowflake, isDue: () => boolean): Promise<boolean> {
    const { store, end, log } = this.#options
    if (!isDue()) return true
    const found = await this.#retryWhileStarting(() => store.temporary([user]))
    let isDone = true
    for (const { server_id } of found ?? [])
      try {
        await this.#retryWhileStarting(async () => {
          if (isDue()) await end(server_id, user)
        })
      } catch (error) {
        log.warn({ err: error, server: server_id }, "temporary membership not ended")
        isDone = false
      }
    return isDone
  }

  async #retryWhileStarting<T>(act: () => Promise<T>): Promise<T | undefined> {
    while (!this.#stopped)
      try {
        return await act()
      } catch (error) {
        if (error instanceof Failure && error.code === "server_not_found") return undefined
        if (!isTransient(error)) throw error
        await this.#options.clock.sleep(again)
      }
    return undefined
  }
}
