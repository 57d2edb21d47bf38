import { securityLogout, type ServerStatus } from "../../contract/service/server-status.ts"
import type { CloseName } from "../../contract/core/gateway-codes.ts"
import { parseAddress } from "../../domain/core/client-address.ts"
import type { Clock } from "../../std/clock.ts"
import {
  announcementOf,
  closingSeconds,
  refusedIn,
  type ServiceFacts,
  type ServiceView,
} from "../../domain/service/server-status.ts"
import type { Log } from "../../observability/log.ts"
import { Frame, plainFrame, type Encoding, type Payload } from "../protocol/frames.ts"
import type { Subscriptions } from "./subscriptions.ts"
import type { Connection } from "../state/session.ts"
import { forEachInBatches } from "./drain.ts"

export interface ServiceNoticesOptions {
  readonly service: ServiceView
  readonly connections: ReadonlySet<Connection>
  readonly subscriptions: Subscriptions
  readonly clock: Clock
  readonly log: Log
}

/**
 * Milliseconds between two batches: tens of thousands of clients are told, and closed, within two
 * seconds.
 */
const batchPauseMs = 10

/**
 * Tells connected clients about the service as a whole: announcements of its state, and the end of
 * their connections in maintenance, at the end of service, when everybody is logged out, and when
 * their address is blocked.
 */
export class ServiceNotices {
  readonly #options: ServiceNoticesOptions
  #announced = 0
  /** The latest announcement, if connections end with it. */
  #ending: { readonly status: ServerStatus; readonly at: number } | undefined

  constructor(options: ServiceNoticesOptions) {
    this.#options = options
    options.service.onChange((now, before) => {
      if (now.resets !== before.resets) this.#run("reset", this.#reset())
      if (now.changes !== before.changes) this.#run("state", this.#announce(now))
      if (now.blocks_version !== before.blocks_version) this.#run("blocks", this.#closeBlocked())
    })
  }

  isBlocked(address: string): boolean {
    const parsed = parseAddress(address)
    return parsed !== undefined && this.#options.service.isBlocked(parsed)
  }

  /** Why a connection ends as soon as it was greeted. */
  refusal(): CloseName | undefined {
    return refusedIn(this.#options.service.facts)
  }

  /**
   * A client that identifies or resumes while connections are about to end is told as the others
   * were.
   */
  greet(connection: Connection): void {
    const { subscriptions, clock } = this.#options
    if (!this.#ending) return
    const left = Math.max(0, this.#ending.at - clock.monotonic()) / 1000
    const status = { ...this.#ending.status, closing_in_seconds: left }
    subscriptions.sendPayload(connection, plainFrame(connection.encoding, "SERVER_STATUS", status))
  }

  #run(what: string, work: Promise<void>): void {
    work.catch((error: unknown) => this.#options.log.error({ err: error, what }, "announcement failed"))
  }

  async #announce(facts: ServiceFacts): Promise<void> {
    const { connections, subscriptions, clock } = this.#options
    const turn = ++this.#announced
    this.#ending = undefined
    const announcement = announcementOf(facts)
    if (!announcement) return
    const { status, close } = announcement
    const everybody = [...connections]
    const told = this.#tell(everybody, status)
    if (!close) return told
    this.#ending = { status, at: clock.monotonic() + closingSeconds * 1000 }
    const closed = this.#later(everybody, connection => {
      // The operator has announced something else meanwhile: the earlier announcement does not
      // apply any more.
      if (turn === this.#announced) subscriptions.close(connection, close)
    })
    await Promise.all([told, closed])
  }

  /** Everybody is logged out, except users who have logged in since. */
  async #reset(): Promise<void> {
    const { connections, subscriptions, service } = this.#options
    const everybody = [...connections]
    const isMeant = ({ session }: Connection) => !session || service.isOver(session.accessSession)
    const status = { state: "shutting_down", message: "Security reset", closing_in_seconds: closingSeconds } as const
    const told = this.#tell(everybody, status, connection => {
      const { session } = connection
      if (!session || !isMeant(connection)) return false
      // What the session reads from another worker's log comes before its own position: no notice
      // can be placed there.
      if (session.peerSlices) return true
      const s = subscriptions.placeOf(session)
      const d = { user_id: session.user, message: "Security logout" }
      subscriptions.send(session, new Frame(securityLogout.name, s, JSON.stringify(d)))
      return true
    })
    const closed = this.#later(everybody, connection => {
      if (isMeant(connection)) subscriptions.close(connection, "security_reset")
    })
    await Promise.all([told, closed])
  }

  async #closeBlocked(): Promise<void> {
    const { connections, subscriptions, clock } = this.#options
    await forEachInBatches([...connections], 0, clock, connection => {
      if (this.isBlocked(connection.address)) subscriptions.close(connection, "ip_blocked")
    })
  }

  /** Sends op 12 to connections that have a session, and to those for which `first` says so. */
  #tell(everybody: readonly Connection[], status: ServerStatus, first?: (connection: Connection) => boolean) {
    const { subscriptions, clock } = this.#options
    const made = new Map<Encoding, Payload>()
    const payloadIn = (encoding: Encoding) => {
      const payload = made.get(encoding) ?? plainFrame(encoding, "SERVER_STATUS", status)
      made.set(encoding, payload)
      return payload
    }
    return forEachInBatches(everybody, batchPauseMs, clock, connection => {
      if (!connection.session) return
      connection.ws.cork(() => {
        if (first?.(connection) ?? true) subscriptions.sendPayload(connection, payloadIn(connection.encoding))
      })
    })
  }

  /** In the same batches, so that each connection has the same time. */
  async #later(everybody: readonly Connection[], act: (connection: Connection) => void): Promise<void> {
    const { clock } = this.#options
    await clock.sleep(closingSeconds * 1000)
    await forEachInBatches(everybody, batchPauseMs, clock, act)
  }
}
