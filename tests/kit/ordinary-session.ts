import type { AccessSession } from "../../src/cluster/tokens.ts"

/** What a session of a person has about whom there is nothing to say. */
export const ordinary: Omit<
  AccessSession,
  "session_id" | "user_id" | "username" | "badges" | "tier" | "token_hash" | "expires_at" | "last_activity"
> = {
  bot: false,
  permissions: [],
  typing_indicators: true,
  read_receipts: true,
  locked_until: 0,
  lock_reason: null,
  is_deleted: false,
  must_rename: false,
  rename_reason: null,
  account: {
    email: "ada@example.org",
    created_at: 0,
    email_verified: true,
    age_verified: false,
    totp_enabled: false,
    deletion_status: "active",
    deletion_at: null,
  },
  origin: "",
}
