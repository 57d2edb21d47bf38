import { jobs, type JobName } from "../contract/core/jobs.ts"
import { alertModerators, sweeps as violationsSweeps } from "./alert-moderators.ts"
import { announceUser } from "./announce-user.ts"
import { assembleUpload, sweeps as uploadSessionsSweeps } from "./assemble-upload.ts"
import { classifyMessage } from "./classify-message.ts"
import { deleteFiles, sweeps as filesSweeps } from "./delete-files.ts"
import { deleteMessagesOf, sweeps as deletionsSweeps } from "./delete-messages-of.ts"
import { deleteUploads, sweeps as uploadsSweeps } from "./delete-uploads.ts"
import { encodePicture } from "./encode-picture.ts"
import { exportAccount, sweeps as exportsSweeps } from "./export-account.ts"
import { expireInvite, sweeps as invitesSweeps } from "./expire-invite.ts"
import { expirePoll, sweeps as pollsSweeps } from "./expire-poll.ts"
import { expireSession, sweeps as sessionsSweeps } from "./expire-session.ts"
import { expireVoice, sweeps as voiceCallsSweeps } from "./expire-voice.ts"
import { sweeps as oldSweeps } from "./forget-old.ts"
import { makeThumbnails, sweeps as thumbnailsSweeps } from "./make-thumbnails.ts"
import { hashPicture, sweeps as pictureHashesSweeps } from "./hash-picture.ts"
import { notifyMentioned, sweeps as mentionsSweeps } from "./notify-mentioned.ts"
import type { JobTools, Processor } from "./processor.ts"
import { purgeAccount, sweeps as accountsSweeps } from "./purge-account.ts"
import { purgeMessages, sweeps as channelsSweeps } from "./purge-messages.ts"
import { purgePoll, sweeps as gonePollsSweeps } from "./purge-poll.ts"
import { purgeReactors, sweeps as reactionsSweeps } from "./purge-reactors.ts"
import { purgeServer, sweeps as serversSweeps } from "./purge-server.ts"
import { pushMessage, sendPush } from "./push-message.ts"
import { sweeps as picturesSweeps } from "./renew-pictures.ts"
import { sendMail, sweeps as mailsSweeps } from "./send-mail.ts"
import type { Sweep } from "./sweep.ts"

/** Who does which job; one that nobody does is missing here and does not compile. */
const processors: { readonly [Name in JobName]: Processor<Name> } = {
  alertModerators,
  announceUser,
  assembleUpload,
  classifyMessage,
  deleteFiles,
  deleteMessagesOf,
  deleteUploads,
  encodePicture,
  expireInvite,
  expirePoll,
  expireSession,
  expireVoice,
  exportAccount,
  makeThumbnails,
  hashPicture,
  notifyMentioned,
  purgeAccount,
  purgeMessages,
  purgeReactors,
  purgePoll,
  purgeServer,
  pushMessage,
  sendMail,
  sendPush,
}

/** What finds work whose job was lost, in the order in which it runs. */
export const sweeps: readonly Sweep[] = [
  ...sessionsSweeps,
  ...invitesSweeps,
  ...voiceCallsSweeps,
  ...pollsSweeps,
  ...gonePollsSweeps,
  ...oldSweeps,
  ...violationsSweeps,
  ...accountsSweeps,
  ...exportsSweeps,
  ...serversSweeps,
  ...channelsSweeps,
  ...reactionsSweeps,
  ...deletionsSweeps,
  ...uploadSessionsSweeps,
  ...uploadsSweeps,
  ...pictureHashesSweeps,
  ...filesSweeps,
  ...mentionsSweeps,
  ...thumbnailsSweeps,
  ...picturesSweeps,
  // The last of all: a mail server that is away takes its time.
  ...mailsSweeps,
]

/**
 * Runs one job. A name or a payload that is not in the contract fails like any other job and is
 * tried again: in a rolling update the queue may hold what only the next version of this program
 * knows.
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
