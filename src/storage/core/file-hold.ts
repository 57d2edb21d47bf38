import type { Sql, Statements } from "./database.ts"
import { isLockTimeout } from "./database.ts"

/**
 * While a backup runs, no file is deleted, so that every file to which its snapshot leads is there to be copied. It keeps:
 *   BAK2  A file goes only after a statement that found no hold, and its row has gone before that. Who
 *       takes the hold waits for such statements, and makes the snapshot afterwards: it has no row of
 *       a file that goes. What could not be deleted meanwhile is noted, and swept later.
 */
const holdLock = 7_301_026
/** Statements that look for a hold last for a moment. */
const waitMs = 1_000

/** Holds until the transaction ends. @returns false when another backup runs */
export async function holdFiles(transaction: Statements): Promise<boolean> {
  await transaction`SELECT set_config('lock_timeout', ${String(waitMs)}, true)`
  try {
    await transaction`SELECT pg_advisory_xact_lock(${holdLock})`
    return true
  } catch (error) {
    if (isLockTimeout(error)) return false
    throw error
  }
}

/** As a condition: false while files are held. It is asked once in a statement. */
export const areFilesFree = (sql: Sql) => sql`(SELECT pg_try_advisory_xact_lock_shared(${holdLock}))`
