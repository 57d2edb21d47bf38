import {
  fullReputation,
  severityPoints,
  type AutomodRule,
  type AutomodRuleView,
  type AutomodViolation,
  type AutomodViolationView,
  type Severity,
} from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { inOrder } from "../../domain/communities/automod.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    automod_rules: {
      userColumns: ["created_by", "updated_by"],
      key: { id: "bigint" },
      given: [
        "id",
        "server_id",
        "name",
        "rule_type",
        "config",
        "actions",
        "applied_roles",
        "exempt_roles",
        "exempt_channels",
        "priority",
        "check_all",
        "enabled",
        "created_at",
        "updated_at",
        "created_by",
        "updated_by",
      ],
      atPurge: "kept",
    },
    automod_violations: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", id: "bigint" },
      given: [
        "server_id",
        "id",
        "user_id",
        "channel_id",
        "rule_id",
        "rule_type",
        "matched_content",
        "severity",
        "actions_taken",
        "metadata",
        "created_at",
      ],
      leftOut: { judged: "By which a verdict that comes twice is known: the message, and a digest of its text" },
      atPurge: "erased",
    },
  },
}

export const putAutomodRule = defineWrite<AutomodRule>("putAutomodRule", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  const json = (key: "config" | "actions" | "applied_roles" | "exempt_roles" | "exempt_channels") =>
    last.map(row => JSON.stringify(row[key]))
  return sql`
    INSERT INTO automod_rules (id, server_id, name, rule_type, config, actions, applied_roles, exempt_roles, exempt_channels, priority, check_all,
      enabled, created_at, updated_at, created_by, updated_by)
    SELECT t.id, t.server_id, t.name, t.rule_type, t.config::jsonb, t.actions::jsonb,
      ARRAY(SELECT jsonb_array_elements_text(t.applied_roles::jsonb)::bigint), ARRAY(SELECT jsonb_array_elements_text(t.exempt_roles::jsonb)::bigint),
      ARRAY(SELECT jsonb_array_elements_text(t.exempt_channels::jsonb)::bigint), t.priority, t.check_all, t.enabled, t.created_at, t.updated_at,
      t.created_by, t.updated_by
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "server_id")}::bigint[], ${column(last, "name")}::text[],
      ${column(last, "rule_type")}::text[], ${json("config")}::text[], ${json("actions")}::text[], ${json("applied_roles")}::text[],
      ${json("exempt_roles")}::text[], ${json("exempt_channels")}::text[], ${column(last, "priority")}::int[],
      ${column(last, "check_all")}::text[]::boolean[], ${column(last, "enabled")}::text[]::boolean[], ${column(last, "created_at")}::bigint[],
      ${column(last, "updated_at")}::bigint[], ${column(last, "created_by")}::bigint[], ${column(last, "updated_by")}::bigint[])
      AS t (id, server_id, name, rule_type, config, actions, applied_roles, exempt_roles, exempt_channels, priority, check_all, enabled, created_at,
        updated_at, created_by, updated_by)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, config = excluded.config, actions = excluded.actions,
      applied_roles = excluded.applied_roles, exempt_roles = excluded.exempt_roles, exempt_channels = excluded.exempt_channels,
      priority = excluded.priority, check_all = excluded.check_all, enabled = excluded.enabled, updated_at = excluded.updated_at,
      updated_by = excluded.updated_by`
})

