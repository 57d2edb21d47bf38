import type { ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Poll, PollInput, PollResults } from "../../contract/messages/polls.ts"
import { secondsAt } from "../../std/clock.ts"

/** A poll as it stands with its message; times are Unix seconds. */
export interface PollState {
  id: Snowflake
  question: string
  created_by: Snowflake
  created_at: number
  ends_at: number | null
  ended_at: number | null
  allow_multiple_choice: boolean
  results_visibility: "always" | "after_vote" | "after_end"
  options: readonly { readonly id: Snowflake; readonly text: string; readonly vote_count: number }[]
  /** Of different voters. */
  total_votes: number
}

/** A poll as it begins, at a moment in Unix milliseconds. */
export function newPoll(
  { question, options, duration_hours, allow_multiple_choice = false, results_visibility = "always" }: PollInput,
  created_by: Snowflake,
  { now, newId }: { now: number; newId: () => Snowflake },
): PollState {
  const created_at = secondsAt(now)
  return {
    id: newId(),
    question,
    created_by,
    created_at,
    ends_at: duration_hours === undefined ? null : created_at + duration_hours * 3600,
    ended_at: null,
    allow_multiple_choice,
    results_visibility,
    options: options.map(text => ({ id: newId(), text, vote_count: 0 })),
    total_votes: 0,
  }
}

/** All that a poll says in words, for those who judge texts. */
export const textOf = ({ question, options }: Pick<PollInput, "question" | "options">): string =>
  [question, ...options].join("\n")

/** Whether it takes no votes any more, at a moment in Unix milliseconds. */
export const isEnded = ({ ended_at, ends_at }: Readonly<PollState>, nowMs: number): boolean =>
  ended_at !== null || (ends_at !== null && ends_at * 1000 <= nowMs)

type VoteRefusal = Extract<ErrorCode, "poll_ended" | "empty_vote" | "unknown_option" | "single_choice">

/** The options that a user chooses, each once and in the poll's order, or why they cannot. */
export function chosenOptions(
  poll: Readonly<PollState>,
  asked: readonly Snowflake[],
  nowMs: number,
): readonly Snowflake[] | VoteRefusal {
  if (isEnded(poll, nowMs)) return "poll_ended"
  const wanted = new Set(asked)
  if (wanted.size === 0) return "empty_vote"
  const chosen = poll.options.flatMap(({ id }) => (wanted.has(id) ? [id] : []))
  if (chosen.length < wanted.size) return "unknown_option"
  if (chosen.length > 1 && !poll.allow_multiple_choice) return "single_choice"
  return chosen
}

/** The poll after somebody has voted for `after` in place of `before`. */
export function withVote(
  poll: Readonly<PollState>,
  before: readonly Snowflake[],
  after: readonly Snowflake[],
): PollState {
  const of = (votes: readonly Snowflake[], id: Snowflake) => (votes.includes(id) ? 1 : 0)
  return {
    ...poll,
    options: poll.options.map(option => ({
      ...option,
      vote_count: option.vote_count + of(after, option.id) - of(before, option.id),
    })),
    total_votes: poll.total_votes + Math.min(1, after.length) - Math.min(1, before.length),
  }
}

/**
 * The poll as everybody sees it: without counts. One whose time is over is ended though nobody has
 * closed it yet.
 */
export function pollObject(poll: Readonly<PollState>, message_id: Snowflake, nowMs: number): Poll {
  const { options, ...rest } = poll
  const is_ended = isEnded(poll, nowMs)
  return {
    ...rest,
    message_id,
    ended_at: poll.ended_at ?? (is_ended ? poll.ends_at : null),
    options: options.map(({ id, text }, position) => ({ id, poll_id: poll.id, text, position, vote_count: null })),
    is_ended,
  }
}

/**
 * @param votes what the reader voted for; in events, which are the same for everybody, nothing:
 * they show what everybody may see
 */
export function pollResults(
  poll: Readonly<PollState>,
  message_id: Snowflake,
  votes: readonly Snowflake[],
  nowMs: number,
): PollResults {
  const shown = pollObject(poll, message_id, nowMs)
  const { results_visibility } = poll
  const isVisible =
    results_visibility === "always" || (results_visibility === "after_end" ? shown.is_ended : votes.length > 0)
  return {
    poll: shown,
    options: shown.options.map((option, i) => ({
      ...option,
      vote_count: isVisible ? poll.options[i]!.vote_count : null,
    })),
    total_votes: poll.total_votes,
    user_voted: votes.length > 0,
    user_votes: [...votes],
  }
}
