import type { Snowflake } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import { focusLasts } from "../domain/settings.ts"
import { firstIdAt } from "../domain/snowflake.ts"
import type { MessagePlace } from "../storage/reactions.ts"
import type { Log } from "../observability/log.ts"
import { userActor } from "../actors/user.ts"
import { deleteFiles } from "./delete-files.ts"
import { deleteMessagesOf } from "./delete-messages-of.ts"
import { endLooseUploads } from "./delete-uploads.ts"
import { expireInvite } from "./expire-invite.ts"
import { expirePoll } from "./expire-poll.ts"
import { expireSession } from "./expire-session.ts"
import { expireVoice } from "./expire-voice.ts"
import { eachConcurrently } from "../std/each-concurrently.ts"
import { notifyMentioned } from "./notify-mentioned.ts"
import { Deferral, unlessGone, type JobTools } from "./processor.ts"
import { purgeAccount } from "./purge-account.ts"
import { purgeMessages } from "./purge-messages.ts"
import { purgePoll } from "./purge-poll.ts"
import { purgeReactors } from "./purge-reactors.ts"
import { purgeServer } from "./purge-server.ts"
import { sendMail } from "./send-mail.ts"

/** Milliseconds between two sweeps, and how long a job has to do by itself what the sweep would do. */
const every = 60_000
const grace = 60_000
/** Seconds without a sign of life after which an export is begun anew. */
const exportQuiet = 600
/** Exports that one statement forgets: each may be large. */
const exportsAtOnce = 20
/** Seconds after which nobody is still about to name a file in a row. */
const filesKept = 3_600
/** Rows of one look; looks of one sweep; actors asked at a time. */
const page = 1_000
const pages = 100
/** Channels of one look: each is looked for in every part of the messages. */
const channelsAtOnce = 200
const atOnce = 16
/** Mails sent at a time: fewer than the mailer takes, so that jobs find room. */
const mailsAtOnce = 4
/** Seconds for which failed sign-ins are counted: no lock lasts longer. */
const failuresKept = 7 * 86_400
/** Seconds for which it is noted who broke a rule of auto-moderation. */
const violationsKept = limits.automod.violationDays * 86_400
/** Days for which it is known how many files somebody sent: the limit looks at the day that is. */
const uploadsCounted = 7
/** Seconds for which mails are remembered, so that nobody is sent too many. */
const mailsKept = 86_400

/**
 * Does what no job did: PostgreSQL knows what is over, so nothing depends on the queue's memory. It runs the processors
 * itself, because the queue takes no second job under the key of one that failed for good. Several hosts may sweep at once.
 */
export function startSweep({ tools, log, now }: { tools: JobTools; log: Log; now: () => number }) {
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()
  const search: Search = { after: "0", afterChannel: "0", afterReaction: noMessage, afterMention: "0" }
  // Hosts that started together need not look together.
  const schedule = (wait: number) => {
    timer = setTimeout(
      () => {
        running = sweep(tools, log, Math.floor((now() - grace) / 1000), search)
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

/** How far the search for what is left of servers and channels that are gone, or was not told, has come: a sweep looks at some, the next one goes on. */
interface Search {
  after: Snowflake
  afterChannel: Snowflake
  afterReaction: MessagePlace
  afterMention: Snowflake
}

const noMessage: MessagePlace = { channel_id: "0", message_id: "0" }

/** `before`: Unix seconds. What one step fails at holds up none of the others. */
async function sweep(tools: JobTools, log: Log, before: number, search: Search): Promise<void> {
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
    () =>
      endAll(
        () => storage.polls.due(before, page),
        poll => expirePoll(tools, poll),
        signal,
      ),
    () =>
      endAll(
        () => storage.polls.gone(page),
        poll_id => purgePoll(tools, { poll_id }),
        signal,
      ),
    () => forgetAll(() => storage.settings.forgetFocus(before - focusLasts, page), signal),
    () => storage.voice.forgetUsage(Math.floor(before / 86_400)),
    () => forgetAll(() => storage.tells.forgetOld(page), signal),
    () => forgetAll(() => storage.oneTimeTokens.forgetExpired(before, page), signal),
    () => forgetAll(() => storage.oauth.forgetExpired(before, page), signal),
    () => forgetAll(() => storage.sessions.forgetFailures(before - failuresKept, page), signal),
    () => storage.placement.forgetDead(),
    () => forgetAll(() => storage.automod.forgetOld(before - violationsKept, page), signal),
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
    () => purgeGone(tools, search),
    () => purgeChannels(tools, search),
    () => purgeReactions(tools, search),
    () =>
      endAll(
        () => storage.messages.deletionsDue(firstIdAt(before * 1000), page),
        deletion => deleteMessagesOf(tools, deletion),
        signal,
      ),
    () => endLooseUploads(tools),
    () => forgetAll(() => storage.uploads.forgetCounts(Math.floor(before / 86_400) - uploadsCounted, page), signal),
    () => deleteUnused(tools, before),
    () => notifyLost(tools, before, search),
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

/** Servers that were deleted while a worker of the version before, which leaves members behind, owned them; or whose job was lost. */
async function purgeGone(tools: JobTools, search: Search): Promise<void> {
  const named = await tools.storage.servers.named(search.after, page)
  for (const { id, is_gone } of named) if (is_gone) await purgeServer(tools, { server_id: id, channel_ids: [] })
  search.after = named.length < page ? "0" : named.at(-1)!.id
}

/** Channels whose job was lost. */
async function purgeChannels(tools: JobTools, search: Search): Promise<void> {
  const named = await tools.storage.messages.channelsNamed(search.afterChannel, channelsAtOnce)
  const channel_ids = named.flatMap(({ id, is_gone }) => (is_gone ? [id] : []))
  if (channel_ids.length > 0) await purgeMessages(tools, { channel_ids })
  search.afterChannel = named.length < channelsAtOnce ? "0" : named.at(-1)!.id
}

/** Reactions to messages whose job was lost. */
async function purgeReactions(tools: JobTools, search: Search): Promise<void> {
  const named = await tools.storage.reactions.named(search.afterReaction, page)
  for (const { is_gone, ...place } of named) if (is_gone) await purgeReactors(tools, place)
  search.afterReaction = named.length < page ? noMessage : named.at(-1)!
}

/** Mentions whose job was lost, or is late. Those whose turn has not come the next sweep looks at again, as it does where a home refuses. */
async function notifyLost(tools: JobTools, before: number, search: Search): Promise<void> {
  const due = await tools.storage.mentions.due(search.afterMention, firstIdAt(before * 1000), page)
  search.afterMention = due.length < page ? "0" : due.at(-1)!.message_id
  const errors: unknown[] = []
  await eachConcurrently(due, atOnce, tools.signal, async call => {
    try {
      await notifyMentioned(tools, call)
    } catch (error) {
      if (!(error instanceof Deferral)) errors.push(error)
    }
  })
  if (errors.length > 0) throw errors[0]
}

/** A file that cannot be deleted holds up none of the others: it is tried again when it is this old once more. */
async function deleteUnused(tools: JobTools, before: number): Promise<void> {
  const { files } = tools.storage
  const errors: unknown[] = []
  await endAll(
    () => files.unused(before - filesKept, page),
    async key => {
      try {
        await deleteFiles(tools, { keys: [key] })
      } catch (error) {
        tools.signal.throwIfAborted()
        errors.push(error)
        await files.putOff(key, before)
      }
    },
    tools.signal,
  )
  if (errors.length > 0) throw errors[0]
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
    await eachConcurrently(rows, lanes, signal, end)
    if (rows.length < page) return
  }
}
