import { focusLasts } from "../domain/settings.ts"
import type { Log } from "../observability/log.ts"
import { userActor } from "../actors/user.ts"
import { expireInvite } from "./expire-invite.ts"
import { expireSession } from "./expire-session.ts"
import { expireVoice } from "./expire-voice.ts"
import { unlessGone, type JobTools } from "./processor.ts"
import { purgeAccount } from "./purge-account.ts"
import { sendMail } from "./send-mail.ts"

/** Milliseconds between two sweeps, and how long a job has to do by itself what the sweep would do. */
const every = 60_000
const grace = 60_000
/** Seconds without a sign of life after which an export is begun anew. */
const exportQuiet = 600
/** Exports that one statement forgets: each may be large. */
const exportsAtOnce = 20
/** Rows of one look; looks of one sweep; actors asked at a time. */
const page = 1_000
const pages = 100
const atOnce = 16
/** Mails sent at a time: fewer than the mailer takes, so that jobs find room. */
const mailsAtOnce = 4
/** Seconds for which failed sign-ins are counted: no lock lasts longer. */
const failuresKept = 7 * 86_400
/** Seconds for which mails are remembered, so that nobody is sent too many. */
const mailsKept = 86_400

/**
 * Does what no job did: PostgreSQL knows what is over, so nothing depends on the queue's memory. It runs the processors
 * itself, because the queue takes no second job under the key of one that failed for good. Several hosts may sweep at once.
 */
export function startSweep({ tools, log, now }: { tools: JobTools; log: Log; now: () => number }) {
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()
  // Hosts that started together need not look together.
  const schedule = (wait: number) => {
    timer = setTimeout(
      () => {
        running = sweep(tools, log, Math.floor((now() - grace) / 1000))
          .catch((error: unknown) => log.warn({ err: error }, "sweep failed"))
          .then(() => {
            if (!tools.signal.aborted) schedule(every)
          })
      },
      wait * (0.9 + 0.2 * Math.random()),
    )
  }
  schedule(5_000)

  return {
    /** After the tools' signal: resolves when nothing of it runs any longer. */
    async stop() {
      clearTimeout(timer)
      await running
    },
  }
}

/** `before`: Unix seconds. What one step fails at holds up none of the others. */
async function sweep(tools: JobTools, log: Log, before: number): Promise<void> {
  const { ask, storage, signal } = tools
  const steps: (() => Promise<unknown>)[] = [
    () =>
      endAll(
        () => storage.sessions.expired(before, page),
        ({ id, user_id }) => expireSession(tools, { user_id, session_id: id }),
        signal,
      ),
    () =>
      endAll(
        () => storage.invites.expired(before, page),
        ({ code, server_id }) => expireInvite(tools, { server_id, code }),
        signal,
      ),
    () =>
      endAll(
        () => storage.voice.expired(before, page),
        call => expireVoice(tools, call),
        signal,
      ),
    () => forgetAll(() => storage.settings.forgetFocus(before - focusLasts, page), signal),
    () => storage.voice.forgetUsage(Math.floor(before / 86_400)),
    () => forgetAll(() => storage.tells.forgetOld(page), signal),
    () => forgetAll(() => storage.oneTimeTokens.forgetExpired(before, page), signal),
    () => forgetAll(() => storage.oauth.forgetExpired(before, page), signal),
    () => forgetAll(() => storage.sessions.forgetFailures(before - failuresKept, page), signal),
    () => storage.placement.forgetDead(),
    () => forgetAll(() => storage.mails.forgetOld(before - mailsKept, page), signal),
    () =>
      endAll(
        () => storage.accountDeletion.due(before, page),
        user_id => purgeAccount(tools, { user_id }),
        signal,
      ),
    () => forgetAll(() => storage.exports.forgetExpired(before, exportsAtOnce), signal, exportsAtOnce),
    () =>
      endAll(
        () => storage.exports.takeStuck(before, exportQuiet, page),
        ({ id, user_id }) =>
          unlessGone(
            "user_not_found",
            ask(userActor, user_id, { type: "repeatExport", export_id: id }).then(() => {}),
          ),
        signal,
      ),
    // The last of all: a mail server that is away takes its time.
    () =>
      endAll(
        () => storage.mails.waiting(before, page),
        mail_id => sendMail(tools, { mail_id }),
        signal,
        mailsAtOnce,
      ),
  ]
  for (const step of steps) {
    if (signal.aborted) return
    await step().catch((error: unknown) => {
      if (!signal.aborted) log.warn({ err: error }, "a step of the sweep failed")
    })
  }
}

/** Statement after statement, as long as each forgets as much as it may. */
async function forgetAll(forget: () => Promise<number>, signal: AbortSignal, atMost = page): Promise<void> {
  for (let looks = 0; looks < pages && !signal.aborted; looks++) if ((await forget()) < atMost) return
}

/** Page after page, as long as each is full and nothing was refused: what was ended is not on the next one. */
async function endAll<Row>(
  look: () => Promise<Row[]>,
  end: (row: Row) => Promise<void>,
  signal: AbortSignal,
  lanes = atOnce,
): Promise<void> {
  for (let looks = 0; looks < pages; looks++) {
    const rows = await look()
    const left = rows.values()
    const asking = Array.from({ length: lanes }, async () => {
      for (const row of left) {
        signal.throwIfAborted()
        await end(row)
      }
    })
    const refused = (await Promise.allSettled(asking)).find(result => result.status === "rejected")
    if (refused) throw refused.reason
    if (rows.length < page) return
  }
}
