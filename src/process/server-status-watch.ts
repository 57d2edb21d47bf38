import { AccessTokens } from "../domain/service/access-tokens.ts"
import { AddressBlocks } from "../domain/service/address-blocks.ts"
import type { ClassifierBackend } from "../contract/communities/automod.ts"
import type { Address } from "../domain/core/client-address.ts"
import type { Clock, Timer } from "../std/clock.ts"
import type { Moderation, ServiceFacts, ServiceView } from "../domain/service/server-status.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Storage } from "../storage/storage.ts"

export interface ServerStatusWatchOptions {
  readonly storage: Pick<Storage, "serverStatus" | "addressBlocks" | "accessTokens" | "listenToService">
  /** Milliseconds from one look to the next while changes are not heard of, or a request is not answered. */
  readonly everyMs: number
  /** The same while they are. */
  readonly restMs: number
  /** Classifiers that the configuration has set up. */
  readonly classifiers: readonly ClassifierBackend[]
  /** An operator's request waits for somebody. */
  readonly onAsked: () => void
  readonly clock: Clock
  readonly log: Log
}

/**
 * What an operator has said of the service as a whole, as this worker knows it: PostgreSQL announces each change, and is looked
 * at then, with one small statement. While it is away what is known stays so; Redis is not needed. It keeps:
 *   SVC1  What was committed is known as soon as it is announced, and `everyMs` later at most where announcements do not
 *       arrive: a connection over which they may have been lost is not relied on, and what it may have missed is looked for
 *       at once.
 */
export class ServerStatusWatch implements ServiceView {
  readonly #options: ServerStatusWatchOptions
  readonly #listeners: ((now: ServiceFacts, before: ServiceFacts) => void)[] = []
  #facts: ServiceFacts
  #blocks: AddressBlocks
  #accessTokens: AccessTokens
  #moderation: Moderation
  readonly #timer: Timer
  readonly #announcements: ReturnType<Storage["listenToService"]>
  #looking: Promise<void> | undefined
  #lookedAt = -Infinity
  /** Something was announced since the look that is under way began. */
  #isStale = false
  /** A request is not answered: who has it may end, and nobody announces that. */
  #hasOpen = false
  #isStopped = false
  #isBlind = false

  private constructor(
    options: ServerStatusWatchOptions,
    facts: ServiceFacts,
    blocks: AddressBlocks,
    accessTokens: AccessTokens,
  ) {
    this.#options = options
    this.#facts = facts
    this.#blocks = blocks
    this.#accessTokens = accessTokens
    this.#moderation = moderationOf(options, facts)
    this.#announcements = options.storage.listenToService({
      onAnnounced: () => this.#lookAnew(),
      onTurn: () => this.#lookAnew(),
      clock: options.clock,
      log: options.log,
    })
    this.#timer = options.clock.every(options.everyMs, () => {
      if (this.#isDue) this.#lookAgain().catch(() => {})
    })
  }

  /** Resolves when everything is known. */
  static async start(options: ServerStatusWatchOptions): Promise<ServerStatusWatch> {
    const { serverStatus, addressBlocks, accessTokens } = options.storage
    const { isAsked: _, isOpen: __, ...facts } = await serverStatus.look()
    const blocks = new AddressBlocks(await addressBlocks.list())
    return new ServerStatusWatch(options, facts, blocks, new AccessTokens(await accessTokens.list()))
  }

  get facts(): ServiceFacts {
    return this.#facts
  }

  get hasBlocked(): boolean {
    return !this.#blocks.isEmpty
  }

  isBlocked(address: Address): boolean {
    return !this.#blocks.isEmpty && this.#blocks.has(address, this.#options.clock.now() / 1000)
  }

  get accessTokens(): AccessTokens {
    return this.#accessTokens
  }

  get moderation(): Moderation {
    return this.#moderation
  }

  isOver(session: string): boolean {
    return compareIds(session, this.#facts.reset_until) <= 0
  }

  onChange(listener: (now: ServiceFacts, before: ServiceFacts) => void): void {
    this.#listeners.push(listener)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer.stop()
    await this.#announcements.stop()
  }

  /** Knows what PostgreSQL has now, if that answers. */
  async lookNow(): Promise<void> {
    while (this.#looking) await this.#looking
    await this.#lookAgain()
  }

  get #isDue(): boolean {
    const { clock, everyMs, restMs } = this.#options
    if (!this.#announcements.hears || this.#hasOpen || this.#isBlind) return true
    // Half a step early rather than a whole one late.
    return clock.monotonic() - this.#lookedAt >= restMs - everyMs / 2
  }

  /** A look that is under way may have read what was so before: another follows it. */
  #lookAnew(): void {
    this.#isStale = true
    this.#lookAgain().catch(() => {})
  }

  /** One look at a time. It never rejects. */
  #lookAgain(): Promise<void> {
    return (this.#looking ??= this.#lookUntilFresh()
      .catch((error: unknown) => {
        if (!this.#isBlind && !this.#isStopped) this.#options.log.warn({ err: error }, "state of the service not read")
        this.#isBlind = true
      })
      .finally(() => {
        this.#looking = undefined
      }))
  }

  async #lookUntilFresh(): Promise<void> {
    do {
      this.#isStale = false
      await this.#look()
    } while (this.#isStale && !this.#isStopped)
  }

  async #look(): Promise<void> {
    const { storage, clock, onAsked } = this.#options
    this.#lookedAt = clock.monotonic()
    const { isAsked, isOpen, ...facts } = await this.#read()
    this.#hasOpen = isOpen
    const before = this.#facts
    const isChanged = facts.blocks_version !== before.blocks_version
    // Looked at after the version: what changes in between is looked at again.
    const blocks = isChanged ? new AddressBlocks(await storage.addressBlocks.list()) : this.#blocks
    const isGateChanged = facts.access_version !== before.access_version
    const tokens = isGateChanged ? new AccessTokens(await storage.accessTokens.list()) : this.#accessTokens
    if (this.#isStopped) return
    this.#isBlind = false
    this.#facts = facts
    this.#blocks = blocks
    this.#accessTokens = tokens
    this.#moderation = moderationOf(this.#options, facts)
    const isNew = isChanged || facts.changes !== before.changes || facts.resets !== before.resets
    if (facts.changes !== before.changes) this.#options.log.info({ state: facts.state }, "state of the service")
    if (isNew) for (const listener of this.#listeners) listener(facts, before)
    if (isAsked) onAsked()
  }

  /** Where changes are heard of it is asked: a connection that has ended unnoticed is noticed by that. */
  #read() {
    if (this.#announcements.hears) return this.#announcements.look()
    return this.#options.storage.serverStatus.look()
  }
}

const moderationOf = (
  { classifiers }: Pick<ServerStatusWatchOptions, "classifiers">,
  { automod_off, automod_backends }: ServiceFacts,
): Moderation => ({ isOff: automod_off, backends: [...new Set([...classifiers, ...automod_backends])] })
