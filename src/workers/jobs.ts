import { jobs, type JobName } from "../contract/jobs.ts"
import { alertModerators } from "./alert-moderators.ts"
import { announceUser } from "./announce-user.ts"
import { deleteFiles } from "./delete-files.ts"
import { deleteMessagesOf } from "./delete-messages-of.ts"
import { deleteUploads } from "./delete-uploads.ts"
import { exportAccount } from "./export-account.ts"
import { expireInvite } from "./expire-invite.ts"
import { expirePoll } from "./expire-poll.ts"
import { expireSession } from "./expire-session.ts"
import { expireVoice } from "./expire-voice.ts"
import { notifyMentioned } from "./notify-mentioned.ts"
import type { JobTools, Processor } from "./processor.ts"
import { purgeAccount } from "./purge-account.ts"
import { purgeMessages } from "./purge-messages.ts"
import { purgePoll } from "./purge-poll.ts"
import { purgeReactors } from "./purge-reactors.ts"
import { purgeServer } from "./purge-server.ts"
import { sendMail } from "./send-mail.ts"

/** Who does which job; one that nobody does is missing here and does not compile. */
const processors: { readonly [Name in JobName]: Processor<Name> } = {
  alertModerators,
  announceUser,
  deleteFiles,
  deleteMessagesOf,
  deleteUploads,
  expireInvite,
  expirePoll,
  expireSession,
  expireVoice,
  exportAccount,
  notifyMentioned,
  purgeAccount,
  purgeMessages,
  purgeReactors,
  purgePoll,
  purgeServer,
  sendMail,
}

/**
 * Runs one job. A name or a payload that is not in the contract fails like any other job and is tried again: in a rolling
 * update the queue may hold what only the next version of this program knows.
 */
export async function runJob(tools: JobTools, name: string, data: unknown): Promise<void> {
  if (!isJobName(name)) throw new Error(`no processor for the job ${name}`)
  await run(tools, name, data)
}

const isJobName = (name: string): name is JobName => Object.hasOwn(processors, name)

async function run<Name extends JobName>(tools: JobTools, name: Name, data: unknown): Promise<void> {
  const processor: Processor<Name> = processors[name]
  await processor(tools, jobs[name].data.parse(data) as Parameters<Processor<Name>>[1])
}
