import type { Member } from "../../cluster/members.ts"
import type { Config } from "../../config.ts"

/** All that a process needs to know. It goes through the channel: a command line can be read by everybody on the machine. */
export interface StartOrder {
  type: "start"
  self: Member
  /** The incarnation that serves in the same place until this one is ready. */
  predecessor: string | undefined
  config: Config
  databaseUrl: string
  redisUrl: string
  redisPrefix: string
  /** Where the workers of this host have their sockets; without it they talk through Redis. */
  socketFolder: string | undefined
  /** See `secretKeyOf`. */
  secretKey: string
  port: number
}
/** What the primary says to a process. */
export type Order =
  | StartOrder
  | { type: "death"; id: string }
  /** It is going to end: nobody new is to come, everything is still served. */
  | { type: "leave" }
  | { type: "log"; level: Config["logLevel"] }
  | { type: "end"; timeoutMs: number; replaced: boolean }
/** What a process says to the primary. Before "here" it does not listen yet. */
export type Report = { type: "here" } | { type: "ready" } | { type: "alive" }

/** Milliseconds from one "alive" to the next. */
export const signOfLifeEveryMs = 1_000

/** One cluster per Redis database. */
export const redisPrefix = "starling:"
