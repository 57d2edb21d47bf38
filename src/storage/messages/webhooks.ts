import type { Snowflake } from "../../contract/core/fields.ts"
import type { WebhookState } from "../../domain/messages/webhooks.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import { quotaHolder } from "../accounts/bots.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    webhooks: {
      userColumns: ["creator_id", "holder_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "server_id",
        "channel_id",
        "creator_id",
        "holder_id",
        "holder_kicked",
        "name",
        "avatar_url",
        "created_at",
      ],
      leftOut: { token_hash: secretReason },
      atPurge: "kept",
    },
  },
}

export const insertWebhook = defineWrite<WebhookState>(
  "insertWebhook",
  (sql, rows) => sql`
    INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, avatar_url, token_hash, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "channel_id")}::bigint[],
      ${column(rows, "creator_id")}::bigint[], ${column(rows, "holder_id")}::bigint[], ${column(rows, "name")}::text[],
      ${column(rows, "avatar_url")}::text[], ${column(rows, "token_hash")}::text[], ${column(rows, "created_at")}::bigint[])`,
)

type WebhookChange = Pick<
  WebhookState,
  "id" | "channel_id" | "holder_id" | "holder_kicked" | "name" | "avatar_url" | "token_hash"
>

export const updateWebhook = defineWrite<WebhookChange>("updateWebhook", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE webhooks SET channel_id = t.channel_id, holder_id = t.holder_id, holder_kicked = t.holder_kicked, name = t.name, avatar_url = t.avatar_url, token_hash = t.token_hash
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "channel_id")}::bigint[], ${column(last, "holder_id")}::bigint[],
      ${column(last, "holder_kicked")}::text[]::boolean[], ${column(last, "name")}::text[],
      ${column(last, "avatar_url")}::text[], ${column(last, "token_hash")}::text[]) AS t (id, channel_id, holder_id, holder_kicked, name, avatar_url, token_hash)
    WHERE webhooks.id = t.id`
})

export const deleteWebhook = defineWrite<{ id: Snowflake }>(
  "deleteWebhook",
  (sql, rows) => sql`DELETE FROM webhooks WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

const columns = (sql: Sql) =>
  sql`id, server_id, channel_id, creator_id, holder_id, holder_kicked, name, avatar_url, token_hash, created_at`

export const webhooksStorage = (sql: Sql) => ({
  /** `payer_id`: on whose account its messages count. */
  async find(id: Snowflake): Promise<(WebhookState & { payer_id: Snowflake }) | undefined> {
    const [row] = await sql<(WebhookState & { payer_id: Snowflake })[]>`
      SELECT ${columns(sql)}, ${quotaHolder(sql, sql`holder_id`)} AS payer_id FROM webhooks WHERE id = ${id}`
    return row
  },

  /** The oldest first. */
  async ofServer(server: Snowflake): Promise<WebhookState[]> {
    return sql<WebhookState[]>`SELECT ${columns(sql)} FROM webhooks WHERE server_id = ${server} ORDER BY id`
  },
})
