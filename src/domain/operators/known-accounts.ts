/** What operators see of accounts, beyond what is kept of them. */

/** From here on a lock has no end. */
export const lockedForEver = 9_999_999_999
const day = 86_400
/** The days that an account is frozen by default. */
const frozenDays = 30

export interface Locks {
  /** Unix seconds; 0: not locked. By an operator, and after failed sign-ins. */
  readonly locked_until: number
  readonly login_locked_until: number
}

/** The lock that lasts longer. `now`: Unix seconds. */
export function lockOf({ locked_until, login_locked_until }: Locks, now: number) {
  const until = Math.max(locked_until, login_locked_until)
  if (until <= now) return { account_locked: false, locked_until: null, lock_kind: null }
  return {
    account_locked: true,
    locked_until: until >= lockedForEver ? null : until,
    lock_kind: locked_until === until ? ("operator" as const) : ("failed_logins" as const),
  }
}

/** When a lock ends that begins now; without a duration it has no end. */
export const lockEnd = (durationSeconds: number | undefined, now: number): number =>
  durationSeconds === undefined ? lockedForEver : Math.min(lockedForEver, now + durationSeconds)

export const scheduledDeletion = (account: { id: string; username: string; deletion_at: number }, now: number) => ({
  user_id: account.id,
  username: account.username,
  scheduled_at: account.deletion_at - frozenDays * day,
  deletion_at: account.deletion_at,
  days_left: Math.max(0, Math.floor((account.deletion_at - now) / day)),
})
