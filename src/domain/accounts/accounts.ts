import type { Snowflake } from "../../contract/core/fields.ts"

/** The user who acts, as the session cache knows them. */
export interface Actor {
  id: Snowflake
  username: string
  bot: boolean
  badges: readonly string[]
}

/**
 * What is stored of a user besides their sessions and what others share with them. Times are Unix
 * seconds.
 */
export interface Account {
  username: string
  /** Null for bots. */
  email: string | null
  /** Null for bots, and for users who have signed in through a provider only. */
  password_hash: string | null
  created_at: number
  /** What a client is shown; without verification it is true from the start. */
  email_verified: boolean
  /**
   * The address is known to belong to the user: a mail to it was answered, or a provider vouched
   * for it.
   */
  email_confirmed: boolean
  age_verified: boolean
  badges: readonly string[]
  /** See `tierAt`. */
  tier: string
  tier_expires_at: number | null
  tier_notes: string | null
  bot: boolean
  /** Of a bot. */
  owner_id: Snowflake | null
  /** What a bot asks for in servers; nobody has granted it yet. */
  bot_permissions: readonly string[]
  /** Of a bot: others than its owner may add it to servers. */
  bot_public: boolean
  /** Of the whole service, such as `administrator`. */
  permissions: readonly string[]
  /** By an operator; 0: not. */
  locked_until: number
  lock_reason: string | null
  must_rename: boolean
  rename_reason: string | null
  deletion_status: "active" | "frozen" | "purged"
  /** When a frozen account is to be purged, or when it was. */
  deletion_at: number | null
  totp_enabled: boolean
  /** Sealed; there without `totp_enabled` while it waits to be confirmed. */
  totp_secret: string | null
  /** The latest time step whose code was accepted. */
  totp_step: number
  /** Keyed digests of those not used yet. */
  backup_codes: readonly string[]
}

/** The part of the account that only its owner sees. */
export type OwnAccount = Pick<
  Account,
  "email" | "created_at" | "email_verified" | "age_verified" | "totp_enabled" | "deletion_status" | "deletion_at"
>

/** A new account is this, but for what is said of it. */
export const newAccount = (
  known: Pick<Account, "username" | "email" | "password_hash" | "created_at"> & Partial<Account>,
): Account => ({
  email_verified: true,
  email_confirmed: false,
  age_verified: false,
  badges: [],
  tier: "standard",
  tier_expires_at: null,
  tier_notes: null,
  bot: false,
  owner_id: null,
  bot_permissions: [],
  bot_public: false,
  permissions: [],
  locked_until: 0,
  lock_reason: null,
  must_rename: false,
  rename_reason: null,
  deletion_status: "active",
  deletion_at: null,
  totp_enabled: false,
  totp_secret: null,
  totp_step: 0,
  backup_codes: [],
  ...known,
})

/** The tier whose limits hold now. */
export const tierAt = (account: Pick<Account, "tier" | "tier_expires_at">, now: number): string =>
  account.tier_expires_at !== null && account.tier_expires_at <= now ? "standard" : account.tier

const administrators: ReadonlySet<string> = new Set(["administrator", "admin.*", "*"])
export const isAdministrator = (permissions: readonly string[]): boolean =>
  permissions.some(permission => administrators.has(permission))

/** What bars an account from the API; it is cached with every session. */
export interface AccountBars {
  /** 0: no operator has locked it, nor the owner of a bot. */
  readonly locked_until: number
  readonly lock_reason: string | null
  readonly is_deleted: boolean
  readonly must_rename: boolean
  readonly rename_reason: string | null
}

/** Why somebody is not let in, if there is a reason. `now`: Unix seconds. */
export function barTo(
  bars: AccountBars,
  now: number,
):
  | {
      readonly code: "account_suspended" | "account_deleted" | "username_change_required"
      readonly reason: string | null
    }
  | undefined {
  if (bars.locked_until > now) return { code: "account_suspended", reason: bars.lock_reason }
  if (bars.is_deleted) return { code: "account_deleted", reason: null }
  if (bars.must_rename) return { code: "username_change_required", reason: bars.rename_reason }
  return undefined
}

/**
 * Why a person whose proof was right is not signed in; a name that has to be changed keeps nobody
 * from doing so.
 */
export const barToSignIn = (account: Account, now: number) =>
  barTo({ ...account, is_deleted: account.deletion_status !== "active", must_rename: false }, now)
