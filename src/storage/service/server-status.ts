import type { ServiceFacts, ServiceNotice } from "../../domain/service/server-status.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { openRequests } from "./operator-requests.ts"
import type { Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  others: {
    service: { why: "What is so for the service as a whole" },
  },
}

/** The one row that says what is so for the service as a whole. */
export const serverStatusStorage = (sql: Sql) => ({
  /** `isAsked`: an operator's request waits for somebody. `isOpen`: one is not answered. */
  async look(): Promise<ServiceFacts & { isAsked: boolean; isOpen: boolean }> {
    const [row] = await sql<(ServiceFacts & { isAsked: boolean; isOpen: boolean })[]>`
      SELECT state, message, estimated_downtime_seconds, restart_at, changes, resets, reset_until::text AS reset_until,
             blocks_version, access_version, NOT automod_enabled AS automod_off, automod_backends,
             EXISTS (SELECT 1 FROM operator_requests WHERE ${openRequests(sql)})
               OR EXISTS (SELECT 1 FROM operator_commands WHERE ${openRequests(sql)}) AS "isAsked",
             EXISTS (SELECT 1 FROM operator_requests WHERE done_at IS NULL)
               OR EXISTS (SELECT 1 FROM operator_commands WHERE done_at IS NULL) AS "isOpen"
      FROM service`
    return row!
  },

  /** The first key is the one that counts. @returns whether it is this one */
  async claimSecretKey(id: string): Promise<boolean> {
    const [row] = await sql<{ secret_key_id: string }[]>`
      UPDATE service SET secret_key_id = coalesce(secret_key_id, ${id}) RETURNING secret_key_id`
    return row!.secret_key_id === id
  },

  /**
   * Allows another first key: everything sealed with the one before is deleted with it, in one
   * transaction. Nothing happens while a server is connected, because it holds that key and caches
   * accounts as they were; workers that only seem to live are declared dead, so that none of them
   * writes any more. A server that starts meanwhile claims its key after this, or before.
   */
  async forgetSecretKey(): Promise<{ running: string[] } | { switchedOff: number; codes: number }> {
    // Two statements of one transaction: what the second sees is what is so once the row is locked.
    const [, [row]] = (await sql
      .unsafe(
        `SELECT 1 FROM service FOR UPDATE;
        WITH running AS (
               SELECT DISTINCT application_name AS name FROM pg_stat_activity AS a
               WHERE datname = current_database() AND application_name <> 'starling operator'
                 AND (application_name LIKE 'starling %' OR EXISTS (SELECT 1 FROM incarnations WHERE starts_with(a.application_name, id)))),
             free AS (
               UPDATE service SET secret_key_id = NULL, automod_classifiers = NULL, automod_backends = '{}', automod_version = automod_version + 1
               WHERE NOT EXISTS (SELECT 1 FROM running) RETURNING 1),
             fenced AS (
               UPDATE lanes SET generation = generation + 1 FROM free
               WHERE incarnation IN (SELECT id FROM incarnations WHERE died_at IS NULL)),
             declared_dead AS (UPDATE incarnations SET died_at = now() FROM free WHERE died_at IS NULL),
             challenges AS (DELETE FROM one_time_tokens USING free WHERE kind = 'two_factor'),
             sign_ins AS (DELETE FROM operator_challenges USING free),
             pushed AS (DELETE FROM push_subscriptions USING free),
             push_pair AS (DELETE FROM push_keys USING free),
             apps AS (
               UPDATE operators SET totp_secret = NULL, totp_pending = NULL, totp_step = 0, backup_codes = '{}', must_setup_otp = true FROM free),
             off AS (
               UPDATE users SET totp_enabled = false, totp_secret = NULL, totp_step = 0, backup_codes = '{}' FROM free
               WHERE totp_enabled OR totp_secret IS NOT NULL OR backup_codes <> '{}')
        SELECT ARRAY(SELECT name FROM running ORDER BY name) AS running,
               count(*)::int AS "switchedOff", coalesce(sum(cardinality(backup_codes)), 0)::int AS codes
        FROM users WHERE totp_enabled`,
      )
      .simple()) as unknown as [unknown, [{ running: string[]; switchedOff: number; codes: number }]]
    const { running, ...done } = row
    return running.length > 0 ? { running } : done
  },

  async setState(notice: ServiceNotice): Promise<void> {
    await sql`
      UPDATE service SET state = ${notice.state}, message = ${notice.message},
        estimated_downtime_seconds = ${notice.estimated_downtime_seconds}, restart_at = ${notice.restart_at},
        changed_at = extract(epoch FROM now())::bigint, changes = changes + 1`
  },
})
