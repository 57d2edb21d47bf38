import { z } from "zod"
import { omittable, Seconds, Snowflake, text } from "../core/fields.ts"
import { defineEvent } from "../core/registry.ts"

export const ServiceState = z.enum(["running", "maintenance", "shutting_down", "restarting"])
export type ServiceState = z.infer<typeof ServiceState>

/** What an operator says of the service. Left out: not known. */
export const ServiceNotice = z.object({
  state: ServiceState,
  message: omittable(text(0, 500)),
  estimated_downtime_seconds: omittable(z.int().min(0).max(31_536_000)),
  restart_at: omittable(Seconds.min(0).max(99_999_999_999)),
})

export type ServiceNotice = z.infer<typeof ServiceNotice>

/** `d` of SERVER_STATUS (op 12). Keys are left out where nothing is known. */
export const ServerStatus = z.object({
  state: ServiceState,
  message: z.string(),
  restart_at: Seconds.nullable().optional(),
  estimated_downtime_seconds: z.int().nonnegative().optional(),
  closing_in_seconds: z.number().nonnegative().optional().meta({ description: "Until the connection is closed" }),
})
export type ServerStatus = z.infer<typeof ServerStatus>

export const securityLogout = defineEvent({
  name: "SECURITY_LOGOUT",
  intent: null,
  delivery: "stored",
  summary:
    "An operator has ended all sessions of the user or locked the account, or the account is deleted. The token is invalid, of a bot whose owner is locked for as long as that lasts, and the connection closes right after",
  data: z.object({ user_id: Snowflake, message: z.string() }),
})
