import { z } from "zod"
import { Snowflake } from "./fields.ts"
import { defineJob } from "./registry.ts"

export const expireInvite = defineJob({
  name: "expireInvite",
  summary: "Delete an invite when it expires",
  data: z.object({ server_id: Snowflake, code: z.string() }),
})

export const expireSession = defineJob({
  name: "expireSession",
  summary: "End a session when it expires, unless activity has extended it. Its gateway connections close with 4004",
  data: z.object({ user_id: Snowflake, session_id: Snowflake }),
})

export const expireVoice = defineJob({
  name: "expireVoice",
  summary: "End a user's call if their daily allowance is used up by then",
  data: z.object({ user_id: Snowflake }),
})

export const expirePoll = defineJob({
  name: "expirePoll",
  summary: "Close a poll at its end time",
  data: z.object({ poll_id: Snowflake, channel_id: Snowflake, message_id: Snowflake }),
})

export const purgePoll = defineJob({
  name: "purgePoll",
  summary: "Delete the votes of a deleted poll",
  data: z.object({ poll_id: Snowflake }),
})

export const notifyMentioned = defineJob({
  name: "notifyMentioned",
  summary: "Notify the users whom a message mentions and who may see it",
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

export const pushMessage = defineJob({
  name: "pushMessage",
  summary: "Push a message to the browsers of users whom it notifies, as far as they want that and are not active",
  data: z.object({
    /** Null: in a conversation outside servers. */
    server_id: Snowflake.nullable(),
    channel_id: Snowflake,
    message_id: Snowflake,
    users: z.array(Snowflake),
    /** They are mentioned. */
    is_mention: z.boolean(),
  }),
})

export const sendPush = defineJob({
  name: "sendPush",
  summary: "Push something to one browser: a test, or a message that its push service did not take at first",
  data: z.object({
    subscription_id: Snowflake,
    /** Null: a test. */
    message: z.object({ server_id: Snowflake.nullable(), channel_id: Snowflake, message_id: Snowflake }).nullable(),
    /** When it began, in Unix milliseconds. */
    since: z.int(),
  }),
})

export const purgeMessages = defineJob({
  name: "purgeMessages",
  summary: "Delete the messages of deleted channels",
  data: z.object({ channel_ids: z.array(Snowflake) }),
})

export const purgeServer = defineJob({
  name: "purgeServer",
  summary: "Delete the remaining data of a deleted server: messages, audit log, settings of its members",
  data: z.object({ server_id: Snowflake, channel_ids: z.array(Snowflake) }),
})

export const purgeReactors = defineJob({
  name: "purgeReactors",
  summary: "Delete the reactions to a deleted message, if there are many",
  data: z.object({ channel_id: Snowflake, message_id: Snowflake }),
})

export const announceUser = defineJob({
  name: "announceUser",
  summary: "Send USER_UPDATE to everybody who sees the user",
  data: z.object({ user_id: Snowflake }),
})

export const alertModerators = defineJob({
  name: "alertModerators",
  summary: "Notify a server's moderators about a message that broke an auto-moderation rule",
  data: z.object({ server_id: Snowflake, violation_id: Snowflake }),
})

export const classifyMessage = defineJob({
  name: "classifyMessage",
  summary: "Ask the classifiers of auto-moderation about a stored message, and do what its rules say",
  data: z.object({
    server_id: Snowflake,
    /** Of the server. */
    owner_id: Snowflake,
    channel_id: Snowflake,
    message_id: Snowflake,
    author_id: Snowflake,
    rule_ids: z.array(Snowflake),
    /** When it was sent or edited, in Unix milliseconds. */
    since: z.int(),
  }),
})

export const deleteMessagesOf = defineJob({
  name: "deleteMessagesOf",
  summary: "Delete the messages of a banned user in a server between two ids",
  data: z.object({ server_id: Snowflake, user_id: Snowflake, after: Snowflake, before: Snowflake }),
})

export const sendMail = defineJob({
  name: "sendMail",
  summary: "Send a requested email. Its link is created when the email is sent, so only its reader has it",
  data: z.object({ mail_id: z.string().regex(/^\d{1,19}$/) }),
})

export const purgeAccount = defineJob({
  name: "purgeAccount",
  summary: "Erase the data that belongs only to a user, when the time to cancel their deletion is over",
  data: z.object({ user_id: Snowflake }),
})

export const exportAccount = defineJob({
  name: "exportAccount",
  summary: "Prepare the export of all data about a user, at their request",
  data: z.object({ user_id: Snowflake, export_id: Snowflake }),
})

export const deleteFiles = defineJob({
  name: "deleteFiles",
  summary: "Delete files that no row references. A key that ends in / means everything below it",
  data: z.object({ keys: z.array(z.string()) }),
})

export const deleteUploads = defineJob({
  name: "deleteUploads",
  summary: "Delete those of these uploaded files that no message uses",
  data: z.object({ files: z.array(z.string()) }),
})

/** What a picture is for; see domain/core/pictures.ts for what each may be. */
export const pictureUses = ["avatar", "emoji", "sticker"] as const
export type PictureUse = (typeof pictureUses)[number]

export const encodePicture = defineJob({
  name: "encodePicture",
  summary: "Decode and re-encode an uploaded picture, while its request waits for the result",
  data: z.object({
    /** What the uploaded bytes are kept under, and below what the result is. */
    source: z.string(),
    folder: z.string(),
    use: z.enum(pictureUses),
    /** Whose turn it is to have one encoded; absent from what a version before has asked for. */
    user_id: Snowflake.optional(),
    /** The worker that waits, under which id, and until when in Unix milliseconds. */
    asker: z.string(),
    request: z.string(),
    until: z.int(),
  }),
})

export const makeThumbnails = defineJob({
  name: "makeThumbnails",
  summary: "Make the thumbnails of a message's pictures, and send MESSAGE_UPDATE with them",
  data: z.object({ channel_id: Snowflake, message_id: Snowflake }),
})

export const assembleUpload = defineJob({
  name: "assembleUpload",
  summary: "Put the chunks of an upload session together into one file",
  data: z.object({ session_id: z.string() }),
})

export const hashPicture = defineJob({
  name: "hashPicture",
  summary:
    "Compute the perceptual hash of an uploaded picture, compare it with the blocked ones, and make its thumbnails",
  data: z.object({
    hash: z.string(),
    /** The upload that gets thumbnails, and whose it is; absent: it gets none. */
    file: z.string().optional(),
    user_id: Snowflake.optional(),
  }),
})

export const jobs = {
  alertModerators,
  announceUser,
  assembleUpload,
  classifyMessage,
  deleteFiles,
  deleteMessagesOf,
  deleteUploads,
  encodePicture,
  exportAccount,
  expireInvite,
  expirePoll,
  expireSession,
  expireVoice,
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
export type JobName = keyof typeof jobs
