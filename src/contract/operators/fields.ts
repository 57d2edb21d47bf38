import { z } from "zod"
import { Snowflake } from "../core/fields.ts"

/** Fields that the routes of operators share. */

/**
 * An id in the path of an operator's route: an integer of 64 bits as a decimal string. What is none
 * is a fault of validation (422). Ids of users are `Snowflake` there, too: 400 `Invalid user ID`.
 */
export const RowId = z
  .string()
  .regex(/^(0|[1-9]\d{0,18})$/, "must be an integer")
  .refine(digits => digits.length < 19 || digits <= "9223372036854775807", "must be an integer")
  .meta({ description: "A 64-bit integer as a decimal string" })

/** The id of a user in a path. */
export const byUser = z.object({ user_id: Snowflake })

/** A whole number in a query string. One out of bounds counts as the nearest within. */
export const clampedInt = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,15}$/, "must be an integer")
    .transform(text => Math.min(max, Math.max(min, Number(text))))
    .meta({ type: "integer", description: `From ${min} to ${max}; a number beyond counts as the nearest` })

/** `limit` and `offset` of a list, newest first. */
export const listQuery = (usual = 50, most = 200) => ({
  limit: clampedInt(1, most).default(usual),
  offset: clampedInt(0, 1_000_000).default(0),
})
