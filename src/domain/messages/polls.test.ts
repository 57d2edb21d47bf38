import { expect, test } from "vitest"
import { chosenOptions, newPoll, pollObject, pollResults, textOf, withVote } from "./polls.ts"

const now = 1_700_000_000_123
let ids = 100
const asked = { question: "Tea?", options: ["Yes", "No", "Yes"], duration_hours: 2 } as const
const poll = (more: object = {}) => ({
  ...newPoll({ ...asked, options: [...asked.options], ...more }, "7", { now, newId: () => String(++ids) }),
})

test("a poll begins open and empty, and ends so many hours after its second", () => {
  const made = poll()
  expect(made).toMatchObject({ created_by: "7", created_at: 1_700_000_000, ends_at: 1_700_007_200, ended_at: null })
  expect(made).toMatchObject({ allow_multiple_choice: false, results_visibility: "always", total_votes: 0 })
  expect(new Set([made.id, ...made.options.map(({ id }) => id)]).size).toBe(4)
  expect(poll({ duration_hours: undefined }).ends_at).toBeNull()
  expect(pollObject(made, "9", now)).toMatchObject({ message_id: "9", is_ended: false, ended_at: null })
  expect(
    pollObject(made, "9", now).options.map(({ text, position, vote_count }) => [text, position, vote_count]),
  ).toEqual([
    ["Yes", 0, null],
    ["No", 1, null],
    ["Yes", 2, null],
  ])
  expect(textOf(asked as never)).toBe("Tea?\nYes\nNo\nYes")
})

test("past its time it is ended, also when nobody has ended it", () => {
  const made = poll()
  const end = made.ends_at! * 1000
  expect(pollObject(made, "9", end - 1)).toMatchObject({ is_ended: false, ended_at: null })
  expect(pollObject(made, "9", end)).toMatchObject({ is_ended: true, ended_at: made.ends_at })
  expect(pollObject({ ...made, ended_at: 5 }, "9", now)).toMatchObject({ is_ended: true, ended_at: 5 })
})

test("a choice is one of the options, each once, and one only unless several are allowed", () => {
  const single = poll()
  const [a, b, c] = single.options.map(({ id }) => id) as [string, string, string]
  expect(chosenOptions(single, [b, b], now)).toEqual([b])
  expect(chosenOptions(single, [], now)).toBe("empty_vote")
  expect(chosenOptions(single, [a, c], now)).toBe("single_choice")
  expect(chosenOptions(single, [a, "1"], now)).toBe("unknown_option")
  expect(chosenOptions({ ...single, allow_multiple_choice: true }, [c, a], now)).toEqual([a, c])
  for (const choice of [[], [a], ["1"]])
    expect(chosenOptions(single, choice, single.ends_at! * 1000)).toBe("poll_ended")
})

test("counts are shown to whom the poll lets see them", () => {
  const counted = (results_visibility: string) => {
    const made = poll({ results_visibility })
    const [a] = made.options
    return withVote(made, [], [a!.id])
  }
  const shown = (visibility: string, votes: readonly string[], at = now) =>
    pollResults(counted(visibility), "9", votes, at).options.map(({ vote_count }) => vote_count)
  const end = now + 7_200_000
  const [counts, hidden] = [
    [1, 0, 0],
    [null, null, null],
  ]
  expect([shown("always", []), shown("after_vote", []), shown("after_end", [])]).toEqual([counts, hidden, hidden])
  expect([shown("after_vote", ["1"]), shown("after_end", ["1"])]).toEqual([counts, hidden])
  expect([shown("after_vote", ["1"], end), shown("after_end", [], end)]).toEqual([counts, counts])
  expect(shown("after_vote", [], end)).toEqual(hidden)
  expect(pollResults(counted("after_end"), "9", ["1"], now)).toMatchObject({
    total_votes: 1,
    user_voted: true,
    user_votes: ["1"],
  })
})
