import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    user_notes: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "updated_at"],
      leftOut: {
        notes: "What operators note for one another may be about others as well",
        updated_by: "Which operator it was is theirs to say",
      },
      atPurge: "erased",
    },
  },
}

export interface UserNotes {
  readonly user_id: Snowflake
  readonly notes: string
  readonly updated_at: number
  readonly updated_by: Snowflake | null
}

/** Replaces the text. */
export const putUserNotes = defineWrite<UserNotes>("putUserNotes", (sql, rows) => {
  const last = lastOf(rows, ({ user_id }) => user_id)
  return sql`
    INSERT INTO user_notes (user_id, notes, updated_at, updated_by)
    SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "notes")}::text[], ${column(last, "updated_at")}::bigint[],
      ${column(last, "updated_by")}::bigint[])
    ON CONFLICT (user_id) DO UPDATE SET notes = excluded.notes, updated_at = excluded.updated_at, updated_by = excluded.updated_by`
})

export const userNotesStorage = (sql: Sql) => ({
  /** Empty: there are none. Undefined: there is no such user. */
  async of(user: Snowflake): Promise<string | undefined> {
    const [row] = await sql<{ notes: string }[]>`
      SELECT coalesce(n.notes, '') AS notes FROM users u LEFT JOIN user_notes n ON n.user_id = u.id WHERE u.id = ${user}`
    return row?.notes
  },
})
