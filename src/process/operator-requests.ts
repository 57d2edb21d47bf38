import type { Ask, Create } from "../runtime/actor.ts"
import { isTransient } from "../runtime/transient.ts"
import { accountOrders, type AccountOrders } from "../actors/account-orders.ts"
import { userActor } from "../actors/user.ts"
import { Failure, fail } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { limits } from "../contract/core/limits.ts"
import { newAccount } from "../domain/accounts/accounts.ts"
import type { Clock } from "../std/clock.ts"
import { closingSeconds, seenByAllMs } from "../domain/service/server-status.ts"
import type { Log } from "../observability/log.ts"
import type {
  CommandAnswer,
  OperatorAnswer,
  OperatorCommand,
  OperatorRequest,
} from "../storage/service/operator-requests.ts"
import type { Storage } from "../storage/storage.ts"

export interface OperatorRequestsOptions {
  readonly ask: Ask
  readonly create: Create
  readonly storage: Pick<Storage, "operatorRequests" | "users" | "sessions" | "bots">
  readonly self: string
  /** Milliseconds within which every worker has looked at what was changed. */
  readonly lookEveryMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Users whose sessions are ended between two looks at whether the request is still ours. */
const batch = 200
/** Of them, how many actors are asked at once. */
const batchSize = 16

/** The worker was so slow that another may do the same by now, or what was asked after it. */
class TakenOver extends Error {}

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
    while (!this.#isStopped && ((await this.#carryOutRequest()) || (await this.#carryOutCommand())));
  }

