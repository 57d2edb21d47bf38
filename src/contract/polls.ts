import { z } from "zod"
import { isVisible, omittable, Seconds, Snowflake, SnowflakeInput, Success, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineRoute } from "./registry.ts"

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
    total_votes: z.int().nonnegative().describe("Of different voters"),
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

const visible = (max: number) => text(1, max).refine(isVisible, "must not be blank")

const given = {
  question: visible(limits.pollQuestion),
  options: z
    .array(visible(limits.pollOption))
    .min(limits.pollOptions.min)
    .max(limits.pollOptions.max)
    .describe("Two of them may read the same"),
  duration_hours: omittable(z.int().min(1).max(limits.pollHours)).describe("Without it, until somebody closes it"),
  allow_multiple_choice: omittable(z.boolean()),
  results_visibility: omittable(ResultsVisibility).describe(
    "Who may see how often each option was chosen: everybody (`always`, unless told), who has voted, also after the end (`after_vote`), or everybody after the end (`after_end`). An event is the same for all who hear it: it has the counts only when everybody may see them",
  ),
}

/** A poll as somebody asks for one with his message. */
export const PollInput = z.object(given).meta({ id: "PollCreateInline" })
export type PollInput = z.output<typeof PollInput>

const byPoll = z.object({ poll_id: Snowflake })
const unseen = ["invalid_poll_id", "poll_not_found"] as const

export const createPoll = defineRoute({
  method: "POST",
  path: "/polls",
  summary: "Add a poll to an own message that has none",
  tag: "Polls",
  auth: "user",
  body: z.object({ message_id: SnowflakeInput, ...given }).meta({ id: "PollCreateRequest" }),
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
  summary: "A poll of a message that the caller may read",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Poll,
  fails: [...unseen],
})

export const getPollResults = defineRoute({
  method: "GET",
  path: "/polls/:poll_id/results",
  summary: "What was voted, as far as the caller may see it, and what he has voted for",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: PollResults,
  fails: [...unseen],
})

export const votePoll = defineRoute({
  method: "POST",
  path: "/polls/:poll_id/vote",
  summary: "Vote, instead of what the caller has voted for before. Whoever may read the message may vote",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  body: z
    .object({
      option_ids: z
        .array(SnowflakeInput)
        .max(limits.pollOptions.max)
        .describe("At least one; naming one twice is naming it once"),
    })
    .meta({ id: "PollVoteRequest" }),
  reply: PollResults,
  fails: [...unseen, "cannot_message", "poll_ended", "empty_vote", "unknown_option", "single_choice"],
})

export const closePoll = defineRoute({
  method: "POST",
  path: "/polls/:poll_id/close",
  summary: "End a poll that the caller created: no vote counts after the answer",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Poll,
  fails: [...unseen, "not_poll_creator", "cannot_message", "poll_ended"],
})

export const deletePoll = defineRoute({
  method: "DELETE",
  path: "/polls/:poll_id",
  summary:
    "Delete a poll that the caller created, with all votes; its message goes with it unless that shows something else",
  tag: "Polls",
  auth: "user",
  params: byPoll,
  reply: Success,
  fails: [...unseen, "not_poll_creator", "cannot_message"],
})

export const routes = { createPoll, getPoll, getPollResults, votePoll, closePoll, deletePoll }
