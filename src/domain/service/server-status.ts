import type { ClassifierBackend } from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { CloseName } from "../../contract/core/gateway-codes.ts"
import type { ServerStatus, ServiceState } from "../../contract/service/server-status.ts"
import type { AccessTokens } from "./access-tokens.ts"
import type { Address } from "../core/client-address.ts"

/** What homes have to know of what operators have set of auto-moderation. */
export interface Moderation {
  /** No rule is evaluated. */
  readonly isOff: boolean
  /** Classifiers that can be asked. */
  readonly backends: readonly ClassifierBackend[]
}

/** Milliseconds after which every worker has looked at what was changed: one look may have just begun. */
export const seenByAllMs = (lookEveryMs: number): number => 2 * lookEveryMs

/** What an operator has said of the service. */
export interface ServiceNotice {
  readonly state: ServiceState
  readonly message: string | null
  readonly estimated_downtime_seconds: number | null
  readonly restart_at: number | null
}

/**
 * What there is to know of the service as a whole. Each count says that something is to be looked
 * at again.
 */
export interface ServiceFacts extends ServiceNotice {
  /** How often the state was set. */
  readonly changes: number
  /** How often everybody was logged out. */
  readonly resets: number
  /** Sessions up to this id ended with the latest reset. */
  readonly reset_until: Snowflake
  /** How often the list of blocked addresses was changed. */
  readonly blocks_version: number
  /** How often the API access tokens were changed. */
  readonly access_version: number
  /** No rule of auto-moderation is evaluated. */
  readonly automod_off: boolean
  /** Classifiers that an operator has set up while the service runs. */
  readonly automod_backends: readonly ClassifierBackend[]
}

/**
 * The service's state as servers cache it: it is at most about a second old while PostgreSQL
 * answers.
 */
export interface ServiceView {
  readonly facts: ServiceFacts
  isBlocked(address: Address): boolean
  /** Whether any address is. */
  readonly hasBlocked: boolean
  /** The API access tokens that there are. */
  readonly accessTokens: AccessTokens
  readonly moderation: Moderation
  /** Whether a session ended when everybody was logged out, wherever else it still stands. */
  isOver(session: Snowflake): boolean
  onChange(listener: (now: ServiceFacts, before: ServiceFacts) => void): void
}

/** Seconds from the announcement to the end of a connection. */
export const closingSeconds = 2
/** What a restart takes if nobody says otherwise. */
const usualRestart = 10
/** The longest Retry-After: the end of a maintenance is not announced. */
const longestWait = 3600
const usualWait = 60

const usualMessages: Record<Exclude<ServiceState, "running">, string> = {
  maintenance: "Server is under maintenance",
  shutting_down: "Server shutting down",
  restarting: "Server is restarting",
}

export const messageOf = ({ state, message }: ServiceNotice): string | null =>
  message || (state === "running" ? null : usualMessages[state])

const downtimeOf = ({ state, estimated_downtime_seconds }: ServiceNotice): number | null =>
  estimated_downtime_seconds ?? (state === "restarting" ? usualRestart : null)

/** As `GET /status` says it. */
export const shownStatus = (notice: ServiceNotice) => ({
  state: notice.state,
  maintenance_message: messageOf(notice),
  estimated_downtime_seconds: downtimeOf(notice),
  restart_at: notice.restart_at,
})

/**
 * What connected clients are told of a new state, and whether they are closed `closingSeconds`
 * later.
 */
export function announcementOf(notice: ServiceNotice): { status: ServerStatus; close?: CloseName } | undefined {
  const { state, restart_at } = notice
  const downtime = downtimeOf(notice)
  const known = {
    ...(restart_at !== null && { restart_at }),
    ...(downtime !== null && { estimated_downtime_seconds: downtime }),
  }
  const message = messageOf(notice) ?? ""
  switch (state) {
    case "running":
      return undefined
    case "restarting":
      return { status: { state, message, ...known } }
    case "maintenance":
      return { status: { state, message, ...known, closing_in_seconds: closingSeconds }, close: "server_maintenance" }
    case "shutting_down":
      return {
        status: { state, message, restart_at, ...known, closing_in_seconds: closingSeconds },
        close: "server_shutdown",
      }
  }
}

/** How a connection ends that is opened in this state. */
export const refusedIn = ({ state }: ServiceNotice): CloseName | undefined =>
  state === "maintenance" ? "server_maintenance" : state === "shutting_down" ? "server_shutdown" : undefined

/** Seconds after which a request that meets the maintenance may be tried again. */
export function waitFor(notice: ServiceNotice, now: number): number {
  const { restart_at } = notice
  const wait = restart_at !== null && restart_at > now ? restart_at - now : downtimeOf(notice) || usualWait
  return Math.min(longestWait, wait)
}