  /** @returns false when there is none, or none that can be finished now */
  async #carryOutRequest(): Promise<boolean> {
    const { storage, self, log } = this.#options
    const request = await storage.operatorRequests.take(self)
    if (!request) return false
    const answer = await this.#do(request).catch(async (error: unknown) => {
      await storage.operatorRequests.putBack(request.id, self, !isTransient(error))
      throw error
    })
    if (!answer) return false
    await storage.operatorRequests.answer(request.id, answer)
    log.info({ request: request.id, kind: request.kind, ...answer }, "operator's request carried out")
    return true
  }

  async #carryOutCommand(): Promise<boolean> {
    const { storage, self, log } = this.#options
    const command = await storage.operatorRequests.takeCommand(self)
    if (!command) return false
    const answer = await this.#obey(command).catch(async (error: unknown): Promise<CommandAnswer | undefined> => {
      if (error instanceof TakenOver) return undefined
      if (error instanceof Failure && error.code !== "unavailable") return { refusal: error.code }
      await storage.operatorRequests.putCommandBack(command.id, self, !isTransient(error))
      throw error
    })
    if (!answer || !(await storage.operatorRequests.answerCommand(command.id, self, answer))) return true
    const { id, user_id, command: name } = command
    // Answers may name a user by more than their id.
    const refusal = "refusal" in answer ? { refusal: answer.refusal } : {}
    log.info({ request: id, user_id, command: name, ...refusal }, "operator's command carried out")
    return true
  }

  /** Each can be done twice: what was done already is done again, or seen to be so. */
  async #obey(taken: OperatorCommand): Promise<CommandAnswer> {
    const { user_id, command, input } = taken
    const ask = this.#askAsHolder(taken)
    const orders = accountOrders({ ask, storage: this.#options.storage })
    const settled = async <Reply>(reply: Reply) => {
      await this.#settle(orders, user_id)
      return { reply }
    }
    switch (command) {
      case "lockAccount":
        return settled(await orders.lock(user_id, input as { until: number; reason: string | null }))
      case "unlockAccount":
        return settled(await orders.unlock(user_id))
      case "cancelDeletion":
        return settled(await orders.cancelDeletion(user_id))
      case "forceRename":
        return settled(await orders.forceRename(user_id, input as { reason: string | null }))
      case "setPermission": {
        const asked = input as { permission: string; isGranted: boolean }
        return settled(await ask(userActor, user_id, { type: "setPermission", ...asked }))
      }
      case "createBot":
        return { reply: await this.#createBot(taken, input as { name: string; token_hash: string }) }
      case "issueBotToken":
        return settled(await ask(userActor, user_id, { type: "issueBotToken", ...(input as { token_hash: string }) }))
      case "startClaim":
        return {
          reply: await ask(userActor, user_id, {
            type: "startClaim",
            ...(input as { token_hash: string; expires_at: number }),
          }),
        }
      case "dropSecondFactor":
        return { reply: await ask(userActor, user_id, { type: "dropSecondFactor" }) }
      case "revokeBot":
        return { reply: await ask(userActor, user_id, { type: "endAllSessions", message: null }) }
      default:
        throw new Error(`no worker of this version knows the command ${command}`)
    }
  }

  /** Throws when the command is somebody else's by now; else it stays this worker's for longer than an ask takes. */
  async #hold({ id }: OperatorCommand, begins = false): Promise<void> {
    const { storage, self } = this.#options
    if (!(await storage.operatorRequests.keepCommand(id, self, begins))) throw new TakenOver()
  }

  /** Asks as long as the command is this worker's. */
  #askAsHolder(command: OperatorCommand): Ask {
    return async (...asked) => {
      await this.#hold(command)
      return this.#options.ask(...asked)
    }
  }

  /**
   * After a moment every cache is dropped once more: a worker that read the account while it changed
   * may have cached the former state.
   */
  async #settle(orders: AccountOrders, user: Snowflake): Promise<void> {
    const { clock, lookEveryMs } = this.#options
    await clock.sleep(seenByAllMs(lookEveryMs))
    await orders.dropCaches(user)
  }

  /**
   * An account without a password and an address; the asker makes its only token. Null: the owner has too many.
   * Commands of one account are taken one after another; what its owner makes meanwhile counts as made. A name is given once.
   */
  async #createBot(
    taken: OperatorCommand,
    { name, token_hash }: { name: string; token_hash: string },
  ): Promise<{ id: Snowflake | null }> {
    const { create, storage, clock } = this.#options
    const { user_id: owner } = taken
    if ((await storage.users.find(owner))?.deletion_status !== "active") throw fail("user_not_found")
    const known = await storage.users.findByLogin(name)
    // Requests of the owner that make bots at this moment.
    const token = `operator:${taken.id}`
    const slot = { type: "askForServerSlot", token, owns: false, joins: false, makesBot: true } as const
    const { bots: ahead = 0 } = await this.#options.ask(userActor, owner, slot)
    const leave = () => this.#options.ask(userActor, owner, { type: "leaveServerSlot", token }).catch(() => {})
    const bots = await storage.bots.ownedBy(owner)
    // Only a bot made since the command began is its own: a bot that had the name before keeps it and its token.
    const begun = taken.begun ? bots.find(bot => bot.id === known?.id) : undefined
    const isFull = ahead + bots.length >= limits.botsPerOwner
    if (!begun && (known || isFull)) {
      await leave()
      if (known) throw fail("user_exists")
      return { id: null }
    }
    await this.#hold(taken, true)
    const id = begun
      ? begun.id
      : (
          await create(userActor, {
            type: "register",
            user: newAccount({
              username: name,
              email: null,
              password_hash: null,
              created_at: Math.floor(clock.now() / 1000),
              bot: true,
              owner_id: owner,
            }),
            session: null,
          })
        ).user.id
    await this.#askAsHolder(taken)(userActor, id, { type: "issueBotToken", token_hash })
    await leave()
    return { id }
  }

  async #do(request: OperatorRequest): Promise<OperatorAnswer | undefined> {
    if (request.kind === "logout_all") return this.#logoutAll(request)
    const { id, user_id, message } = request
    if (!(await this.#options.storage.operatorRequests.keep(id, this.#options.self, 0))) return undefined
    try {
      return await this.#options.ask(userActor, user_id, { type: "endAllSessions", message })
    } catch (error) {
      if (error instanceof Failure && error.code !== "unavailable") return { refusal: error.code }
      throw error
    }
  }

  /**
   * Takes away sessions that nobody accepts any longer; but bots' are accepted until they are taken away, so these go first.
   * Before, every worker tells its clients why it closes them. One user's failure holds up nobody else's.
   * @returns undefined when somebody else has taken the request over, or is to
   */
  async #logoutAll(request: OperatorRequest & { kind: "logout_all" }): Promise<OperatorAnswer | undefined> {
    const { storage, self, lookEveryMs, clock } = this.#options
    const { id, until_id } = request
    await clock.sleep(closingSeconds * 1000 + seenByAllMs(lookEveryMs))
    let { ended } = request
    let failed = 0
    let isUnfinished = false
    let bots = true
    for (let after = "0"; ;) {
      const users = await storage.operatorRequests.usersWithSessions(bots, until_id, after, batch)
      if (users.length === 0) {
        if (!bots) break
        bots = false
        after = "0"
        continue
      }
      let isNobodyThere = false
      for (let i = 0; i < users.length && !this.#isStopped && !isNobodyThere; i += batchSize) {
        const asked = users.slice(i, i + batchSize)
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
    // The next worker that takes it finds only users that still have sessions.
    await storage.operatorRequests.putBack(id, self, false)
    return undefined
  }

  async #endSessions(user: Snowflake, until: Snowflake): Promise<Ending> {
    try {
      return await this.#options.ask(userActor, user, { type: "endAllSessions", message: null, until })
    } catch (error) {
      // The user was deleted meanwhile, with all their sessions.
      if (error instanceof Failure && error.code === "user_not_found") return { ended: 0 }
      if (isTransient(error)) return "put off"
      this.#options.log.warn({ err: error, user }, "a user's sessions were not ended")
      return "failed"
    }
  }
}
