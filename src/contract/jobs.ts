import { z } from "zod"
import { Snowflake } from "./fields.ts"
import { defineJob } from "./registry.ts"

export const expireInvite = defineJob({
  name: "expireInvite",
  summary: "Delete an invite at the end of its time",
  data: z.object({ server_id: Snowflake, code: z.string() }),
})

export const expireSession = defineJob({
  name: "expireSession",
  summary:
    "End a session at the end of its time, unless activity has extended it; its gateway connections close with 4004",
  data: z.object({ user_id: Snowflake, session_id: Snowflake }),
})

export const expireVoice = defineJob({
  name: "expireVoice",
  summary: "End a user's call if his allowance of the day is used up by then",
  data: z.object({ user_id: Snowflake }),
})

export const expirePoll = defineJob({
  name: "expirePoll",
  summary: "End a poll at the end of its time",
  data: z.object({ poll_id: Snowflake, channel_id: Snowflake, message_id: Snowflake }),
})

export const purgePoll = defineJob({
  name: "purgePoll",
  summary: "Delete the votes of a poll that is gone",
  data: z.object({ poll_id: Snowflake }),
})

export const notifyMentioned = defineJob({
  name: "notifyMentioned",
  summary: "Notify whoever a message mentions and may see it",
  data: z.object({
    /** Null: in a conversation outside servers. */
    server_id: Snowflake.nullable(),
    channel_id: Snowflake,
    message_id: Snowflake,
    users: z.array(Snowflake),
    roles: z.array(Snowflake),
    everyone: z.boolean(),
    here: z.boolean(),
  }),
})

export const purgeMessages = defineJob({
  name: "purgeMessages",
  summary: "Delete the messages of channels that are gone",
  data: z.object({ channel_ids: z.array(Snowflake) }),
})

export const purgeServer = defineJob({
  name: "purgeServer",
  summary: "Delete what is left of a server that is gone: messages, its audit log, what members had set for it",
  data: z.object({ server_id: Snowflake, channel_ids: z.array(Snowflake) }),
})

export const purgeReactors = defineJob({
  name: "purgeReactors",
  summary: "Delete who reacted to a message that is gone, where they are many",
  data: z.object({ channel_id: Snowflake, message_id: Snowflake }),
})

export const announceUser = defineJob({
  name: "announceUser",
  summary: "Tell whoever is shown a user what he looks like now",
  data: z.object({ user_id: Snowflake }),
})

export const alertModerators = defineJob({
  name: "alertModerators",
  summary: "Notify a server's moderators of what broke a rule of its auto-moderation",
  data: z.object({ server_id: Snowflake, violation_id: Snowflake }),
})

export const deleteMessagesOf = defineJob({
  name: "deleteMessagesOf",
  summary: "Delete what somebody who was banned wrote in a server between two ids",
  data: z.object({ server_id: Snowflake, user_id: Snowflake, after: Snowflake, before: Snowflake }),
})

export const sendMail = defineJob({
  name: "sendMail",
  summary: "Send a mail that was asked for; its link is made when it goes out, so nobody but its reader has it",
  data: z.object({ mail_id: z.string().regex(/^\d{1,19}$/) }),
})

export const purgeAccount = defineJob({
  name: "purgeAccount",
  summary: "Erase what was a user's alone, once the time in which his deletion could be taken back is over",
  data: z.object({ user_id: Snowflake }),
})

export const exportAccount = defineJob({
  name: "exportAccount",
  summary: "Put together everything that is held about a user, who asked for it",
  data: z.object({ user_id: Snowflake, export_id: Snowflake }),
})

export const deleteFiles = defineJob({
  name: "deleteFiles",
  summary: "Delete files that no row names any longer; a key that ends in / stands for all below it",
  data: z.object({ keys: z.array(z.string()) }),
})

export const deleteUploads = defineJob({
  name: "deleteUploads",
  summary: "Delete those of these uploaded files that no message shows any longer",
  data: z.object({ files: z.array(z.string()) }),
})

export const jobs = {
  alertModerators,
  announceUser,
  deleteFiles,
  deleteMessagesOf,
  deleteUploads,
  exportAccount,
  expireInvite,
  expirePoll,
  expireSession,
  expireVoice,
  notifyMentioned,
  purgeAccount,
  purgeMessages,
  purgeReactors,
  purgePoll,
  purgeServer,
  sendMail,
}
export type JobName = keyof typeof jobs
