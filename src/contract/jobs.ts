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

export const purgeMessages = defineJob({
  name: "purgeMessages",
  summary: "Delete the messages of channels that are gone",
  data: z.object({ channel_ids: z.array(Snowflake) }),
})

export const deleteMessagesOf = defineJob({
  name: "deleteMessagesOf",
  summary: "Delete what somebody who was banned wrote in a server between two ids",
  data: z.object({ server_id: Snowflake, user_id: Snowflake, after: Snowflake, before: Snowflake }),
})

export const jobs = { deleteMessagesOf, expireInvite, expireSession, expireVoice, purgeMessages }
export type JobName = keyof typeof jobs
