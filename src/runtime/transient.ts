import { isRedisUnavailable } from "../cluster/unavailable.ts"
import { Failure } from "../contract/core/errors.ts"
import { isDatabaseUnavailable } from "../storage/core/database.ts"

/** Whether the same may succeed in a moment, because only PostgreSQL, Redis or another worker is not there now. */
export const isTransient = (error: unknown): boolean =>
  isDatabaseUnavailable(error) ||
  isRedisUnavailable(error) ||
  (error instanceof Failure && error.code === "unavailable")
