import { isRedisAway } from "../cluster/away.ts"
import { Failure } from "../contract/core/errors.ts"
import { isAway } from "../storage/core/database.ts"

/** Whether the same may succeed in a moment, because only PostgreSQL, Redis or another worker is not there now. */
export const isTransient = (error: unknown): boolean =>
  isAway(error) || isRedisAway(error) || (error instanceof Failure && error.code === "unavailable")
