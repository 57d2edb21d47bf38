import fc from "fast-check"
import { expect, test } from "vitest"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { newPoll, type PollState } from "../../domain/messages/polls.ts"
import { grantedAtCreation } from "../../domain/core/permissions.ts"
import { newMember, type ServerState, newServerState } from "../../domain/communities/servers.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import { voteKey } from "../../storage/messages/polls.ts"
import { newChannel } from "../communities/channel-list.ts"
import { messageDeletion } from "./message-deletion.ts"
import { pollBegins, pollCommands, type PollCommands, pollVoteFacts } from "./polls.ts"
import type { Command, Effects, Publication } from "../../runtime/actor.ts"
import { memberFacts } from "../shared/member-facts.ts"
import { messageFacts } from "./message-facts.ts"

const commands = pollCommands(messageDeletion([]))

const [server_id, channel_id, message_id] = ["4096", "8192", "12288"]
const users = ["1", "2", "3", "4"]
const begin = 1_700_000_000_000

/** A home and its rows, without a database between them. */
class Bench {
  now = begin
  #ids = 20_000
  home: ServerState
  /** As they stand in PostgreSQL. */
  poll: PollState | null
  readonly votes = new Map<string, readonly Snowflake[]>()
  readonly published: Publication[] = []

  constructor(more: { allow_multiple_choice: boolean; duration_hours: number | undefined }) {
    const asked = { question: "Which?", options: ["a", "b", "c"], results_visibility: "always" as const, ...more }
    this.poll = newPoll(asked, users[0]!, { now: begin, newId: () => String(++this.#ids) })
    this.home = this.#woken()
  }

  /** The home as it is loaded from its rows, with every fact that commands ask for. */
  #woken(): ServerState {
    const everyone = {
      id: server_id,
      name: "@everyone",
      color: "#000000",
      position: 0,
      hoist: false,
      mentionable: false,
    }
    const home = newServerState({
      server: {
        id: server_id,
        name: "",
        description: null,
        icon_url: null,
        owner_id: users[0]!,
        member_count: users.length,
        default_channel_id: null,
        verification_level: 0,
        default_message_notifications: 0,
        public: false,
        category: null,
        created_at: 0,
      },
      roles: new Map([[server_id, { ...everyone, permissions: grantedAtCreation }]]),
      channels: new Map([[channel_id, newChannel({ id: channel_id, server_id, name: "x", position: 0 })]]),
    })
    for (const user of users) memberFacts.of(home).set(user, newMember(user, 0))
    const message: MessageState = {
      id: message_id,
      channel_id,
      server_id,
      author_id: users[0]!,
      author_username: "ada",
      author_bot: false,
      author_badges: [],
      content: null,
      edited_at: null,
      reply_to_id: null,
      nonce: null,
      poll: this.poll,
    }
    messageFacts.of(home).set(messageKey(channel_id, message_id), message)
    for (const user of users) {
      const key = voteKey(this.poll!.id, user)
      pollVoteFacts.of(home).set(key, this.votes.get(key) ?? null)
    }
    return home
  }

  wake(): void {
    this.home = this.#woken()
  }

  do<K extends keyof PollCommands>(
    name: K,
    input: Parameters<PollCommands[K]>[0],
  ): ReturnType<PollCommands[K]> | string {
    const context = {
      state: this.home.channels.get(channel_id)!,
      home: this.home,
      now: this.now,
      newId: () => String(++this.#ids),
      write: () => {},
      linkTo: () => "",
    }
    let effects: Effects<ServerState, unknown>
    try {
      const { turn } = commands[name] as Command<ServerState, unknown, unknown, unknown>
      effects = turn(context, input) as Effects<ServerState, unknown>
    } catch (error) {
      if (error instanceof Failure) return error.code
      throw error
    }
    effects.apply?.(this.home)
    for (const { kind, row } of effects.write ?? []) {
      if (kind.name === "setPoll") this.poll = (row as { poll: PollState | null }).poll
      if (kind.name === "putPollVote") {
        const { poll_id, user_id, option_ids } = row as { poll_id: string; user_id: string; option_ids: Snowflake[] }
        this.votes.set(voteKey(poll_id, user_id), option_ids)
      }
    }
    this.published.push(...(effects.publish ?? []))
    return effects.reply as ReturnType<PollCommands[K]>
  }
}

type Step =
  | { do: "vote"; user: number; options: number[] }
  | { do: "close" }
  | { do: "expire" }
  | { do: "wake" }
  | { do: "wait"; minutes: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("vote" as const),
      user: fc.nat({ max: users.length - 1 }),
      // 3 is none of the options.
      options: fc.array(fc.nat({ max: 3 }), { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.constantFrom({ do: "close" as const }, { do: "expire" as const }) },
  { weight: 2, arbitrary: fc.constant({ do: "wake" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("wait" as const), minutes: fc.nat({ max: 40 }) }) },
)

test("POLL1, POLL2: what is counted is what everybody's latest vote says that came before the end, whatever is forgotten between", () => {
  fc.assert(
    fc.property(fc.boolean(), fc.boolean(), fc.array(step, { maxLength: 40 }), (several, isTimed, steps) => {
      const bench = new Bench({ allow_multiple_choice: several, duration_hours: isTimed ? 1 : undefined })
      const { id: poll_id, options, ends_at } = bench.poll!
      const ids = [...options.map(({ id }) => id), "1"]
      const model = new Map<string, Set<string>>()
      let isClosed: boolean = false
      let ends = 0
      const by = (user: string) => ({ user, message_id, poll_id, author: undefined })
      const isOver = (): boolean => isClosed || (ends_at !== null && bench.now >= ends_at * 1000)
      for (const one of steps) {
        if (one.do === "wait") bench.now += one.minutes * 60_000
        else if (one.do === "wake") bench.wake()
        else if (one.do === "expire") {
          const isEnding: boolean = !isClosed && isOver()
          const goesOn = !isOver() && ends_at !== null
          expect(bench.do("expirePoll", { message_id, poll_id, author: undefined })).toEqual({
            there: true,
            ...(goesOn && { left: ends_at * 1000 - bench.now }),
          })
          if (isEnding) ends++
          isClosed ||= isEnding
        } else if (one.do === "close") {
          const answer = bench.do("closePoll", by(users[0]!))
          if (isOver()) expect(answer).toBe("poll_ended")
          else ends++
          isClosed = true
          if (typeof answer === "object") expect(answer).toMatchObject({ is_ended: true })
        } else {
          const user = users[one.user]!
          const chosen = new Set(one.options.map(i => ids[i]!))
          const answer = bench.do("votePoll", { ...by(user), option_ids: one.options.map(i => ids[i]!) })
          if (isOver()) expect(answer).toBe("poll_ended")
          else if (chosen.size === 0) expect(answer).toBe("empty_vote")
          else if (chosen.has("1")) expect(answer).toBe("unknown_option")
          else if (chosen.size > 1 && !several) expect(answer).toBe("single_choice")
          else {
            model.set(user, chosen)
            expect(answer).toMatchObject({ user_voted: true })
            expect(new Set((answer as { user_votes: string[] }).user_votes)).toEqual(chosen)
          }
        }
        const counts = options.map(({ id }) => [...model.values()].filter(votes => votes.has(id)).length)
        const read = bench.do("readPoll", by(users[1]!)) as ReturnType<PollCommands["readPoll"]>
        expect(read.options.map(({ vote_count }) => vote_count)).toEqual(counts)
        expect(read.total_votes).toBe(model.size)
        expect(read.poll.is_ended).toBe(isOver())
        expect(new Set(read.user_votes)).toEqual(model.get(users[1]!) ?? new Set())
      }
      // It was told to end once at most.
      const told = bench.published.filter(
        one => one.kind === "event" && (one.data as { poll: { ended_at: number | null } }).poll.ended_at !== null,
      )
      expect(told).toHaveLength(ends)
      expect(ends).toBeLessThanOrEqual(1)
    }),
    { numRuns: 300 },
  )
})

test("a poll with an end brings the job that ends it, for that time; one without brings none", () => {
  const of = (duration_hours: number | undefined) => new Bench({ allow_multiple_choice: false, duration_hours }).poll!
  const [timed, open] = [of(2), of(undefined)]
  const message = { id: message_id, channel_id }
  expect(pollBegins(open, message).publish).toEqual([])
  expect(pollBegins(timed, message).publish).toEqual([
    expect.objectContaining({
      job: "expirePoll",
      data: { poll_id: timed.id, channel_id, message_id },
      runAtMs: begin + 2 * 3_600_000,
    }),
  ])
})
