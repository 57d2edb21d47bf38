import { useState } from "preact/hooks"
import type { PollResponse, PollResultsResponse, Snowflake } from "../../client/contract.ts"
import { ask } from "../kit/dialog.tsx"
import { count, t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { me, ownId } from "./session.ts"

export function PollOf({ poll, results }: { poll: PollResponse; results: PollResultsResponse | null }) {
  // What a vote was answered with is newer than the message, which never says how its reader has voted.
  const [voted, setVoted] = useState<PollResultsResponse>()
  const own = voted?.user_votes ?? results?.user_votes ?? []
  const [chosen, choose] = useState<readonly Snowflake[]>(own)
  const isOver = poll.is_ended
  const counts = new Map((results ?? voted)?.options.map(({ id, vote_count }) => [id, vote_count]))
  const total = results?.total_votes ?? voted?.total_votes ?? poll.total_votes
  const toggle = (id: Snowflake, on: boolean) =>
    choose(poll.allow_multiple_choice ? (on ? [...chosen, id] : chosen.filter(one => one !== id)) : on ? [id] : [])
  const end = () =>
    ask({
      title: t("End the poll?"),
      will: <p>{t("Nobody can vote after that.")}</p>,
      does: t("End the poll"),
      work: () => me().client.closePoll({ poll_id: poll.id }),
    })
  const vote = async (event: Event) => {
    event.preventDefault()
    await attempt(async () => setVoted(await me().client.votePoll({ poll_id: poll.id, option_ids: [...chosen] })))
  }
  return (
    <form class="poll" onSubmit={event => void vote(event)}>
      <fieldset disabled={isOver}>
        <legend dir="auto">{poll.question}</legend>
        {poll.options.map(option => {
          const votes = counts.get(option.id) ?? voted?.options.find(({ id }) => id === option.id)?.vote_count
          return (
            <label key={option.id} class="option">
              <input
                type={poll.allow_multiple_choice ? "checkbox" : "radio"}
                name={`poll-${poll.id}`}
                checked={chosen.includes(option.id)}
                onChange={event => toggle(option.id, event.currentTarget.checked)}
              />
              <span dir="auto">{option.text}</span>
              {typeof votes === "number" && (
                <>
                  <progress max={Math.max(1, total)} value={votes} aria-hidden="true" />
                  <span class="number">{votes}</span>
                </>
              )}
            </label>
          )
        })}
      </fieldset>
      <p class="faint">
        {count(total, "{n} vote", "{n} votes")}
        {isOver && ` · ${t("ended")}`}
      </p>
      {!isOver && (
        <button type="submit" class="small" disabled={chosen.length === 0}>
          {own.length > 0 ? t("Change my vote") : t("Vote")}
        </button>
      )}{" "}
      {!isOver && poll.created_by === ownId() && (
        <button type="button" class="small quiet" onClick={end}>
          {t("End the poll")}
        </button>
      )}
    </form>
  )
}
