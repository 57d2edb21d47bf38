/** What became of jobs, as PostgreSQL and the mail server know it. */
import postgres from "postgres"
import type { Mailbox } from "../kit/mailbox.ts"
import { until } from "../kit/until.ts"
import type { JobsEntry, Recorder } from "./history.ts"
import type { Population } from "./people.ts"
import type { System } from "./system.ts"

type Look = Omit<JobsEntry, "at" | "type" | "waited">

/**
 * A job that died with its worker is run again after up to a minute, one that Redis forgot is found
 * by a sweep after up to two.
 */
const timeOfLostMs = 240_000
/** For a short run: what is not done by then may still be owed. */
const timeOfOrdinaryMs = 5_000

/** Waits for what jobs still have to do, and writes down what they did. */
export async function lookAtJobs(
  system: System,
  population: Population,
  { mailbox, recorder, patient }: { mailbox: Mailbox; recorder: Recorder; patient: boolean },
): Promise<void> {
  const sql = postgres(system.postgres.url, { max: 1, onnotice: () => {} })
  try {
    let look = await lookOnce(sql, population, mailbox)
    await until(
      "no job is owed",
      async () => {
        look = await lookOnce(sql, population, mailbox)
        return isDone(look)
      },
      { timeoutMs: patient ? timeOfLostMs : timeOfOrdinaryMs, everyMs: 200 },
    ).catch(() => {}) // the checker says what is missing
    recorder.add({ type: "jobs", waited: patient, ...look })
  } finally {
    await sql.end({ timeout: 2 })
  }
}

const isDone = ({ owedMentions, invites, mails }: Look) =>
  owedMentions.length === 0 && invites.every(({ ended }) => ended) && mails.every(({ owed }) => owed === 0)

async function lookOnce(sql: postgres.Sql, { writers, communities }: Population, mailbox: Mailbox): Promise<Look> {
  // What is owed is looked at first: what is done in between is in the second look, and nothing is in neither.
  const owed = await sql<{ message_id: string }[]>`SELECT message_id::text FROM message_mentions`
  const notified = await sql<{ user: string; message: string; times: number }[]>`
    SELECT user_id::text AS "user", message_id::text AS message, count(*)::int AS times
    FROM notifications WHERE message_id IS NOT NULL GROUP BY user_id, message_id`
  const invites = await sql<{ code: string; ended: boolean }[]>`
    SELECT code, ended_at IS NOT NULL AS ended FROM invites
    WHERE max_age > 0 AND server_id = ANY(${communities.map(({ server }) => server)}::bigint[])`
  const mails = await sql<{ user_id: string; sent: number; owed: number }[]>`
    SELECT user_id::text, count(sent_at)::int AS sent, (count(*) - count(sent_at))::int AS owed
    FROM mails WHERE user_id IS NOT NULL AND kind = 'password_reset' GROUP BY user_id`
  const ofUser = new Map(mails.map(row => [row.user_id, row]))
  return {
    users: writers.map(({ name, id }) => ({ client: name, user: id })),
    notified: [...notified],
    owedMentions: owed.map(({ message_id }) => message_id),
    invites: [...invites],
    mails: writers.map(({ id, email }) => ({
      address: email,
      sent: ofUser.get(id)?.sent ?? 0,
      owed: ofUser.get(id)?.owed ?? 0,
      arrived: mailbox.to(email).length,
    })),
  }
}