export const deleteAutomodRule = defineWrite<{ id: Snowflake }>(
  "deleteAutomodRule",
  (sql, rows) => sql`DELETE FROM automod_rules WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

/** `judged`: which text of which message a classifier was asked about; null: nobody was asked. */
export type NewViolation = AutomodViolation & { readonly judged: string | null }

export const insertAutomodViolation = defineWrite<NewViolation>(
  "insertAutomodViolation",
  (sql, rows) => sql`
    INSERT INTO automod_violations (server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken, metadata, created_at,
      judged)
    SELECT t.server_id, t.id, t.user_id, t.channel_id, t.rule_id, t.rule_type, t.matched_content, t.severity,
      ARRAY(SELECT jsonb_array_elements_text(t.actions_taken::jsonb)), t.metadata::jsonb, t.created_at, t.judged
    FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[],
      ${column(rows, "channel_id")}::bigint[], ${column(rows, "rule_id")}::bigint[], ${column(rows, "rule_type")}::text[],
      ${column(rows, "matched_content")}::text[], ${column(rows, "severity")}::text[], ${rows.map(row => JSON.stringify(row.actions_taken))}::text[],
      ${rows.map(row => JSON.stringify(row.metadata))}::text[], ${column(rows, "created_at")}::bigint[],
      ${column(rows, "judged")}::text[])
      AS t (server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken, metadata, created_at, judged)`,
)

/** Forgets all but the newest of what was noted in a server. */
export const trimAutomodViolations = defineWrite<{ server_id: Snowflake }>(
  "trimAutomodViolations",
  (sql, rows) => sql`
    DELETE FROM automod_violations v USING (SELECT DISTINCT unnest(${column(rows, "server_id")}::bigint[]) AS server_id) AS s
    WHERE v.server_id = s.server_id AND v.id <= (
      SELECT id FROM automod_violations WHERE server_id = s.server_id ORDER BY id DESC OFFSET ${limits.automod.violationsKept} LIMIT 1)`,
)

const ruleColumns = (sql: Sql) => sql`
  id, server_id, name, rule_type, config, actions, applied_roles, exempt_roles, exempt_channels, priority, check_all, enabled, created_at, updated_at,
  created_by::text AS created_by, updated_by::text AS updated_by`

/** A server's rules in the order in which they are looked at. */
export const automodRulesOf = async (sql: Sql, server: Snowflake): Promise<AutomodRule[]> =>
  inOrder(await sql<AutomodRule[]>`SELECT ${ruleColumns(sql)} FROM automod_rules WHERE server_id = ${server}`)

/** What is left of each user's reputation. A note that a rule did not judge a message says nothing against anybody. */
async function reputationsOf(
  sql: Sql,
  server: Snowflake,
  users: readonly Snowflake[],
): Promise<Map<Snowflake, number>> {
  const rows = await sql<{ user_id: Snowflake; severity: Severity; count: number }[]>`
    SELECT user_id, severity, count(*)::int AS count FROM automod_violations
    WHERE user_id = ANY(${[...users]}::bigint[]) AND server_id = ${server} AND NOT metadata ? 'unjudged'
    GROUP BY user_id, severity`
  const left = new Map<Snowflake, number>()
  for (const { user_id, severity, count } of rows)
    left.set(user_id, Math.max(0, (left.get(user_id) ?? fullReputation) - severityPoints[severity] * count))
  return left
}

export interface Moderator {
  user_id: Snowflake
  roles: Snowflake[]
}

export const automodStorage = (sql: Sql) => ({
  /** Newest first. */
  async violations(
    server: Snowflake,
    { limit, before, user_id }: { limit: number; before?: Snowflake | undefined; user_id?: Snowflake | undefined },
  ): Promise<AutomodViolationView[]> {
    const rows = await sql<AutomodViolation[]>`
      SELECT server_id, id, user_id, channel_id, rule_id, rule_type, matched_content, severity, actions_taken, metadata, created_at
      FROM automod_violations
      WHERE server_id = ${server} AND id < ${before ?? "9223372036854775807"} ${user_id === undefined ? sql`` : sql`AND user_id = ${user_id}`}
      ORDER BY id DESC LIMIT ${limit}`
    const reputations = await reputationsOf(sql, server, [...new Set(rows.map(row => row.user_id))])
    return rows.map(row => ({ ...row, reputation: reputations.get(row.user_id) ?? fullReputation }))
  },

  /** Of those of these users who have any violation. */
  reputations: (server: Snowflake, users: readonly Snowflake[]) => reputationsOf(sql, server, users),

  /** A server's rules in the order in which they are looked at. */
  rules: (server: Snowflake) => automodRulesOf(sql, server),

  /** The server of a rule; undefined: there is no such rule. */
  async serverOf(rule: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ server_id: Snowflake }[]>`SELECT server_id FROM automod_rules WHERE id = ${rule}`
    return row?.server_id
  },

  /** By what a classifier was asked about, the rules that were broken by that. */
  async judged(server: Snowflake, keys: readonly string[]): Promise<Map<string, Snowflake[]>> {
    const rows = await sql<{ judged: string; rule_ids: Snowflake[] }[]>`
      SELECT judged, array_agg(rule_id) AS rule_ids FROM automod_violations
      WHERE server_id = ${server} AND judged IS NOT NULL AND judged = ANY(${[...keys]}::text[]) GROUP BY judged`
    return new Map(rows.map(({ judged, rule_ids }) => [judged, rule_ids]))
  },

  /** By rule, what it has not judged since it was last changed; rules that judged everything are left out. */
  async unjudged(server: Snowflake): Promise<Map<Snowflake, NonNullable<AutomodRuleView["unjudged"]>>> {
    const rows = await sql<({ rule_id: Snowflake } & NonNullable<AutomodRuleView["unjudged"]>)[]>`
      SELECT v.rule_id, count(*)::int AS count, max(v.created_at) AS last_at, (array_agg(v.metadata->>'unjudged' ORDER BY v.id DESC))[1] AS reason
      FROM automod_violations v JOIN automod_rules r ON r.id = v.rule_id AND v.created_at >= r.updated_at
      WHERE v.server_id = ${server} AND v.metadata ? 'unjudged'
      GROUP BY v.rule_id`
    return new Map(rows.map(({ rule_id, ...unjudged }) => [rule_id, unjudged]))
  },

  /**
   * One of them with what moderators are told of it; undefined when it, its rule or its server is
   * gone.
   */
  async violation(
    server: Snowflake,
    id: Snowflake,
  ): Promise<(AutomodViolation & { rule_name: string; username: string }) | undefined> {
    const [row] = await sql<(AutomodViolation & { rule_name: string; username: string })[]>`
      SELECT v.server_id, v.id, v.user_id, v.channel_id, v.rule_id, v.rule_type, v.matched_content, v.severity, v.actions_taken, v.metadata, v.created_at,
        r.name AS rule_name, u.username
      FROM automod_violations v JOIN automod_rules r ON r.id = v.rule_id JOIN users u ON u.id = v.user_id
      WHERE v.server_id = ${server} AND v.id = ${id}`
    return row
  },

  /** The owner, and members who have one of these roles; with `@everyone` among them, any. */
  async membersWith(
    server: Snowflake,
    owner: Snowflake,
    roles: readonly Snowflake[],
    limit: number,
  ): Promise<Moderator[]> {
    return sql<Moderator[]>`
      (SELECT user_id, roles FROM members WHERE server_id = ${server} AND user_id = ${owner})
      UNION ALL
      (SELECT user_id, roles FROM members WHERE server_id = ${server} AND user_id <> ${owner}
        ${roles.includes(server) ? sql`` : sql`AND roles && ${[...roles]}::bigint[]`} LIMIT ${limit})`
  },

  /** The latest of authors in a channel since `since`, so many of each, the oldest first. */
  async recentPosts(
    channel: Snowflake,
    authors: readonly Snowflake[],
    since: Snowflake,
    limit: number,
  ): Promise<{ author_id: Snowflake; id: Snowflake; content: string }[]> {
    const rows = await sql<{ author_id: Snowflake; id: Snowflake; content: string }[]>`
      SELECT t.author_id, posted.id, posted.content FROM unnest(${[...authors]}::bigint[]) AS t (author_id), LATERAL (
        SELECT m.id, m.content FROM messages m
        WHERE m.channel_id = ${channel} AND m.id > ${since} AND m.author_id = t.author_id AND m.content IS NOT NULL
        ORDER BY m.id DESC LIMIT ${limit}) AS posted
      ORDER BY posted.id DESC`
    return rows.toReversed()
  },

  /** Some of what is older than that, in Unix seconds. @returns how many it forgot */
  async forgetOld(before: number, limit: number): Promise<number> {
    const rows = await sql`
      DELETE FROM automod_violations WHERE (server_id, id) IN (
        SELECT server_id, id FROM automod_violations WHERE created_at < ${before} LIMIT ${limit}) RETURNING 1`
    return rows.length
  },
})
