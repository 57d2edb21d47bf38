import type { Snowflake } from "../../contract/core/fields.ts"
import type { Passkey } from "../../contract/accounts/passkeys.ts"
import type { PasskeyState } from "../../domain/accounts/passkeys.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    passkeys: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "user_id",
        "credential_id",
        "public_key",
        "counter",
        "transports",
        "name",
        "synced",
        "created_at",
        "last_used_at",
      ],
      atPurge: "erased",
    },
  },
}

export interface PasskeyRow extends PasskeyState {
  readonly user_id: Snowflake
}

export const passkeyObject = ({ id, name, synced, created_at, last_used_at }: PasskeyState): Passkey => ({
  id,
  name,
  synced,
  created_at,
  last_used_at,
})

export const insertPasskey = defineWrite<PasskeyRow>(
  "insertPasskey",
  (sql, rows) => sql`
    INSERT INTO passkeys (id, user_id, credential_id, public_key, counter, transports, name, synced, created_at, last_used_at)
    SELECT p.id, p.user_id, p.credential_id, p.public_key, p.counter, ARRAY(SELECT jsonb_array_elements_text(p.transports::jsonb)),
      p.name, p.synced::boolean, p.created_at, p.last_used_at
    FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "credential_id")}::text[],
      ${column(rows, "public_key")}::text[], ${column(rows, "counter")}::bigint[], ${rows.map(row => JSON.stringify(row.transports))}::text[],
      ${column(rows, "name")}::text[], ${column(rows, "synced")}::text[], ${column(rows, "created_at")}::bigint[],
      ${column(rows, "last_used_at")}::bigint[])
      AS p (id, user_id, credential_id, public_key, counter, transports, name, synced, created_at, last_used_at)`,
  { passkeys_credential: "passkey_exists" },
)

/** What changes of one: its name, and what its last use has said. */
export const updatePasskey = defineWrite<PasskeyState>("updatePasskey", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE passkeys SET counter = p.counter, name = p.name, synced = p.synced::boolean, last_used_at = p.last_used_at
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "counter")}::bigint[], ${column(last, "name")}::text[],
      ${column(last, "synced")}::text[], ${column(last, "last_used_at")}::bigint[]) AS p (id, counter, name, synced, last_used_at)
    WHERE passkeys.id = p.id`
})

export const deletePasskey = defineWrite<{ id: Snowflake }>(
  "deletePasskey",
  (sql, rows) => sql`DELETE FROM passkeys WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const passkeysStorage = (sql: Sql) => ({
  async ofUser(user: Snowflake): Promise<PasskeyState[]> {
    return sql<PasskeyState[]>`
      SELECT id, credential_id, public_key, counter, transports, name, synced, created_at, last_used_at
      FROM passkeys WHERE user_id = ${user} ORDER BY id`
  },

  /** Whose it is, and what its signatures are checked with. */
  async find(credentialId: string): Promise<PasskeyRow | undefined> {
    const [row] = await sql<PasskeyRow[]>`SELECT * FROM passkeys WHERE credential_id = ${credentialId}`
    return row
  },
})
