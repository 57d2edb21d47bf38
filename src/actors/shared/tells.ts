import type { Snowflake } from "../../contract/core/fields.ts"
import { tell, type Asked, type Tell } from "../../runtime/actor.ts"

/**
 * Tells for the commands of one interface. The subject that declares the interface is all that a
 * teller knows of the other actor.
 */
export const tellsOf =
  <Commands extends object>(kind: "user" | "server" | "channel" | "direct") =>
  <K extends keyof Commands & string>(id: Snowflake, command: Asked<Commands, K>): Tell =>
    tell<unknown, unknown, Commands, K>({ kind }, id, command)
