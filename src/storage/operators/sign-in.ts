import type { Sql } from "../core/database.ts"

/** A code that is right: the step of an app's code, or the digest of a backup code. */
export type OperatorFactor = { readonly secret: string; readonly step: number } | { readonly digest: string }

/** A session to be. */
export interface NewSession {
  readonly token_hash: string
  readonly operator_id: string
  /** From now on, by the clock of the database, which judges sessions, too. */
  readonly lastsSeconds: number
  readonly address: string
}

/** How operators sign in. */
export const operatorSignInStorage = (sql: Sql) => {
  const opened = ({ token_hash, lastsSeconds, address }: NewSession) => sql`
    INSERT INTO operator_sessions (token_hash, operator_id, expires_at, address)
    SELECT ${token_hash}, id, extract(epoch FROM now())::bigint + ${lastsSeconds}, ${address}`
  const isUnspent = (factor: OperatorFactor) =>
    "digest" in factor
      ? sql`${factor.digest} = ANY(backup_codes)`
      : sql`totp_secret = ${factor.secret} AND totp_step < ${factor.step}`
  const spent = (factor: OperatorFactor) =>
    "digest" in factor
      ? sql`backup_codes = array_remove(backup_codes, ${factor.digest})`
      : sql`totp_step = ${factor.step}`

  return {
    /** Signs in without a code. @returns whether the password is still the one that was right */
    async finishWithPassword(session: NewSession & { readonly password_hash: string }): Promise<boolean> {
      const { password_hash, operator_id } = session
      const rows = await sql`
      WITH known AS (
        UPDATE operators SET last_login = extract(epoch FROM now())::bigint, must_setup_otp = false
        WHERE id = ${operator_id} AND password_hash = ${password_hash} RETURNING id)
      ${opened(session)} FROM known RETURNING 1`
      return rows.length > 0
    },

    /** A challenge after a right password. */
    async challenge(challenge: { token_hash: string; operator_id: string; lastsSeconds: number }): Promise<void> {
      const { token_hash, operator_id, lastsSeconds } = challenge
      await sql`
      INSERT INTO operator_challenges (token_hash, operator_id, is_setup, expires_at)
      VALUES (${token_hash}, ${operator_id}, false, extract(epoch FROM now())::bigint + ${lastsSeconds})`
    },

    /**
     * Another secret to be confirmed: it replaces one that waits, whose challenges end. @returns
     * whether the password is still the one that was right
     */
    async beginSetup(setup: {
      token_hash: string
      operator_id: string
      lastsSeconds: number
      totp_pending: string
      password_hash: string
    }): Promise<boolean> {
      const { token_hash, operator_id, lastsSeconds, totp_pending, password_hash } = setup
      const rows = await sql`
      WITH void AS (DELETE FROM operator_challenges WHERE operator_id = ${operator_id} AND is_setup),
           known AS (
             UPDATE operators SET totp_pending = ${totp_pending}
             WHERE id = ${operator_id} AND password_hash = ${password_hash} RETURNING id)
      INSERT INTO operator_challenges (token_hash, operator_id, is_setup, expires_at)
      SELECT ${token_hash}, id, true, extract(epoch FROM now())::bigint + ${lastsSeconds} FROM known RETURNING 1`
      return rows.length > 0
    },

    /**
     * Counts a code before it is tried, so that several at once are not more than there may be.
     * @returns whether it is a challenge of this operator that is open for one more
     */
    async tryChallenge(
      token_hash: string,
      codesAllowed: number,
      { id, is_setup }: { readonly id: string; readonly is_setup: boolean },
    ): Promise<boolean> {
      const rows = await sql`
      UPDATE operator_challenges SET failures = failures + 1
      WHERE token_hash = ${token_hash} AND operator_id = ${id} AND is_setup = ${is_setup} AND failures < ${codesAllowed}
        AND expires_at > extract(epoch FROM now())
      RETURNING 1`
      return rows.length > 0
    },

    /**
     * Signs in with a code that is right. The challenge ends with it, and so does the code. @returns
     * false where the code was used, or the secret is another by now
     */
    async finishWithCode(
      session: NewSession & { readonly challenge: string; readonly factor: OperatorFactor },
    ): Promise<boolean> {
      const { challenge, factor, operator_id } = session
      const rows = await sql`
      WITH open AS (SELECT operator_id FROM operator_challenges WHERE token_hash = ${challenge} FOR UPDATE),
           known AS (
             UPDATE operators SET last_login = extract(epoch FROM now())::bigint, ${spent(factor)}
             FROM open WHERE id = ${operator_id} AND id = open.operator_id AND ${isUnspent(factor)} RETURNING id),
           used AS (DELETE FROM operator_challenges USING known WHERE token_hash = ${challenge})
      ${opened(session)} FROM known RETURNING 1`
      return rows.length > 0
    },

    /** The first right code of a new secret: it is the one in use from now on. */
    async finishSetup(
      session: NewSession & {
        readonly challenge: string
        readonly totp_pending: string
        readonly step: number
        readonly backup_codes: readonly string[]
      },
    ): Promise<boolean> {
      const { challenge, totp_pending, step, backup_codes, operator_id } = session
      const rows = await sql`
      WITH open AS (SELECT operator_id FROM operator_challenges WHERE token_hash = ${challenge} FOR UPDATE),
           known AS (
             UPDATE operators SET last_login = extract(epoch FROM now())::bigint, totp_secret = totp_pending,
               totp_pending = NULL, totp_step = ${step}, must_setup_otp = false, backup_codes = ${backup_codes as string[]}
             FROM open WHERE id = ${operator_id} AND id = open.operator_id AND totp_pending = ${totp_pending} RETURNING id),
           used AS (DELETE FROM operator_challenges USING known WHERE token_hash = ${challenge})
      ${opened(session)} FROM known RETURNING 1`
      return rows.length > 0
    },

    /** @returns false where the code was used, or the secret is another by now */
    async disableOtp(id: string, factor: OperatorFactor): Promise<boolean> {
      const rows = await sql`
      UPDATE operators SET totp_secret = NULL, totp_pending = NULL, totp_step = 0, backup_codes = '{}', must_setup_otp = true
      WHERE id = ${id} AND ${isUnspent(factor)} RETURNING 1`
      return rows.length > 0
    },
  }
}
