import type { Ask } from "./actors/runtime/actor.ts"
import { userActor } from "./actors/user.ts"
import { isRedisAway } from "./cluster/away.ts"
import { Failure } from "./contract/errors.ts"
import type { Snowflake } from "./contract/fields.ts"
import type { Clock } from "./domain/clock.ts"
import { closingSeconds } from "./domain/server-status.ts"
import type { Log } from "./observability/log.ts"
import { isAway } from "./storage/database.ts"
import type { OperatorAnswer, OperatorRequest } from "./storage/operator-requests.ts"
import type { Storage } from "./storage/storage.ts"

export interface OperatorRequestsOptions {
  readonly ask: Ask
  readonly storage: Pick<Storage, "operatorRequests">
  readonly self: string
  /** Milliseconds within which every worker has looked at what was changed. */
  readonly lookEvery: number
  readonly clock: Clock
  readonly log: Log
}

/** Users whose sessions are ended between two looks at whether the request is still ours. */
const batch = 200
/** Of them, how many actors are asked at once. */
const atOnce = 16

/** Whether only PostgreSQL, Redis or another worker is not there now. */
const isPassing = (error: unknown): boolean =>
  isAway(error) || isRedisAway(error) || (error instanceof Failure && error.code === "unavailable")

/** What became of one user's sessions. */
type Ending = { readonly ended: number } | "failed" | "put off"

/**
 * What an operator asks of running servers, because it goes through actors. The request waits in PostgreSQL; some worker takes
 * it, and another if that one dies. Each can be done twice.
 */
export class OperatorRequests {
  readonly #options: OperatorRequestsOptions
  #isBusy = false
  #isStopped = false

  constructor(options: OperatorRequestsOptions) {
    this.#options = options
  }

  stop(): void {
    this.#isStopped = true
  }

  /** Takes requests until there are none left. */
  begin(): void {
    if (this.#isBusy || this.#isStopped) return
    this.#isBusy = true
    this.#carryOut()
      .catch((error: unknown) => {
        if (!this.#isStopped) this.#options.log.warn({ err: error }, "an operator's request was not carried out")
      })
      .finally(() => {
        this.#isBusy = false
      })
      .catch(() => {})
  }

  async #carryOut(): Promise<void> {
    const { storage, self, log } = this.#options
    for (;;) {
      const request = this.#isStopped ? undefined : await storage.operatorRequests.take(self)
      if (!request) return
      const answer = await this.#do(request).catch(async (error: unknown) => {
        await storage.operatorRequests.putBack(request.id, self, !isPassing(error))
        throw error
      })
      if (!answer) return
      await storage.operatorRequests.answer(request.id, answer)
      log.info({ request: request.id, kind: request.kind, ...answer }, "operator's request carried out")
    }
  }

  async #do(request: OperatorRequest): Promise<OperatorAnswer | undefined> {
    if (request.kind === "logout_all") return this.#logoutAll(request)
    const { user_id, message } = request
    try {
      return await this.#options.ask(userActor, user_id, { type: "endAllSessions", message })
    } catch (error) {
      if (error instanceof Failure && error.code !== "unavailable") return { refusal: error.code }
      throw error
    }
  }

  /**
   * Takes away sessions that nobody accepts any longer. First every worker tells its clients why it closes them. One user's
   * failure holds up nobody else's.
   * @returns undefined when somebody else has taken the request over, or is to
   */
  async #logoutAll(request: OperatorRequest & { kind: "logout_all" }): Promise<OperatorAnswer | undefined> {
    const { storage, self, lookEvery, clock } = this.#options
    const { id, until_id } = request
    await clock.sleep(closingSeconds * 1000 + 2 * lookEvery)
    let { ended } = request
    let failed = 0
    let isUnfinished = false
    for (let after = "0"; ;) {
      const users = await storage.operatorRequests.usersWithSessions(until_id, after, batch)
      if (users.length === 0) break
      let isNobodyThere = false
      for (let i = 0; i < users.length && !this.#isStopped && !isNobodyThere; i += atOnce) {
        const asked = users.slice(i, i + atOnce)
        const endings = await Promise.all(asked.map(user => this.#endSessions(user, until_id)))
        for (const ending of endings)
          if (ending === "failed") failed++
          else if (ending === "put off") isUnfinished = true
          else ended += ending.ended
        // Not for every user as long as an answer may take.
        isNobodyThere = endings.every(ending => ending === "put off")
      }
      if (!(await storage.operatorRequests.keep(id, self, ended))) return undefined
      isUnfinished ||= this.#isStopped
      if (this.#isStopped || isNobodyThere) break
      after = users.at(-1)!
    }
    if (!isUnfinished) return failed > 0 ? { ended, failed } : { ended }
    // Whoever takes it next finds only those that still have sessions.
    await storage.operatorRequests.putBack(id, self, false)
    return undefined
  }

  async #endSessions(user: Snowflake, until: Snowflake): Promise<Ending> {
    try {
      return await this.#options.ask(userActor, user, { type: "endAllSessions", message: null, until })
    } catch (error) {
      // Deleted meanwhile, with all that was his.
      if (error instanceof Failure && error.code === "user_not_found") return { ended: 0 }
      if (isPassing(error)) return "put off"
      this.#options.log.warn({ err: error, user }, "a user's sessions were not ended")
      return "failed"
    }
  }
}
