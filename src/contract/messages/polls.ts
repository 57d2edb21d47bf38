import { z } from "zod"
import { sample } from "../core/examples.ts"
import { nameText, omittable, Seconds, Snowflake, SnowflakeInput, Success } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

export const limits = {
  pollQuestion: 300,
  pollOption: 100,
  pollOptions: { min: 2, max: 10 },
  pollHours: 168,
} as const
export const limitNotes: LimitNotes<typeof limits> = {
  pollQuestion: refused("characters"),
  pollOption: refused("characters"),
  pollOptions: refused("options"),
  pollHours: refused("hours"),
}

export const ResultsVisibility = z.enum(["always", "after_vote", "after_end"])

const PollOption = z
  .object({
    id: Snowflake,
    poll_id: Snowflake,
    text: z.string(),
    position: z.int().nonnegative(),
    vote_count: z.int().nullable().describe("Null inside a poll, and in results that the caller may not see yet"),
  })
  .meta({ id: "PollOptionResponse" })

export const Poll = z
  .object({
    id: Snowflake,
    message_id: Snowflake,
    question: z.string(),
    created_by: Snowflake,
    created_at: Seconds,
    ends_at: Seconds.nullable(),
    ended_at: Seconds.nullable(),
    allow_multiple_choice: z.boolean(),
    results_visibility: ResultsVisibility,
    options: z.array(PollOption),
    total_votes: z.int().nonnegative().describe("Number of different voters"),
    is_ended: z.boolean(),
  })
  .meta({ id: "PollResponse" })
export type Poll = z.infer<typeof Poll>

export const PollResults = z
  .object({
    poll: Poll,
    options: z.array(PollOption),
    total_votes: z.int().nonnegative(),
    user_voted: z.boolean(),
    user_votes: z.array(Snowflake),
  })
  .meta({ id: "PollResultsResponse" })
export type PollResults = z.infer<typeof PollResults>

const given = {
  question: nameText(1, limits.pollQuestion),
  options: z
    .array(nameText(1, limits.pollOption))
    .min(limits.pollOptions.min)
    .max(limits.pollOptions.max)
    .describe("Duplicate texts are allowed"),
  duration_hours: omittable(z.int().min(1).max(limits.pollHours)).describe(
    "If absent, the poll is open until it is closed",
  ),
  allow_multiple_choice: omittable(z.boolean()),
  results_visibility: omittable(ResultsVisibility).describe(
    "Who may see the counts: everybody (`always`, the default), those who have voted, also after the end (`after_vote`), or everybody after the end (`after_end`). An event is the same for all recipients, so it has the counts only if everybody may see them",
  ),
}

/** A poll as the author of a message sends it. */
export const PollInput = z.object(given).meta({ id: "PollCreateInline" })
export type PollInput = z.output<typeof PollInput>

const byPoll = z.object({ poll_id: Snowflake })
const unseen = ["invalid_poll_id", "poll_not_found"] as const

export const createPoll = defineRoute({
  method: "POST",
  path: "/polls",
  summary: "Add a poll to one's own message that has none",
  tag: "Polls",
  auth: "user",
  body: z.object({ message_id: SnowflakeInput, ...given }).meta({ id: "PollCreateRequest" }),
  example: { message_id: sample.message, question: "Tea or coffee?", options: ["Tea", "Coffee"], duration_hours: 24 },
  reply: Poll,
  fails: [
    "message_not_found",
    "not_author",
    "cannot_message",
    "permission_denied",
    "timed_out",
    "poll_exists",
    "message_blocked",
  ],
})

export const getPoll = defineRoute({
  method: "GET",
  path: "/polls/:poll_id",
  summary: "Get the poll of a message",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Poll,
  fails: [...unseen],
})

export const getPollResults = defineRoute({
  method: "GET",
  path: "/polls/:poll_id/results",
  summary: "Get the results of a poll, as far as the caller may see them, and the caller's own vote",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: PollResults,
  fails: [...unseen],
})

export const votePoll = defineRoute({
  method: "POST",
  path: "/polls/:poll_id/vote",
  summary: "Vote in a poll. Replaces the caller's previous vote. Requires permission to read the message",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  body: z
    .object({
      option_ids: z.array(SnowflakeInput).max(limits.pollOptions.max).describe("At least one. Duplicates are ignored"),
    })
    .meta({ id: "PollVoteRequest" }),
  example: { option_ids: [sample.option] },
  reply: PollResults,
  fails: [...unseen, "cannot_message", "poll_ended", "empty_vote", "unknown_option", "single_choice"],
})

export const closePoll = defineRoute({
  method: "POST",
  path: "/polls/:poll_id/close",
  summary: "Close one's own poll. Votes after the response do not count",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Poll,
  fails: [...unseen, "not_poll_creator", "cannot_message", "poll_ended"],
})

export const deletePoll = defineRoute({
  method: "DELETE",
  path: "/polls/:poll_id",
  summary: "Delete one's own poll and all votes. Its message is deleted too if it has no other content",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Success,
  fails: [...unseen, "not_poll_creator", "cannot_message"],
})

export const routes = { createPoll, getPoll, getPollResults, votePoll, closePoll, deletePoll }
