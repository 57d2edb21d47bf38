import type { Snowflake } from "../contract/fields.ts"

/**
 * Control entries travel in the delivery log among the events and act before what follows them, so that a change of
 * access is a barrier in the stream of every session.
 */
export type Control =
  /** `event` is the GUILD_CREATE that the new member's sessions get. */
  | {
      readonly type: "joined"
      readonly server: Snowflake
      readonly user: Snowflake
      readonly roles: readonly Snowflake[]
      readonly event: unknown
    }
  | { readonly type: "left"; readonly server: Snowflake; readonly user: Snowflake }
  | { readonly type: "serverDeleted"; readonly server: Snowflake }
  /** The user's own home says that his servers changed; a worker that does not know better asks PostgreSQL. */
  | {
      readonly type: "membershipsChanged"
      readonly user: Snowflake
      readonly server: Snowflake
      readonly member: boolean
    }
  | { readonly type: "sessionEnded"; readonly user: Snowflake; readonly session: Snowflake }
