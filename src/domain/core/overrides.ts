import type { Snowflake } from "../../contract/core/fields.ts"
import type { PermissionMask } from "./permission-masks.ts"

/** What one channel allows or denies a role or a member beside what they have in the server. */
export interface Override {
  readonly target_id: Snowflake
  readonly type: "role" | "member"
  readonly allow: PermissionMask
  readonly deny: PermissionMask
}
