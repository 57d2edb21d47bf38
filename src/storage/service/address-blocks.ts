import type { Snowflake } from "../../contract/core/fields.ts"
import { maxBlocks, type AddressBlock } from "../../domain/service/address-blocks.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  personal: {
    address_blocks: {
      userColumns: ["blocked_by"],
      key: { address: "inet" },
      given: ["address", "reason", "blocked_at", "blocked_by", "expires_at"],
      atPurge: "kept",
    },
  },
}

export interface AddressBlockRow extends AddressBlock {
  reason: string | null
  blocked_at: number
  blocked_by: Snowflake | null
}

export interface NewAddressBlock {
  /** As `formatRange` writes it. */
  address: string
  reason: string | null
  blocked_by: Snowflake | null
  /** Seconds; null: for ever. */
  lastsSeconds: number | null
}

/** Every change raises the version that workers look at. */
export const addressBlocksStorage = (sql: Sql) => ({
  /**
   * Those in force, the newest first. Two operators at once can go beyond the bound: what is blocked
   * stays so.
   */
  async list(): Promise<AddressBlockRow[]> {
    return sql<AddressBlockRow[]>`
      SELECT address, reason, blocked_at, blocked_by::text AS blocked_by, expires_at FROM address_blocks
      WHERE expires_at IS NULL OR expires_at > extract(epoch FROM now()) ORDER BY blocked_at DESC, address LIMIT ${2 * maxBlocks}`
  },

  /**
   * Replaces an earlier block of the same address. @returns false when there are as many as there
   * may be
   */
  async block({ address, reason, blocked_by, lastsSeconds }: NewAddressBlock): Promise<boolean> {
    const rows = await sql`
      WITH changed AS (UPDATE service SET blocks_version = blocks_version + 1 RETURNING extract(epoch FROM now())::bigint AS at),
           over AS (DELETE FROM address_blocks USING changed WHERE expires_at <= at AND address <> ${address}::inet RETURNING 1),
           kept AS (SELECT count(*) AS n FROM address_blocks, changed WHERE address <> ${address}::inet AND (expires_at IS NULL OR expires_at > at))
      INSERT INTO address_blocks (address, reason, blocked_at, blocked_by, expires_at)
      SELECT ${address}::inet, ${reason}::text, at, ${blocked_by}::bigint, at + ${lastsSeconds}::bigint FROM changed, kept WHERE n < ${maxBlocks}
      ON CONFLICT (address) DO UPDATE SET reason = EXCLUDED.reason, blocked_at = EXCLUDED.blocked_at,
        blocked_by = EXCLUDED.blocked_by, expires_at = EXCLUDED.expires_at
      RETURNING 1`
    return rows.length > 0
  },

  /** @returns whether the address was blocked */
  async unblock(address: string): Promise<boolean> {
    const rows = await sql`
      WITH gone AS (DELETE FROM address_blocks WHERE address = ${address}::inet RETURNING 1)
      UPDATE service SET blocks_version = blocks_version + 1 WHERE EXISTS (SELECT 1 FROM gone) RETURNING 1`
    return rows.length > 0
  },
})
